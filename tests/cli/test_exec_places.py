"""Where `ags exec` is called: what becomes the workspace, and what is refused as one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.callers import as_user, new_folder
from tests.cli.refusals import refused
from tests.people import Person


@pytest.fixture
def repository(person: Person, workspace: Path) -> Path:
    assert person.run_as(["git", "init", "-q", workspace]).returncode == 0
    assert person.run_as(["mkdir", "-p", workspace / "deep" / "er"]).returncode == 0
    return workspace


def test_in_a_repository_it_can_be_worked_on_and_its_git_folder_cannot(
    person: Person, repository: Path
) -> None:
    script = "pwd; touch made; touch .git/made; git status --short"
    done = person.ags("exec", "--", "sh", "-c", script, cwd=repository)
    assert done.stdout == f"{repository}\n?? made\n"
    assert (repository / "made").stat().st_uid == person.uid
    assert not (repository / ".git" / "made").exists()


def test_below_a_repository_all_of_it_can_be_worked_on(person: Person, repository: Path) -> None:
    script = "pwd; touch ../../made here; touch ../../.git/made"
    done = person.ags("exec", "--", "sh", "-c", script, cwd=repository / "deep" / "er")
    assert done.stdout == f"{repository}/deep/er\n"
    assert (repository / "made").exists() and (repository / "deep" / "er" / "here").exists()
    assert not (repository / ".git" / "made").exists()


def test_outside_a_repository_only_the_folder_itself_can_be_worked_on(
    person: Person, workspace: Path
) -> None:
    person.run_as(["mkdir", workspace / "here"])
    person.ags("exec", "--", "sh", "-c", "touch made; touch ../made", cwd=workspace / "here")
    assert (workspace / "here" / "made").exists() and not (workspace / "made").exists()


def test_through_a_link_it_is_the_real_folder(person: Person, workspace: Path, world: Path) -> None:
    link = new_folder(world, person) / "link"
    link.symlink_to(workspace)
    done = person.ags("exec", "--", "sh", "-c", "pwd -P; touch made", cwd=link)
    assert done.stdout == f"{workspace}\n"
    assert (workspace / "made").exists()


@pytest.mark.parametrize("place", ["/", "/tmp", "~", "~/.ssh", "~/.config/ags"])
def test_a_place_that_holds_more_than_work_is_refused(person: Person, place: str) -> None:
    folder = Path(place.replace("~", str(person.home)))
    assert person.run_as(["mkdir", "-p", folder]).returncode == 0
    done = person.ags("exec", "--", "touch", "made", cwd=folder)
    assert "this directory as the workspace" in refused(done)
    assert not (folder / "made").exists()


def test_of_a_repository_that_is_the_home_a_run_gets_only_the_folder_it_is_in(
    person: Person,
) -> None:
    project = person.home / "project"
    person.run_as(["sh", "-c", "git init -q . && mkdir -p project"])
    try:
        person.ags("exec", "--", "sh", "-c", "touch made; touch ../made", cwd=project)
        assert (project / "made").exists() and not (person.home / "made").exists()
    finally:
        person.run_as(["rm", "-r", ".git", "project"])


def test_a_folder_that_was_removed_is_named(person: Person, workspace: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" exec -- true'
    done = person.run_as(["sh", "-c", script, person.checkout / "bin" / "ags"], cwd=workspace)
    assert "current directory" in refused(done)


def test_ones_own_folder_that_cannot_be_written_is_refused(user: Person, world: Path) -> None:
    """We cannot hold absent settings in place there; the run, its owner, could make it writable."""
    folder = new_folder(world, user)
    folder.chmod(0o555)
    assert "make its folder writable" in refused(user.ags("exec", "touch", "made", cwd=folder))
    assert list(folder.iterdir()) == []


def test_somebody_elses_folder_is_read(root: Person, user: Person, world: Path) -> None:
    folder = new_folder(world, root)
    (folder / "file").write_text("content\n")
    done = user.ags("exec", "--", "sh", "-c", "cat file; touch made", cwd=folder)
    assert done.stdout == "content\n"
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_as_root_in_somebody_elses_folder_the_work_is_theirs(
    root: Person, user: Person, world: Path
) -> None:
    folder = new_folder(world, user)
    assert user.run_as(["git", "init", "-q", folder]).returncode == 0
    script = "id -u; id -un; echo work >made; mkdir -p a/b; cat /etc/shadow; echo $HOME"
    done = root.ags("exec", "--", "sh", "-c", script, cwd=folder)
    assert done.stdout.splitlines() == [str(user.uid), user.name, str(user.home)]
    for path in ("made", "a", "a/b"):
        facts = (folder / path).stat()
        assert (facts.st_uid, facts.st_gid) == (user.uid, user.gid)
    assert user.run_as(["git", "status", "--short"], cwd=folder).stdout == "?? made\n"


def test_as_root_in_a_folder_of_roots_nobody_is_root_inside(root: Person, world: Path) -> None:
    folder = new_folder(world, root)
    done = root.ags("exec", "--", "sh", "-c", "id -u; touch made; cat /etc/shadow", cwd=folder)
    assert done.stdout == "1000\n"
    assert (folder / "made").stat().st_uid == 0


@as_user
@pytest.mark.parametrize(
    "name", ["a space", "a\nline", "a\ttab", "\x1b[31mred", "ü✓", "-x", "$(x)"]
)
def test_a_folder_of_any_name_can_be_worked_on(person: Person, workspace: Path, name: str) -> None:
    folder = workspace / name
    folder.mkdir()
    os.chown(folder, person.uid, person.gid)
    done = person.ags("exec", "--", "sh", "-c", "pwd; touch made", cwd=folder)
    assert (done.returncode, done.stdout) == (0, f"{folder}\n")
    assert (folder / "made").exists()


def test_a_folder_whose_name_is_no_text_can_be_worked_on(person: Person, workspace: Path) -> None:
    folder = workspace / os.fsdecode(b"\xff\xfe")
    folder.mkdir()
    os.chown(folder, person.uid, person.gid)
    done = person.ags("exec", "--", "touch", "made", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "made").exists()
