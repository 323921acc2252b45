"""Ports of a run's sandbox, brought to the host's loopback while it works: `port` and `ports`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ags.control.server import Verb
from ags.egress.ports import Ports, Published
from ags.errors import AgsError

Fields = Mapping[str, object]


class PortVerbs:
    """`port` and `ports`."""

    def __init__(self, ports: Callable[[], Ports | None], tell: Callable[[str], None]) -> None:
        """`ports` gives None as long as nothing runs behind a fence."""
        self._ports = ports
        self._tell = tell

    def verbs(self) -> dict[str, Verb]:
        return {"port": self._publish, "ports": self._listed}

    async def _listed(self, _: Fields) -> dict[str, object]:
        ports = self._ports()
        return {"ports": [_described(each) for each in ports.published] if ports else []}

    async def _publish(self, request: Fields) -> dict[str, object]:
        port, host_port = request.get("port"), request.get("host_port", 0)
        if type(port) is not int or type(host_port) is not int:
            raise AgsError("publish the port", cause="it is no number")
        if (ports := self._ports()) is None:
            cause = "nothing runs in its sandbox now, or it has no network"
            raise AgsError("publish the port", subject=port, cause=cause)
        known = ports.published
        made = ports.publish(port, host_port)
        if made not in known:
            self._tell(f"port {port} of the sandbox is at {made.url}")
        return _described(made)


def _described(one: Published) -> dict[str, object]:
    return {"port": one.port, "host_port": one.host_port, "url": one.url}
