"""The two kinds of certificate that a run needs, as DER: its CA's, and one for a host inside.

Keys and signatures are the library's. Its builder would write this too, but loading that costs
every run twenty milliseconds and two megabytes.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from datetime import datetime

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ags.frozen import frozen

Key = ec.EllipticCurvePrivateKey

BOOLEAN, INTEGER, BITS, OCTETS, OID, TEXT = 0x01, 0x02, 0x03, 0x04, 0x06, 0x0C
TIME, LONG_TIME, SEQUENCE, SET = 0x17, 0x18, 0x30, 0x31
VERSION, EXTENSIONS = 0xA0, 0xA3
KEY_ID, DNS_NAME, IP_ADDRESS = 0x80, 0x82, 0x87
SHORT_TIMES_END = 2050
"""From this year on, RFC 5280 wants four digits for it."""
LONGEST_COMMON = 64


def encoded(tag: int, *parts: bytes) -> bytes:
    """A tag, a length, and the parts as its content."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _integer(value: int) -> bytes:
    # One bit more than it has: a leading one would make it negative.
    return encoded(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


TRUE = encoded(BOOLEAN, b"\xff")
ECDSA_SHA256 = encoded(SEQUENCE, encoded(OID, bytes.fromhex("2a8648ce3d040302")))
COMMON_NAME = encoded(OID, bytes.fromhex("550403"))
SERVER_AUTH = encoded(OID, bytes.fromhex("2b06010505070301"))
SIGNS_HANDSHAKES, SIGNS_CERTIFICATES = bytes.fromhex("0780"), bytes.fromhex("0106")
"""How many bits are not used, and the bits: digitalSignature; keyCertSign and cRLSign."""
EXTENSION = bytes.fromhex("551d")
SUBJECT_KEY, USAGE, SUBJECT_NAMES, CONSTRAINTS, ISSUER_KEY, PURPOSES = 14, 15, 17, 19, 35, 37


@frozen
class Term:
    """From when to when it is valid."""

    begin: datetime
    end: datetime

    def der(self) -> bytes:
        return encoded(SEQUENCE, _time(self.begin), _time(self.end))


def _time(moment: datetime) -> bytes:
    if moment.year < SHORT_TIMES_END:
        return encoded(TIME, f"{moment:%y%m%d%H%M%SZ}".encode())
    return encoded(LONG_TIME, f"{moment:%Y%m%d%H%M%SZ}".encode())


def authority(name: str, key: Key, term: Term) -> bytes:
    """A CA that vouches for hosts, and for no further CA."""
    extensions = (
        _extension(SUBJECT_KEY, encoded(OCTETS, _key_id(key))),
        _extension(CONSTRAINTS, encoded(SEQUENCE, TRUE, _integer(0)), critical=True),
        _extension(USAGE, encoded(BITS, SIGNS_CERTIFICATES), critical=True),
    )
    return _signed(key, _name(name), term, _name(name), key, extensions)


def leaf(host: str, key: Key, term: Term, issuer: str, issuer_key: Key) -> bytes:
    """For one host, which is a name or an address, in its canonical form."""
    extensions = (
        _extension(SUBJECT_KEY, encoded(OCTETS, _key_id(key))),
        _extension(CONSTRAINTS, encoded(SEQUENCE), critical=True),
        _extension(USAGE, encoded(BITS, SIGNS_HANDSHAKES), critical=True),
        _extension(PURPOSES, encoded(SEQUENCE, SERVER_AUTH)),
        _extension(SUBJECT_NAMES, encoded(SEQUENCE, _subject_name(host))),
        _extension(ISSUER_KEY, encoded(SEQUENCE, encoded(KEY_ID, _key_id(issuer_key)))),
    )
    common = host if len(host) <= LONGEST_COMMON else "ags"
    return _signed(issuer_key, _name(issuer), term, _name(common), key, extensions)


def _signed(
    issuer_key: Key,
    issuer: bytes,
    term: Term,
    subject: bytes,
    key: Key,
    extensions: tuple[bytes, ...],
) -> bytes:
    told = encoded(
        SEQUENCE,
        encoded(VERSION, _integer(2)),  # counted from zero: the third
        _integer(int.from_bytes(os.urandom(20), "big") >> 1 | 1),  # positive, and 20 bytes at most
        ECDSA_SHA256,
        issuer,
        term.der(),
        subject,
        _public(key),
        encoded(EXTENSIONS, encoded(SEQUENCE, *extensions)),
    )
    signature = issuer_key.sign(told, ec.ECDSA(hashes.SHA256()))
    return encoded(SEQUENCE, told, ECDSA_SHA256, encoded(BITS, b"\0", signature))


def _name(common: str) -> bytes:
    one = encoded(SEQUENCE, COMMON_NAME, encoded(TEXT, common.encode()))
    return encoded(SEQUENCE, encoded(SET, one))


def _extension(number: int, value: bytes, *, critical: bool = False) -> bytes:
    kind = encoded(OID, EXTENSION, bytes((number,)))
    return encoded(SEQUENCE, kind, TRUE if critical else b"", encoded(OCTETS, value))


def _subject_name(host: str) -> bytes:
    try:
        return encoded(IP_ADDRESS, ipaddress.ip_address(host).packed)
    except ValueError:
        return encoded(DNS_NAME, host.encode("ascii"))


def _public(key: Key) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _key_id(key: Key) -> bytes:
    point = key.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    return hashlib.sha1(point, usedforsecurity=False).digest()
