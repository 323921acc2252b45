"""One spelling for every host: for matching, DNS, SNI, the Host header and the log alike.

A name is lower case ASCII without a final dot; international names are in their `xn--` form, which
is what is matched and shown. An address is as `ipaddress` writes it, whichever of the C library's
spellings it came in. Everything else is refused.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from functools import lru_cache

from ags.errors import AgsError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_NAME = 253
MAX_LABEL = 63
MOST_KNOWN = 1024
"""Hosts that need not be read again: a run speaks to few, and to those all the time."""
HOST_NAME = "host.containers.internal"
"""What the host's own listed services are called inside."""

# Underscores are no part of host names by the book, yet real ones have them. A hyphen never comes
# first: a program that gets such a name as its argument would take it for an option.
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-f]+|[0-9]+", re.ASCII)
_NUMERIC_END = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|[0-9]+)", re.ASCII)
_PRIVATE_ENDS = frozenset(("alt", "arpa", "internal", "invalid", "local", "localhost", "onion"))

_RANGES = (
    ("169.254.169.254/32", "metadata"),
    ("168.63.129.16/32", "metadata"),
    ("100.100.100.200/32", "metadata"),
    ("192.0.0.192/32", "metadata"),
    ("fd00:ec2::/32", "metadata"),
    ("fd20:ce::254/128", "metadata"),
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "relay"),
    ("192.88.99.0/24", "6to4"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmark"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "mapped"),
    ("::ffff:0:0:0/96", "translated"),
    ("::/96", "compatible"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "NAT64"),
    ("100::/64", "discard"),
    ("100:0:0:1::/64", "dummy"),
    ("2001::/32", "Teredo"),
    ("2001:2::/48", "benchmark"),
    ("2001:10::/28", "ORCHID"),
    ("2001:20::/28", "ORCHID"),
    ("2001:30::/28", "drone"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112"),
    ("3ffe::/16", "6bone"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_SPECIAL = tuple((ipaddress.ip_network(network), name) for network, name in _RANGES)
_GLOBAL = ipaddress.IPv6Network("2000::/3")


class BadHost(AgsError):
    """A text that is no host's name or address, or not beyond doubt."""

    def __init__(self, text: str, cause: str) -> None:
        shown = ascii(text[:80])
        short = shown if len(shown) <= 80 else f"{shown[:77]}..."
        super().__init__("use this host", subject=short, cause=cause)


@lru_cache(MOST_KNOWN)
def canonical_host(text: str) -> str:
    """The one spelling of this name or address, without a port. Raises BadHost, nothing else."""
    if len(text) > 4 * MAX_NAME:
        raise BadHost(text, "it is too long")
    if text.startswith("[") and text.endswith("]"):
        return _canonical_v6(text, text[1:-1])
    if ":" in text:
        return _canonical_v6(text, text)
    name = _ascii(text).removesuffix(".")
    if _NUMERIC_END.fullmatch(name):
        return _canonical_v4(text, name)
    _check_name(text, name)
    return name


@lru_cache(MOST_KNOWN)
def address_of(host: str) -> Address | None:
    """The address that this canonical host is, or None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public_name(host: str) -> bool:
    """Whether a canonical host could be a name of the public DNS. No address is."""
    last = host.rpartition(".")[2]
    return "." in host and last not in _PRIVATE_ENDS and address_of(host) is None


def special(address: str | Address) -> str | None:
    """The name of the special range that this address is in; None for one of the open internet."""
    found = _parsed(address) if isinstance(address, str) else address
    if getattr(found, "scope_id", None) is not None:
        return "zone"
    for network, name in _SPECIAL:
        if found.version == network.version and found in network:
            return name
    # What is not handed out for global use yet is nobody's to be dialled.
    return None if found.version == 4 or found in _GLOBAL else "reserved"


def _parsed(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise BadHost(text, "it is not an address") from None


def _canonical_v6(text: str, inner: str) -> str:
    if "%" in inner:
        raise BadHost(text, "an address with a zone means something only on one machine")
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        cause = "it is not an IPv6 address; a port does not belong here"
        raise BadHost(text, cause) from None
    # The kernel dials a mapped address as the IPv4 one, so it is the same destination.
    return str(address.ipv4_mapped or address)


def _canonical_v4(text: str, name: str) -> str:
    """What inet_aton reads: one to four numbers, decimal, octal or hexadecimal."""
    numbers = [_number(part) for part in name.split(".")]
    *heads, tail = numbers
    if None in numbers or len(numbers) > 4:
        raise BadHost(text, "it ends in a number, but is not an IPv4 address")
    value = tail or 0
    if value >= 1 << 8 * (4 - len(heads)) or any((head or 0) > 255 for head in heads):
        raise BadHost(text, "a number in this IPv4 address is too large")
    for position, head in enumerate(heads):
        value |= (head or 0) << 8 * (3 - position)
    return str(ipaddress.IPv4Address(value))


def _number(part: str) -> int | None:
    if len(part) > 64 or not _NUMBER.fullmatch(part):
        return None
    if part.startswith("0x"):
        return int(part, 16)
    if part.startswith("0") and len(part) > 1:
        return int(part, 8) if "8" not in part and "9" not in part else None
    return int(part)


def _ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    return ".".join(_ascii_label(text, label) for label in text.split("."))


def _ascii_label(text: str, label: str) -> str:
    """The `xn--` form, if both ways lead to the same text.

    The standard library has the IDNA of 2003, which folds some letters that today's registries
    keep apart (ß, final sigma, joiners) and maps look-alikes of ASCII to ASCII. None of those comes
    back as it went in, so all are refused; so are symbols, which today's IDNA does not have.
    """
    low = label.lower()
    if label.isascii():
        return low
    try:
        encoded = low.encode("idna")
        returned = encoded.decode("idna")
    except UnicodeError:
        raise BadHost(text, "it has letters that cannot be in a name") from None
    symbols = any(unicodedata.category(c)[0] not in "LMN" for c in low if not c.isascii())
    if symbols or not encoded.startswith(b"xn--") or returned != low:
        raise BadHost(text, "its international letters have more than one reading; use xn--")
    return encoded.decode("ascii")


def _check_name(text: str, name: str) -> None:
    if not name:
        raise BadHost(text, "it is empty")
    if len(name) > MAX_NAME:
        raise BadHost(text, f"a name has at most {MAX_NAME} characters")
    for label in name.split("."):
        if not label:
            raise BadHost(text, "it has an empty part between dots")
        if len(label) > MAX_LABEL:
            raise BadHost(text, f"a part of a name has at most {MAX_LABEL} characters")
        if not _LABEL.fullmatch(label):
            raise BadHost(text, "a name has only letters, digits, hyphens, underscores and dots")
