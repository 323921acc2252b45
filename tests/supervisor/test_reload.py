"""A run that is told twice at once to read its policy anew."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from ags.egress.layers import Whole
from ags.egress.policy import Layer, Policy
from ags.egress.wiring import Wiring
from ags.supervisor import fencing
from ags.supervisor.fencing import Fencing

OLD, NEW = (Whole(Policy((Layer(name),)), {}) for name in ("old", "new"))


def test_the_policy_that_was_read_last_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading asks programs and files and so takes its time, the first one all of it."""
    slow = asyncio.Event()
    given = iter((OLD, NEW))

    async def read(*_: object) -> Whole:
        if (found := next(given)) is OLD:
            await slow.wait()
        return found

    async def reloaded() -> Policy:
        site = MagicMock()
        site.held.run_dir = tmp_path
        fence = Fencing(site, MagicMock(), MagicMock(), {}, Wiring(), OLD, None)
        reload: Any = fence.verbs()["reload"]
        first, second = (asyncio.create_task(reload({})) for _ in range(2))
        for _ in range(100):  # as far as the second comes without the first
            await asyncio.sleep(0)
        slow.set()
        await asyncio.gather(first, second)
        return fence.network.fence.policy

    async def wired(*_: object) -> Wiring:
        return Wiring()

    monkeypatch.setattr(fencing, "_policy", read)
    monkeypatch.setattr(Fencing, "_wired_anew", wired)
    monkeypatch.setattr(fencing, "extra_roots", lambda _: ())
    assert [layer.name for layer in asyncio.run(reloaded()).layers] == ["new"]
