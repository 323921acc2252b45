"""TLS hellos for tests: real ones from the standard library, and ones made to measure."""

from __future__ import annotations

import contextlib
import ssl

SNI, ALPN, VERSIONS, ECH = 0, 16, 43, 0xFE0D


def real(name: str | None, *, alpn: tuple[str, ...] = (), newest: bool = True) -> bytes:
    """What OpenSSL says first."""
    context = ssl.create_default_context()
    if name is None:
        context.check_hostname = False
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    out = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return out.read()


def block(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size) + data


def extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2) + block(2, data)


def sni(*names: bytes, kind: int = 0) -> bytes:
    return extension(SNI, block(2, b"".join(bytes([kind]) + block(2, name) for name in names)))


def alpn(*names: bytes) -> bytes:
    return extension(ALPN, block(2, b"".join(block(1, name) for name in names)))


def versions(*numbers: int) -> bytes:
    return extension(VERSIONS, block(1, b"".join(number.to_bytes(2) for number in numbers)))


def body(*extensions: bytes, version: int = 0x0303, session: bytes = b"s" * 32) -> bytes:
    fixed = version.to_bytes(2) + b"r" * 32 + block(1, session)
    return fixed + block(2, b"\x13\x01\x13\x02") + block(1, b"\0") + block(2, b"".join(extensions))


def record(payload: bytes, *, kind: int = 22) -> bytes:
    return bytes([kind, 3, 1]) + block(2, payload)


def message(content: bytes, *, kind: int = 1) -> bytes:
    return bytes([kind]) + block(3, content)


def hello(*extensions: bytes, version: int = 0x0303) -> bytes:
    return record(message(body(*extensions, version=version)))


RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


def server_hello(random: bytes = b"R" * 32) -> bytes:
    return record(message(b"\x03\x03" + random + b"\0\x13\x01\0\0\0", kind=2))
