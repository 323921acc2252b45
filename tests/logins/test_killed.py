"""Killed at any step of a renewal: the file is whole, and nobody is locked out."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ags.egress.desk import Answer, Asked
from ags.logins import broker
from tests.logins.run import Agent, host_login, real, to, wired
from tests.logins.vendor import Vendor

BEFORE = ("open", "fchmod", "posix_fallocate", "post")
WINDOW = ("pwrite", "ftruncate", "fsync", "rename")
"""Between the answer and its place in the file: the one stretch in which a log-in can be lost."""


def killed_at(step: str, vendor: Vendor, agent: Agent) -> None:
    """In a process of its own, which is killed when it comes to that step."""
    if (child := os.fork()) == 0:
        try:
            asyncio.run(_renew(step, vendor, agent))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"never at {step}"


async def _renew(step: str, vendor: Vendor, agent: Agent) -> None:
    async def post(request: Asked) -> Answer:
        if step == "post":
            _kill()
        answer = await to(vendor)(request)
        if step in WINDOW:
            setattr(os, step, _kill)
        return answer

    if step in BEFORE and step != "post":
        setattr(os, step, _on_draft(getattr(os, step)))
    if step == "after":
        broker.records.sync_directory = _kill  # type: ignore[attr-defined]
    await agent.renew(post)


def _kill(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _on_draft(real_one: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        if isinstance(given[0], int) or str(given[0]).endswith("ags-new"):
            _kill()
        return real_one(*given)

    return call


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "STALE", 0.2)


@pytest.mark.parametrize("step", BEFORE)
def test_before_the_answer_nothing_is_lost(tmp_path: Path, step: str) -> None:
    vendor = Vendor()
    path = host_login(tmp_path, vendor, 1.0)
    agent = Agent(wired(tmp_path, path))
    killed_at(step, vendor, agent)
    assert real(path)["refreshToken"] == vendor.refresh
    status, _ = asyncio.run(agent.renew(to(vendor)))
    assert status == 200 and vendor.good(real(path)["accessToken"])
    assert os.listdir(path.parent.parent) == [".claude"]
    assert sorted(os.listdir(path.parent)) == [".credentials.json", ".credentials.json.ags-lock"]


@pytest.mark.parametrize("step", WINDOW)
def test_between_the_answer_and_the_file_the_file_stays_whole(tmp_path: Path, step: str) -> None:
    """The vendor's answer is gone with the process; the person has to log in again, and is told."""
    vendor = Vendor()
    path = host_login(tmp_path, vendor, 1.0)
    agent, before = Agent(wired(tmp_path, path)), path.read_bytes()
    killed_at(step, vendor, agent)
    assert path.read_bytes() == before
    unaware = Vendor()
    assert asyncio.run(agent.renew(to(unaware)))[0] == 200, "nobody is locked out"
    assert not list(path.parent.glob("*-new"))


def test_once_it_is_in_the_file_it_is_there(tmp_path: Path) -> None:
    """The child's vendor is a copy: what it gave can be told from ours only by the file."""
    vendor = Vendor()
    path = host_login(tmp_path, vendor, 1.0)
    agent, spent = Agent(wired(tmp_path, path)), vendor.refresh
    killed_at("after", vendor, agent)
    assert real(path)["refreshToken"] != spent
    status, told = asyncio.run(agent.renew(to(vendor)))
    assert status == 200 and vendor.renewals == [] and told["expires_in"] > 3000
