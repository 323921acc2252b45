"""M3: a fence that does not stand lets nothing run; one that does needs nobody outside."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from ags import runs
from tests.attack.egress.faults import BROKEN
from tests.attack.egress.scene import Scene, paths
from tests.attack.egress.whole import Desk, desk_for
from tests.attack.whole import said, told

ALLOW = ("--allow", "api.example")
GOAL = "touch ran; curl -sS -m 90 https://api.example/ran"


@pytest.fixture
def desk(scene: Scene) -> Iterator[Desk]:
    with desk_for(scene) as made:
        yield made


@pytest.mark.parametrize("fault", BROKEN, ids=[name.replace(" ", "-") for name in BROKEN])
def test_behind_a_broken_fence_nothing_runs(desk: Desk, scene: Scene, fault: str) -> None:
    desk.ags("start", "try", "-a", "shell", *ALLOW, GOAL, fault=fault)
    assert runs.load(desk.run_dir("try")).state == "failed", told(desk.run_dir("try"))
    assert "raise the network fence" in said(desk.run_dir("try"))
    assert not (desk.worktree("try") / "ran").exists()
    command = ("exec", *ALLOW, "--", "sh", "-c", GOAL)
    refused = desk.ags(*command, fault=fault)
    assert refused.returncode == 125 and "nothing was run" in refused.stderr, refused.stderr
    assert not (desk.project.folder / "ran").exists()
    assert (scene.reached, scene.asked, scene.sites.api.visits) == (set(), set(), [])
    assert desk.ags(*command).returncode == 0
    assert (desk.project.folder / "ran").exists() and paths(scene.sites.api) == ["/ran"]


def test_a_machine_without_any_network_raises_its_fence_all_the_same(
    desk: Desk, scene: Scene
) -> None:
    """What is allowed cannot be reached then, and that is told for what it is."""
    script = """
        touch ran
        curl -sS -m 90 http://plain.example/; curl -sS -m 90 https://other.example/
    """
    sealed = ("unshare", "--net", sys.executable, "-m", "ags.cli.main")
    allow = ("--allow", "plain.example")
    begun = time.monotonic()
    ran = desk.ags("start", "try", "-a", "shell", *allow, script, program=sealed)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert time.monotonic() - begun < 90
    assert (desk.worktree("try") / "ran").exists()
    printed = said(desk.run_dir("try"))
    assert "ags allowed the request, but" in printed and "ags_policy_refusal" in printed
    assert (scene.reached, scene.asked) == (set(), set())
    assert "hello from plain.example" in desk.run("online", script, *allow)
