"""Git inside: the person's name, repositories of one's own, and the person's to look at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.people import Person
from tests.tools.conftest import Inside


@pytest.fixture(autouse=True)
def identity(person: Person) -> None:
    for key, value in {"user.name": 'Ada "the\\" Löve', "user.email": "ada@example.org"}.items():
        done = person.run_as(["git", "config", "--global", key, value])
        assert done.returncode == 0, done.stderr


@pytest.fixture
def repository(person: Person, workspace: Path) -> Path:
    script = (
        "git init -q -b main . && echo one >file && git add file && git commit -qm first"
        " && echo two >>file && git commit -qam second && git branch side HEAD~"
    )
    done = person.run_as(["sh", "-euc", script], cwd=workspace)
    assert done.returncode == 0, done.stderr
    return workspace


def test_a_commit_inside_has_the_persons_name(inside: Inside) -> None:
    inside("git init -q sub && cd sub && git commit -q --allow-empty -m x")
    told = inside("git -C sub log --format='%an <%ae>'").stdout
    assert told == 'Ada "the\\" Löve <ada@example.org>\n'


def test_a_repository_below_the_workspace_takes_all_of_git(inside: Inside) -> None:
    done = inside(
        """
        git init -q -b main origin && cd origin
        echo base >file && git add file && git commit -qm base
        cd .. && git clone -q origin copy && cd copy
        git switch -qc topic && echo topic >topic && git add topic && git commit -qm topic
        git switch -q main && echo more >>file && git commit -qam more
        git merge -q --no-edit topic && test -e topic
        echo unsaved >>file && git stash -q && test -z "$(git status --short)"
        git stash pop -q && git status --short
        git tag v1 HEAD && git -c gc.auto=0 gc -q && git fsck --strict --no-dangling
        git push -q origin topic && git -C ../origin branch --format='%(refname:short)'
        git worktree add -q ../tree v1 && cat ../tree/file
        git restore file && git rebase -q topic main && git log --oneline | wc -l
        """
    )
    assert done.stdout.split() == ["M", "file", "main", "topic", "base", "more", "3"]


def test_the_persons_repository_can_be_looked_at(inside: Inside, repository: Path) -> None:
    (repository / "new").write_text("new\n")
    done = inside(
        "echo three >>file; git status --short; git log --format=%s; git diff --stat side main;"
        " git diff | tail -n 1; git show side:file; git blame -s file | wc -l; git branch"
    )
    assert done.stdout.splitlines() == [
        " M file", "?? new", "second", "first", " file | 1 +", " 1 file changed, 1 insertion(+)",
        "+three", "one", "3", "* main", "  side",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        "git commit -qam third",
        "git add new",
        "git stash",
        "git branch third",
        "git config alias.x y",
        "git gc",
        "git tag third",
        "rm -rf .git",
        "mv .git elsewhere",
    ],
)
def test_the_persons_repository_cannot_be_changed(
    inside: Inside, repository: Path, person: Person, command: str
) -> None:
    (repository / "new").write_text("new\n")
    before = _content(repository / ".git")
    inside(f"echo three >>file; {command} >&2 || echo refused")
    assert _content(repository / ".git") == before
    # The same outside, to show that it is the wall that holds it.
    person.run_as(["sh", "-c", f"echo three >>file; {command}"], cwd=repository)
    assert _content(repository / ".git") != before


def _content(folder: Path) -> dict[str, bytes]:
    files = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
