"""Where a server is. A token goes only where nobody can read it on the way."""

from __future__ import annotations

import ipaddress
import re
from typing import Literal

from ags.errors import Unfit
from ags.frozen import frozen

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9][a-z0-9.-]*)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<prefix>(?:/[a-z0-9_~-][a-z0-9._~-]*)*)/?",
    re.IGNORECASE | re.ASCII,
)
_USUAL = {"http": 80, "https": 443}


@frozen
class Address:
    scheme: Literal["http", "https"]
    host: str
    """To be dialled: for IPv6 without its brackets."""
    port: int
    prefix: str = ""
    """Of every path, where a proxy has the server below one."""

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _USUAL[self.scheme] else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return _is_loopback(self.host)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"


def parse(url: str) -> Address:
    found = _URL.fullmatch(url)
    port = int(found["port"] or _USUAL[found["scheme"].lower()]) if found else 0
    if found is None or not 0 < port < 65536:
        # Not shown: whoever writes it wrongly may have put the token into it.
        raise Unfit(
            "use this server",
            cause="that is not the address of one",
            hint="such as http://127.0.0.1:8080 or https://ags.example.org; the token is not part"
            " of it",
        )
    scheme: Literal["http", "https"] = "https" if found["scheme"].lower() == "https" else "http"
    # By its number: what a name leads to is for others to say.
    host = found["host"].lower().strip("[]")
    host = "127.0.0.1" if host == "localhost" and scheme == "http" else host
    if scheme == "http" and not _is_loopback(host):
        raise Unfit(
            "use this server",
            subject=f"http://{found['host']}",
            cause="over http everybody on the way could read the token, and use it",
            hint="https:// is possible everywhere, http:// only on this machine: 127.0.0.1; or"
            " reach it through `ssh -L 8080:127.0.0.1:8080 HOST`",
        )
    return Address(scheme, host, port, found["prefix"])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
