"""The log-ins of several agents in one run."""

from __future__ import annotations

from ags.egress.desk import Answer, Asked, Post
from ags.egress.inject import Hidden, Injection, Placeholder
from ags.egress.model import Request
from ags.logins.desk import Desk


class Several:
    """As `egress.desk.Desk`. Each secret belongs to one of the desks, whose agent is in its id."""

    def __init__(self, desks: tuple[Desk, ...]) -> None:
        """At least one."""
        self._desks = desks

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return tuple(each for desk in self._desks for each in desk.placeholders)

    @property
    def injections(self) -> tuple[Injection, ...]:
        return tuple(each for desk in self._desks for each in desk.injections)

    @property
    def hosts(self) -> frozenset[tuple[str, int]]:
        return frozenset(each for desk in self._desks for each in desk.hosts)

    def lookup(self, secret_id: str) -> str | None:
        found = (desk.lookup(secret_id) for desk in self._desks)
        return next((value for value in found if value is not None), None)

    def covered(self) -> tuple[Hidden, ...]:
        return tuple(each for desk in self._desks for each in desk.covered())

    def serves(self, request: Request) -> bool:
        return any(desk.serves(request) for desk in self._desks)

    async def answer(self, asked: Asked, post: Post) -> Answer:
        """Several agents may have their log-ins from one maker: by what is to be renewed. What is
        nobody's is refused by whoever serves such requests."""
        serving = [desk for desk in self._desks if desk.serves(asked.request)]
        chosen = next((desk for desk in serving if desk.gave(asked)), serving[0])
        return await chosen.answer(asked, post)
