"""Run inside by an agent's hook: JSON on standard input goes to the socket; exit code 2 is a no.

    python3 -I -S forward.py SOCKET AGENT EVENT

It starts for every tool call, so it loads next to nothing. It never ends with another code than 0
or 2: agents take those for a hook that is broken, and go on.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys
import time

MOST = 1000 * 1000
PATIENCE = 345.0
"""Seconds: a hook may leave it to the person, who has five minutes."""
STEP = 0.5
"""Seconds: a signal that comes right before a wait is only heard after it."""
ASKS = ("PreToolUse", "BeforeTool")
"""Where a no counts. After the fact it does not, and a no to stopping would be an endless run."""
ALLOW = b'{"decision":"allow"}\n'


def main(path: str, agent: str, event: str) -> int:
    def ended(*_: object) -> None:
        """Somebody inside wants no answer: that is none, whatever was said until then."""
        if event in ASKS:
            posix.write(2, b"AGS was not waited for, so this is refused\n")
        posix._exit(2 if event in ASKS else 0)

    for number in (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT):
        _signal.signal(number, ended)
    try:
        answer = exchanged(path, agent, event, sys.stdin.buffer.read(MOST + 1))
    except BaseException as error:
        answer = f"AGS cannot be asked about this, so it is refused ({error!r})".encode()
    if answer == ALLOW or event not in ASKS:
        return 0
    sys.stderr.write(reason(answer) + "\n")
    sys.stderr.flush()
    return 2


def exchanged(path: str, agent: str, event: str, payload: bytes) -> bytes:
    if len(payload) > MOST:
        return b"the call is too large to be judged"
    # Between the tokens of JSON a line break is a blank, and inside of them there is none.
    flat = payload.replace(b"\r", b" ").replace(b"\n", b" ").strip() or b"null"
    made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    until = time.monotonic() + PATIENCE
    made.settimeout(PATIENCE)
    made.connect(path)
    head = f'{{"hook":"{event}","agent":"{agent}","payload":'
    made.sendall(head.encode() + flat + b"}\n")
    answer = b""
    while not answer.endswith(b"\n"):
        made.settimeout(min(STEP, max(0.001, until - time.monotonic())))
        try:
            part = made.recv(65536)
        except TimeoutError:
            if time.monotonic() < until:
                continue
            raise
        if not part:
            break
        answer += part
    return answer


def reason(answer: bytes) -> str:
    """Never empty: some agents take a no without a reason for none."""
    try:
        import json

        return str(json.loads(answer)["reason"]) or "refused"
    except Exception:
        return answer.decode(errors="replace").strip() or "refused: AGS gave no answer"


if __name__ == "__main__":
    try:
        code = main(*sys.argv[1:4])
    except BaseException:
        code = 2
    # Not by sys.exit: while Python leaves, a signal would end it with a code of its own.
    posix._exit(code)
