"""What a run's fence holds until the person has answered, as an asker."""

from __future__ import annotations

from typing import cast, get_args

from ags.egress.asks import USES, Asks, Change, Kind, Pending, Verdict
from ags.egress.audit import path_class
from ags.errors import AgsError
from ags.supervisor.asking import Fields


class HeldRequests:
    def __init__(self, asks: Asks) -> None:
        self._asks = asks

    def waiting(self) -> list[dict[str, object]]:
        return [self._described(each) for each in self._asks.pending()]

    def answered(self, id_: str, request: Fields) -> dict[str, object]:
        return self._described(self._asks.answer(id_, _verdict(request)))

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


def noted(change: Change) -> Fields:
    """What the run's log has of it."""
    wanted = change.pending.request
    return {
        "id": change.pending.id,
        "outcome": change.outcome,
        "host": wanted.host,
        "port": wanted.port,
        "scheme": wanted.scheme,
        "method": wanted.method,
        "path": None if wanted.path is None else path_class(wanted.path),
        "waiting": change.pending.waiting,
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
