"""A project and an agent's branch on it, for tests of what brings the two together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ags.workspace.apply import Applied, How, apply
from tests.workspace.repositories import Checkout, checkout, go

PERSON = {"user.name": "Ann", "user.email": "ann@example.org"}
BASE = "".join(f"{n}\n" for n in range(30))
BOTH: tuple[How, ...] = ("merge", "squash")


@pytest.fixture
def project(tmp_path: Path) -> Checkout:
    """A branch `main`, checked out and clean."""
    made = checkout(tmp_path / "project")
    made.write("file", BASE)
    made.write("other", "other\n")
    made.write(".gitignore", "*.log\n.env\n")
    made.commit("base")
    made.git("tag", "base")
    return made


def agent(
    project: Checkout, files: Mapping[str, str | bytes | None], branch: str = "agent--a"
) -> str:
    """What came back from an agent: a branch from the base, checked out nowhere."""
    work = project.folder.parent / f"agent-{branch}"
    project.git("worktree", "add", "-q", "-b", branch, str(work), "base")
    there = Checkout(work, project.environment)
    for name, content in files.items():
        if content is None:
            (work / name).unlink()
        else:
            there.write(name, content)
    commit = there.commit("agent's work")
    project.git("worktree", "remove", "--force", str(work))
    return commit


def bring(project: Checkout, into: str | None = None, how: How = "merge", **more: str) -> Applied:
    given = {"source": "agent--a", "base": "base", "message": "bring it in\n"} | more
    return go(apply(project.repository, into=into, how=how, person=PERSON, **given))  # type: ignore[arg-type]


def advance(project: Checkout, name: str = "other", content: str = "mine\n") -> str:
    project.write(name, content)
    return project.commit("person's work")


def is_clean(project: Checkout) -> bool:
    return project.git("status", "--porcelain") == b""
