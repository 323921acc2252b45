"""E15, R2: what holds a run's fence is killed, and nothing gets out on that account."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ags import runs
from tests.attack.egress.scene import Scene, paths
from tests.attack.egress.whole import Desk, desk_for, supervisor_killed, unfinished, works
from tests.attack.whole import said, told, until
from tests.attack.whole_mutations import HELPER_KILLED

POLICY = """
domains:
  - plain.example
  - api.example
  - {host: seen.example, methods: [GET]}
"""
LOADS = """
load() {
    while :; do
        curl -sSN -m 60 "$1/drip?count=100000&every=0.01" >> "got-$2" || sleep 0.5
    done
}
load https://api.example opaque &
load https://seen.example opened &
load http://plain.example clear &
while :; do curl -sS -m 5 https://api.example/fresh; date +%s%N >> alive; sleep 0.05; done &
"""


@pytest.fixture
def desk(scene: Scene) -> Iterator[Desk]:
    with desk_for(scene) as made:
        yield made


def test_when_the_supervisor_is_killed_every_connection_ends(desk: Desk, scene: Scene) -> None:
    """In the middle of transfers, of each kind that there is."""
    seen = scene.world.origin("seen.example", tls=True)
    origins = (scene.sites.api, scene.sites.plain, seen)
    run_dir = desk.at_work("try", LOADS, *desk.policy(POLICY))
    folder = desk.worktree("try")
    loads = [folder / f"got-{name}" for name in ("opaque", "opened", "clear")]
    until(lambda: all(load.exists() and load.stat().st_size > 10 for load in loads))
    assert all("/drip" in paths(origin) for origin in origins)
    until(lambda: len(unfinished(scene.world.inside)) >= 3 and (folder / "alive").exists())
    with supervisor_killed(run_dir) as left:
        alive = folder / "alive"
        enough = alive.stat().st_size + 50 * len("1700000000000000000\n")
        until(lambda: not any(map(works, left)) or alive.stat().st_size > enough)
        assert not any(map(works, left))
        until(lambda: unfinished(scene.world.inside) == [])
        scene.world.clear()
        before = {path.name: path.stat().st_size for path in folder.iterdir()}
        time.sleep(1)
        assert (scene.reached, scene.asked) == (set(), set())
        assert all(origin.requests == [] and origin.visits == [] for origin in origins)
        assert {path.name: path.stat().st_size for path in folder.iterdir()} == before
    assert desk.ags("restart", "--detach", "try").returncode == 0
    until(lambda: all("/drip" in paths(origin) for origin in origins))


def test_without_its_helper_no_run_starts(desk: Desk, scene: Scene) -> None:
    """Who opens the sockets inside is killed as soon as it is there."""
    goal = "touch ran; curl -sS -m 90 https://api.example/ran"
    allow = ("--allow", "api.example")
    desk.ags("start", "try", "-a", "shell", *allow, goal, fault=HELPER_KILLED)
    assert runs.load(desk.run_dir("try")).state == "failed", told(desk.run_dir("try"))
    assert "open the network fence" in said(desk.run_dir("try"))
    assert not (desk.worktree("try") / "ran").exists()
    command = ("exec", *allow, "--", "sh", "-c", goal)
    assert desk.ags(*command, fault=HELPER_KILLED).returncode == 125
    assert not (desk.project.folder / "ran").exists()
    assert (scene.reached, scene.asked, scene.sites.api.visits) == (set(), set(), [])
    desk.run("sound", goal, *allow)
    assert (desk.worktree("sound") / "ran").exists() and paths(scene.sites.api) == ["/ran"]
    assert desk.ags(*command).returncode == 0
    assert (desk.project.folder / "ran").exists()
