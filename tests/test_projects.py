"""Projects: added once, kept apart, and never believed if they are only half there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ags import projects, runs
from ags.engine import Engine
from ags.errors import AgsError, Missing, Unfit
from ags.projects import Apart, Project
from ags.projects import record as project_records
from ags.runs import Order, Run
from ags.runs.lock import open_lock
from ags.workspace import git
from ags.workspace.remote import Person, checked_url
from tests.disk import fill, small_disk
from tests.interactive.watching import gone
from tests.people import ROOT
from tests.workspace.forge import Forge
from tests.workspace.repositories import go
from tests.workspace.room import Room, helper, trusts
from tests.workspace.room import room as room
from tests.workspace.room import site as site

ADD = """
import asyncio, sys
from pathlib import Path
from ags import projects
from ags.engine import Engine
from ags.workspace.remote import checked_url
home, state, url = sys.argv[1:]
engine = Engine({"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"}, Path(home), Path(state))
print(asyncio.run(projects.add(engine, checked_url(url))).id)
"""


@pytest.fixture
def engine(room: Room) -> Engine:
    return Engine(room.environ, room.home, room.folder / "state")


def add(engine: Engine, room: Room, url: str | None = None, client: str = "") -> Project:
    judged = checked_url(url or str(room.origin.folder))
    return go(projects.add(engine, judged, client))


def adding(room: Room, url: str) -> subprocess.Popen[str]:
    """Another ags that adds it."""
    command = (sys.executable, "-c", ADD, room.home, room.folder / "state", url)
    return subprocess.Popen(
        [str(word) for word in command],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )


def tree(engine: Engine) -> list[str]:
    """All that there is of projects, but for the content of repositories."""
    folder = engine.ags_home / "projects"
    found = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in found if "repo.git/" not in name)


def finished(engine: Engine, project: Project, name: str) -> Run:
    """The record of a run that has ended."""
    at = runs.now()
    made = Run(
        id=runs.new_id(at), name=name, agent="shell", goal="x", mode="separate",
        project=project.folder, created=at, order=Order(client=project.client),
    )  # fmt: skip
    with runs.create(engine.ags_home, made) as held:
        for step in ("preparing", "running", "collecting", "done"):
            held.save(runs.moved(held.run, step, runs.now()))
        return held.run


def commit_on(project: Project, branch: str, room: Room) -> str:
    repository = go(git.find(project.folder))
    words = ("commit-tree", "-p", room.first, "-m", "work\n\nmore", f"{room.first}^{{tree}}")
    made = go(git.run(repository, *words, env=room.origin.environment)).text.strip()
    go(git.run(repository, "update-ref", f"refs/heads/{branch}", made))
    return made


def test_a_project_is_cloned_once_and_found_again(engine: Engine, room: Room) -> None:
    heard: list[str] = []
    url = checked_url(str(room.origin.folder))
    made = go(projects.add(engine, url, progress=lambda stage, _: heard.append(stage)))
    assert (made.name, made.client, made.state, made.error) == ("origin", "", "ready", "")
    assert heard and not made.linked and go(projects.head(made)) == "main"
    before = made.folder.stat().st_ino
    assert add(engine, room, f"file://{room.origin.folder}/.git") == made
    assert made.folder.stat().st_ino == before
    assert projects.listed(engine.ags_home) == (made,)
    for text in (made.id, "origin"):
        assert projects.find(engine.ags_home, text) == made
        assert projects.folder_of(engine.ags_home, text) == made.folder
    assert projects.find_by_folder(engine.ags_home, made.folder) == made
    assert projects.find_by_folder(engine.ags_home, room.origin.folder) is None
    assert tree(engine) == [
        made.id,
        *(f"{made.id}/{n}" for n in ("lock", "project.json", "repo.git")),
    ]
    assert made.folder.parent.stat().st_mode & 0o777 == 0o700


def test_a_project_that_is_removed_as_it_is_added_is_made_again(
    engine: Engine, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[Path] = []

    def removed_first(place: Path) -> int:
        if not gone:
            gone.append(place)
            place.rmdir()
        return open_lock(place)

    monkeypatch.setattr(project_records, "open_lock", removed_first)
    made = add(engine, room)
    assert gone == [made.folder.parent] and made.state == "ready"


def test_a_project_that_is_removed_before_it_is_locked_is_missed(
    engine: Engine, room: Room
) -> None:
    place = add(engine, room).folder.parent
    with project_records.locked(place, "pull"):
        pass
    go(projects.remove(engine, place.name))
    missed = pytest.raises(Missing, match="there is no such project")
    with missed, project_records.locked(place, "pull"):
        pass


def test_clients_have_projects_of_their_own(engine: Engine, room: Room) -> None:
    mine, acme, beta = (add(engine, room, client=name) for name in ("", "acme", "beta"))
    assert len({each.folder for each in (mine, acme, beta)}) == 3
    commit_on(acme, "canary", room)
    assert "canary" not in {each.name for each in go(projects.branches(beta))}
    assert projects.listed(engine.ags_home, "acme") == (acme,)
    assert projects.listed(engine.ags_home, "") == (mine,)
    assert projects.find(engine.ags_home, "origin", "beta") == beta
    with pytest.raises(AgsError, match="3 of this name"):
        projects.find(engine.ags_home, "origin")
    with pytest.raises(AgsError, match="a project of acme"):
        projects.folder_of(engine.ags_home, acme.id, "beta")
    assert projects.find_by_folder(engine.ags_home, acme.folder, "acme") == acme
    assert projects.find_by_folder(engine.ags_home, acme.folder, "beta") is None
    assert add(engine, room, client="default") == mine
    with pytest.raises(Unfit):
        add(engine, room, client="../x")


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "../projects", "project-", "project-" + "g" * 20, "project-x/../y", "\0"],
)
def test_an_id_is_never_a_path(engine: Engine, room: Room, text: str) -> None:
    made = add(engine, room)
    for project_id in (text, f"{made.id}/", f"{made.id}\n", made.id.upper()):
        with pytest.raises(Missing):
            projects.get(engine.ags_home, project_id)
        assert projects.folder_of(engine.ags_home, project_id) is None
    assert projects.get(engine.ags_home, made.id) == made


def test_a_link_in_the_place_of_a_project_is_not_followed(engine: Engine, room: Room) -> None:
    made = add(engine, room)
    elsewhere = room.folder / "elsewhere"
    made.folder.parent.rename(elsewhere)
    made.folder.parent.symlink_to(elsewhere)
    assert projects.listed(engine.ags_home) == ()
    with pytest.raises(Missing):
        go(projects.remove(engine, made.id, force=True))
    with pytest.raises(AgsError, match="not a folder that ags made"):
        add(engine, room)
    assert (elsewhere / "repo.git/HEAD").exists()
    made.folder.parent.unlink()
    elsewhere.rename(made.folder.parent)
    assert projects.get(engine.ags_home, made.id) == made
    made.folder.rename(elsewhere)
    made.folder.symlink_to(elsewhere)
    assert projects.get(engine.ags_home, made.id).state == "failed"


def test_a_folder_of_the_persons_own_is_used_as_it_is(engine: Engine, room: Room) -> None:
    room.origin.write("inner/b.txt")
    before = room.origin.state()
    made = go(projects.link(engine.ags_home, room.origin.folder / "inner"))
    assert (made.linked, made.folder, made.state) == (True, room.origin.folder, "ready")
    assert go(projects.link(engine.ags_home, room.origin.folder)) == made
    assert projects.find_by_folder(engine.ags_home, room.origin.folder) == made
    assert add(engine, room).id != made.id
    with pytest.raises(AgsError, match="your own folder"):
        go(projects.pull(engine, made.id))
    finished(engine, made, "one")
    go(projects.remove(engine, made.id, force=True))
    assert room.origin.state() == before and engine.find("one")
    assert made.id not in {each.id for each in projects.listed(engine.ags_home)}
    with pytest.raises(git.NotARepository):
        go(projects.link(engine.ags_home, room.home))


def test_a_folder_that_is_gone_is_told(engine: Engine, room: Room) -> None:
    made = go(projects.link(engine.ags_home, room.origin.folder))
    room.origin.folder.rename(room.folder / "moved")
    found = projects.get(engine.ags_home, made.id)
    assert (found.state, found.error) == ("failed", "the folder is gone")
    with pytest.raises(AgsError, match="the folder is gone"):
        projects.folder_of(engine.ags_home, made.id)


def test_what_is_in_our_own_state_is_no_project(engine: Engine, room: Room) -> None:
    made = add(engine, room, client="acme")
    for url in (str(made.folder), f"file://{made.folder}"):
        with pytest.raises(AgsError, match="AGS's own"):
            add(engine, room, url, "beta")
    with pytest.raises(AgsError, match="AGS's own"):
        go(projects.link(engine.ags_home, made.folder))


def test_of_one_that_fails_nothing_is_left(engine: Engine, room: Room, site: Forge) -> None:
    trusts(room, site)
    with pytest.raises(AgsError, match="Username"):
        add(engine, room, site.url("shop.git"))
    assert tree(engine) == []
    helper(room)
    assert add(engine, room, site.url("shop.git")).state == "ready"


def test_whoever_wants_to_show_it_keeps_the_reason(engine: Engine, room: Room, site: Forge) -> None:
    trusts(room, site)
    url, person = checked_url(site.url("shop.git")), Person(room.environ, room.home)
    with projects.begin(engine.ags_home, url) as begun:
        assert begun.new and begun.project.state == "cloning"
        with pytest.raises(AgsError):
            go(begun.finish(person))
    failed = projects.get(engine.ags_home, begun.project.id)
    assert failed.state == "failed" and "Username" in failed.error
    assert [name for name in tree(engine) if ".new" in name] == []
    for verb in (projects.branches(failed), projects.pull(engine, failed.id)):
        with pytest.raises(AgsError, match="Username"):
            go(verb)
    helper(room)
    with projects.begin(engine.ags_home, url) as begun:
        assert begun.new and go(begun.finish(person)).state == "ready"
    with projects.begin(engine.ags_home, url) as begun:
        assert not begun.new and begun.project.added == failed.added
        assert go(begun.finish(person)).error == ""


def test_two_at_once_make_one_clone(engine: Engine, room: Room, site: Forge) -> None:
    trusts(room, site)
    helper(room)
    both = [adding(room, site.url("shop.git")) for _ in range(2)]
    told = {process.communicate(timeout=120)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert told == {each.id for each in projects.listed(engine.ags_home)}
    assert sum("info/refs" in path for _, path in site.asked) == 1


def until(site: Forge) -> None:
    """The forge has been asked for objects, and does not answer."""
    end = time.monotonic() + 60
    while not any(method == "POST" for method, _ in site.asked):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_one_that_was_killed_has_failed_and_can_be_added_again(
    engine: Engine, room: Room, site: Forge
) -> None:
    trusts(room, site)
    helper(room)
    site.stall = True
    with adding(room, site.url("shop.git")) as process:
        until(site)
        (seen,) = projects.listed(engine.ags_home)
        assert seen.state == "cloning"
        with pytest.raises(AgsError, match="just being cloned"):
            go(projects.remove(engine, seen.id, force=True))
        process.send_signal(signal.SIGKILL)
    (seen,) = projects.listed(engine.ags_home)
    assert (seen.state, "interrupted" in seen.error) == ("failed", True)
    site.stall = False
    site.stalled.set()
    gone(str(engine.ags_home))  # its git lived on, and would make folders anew
    (engine.ags_home / "projects" / seen.id / ".new-left/objects").mkdir(parents=True)
    assert add(engine, room, site.url("shop.git")).state == "ready"
    assert not [name for name in tree(engine) if ".new" in name]


def test_one_that_is_called_off_leaves_nothing(engine: Engine, room: Room, site: Forge) -> None:
    trusts(room, site)
    helper(room)
    site.stall = True

    async def scene() -> None:
        task = asyncio.create_task(projects.add(engine, checked_url(site.url("shop.git"))))
        while not any(method == "POST" for method, _ in site.asked):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    go(scene())
    assert tree(engine) == []


def test_a_full_disk_leaves_nothing_that_would_be_believed(room: Room) -> None:
    room.origin.write("big", os.urandom(3 << 20))
    room.origin.commit("big")
    with small_disk(room.folder / "disk", "2m") as disk:
        engine = Engine(room.environ, room.home, disk / "state")
        with pytest.raises(AgsError):
            add(engine, room)
        assert tree(engine) == []
        filler = fill(disk)
        with pytest.raises(AgsError, match="no space"):
            add(engine, room)
        assert projects.listed(engine.ags_home) == ()
        filler.unlink()
        room.origin.git("checkout", "--quiet", "--orphan", "small")
        room.origin.git("rm", "--quiet", "-rf", ".")
        room.origin.commit("small")
        room.origin.git("branch", "-D", "main")
        assert add(engine, room).state == "ready"


def test_a_pull_brings_what_is_new(engine: Engine, room: Room) -> None:
    made = add(engine, room)
    second = room.origin.commit("second")
    assert go(projects.pull(engine, made.id)).updated == ("main",)
    assert {each.commit for each in go(projects.branches(made))} == {second}
    room.origin.folder.rename(room.folder / "moved")
    with pytest.raises(AgsError, match="no such folder"):
        go(projects.pull(engine, made.id))
    failed = projects.get(engine.ags_home, made.id)
    assert failed.state == "ready" and "no such folder" in failed.error
    (room.folder / "moved").rename(room.origin.folder)
    go(projects.pull(engine, made.id))
    assert projects.get(engine.ags_home, made.id).error == ""


def test_branches_that_went_apart_are_told_until_they_are_together(
    engine: Engine, room: Room
) -> None:
    room.origin.git("branch", "old")
    made = add(engine, room)
    ours = commit_on(made, "main", room)
    room.origin.commit("theirs")
    room.origin.git("branch", "--delete", "old")
    pulled = go(projects.pull(engine, made.id))
    assert (pulled.diverged, pulled.gone) == (("main",), ("old",))
    assert projects.get(engine.ags_home, made.id).apart == Apart(("main",), ("old",))

    # The next one has nothing to fetch, and they are apart as before.
    assert go(projects.pull(engine, made.id)) == pulled
    assert projects.get(engine.ags_home, made.id).apart == Apart(("main",), ("old",))

    repository = go(git.find(made.folder))
    room.origin.git("fetch", "--quiet", str(made.folder), "main")
    room.origin.git("reset", "--quiet", "--hard", ours)
    go(git.run(repository, "update-ref", "-d", "refs/heads/old"))
    assert not go(projects.pull(engine, made.id)).gone
    assert projects.get(engine.ags_home, made.id).apart == Apart()


def test_of_many_branches_that_went_apart_some_are_named(engine: Engine, room: Room) -> None:
    names = [f"b{number:03}" for number in range(60)]
    for name in names:
        room.origin.git("branch", name)
    made = add(engine, room)
    room.origin.git("branch", "--quiet", "--delete", *names)
    assert go(projects.pull(engine, made.id)).gone == tuple(names)
    assert projects.get(engine.ags_home, made.id).apart == Apart((), tuple(names[:50]), 10)


def test_branches_tell_whose_work_they_are(engine: Engine, room: Room) -> None:
    made = add(engine, room)
    commit = commit_on(made, "agent--fix", room)
    commit_on(made, "agent--Not-A-Run", room)
    found = {each.name: each for each in go(projects.branches(made))}
    assert (found["agent--fix"].run, found["agent--fix"].commit) == ("fix", commit)
    assert found["agent--fix"].title == "work" and found["agent--fix"].when > 1e9
    assert found["main"].run is None and found["agent--Not-A-Run"].run is None


def test_a_project_with_runs_is_kept_unless_forced(engine: Engine, room: Room) -> None:
    made = add(engine, room)
    other = add(engine, room, client="acme")
    finished(engine, made, "one")
    finished(engine, other, "two")
    with pytest.raises(AgsError, match="there are runs on it: one"):
        go(projects.remove(engine, made.id))
    assert made.folder.exists()
    go(projects.remove(engine, made.id, force=True))
    with pytest.raises(AgsError):
        engine.find("one")
    assert engine.find("two") and projects.listed(engine.ags_home) == (other,)
    assert not made.folder.parent.exists()


def test_a_project_with_a_run_at_work_is_never_removed(engine: Engine, room: Room) -> None:
    made = add(engine, room)
    at = runs.now()
    run = Run(
        id=runs.new_id(at), name="one", agent="shell", goal="x", mode="separate",
        project=made.folder, created=at,
    )  # fmt: skip
    with runs.create(engine.ags_home, run), pytest.raises(AgsError, match="at work: one"):
        go(projects.remove(engine, made.id, force=True))
    assert made.folder.exists()
    go(projects.remove(engine, made.id, force=True))
    assert not made.folder.exists()


def test_commits_that_are_nowhere_else_are_kept_unless_forced(engine: Engine, room: Room) -> None:
    made = add(engine, room)
    commit_on(made, "agent--fix", room)
    with pytest.raises(AgsError, match="agent--fix has commits that are nowhere else"):
        go(projects.remove(engine, made.id))
    go(projects.remove(engine, made.id, force=True))
    assert tree(engine) == []
    again = add(engine, room)
    go(projects.remove(engine, again.id))
    assert tree(engine) == []


@pytest.mark.parametrize("damage", [b"", b"{}", b"[" * 10000, b'{"format": 1}'])
def test_a_damaged_record_is_no_project_and_adding_repairs_it(
    engine: Engine, room: Room, damage: bytes
) -> None:
    made = add(engine, room)
    (made.folder.parent / "project.json").write_bytes(damage)
    assert projects.listed(engine.ags_home) == ()
    again = add(engine, room)
    assert (again.id, again.state) == (made.id, "ready")
