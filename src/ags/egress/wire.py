"""The first bytes of a connection: which name a TLS hello asks for, or why nobody should answer it.

No sockets here. Bytes are fed as they come, in pieces of any size; how they were cut never changes
what comes out. Time is the caller's to limit, size is limited here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ags.egress.hosts import BadHost, address_of, canonical_host
from ags.frozen import frozen
from ags.model import KIB

MOST_RECORD = 16 * KIB
"""Of a TLS record in the clear, by the standard."""
MOST_METHOD = 20

_CHANGE_CIPHER, _ALERT, _HANDSHAKE, _DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO = 1, 2
_SERVER_NAME, _ALPN, _VERSIONS = 0, 16, 43
# Encrypted hellos: as standardised, its inner reference, and the draft before it.
_ENCRYPTED = frozenset((0xFE0D, 0xFD00, 0xFFCE))
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""What a server puts where its random bytes would be, to ask for a second hello."""
_EXTENSION = struct.Struct("!HH")
_BEYOND = "a length in the TLS hello points beyond its end"


@frozen
class NeedMore:
    """Nothing can be said before more bytes come."""


@frozen
class Refused:
    """Close it. The reason is a code for programs, the detail a sentence for the person."""

    reason: str
    detail: str = ""


@frozen
class Hello:
    """What a client says first on TLS."""

    name: str
    """Canonical."""
    alpn: tuple[bytes, ...]
    raw: bytes
    """The whole record, untouched."""
    version: int
    """The newest that the client offers, such as 0x0304."""
    ech: bool
    """It may hold another, encrypted hello; or random bytes that look like one."""


class _Bad(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        self.refused = Refused(reason, detail)


class HelloReader:
    """Collects a ClientHello over any number of TCP segments, out of one TLS record.

    An encrypted hello is refused: the name in it could be another one, and browsers that send
    random bytes in its place cannot be told apart. Who ends the TLS themselves cannot be fooled by
    it, and may take it with `ech=True`.
    """

    def __init__(self, *, ech: bool = False) -> None:
        self._ech = ech
        self._held = bytearray()
        self._result: Hello | Refused | None = None

    @property
    def rest(self) -> bytes:
        """What came after the hello, early data for instance."""
        return bytes(self._held) if isinstance(self._result, Hello) else b""

    def feed(self, data: bytes) -> NeedMore | Hello | Refused:
        """Once it is a Hello or a refusal it stays that."""
        if isinstance(self._result, Refused):
            return self._result
        self._held += data
        if self._result is None:
            try:
                self._result = self._read()
            except _Bad as bad:
                self._result = bad.refused
        return self._result or NeedMore()

    def _read(self) -> Hello | None:
        length = _hello_length(self._held)
        if length is None or len(self._held) < length:
            return None
        raw = bytes(self._held[:length])
        hello = _parse(raw)
        if hello.ech and not self._ech:
            raise _Bad("ech", "the name in the TLS hello is encrypted")
        del self._held[:length]
        return hello


def _hello_length(start: bytearray) -> int | None:
    """Of the record, once its first nine bytes say so. Refuses at the first byte that is wrong."""
    if start and start[0] != _HANDSHAKE:
        raise _Bad("not-tls", "what came on a TLS port is not TLS")
    if len(start) > 1 and start[1] != 3:
        raise _Bad("not-tls", "what came on a TLS port is not TLS")
    if len(start) > 5 and start[5] != _CLIENT_HELLO:
        raise _Bad("not-hello", "the connection does not begin with a TLS hello")
    if len(start) < 9:
        return None
    record, message = int.from_bytes(start[3:5]), int.from_bytes(start[6:9])
    if record > MOST_RECORD:
        raise _Bad("hello-size", "the TLS hello is too large")
    if message + 4 > record:
        raise _Bad("split-records", "the TLS hello is split over several records")
    if message + 4 < record:
        raise _Bad("hello-malformed", "more than a hello is in the first TLS record")
    return 5 + record


class _Cursor:
    """Reads lengths and what they announce; beyond the end is an error, never an empty value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise _Bad("hello-malformed", _BEYOND)
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def block(self, size: int) -> bytes:
        """A length of that many bytes, then as much as it says."""
        return self.take(self.number(size))


def _parse(raw: bytes) -> Hello:
    cursor = _Cursor(raw[9:])
    version = cursor.number(2)
    cursor.take(32)
    session, ciphers, compressions = cursor.block(1), cursor.block(2), cursor.block(1)
    if version < 0x0301 or len(session) > 32 or len(ciphers) % 2 or not ciphers:
        raise _Bad("hello-malformed", "the TLS hello has impossible values")
    if 0 not in compressions:
        raise _Bad("hello-malformed", "the TLS hello has impossible values")
    extensions = _extensions(cursor)
    offered = extensions.get(_VERSIONS)
    return Hello(
        name=_name(extensions.get(_SERVER_NAME)),
        alpn=_protocols(extensions.get(_ALPN)),
        raw=raw,
        version=version if offered is None else _newest(offered),
        ech=not _ENCRYPTED.isdisjoint(extensions),
    )


def _extensions(cursor: _Cursor) -> dict[int, bytes]:
    inner = cursor.block(2) if cursor else b""
    if cursor:
        raise _Bad("hello-malformed", "bytes follow the end of the TLS hello")
    found: dict[int, bytes] = {}
    for kind, value in _pairs(inner):
        if kind in found:
            reason = "sni-several" if kind == _SERVER_NAME else "hello-malformed"
            raise _Bad(reason, "the TLS hello says the same thing twice")
        found[kind] = value
    return found


def _pairs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """By hand, not by a cursor: a browser's hello has dozens."""
    at, end = 0, len(data)
    while at < end:
        start = at + _EXTENSION.size
        kind, length = _EXTENSION.unpack_from(data, at) if start <= end else (0, end)
        at = start + length
        if at > end:
            raise _Bad("hello-malformed", _BEYOND)
        yield kind, data[start:at]


def _whole(data: bytes, size: int) -> _Cursor:
    """A list that fills its extension, and is not empty."""
    outer = _Cursor(data)
    inner = _Cursor(outer.block(size))
    if outer or not inner:
        raise _Bad("hello-malformed", "a list in the TLS hello has the wrong length")
    return inner


def _name(extension: bytes | None) -> str:
    if extension is None:
        raise _Bad("sni-absent", "the TLS hello names no host")
    names = _whole(extension, 2)
    kind, raw = names.number(1), names.block(2)
    if names:
        raise _Bad("sni-several", "the TLS hello names several hosts")
    if kind != 0:
        raise _Bad("sni-malformed", "the TLS hello names something that is not a host")
    return _host(raw)


def _host(raw: bytes) -> str:
    if not raw.isascii():
        raise _Bad("sni-malformed", "the host in the TLS hello is not ASCII")
    text = raw.decode("ascii")
    try:
        name = canonical_host(text)
    except BadHost as bad:
        raise _Bad("sni-malformed", f"the host in the TLS hello is not one: {bad.cause}") from None
    if address_of(name) is not None:
        raise _Bad("sni-address", "the TLS hello names an address, not a host")
    # The hello goes up as it is, so what the origin reads must be what was judged.
    if name != text.lower():
        raise _Bad("sni-malformed", "the host in the TLS hello is spelled oddly")
    return name


def _protocols(extension: bytes | None) -> tuple[bytes, ...]:
    if extension is None:
        return ()
    names = _whole(extension, 2)
    return tuple(_each(names))


def _each(names: _Cursor) -> Iterator[bytes]:
    while names:
        name = names.block(1)
        if not name:
            raise _Bad("hello-malformed", "an empty protocol in the TLS hello")
        yield name


def _newest(extension: bytes) -> int:
    versions = _whole(extension, 1)
    newest = 0
    while versions:
        version = versions.number(2)
        # Anything else is one of the values that clients throw in to keep servers tolerant.
        if version >> 8 == 3:
            newest = max(newest, version)
    if not newest:
        raise _Bad("hello-malformed", "the TLS hello offers no version of TLS")
    return newest


class Handshake:
    """Watches an opaque connection after its hello until no second hello can come.

    A server may ask for another hello, and some take the name from that one. So whatever is sent
    up goes through `from_client`, and whatever comes down through `from_server`, until `done`.
    """

    def __init__(self, hello: Hello) -> None:
        self._name, self._ech = hello.name, hello.ech
        self._asked = False
        self.done = False
        self._client, self._server = _Records(), _Records()

    def from_client(self, data: bytes) -> Refused | None:
        """Why these bytes must not go up. The server never gets the end of a hello that is bad."""
        if self.done:
            return None
        try:
            for kind, record in self._client.feed(data):
                if kind == _HANDSHAKE:
                    self._second(record)
                    break
        except _Bad as bad:
            return bad.refused
        return None

    def _second(self, record: bytes) -> None:
        # Only an answer can make an honest client go on with its handshake.
        if not self._asked:
            raise _Bad("second-hello", "the client goes on before the server has answered")
        found = HelloReader(ech=self._ech).feed(record)
        if isinstance(found, Refused):
            raise _Bad(found.reason, found.detail)
        if not isinstance(found, Hello) or found.name != self._name:
            raise _Bad("second-hello", "the second TLS hello names another host")
        self.done = True

    def from_server(self, data: bytes) -> None:
        """Nothing a server says is refused here; it only tells what the client may say."""
        if self.done or self._asked:
            return
        try:
            for kind, record in self._server.feed(data):
                if kind != _ALERT:
                    self._asked = _is_retry(record)
                    self.done = not self._asked
                    break
        except _Bad:
            self.done = True


def _is_retry(record: bytes) -> bool:
    return record[0] == _HANDSHAKE and record[5:6] == b"\x02" and record[11:43] == _RETRY


class _Records:
    """Cuts a stream into whole TLS records."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._held += data
        while len(self._held) >= 5:
            kind, length = self._held[0], 5 + int.from_bytes(self._held[3:5])
            # 256 bytes more than in the clear: what encryption may add.
            if not _CHANGE_CIPHER <= kind <= _DATA or length > 5 + MOST_RECORD + 256:
                raise _Bad("not-tls", "what follows the TLS hello is not TLS")
            if len(self._held) < length:
                return
            record = bytes(self._held[:length])
            del self._held[:length]
            yield kind, record
