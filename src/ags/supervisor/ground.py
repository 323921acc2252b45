"""Where a run works: made before it starts, gathered when it has ended.

The same steps serve a supervisor and whoever collects, later, what an interrupted run left.
"""

from __future__ import annotations

from typing import Protocol

from ags.model import Plan
from ags.prepare import Request
from ags.runs import Mode, Result
from ags.supervisor.inplace import InPlace
from ags.supervisor.separate import Separate
from ags.supervisor.site import Site
from ags.workspace.inside import Runner


class Ground(Protocol):
    """One way of working. Each step saves to the run's record what it made before it goes on."""

    async def create(self) -> None:
        """Make what was not there: the run's own git directory, and a workspace if it has one."""

    async def request(self, command: tuple[str, ...]) -> Request:
        """What to prepare, once all is made."""

    async def settle(self, plan: Plan, fenced: Runner) -> None:
        """The last touches inside the sandbox, before the agent is let in.

        `fenced` runs what is the person's, with the network that the agent will have."""

    async def meanwhile(self) -> None:
        """While the agent works: what lets the next start be quicker. Ended when the agent has."""

    async def collect(self, plan: Plan) -> Result | None:
        """Bring back what the agent did, and store the diff. None: there was nothing to compare."""


GROUNDS: dict[Mode, type[Separate | InPlace]] = {"separate": Separate, "inplace": InPlace}


def ground(site: Site) -> Ground:
    return GROUNDS[site.run.mode](site)
