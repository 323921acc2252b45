"""The fence of a real sandbox, while it is being raised.

Each scene plays in a process and a network namespace of its own, which stands for the host's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.backends.base import Streams
from ags.egress.fence import Terms
from ags.egress.policy import Layer, Policy, Rule, merge
from ags.kernel import netns
from ags.network import Network
from tests.attack.conftest import shared_bwrap
from tests.box import Box
from tests.kernel.test_netns import Seat, sitting

__all__ = ["shared_bwrap"]


@pytest.fixture
def root(shared_bwrap: str) -> Iterator[Seat]:
    with sitting("root", shared_bwrap) as made:
        yield made


def allowing(*ports: int) -> Policy:
    return merge([Layer("user", allow=(Rule("mine.example", ports),) if ports else ())])


def listening(init: int) -> set[int]:
    """Ports inside on which somebody listens, by what the kernel says."""
    lines = Path(f"/proc/{init}/net/tcp").read_text().splitlines()[1:]
    found = [line.split()[1:4] for line in lines]
    return {int(here.split(":")[1], 16) for here, _, state in found if state == "0A"}


class Changing(Network):
    """Somebody changes the policy while it is being opened: first or last."""

    when = ""
    then: Terms

    async def _check(self, opened: netns.Opened) -> None:
        if self.when == "checked":
            await self.change(self.then)
        await super()._check(opened)


@pytest.mark.parametrize("before", [(443,), ()], ids=["more", "another"])
@pytest.mark.parametrize("when", ["opened", "checked"])
def test_a_port_that_is_allowed_while_the_fence_is_raised_is_served(
    root: Seat, when: str, before: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    after = allowing(*before, 8443)

    async def scene(box: Box) -> object:
        nothing = os.open(os.devnull, os.O_RDWR)
        streams = Streams(nothing, nothing, nothing)
        sandbox = await box.backend.launch(box.plan("true"), streams)
        network = Changing("test", Terms(allowing(*before)), environ={}, record=lambda line: None)
        network.when, network.then = when, Terms(after)
        really = netns.open_sockets

        async def meanwhile(*given: object) -> netns.Opened:
            monkeypatch.undo()
            task = asyncio.create_task(really(*given))  # type: ignore[arg-type]
            await network.change(Terms(after))
            return await task

        if when == "opened":
            monkeypatch.setattr(netns, "open_sockets", meanwhile)
        try:
            await network.open(sandbox)
            return sorted(listening(sandbox.init) & {443, 8443})
        finally:
            await sandbox.kill()
            await network.close()

    assert root.play(scene) == [443, 8443]
