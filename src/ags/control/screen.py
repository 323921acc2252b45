"""What has to be known of a terminal's output so far, to show the rest on another terminal.

This is no emulator: it knows which modes are on and keeps the last lines. The picture of a
full-screen program comes from that program, which is asked to draw it again.
"""

from __future__ import annotations

import re

from ags.model import KIB

MOST_TAIL = 16 * KIB
MOST_KEYBOARDS = 16

ALTERNATE = (47, 1047, 1049)
_OFF_AT_FIRST = (1, 5, 6, 9, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004)
_ON_AT_FIRST = (7, 25)
"""Line wrap, and the cursor."""

# A private mode; the keyboard protocol pushed and popped; modifyOtherKeys; the keypad; a reset.
_SWITCH = re.compile(
    rb"\x1b(?:\[\?(?P<modes>[0-9;]{1,40})(?P<to>[hl])|\[>(?P<push>[0-9]{0,3})u"
    rb"|\[<(?P<pop>[0-9]{0,3})u|\[>4(?:;(?P<keys>[0-9]))?m|(?P<keypad>[=>])|(?P<reset>c))"
)
_LONGEST = 48
_UNENDED = re.compile(rb"\x1b(?:\[[0-?]{0,40})?\Z")

# All but colours, moves and erasing: titles, the clipboard, and questions that a terminal would
# answer as if somebody had typed. Also without their ends, and with U+0080 to U+009F for ESC.
_LOUD = re.compile(
    rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    rb"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"
    rb"|\x1b\[(?![0-9;:]*[@A-HJ-MPSTXdfm])[0-?]*[ -/]*[@-~]?"
    rb"|\x1b(?![\[78DEM]|[()][0AB])[ -/]*[0-~]?"
    rb"|\x05|\xc2(?![\xa0-\xbf])[\x80-\x9f]?"
)


def calm(data: bytes) -> bytes:
    """Text with its colours and moves, and nothing that a terminal would answer or keep."""
    return _LOUD.sub(b"", data)


class Screen:
    """Fed with all output, in pieces that may end anywhere."""

    def __init__(self) -> None:
        self.alternate = 0
        """The mode by which the alternate screen was entered; 0 on the main one."""
        self._reset()
        self._tail = bytearray()
        self._cut = False
        self._rest = b""

    def _reset(self) -> None:
        self.alternate = 0
        self._modes: dict[int, bool] = {}
        self._keypad = False
        self._keyboards: list[bytes] = []
        self._other_keys = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        self._rest = b""
        if b"\x1b" in data[-_LONGEST:] and (unended := _UNENDED.search(data, len(data) - _LONGEST)):
            self._rest = data[unended.start() :]
            data = data[: unended.start()]
        done = 0
        for found in _SWITCH.finditer(data):
            before = self.alternate
            self._switch(found)
            if bool(before) != bool(self.alternate):
                if not before:
                    self._keep(data[done : found.start()])
                done = found.end()
        if not self.alternate:
            self._keep(data[done:] if done else data)

    def _keep(self, data: bytes) -> None:
        """Of the main screen only: that is what is there once a full-screen program has ended."""
        self._tail += data[-MOST_TAIL:]
        self._cut |= len(data) > MOST_TAIL
        if len(self._tail) > 4 * MOST_TAIL:
            self._cut = True
            del self._tail[:-MOST_TAIL]

    def _switch(self, found: re.Match[bytes]) -> None:
        if found["modes"]:
            for number in found["modes"].split(b";"):
                self._mode(int(number or b"0"), found["to"] == b"h")
        elif found["push"] is not None:
            self._keyboards = [*self._keyboards, found["push"]][-MOST_KEYBOARDS:]
        elif found["pop"] is not None:
            del self._keyboards[-max(1, int(found["pop"] or b"1")) :]
        elif found["keypad"]:
            self._keypad = found["keypad"] == b"="
        elif found["reset"]:
            self._reset()
        else:
            self._other_keys = (found["keys"] or b"").strip(b"0")

    def _mode(self, number: int, on: bool) -> None:
        if number in ALTERNATE:
            self.alternate = number if on else 0
        elif number in _OFF_AT_FIRST or number in _ON_AT_FIRST:
            self._modes[number] = on

    def tail(self) -> bytes:
        """The last of the main screen, from the start of a line on."""
        tail = bytes(self._tail[-MOST_TAIL:])
        if self._cut or len(self._tail) > MOST_TAIL:
            tail = tail.partition(b"\n")[2]
        return calm(tail)

    def picture(self) -> bytes:
        """What a terminal that comes later is sent first."""
        if self.alternate:
            shown = b"\x1b[?%dh\x1b[0m\x1b[2J\x1b[H" % self.alternate
        else:
            shown = b"\x1b[0m" + self.tail()
        on = b"".join(
            b"\x1b[?%d%s" % (number, b"h" if on else b"l")
            for number, on in self._modes.items()
            if on != (number in _ON_AT_FIRST) and number != 6  # it moves the cursor
        )
        keyboard = b"\x1b[>%su" % self._keyboards[-1] if self._keyboards else b""
        other_keys = b"\x1b[>4;%sm" % self._other_keys if self._other_keys else b""
        keypad = b"\x1b=" if self._keypad else b""
        # Its second half will come, wherever the next piece of output starts.
        return shown + on + keyboard + other_keys + keypad + self._rest

    def leaving(self) -> bytes:
        """What brings a terminal that was shown all this back to what a shell expects."""
        end = b"\x1b\\"  # of whatever was begun; nothing if nothing was
        off = b"\x1b[?%sl" % b";".join(b"%d" % number for number in _OFF_AT_FIRST if number != 6)
        on = b"\x1b[?%sh" % b";".join(b"%d" % number for number in _ON_AT_FIRST)
        keyboard = b"\x1b[<%du" % len(self._keyboards) if self._keyboards else b""
        other_keys = b"\x1b[>4m" if self._other_keys else b""
        # Origin mode and scrolling region move the cursor to the corner, so it is saved meanwhile.
        region = b"\x1b7\x1b[?6l\x1b[r\x1b8"
        main = b"\x1b[?%dl" % self.alternate if self.alternate else b""
        return end + keyboard + other_keys + region + main + off + on + b"\x1b>\x1b(B\x0f\x1b[0m"
