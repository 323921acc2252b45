"""Names for runs that nobody named, and several attempts at one goal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags import wishes
from ags.engine import Engine
from ags.errors import AgsError, Unfit
from ags.workspace import git
from tests.runs.examples import create
from tests.workspace.repositories import Checkout, checkout


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine({}, tmp_path, tmp_path / "ags")


@pytest.fixture
def project(tmp_path: Path) -> Checkout:
    made = checkout(tmp_path / "project")
    made.write("a.txt", "hello\n")
    made.commit("first")
    return made


def names(
    engine: Engine, project: Checkout, goal: str, wanted: str | None = None, attempts: int = 1
) -> tuple[str, ...]:
    async def made() -> tuple[str, ...]:
        found = await git.find(project.folder)
        return await wishes.names(engine, found, wanted, goal, attempts)

    return asyncio.run(made())


@pytest.mark.parametrize(
    ("goal", "name"),
    [
        ("Fix the login page", "fix-login-page"),
        ("please make it faster, and smaller, and nicer, and better, and cheaper",
         "make-faster-smaller-nicer-better"),
        ("日本語", "run"),
        ("", "run"),
        ("x" * 500, "run"),
        ("--force; rm -rf /", "force-rm-rf"),
        ("e" * 39 + " tail", "e" * 39),
    ],
)  # fmt: skip
def test_a_name_is_made_of_the_goal(
    engine: Engine, project: Checkout, goal: str, name: str
) -> None:
    assert names(engine, project, goal) == (name,)


def test_a_name_that_is_taken_is_not_made_again(engine: Engine, project: Checkout) -> None:
    create(engine.ags_home, name="fix-login").close()
    assert names(engine, project, "fix login") == ("fix-login-v2",)


def test_a_branch_that_was_left_behind_takes_its_name(engine: Engine, project: Checkout) -> None:
    project.git("branch", "agent--fix-login")
    assert names(engine, project, "fix login") == ("fix-login-v2",)
    assert names(engine, project, "fix logout") == ("fix-logout",)


def test_attempts_are_numbered(engine: Engine, project: Checkout) -> None:
    assert names(engine, project, "fix it", "fix", 3) == ("fix-1", "fix-2", "fix-3")
    create(engine.ags_home, name="try-2").close()
    assert names(engine, project, "try", None, 2) == ("try-v2-1", "try-v2-2")


def test_a_wanted_name_is_taken_as_it_is_or_not_at_all(engine: Engine, project: Checkout) -> None:
    assert names(engine, project, "x", "fix") == ("fix",)
    create(engine.ags_home, name="fix-2").close()
    with pytest.raises(AgsError, match="has it"):
        names(engine, project, "x", "fix", 2)
    with pytest.raises(Unfit):
        names(engine, project, "x", "../fix")


@pytest.mark.parametrize("attempts", [0, -1, 21])
def test_so_many_attempts_are_not_made(engine: Engine, project: Checkout, attempts: int) -> None:
    with pytest.raises(Unfit, match="attempts"):
        names(engine, project, "x", "fix", attempts)


@pytest.mark.parametrize("model", ["", "-x", "--help", "a\nb", "a\x1b[31m"])
def test_a_model_is_never_read_as_an_option(model: str) -> None:
    with pytest.raises(Unfit):
        wishes.model(model)
    assert wishes.model("opus-5") == "opus-5"
