"""What a person can say to a run's fence while it works: answer an ask, publish a port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast, get_args

from ags.control.server import Verb
from ags.egress.asks import USES, Asks, Change, Kind, Pending, Verdict
from ags.egress.audit import path_class
from ags.egress.ports import Ports, Published
from ags.errors import AgsError
from ags.events import Writer
from ags.runs import Held

Fields = Mapping[str, object]


def noting(held: Held, log: Writer) -> Callable[[Change], None]:
    """For `Asks`: the run's log has every ask, and its record whether any waits."""

    def note(change: Change) -> None:
        wanted = change.pending.request
        log.write(
            "ask",
            id=change.pending.id,
            outcome=change.outcome,
            host=wanted.host,
            port=wanted.port,
            scheme=wanted.scheme,
            method=wanted.method,
            path=None if wanted.path is None else path_class(wanted.path),
            waiting=change.pending.waiting,
        )
        if held.run.asking != change.asking:
            with contextlib.suppress(AgsError):  # a full disk; who asks the run itself still sees
                held.save(replace(held.run, asking=change.asking))

    return note


class AskVerbs:
    """`asks` and `answer`."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks

    def verbs(self) -> dict[str, Verb]:
        return {"asks": self._shown, "answer": self._answered}

    async def _shown(self, _: Fields) -> dict[str, object]:
        return {"asks": [self._described(each) for each in self._asks.pending()]}

    async def _answered(self, request: Fields) -> dict[str, object]:
        id_ = request.get("id")
        if not isinstance(id_, str):
            raise AgsError("answer this", cause="the request names no ask")
        return self._described(self._asks.answer(id_[:60], _verdict(request)))

    def _described(self, pending: Pending) -> dict[str, object]:
        wanted = pending.request
        waited = self._asks.clock() - pending.since
        return {
            "id": pending.id,
            "host": wanted.host,
            "port": wanted.port,
            "scheme": wanted.scheme,
            "method": wanted.method,
            "path": wanted.path,
            "rule": pending.rule,
            "waiting": pending.waiting,
            "waited": round(waited, 1),
            "left": round(max(0.0, self._asks.patience - waited), 1),
        }


def _verdict(request: Fields) -> Verdict:
    kind, seconds = request.get("verdict"), request.get("seconds", 0)
    uses = request.get("uses", USES)
    if kind not in get_args(Kind):
        known = ", ".join(get_args(Kind))
        raise AgsError(
            "answer this", subject=ascii(kind)[:60], cause=f"an answer is one of {known}"
        )
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise AgsError("answer this", cause="its seconds are no number")
    if type(uses) is not int:
        raise AgsError("answer this", cause="its uses are no number")
    return Verdict(cast(Kind, kind), float(seconds), uses)


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
