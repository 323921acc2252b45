"""Ctrl-C while a run is being begun: it is heard, whichever side of the beginning it comes on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ags import runs
from ags.cli import interactive, start
from ags.engine import Engine, Wish
from ags.model import Limits
from ags.runs import Held
from ags.workspace.git import Repository
from tests.cli.desk import Desk
from tests.cli.test_stop import ENDLESS
from tests.runs.examples import create


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class JustBegun(Engine):
    def _supervise(self, held: Held) -> None:
        super()._supervise(held)
        interrupt()


class NotYet(Engine):
    async def _project(self, folder: Path) -> Repository:
        interrupt()
        await asyncio.sleep(3600)
        return await super()._project(folder)


class Waiting(Engine):
    async def answering(self, run_dir: Path) -> None:
        interrupt()
        await asyncio.sleep(3600)


def made(kind: type[Engine], desk: Desk) -> Engine:
    environ = desk.environment()
    return kind(environ, Path(environ["HOME"]), desk.state)


def accompanied(engine: Engine, desk: Desk) -> int:
    wish = Wish("fix-login", ENDLESS, "shell", desk.project.folder, Limits())
    return asyncio.run(start.accompany(engine, engine.start(wish)))


def test_right_after_it_has_begun_it_stops_the_run(desk: Desk) -> None:
    assert accompanied(made(JustBegun, desk), desk) == start.INTERRUPTED
    assert "fix-login  stopped" in desk.ags("show", "fix-login").out


def test_before_that_there_is_no_run(desk: Desk) -> None:
    engine = made(NotYet, desk)
    with pytest.raises(KeyboardInterrupt):
        accompanied(engine, desk)
    assert engine.listing().runs == ()


def test_before_there_is_a_terminal_one_is_told_that_the_run_goes_on(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    with create(desk.state, state="preparing") as held:
        run_dir = runs.directory(desk.state, held.run.id)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(interactive.visit(made(Waiting, desk), run_dir))
    assert "fix-login goes on: `ags attach fix-login`" in capsys.readouterr().err
