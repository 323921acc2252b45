"""`ags demo`: everything once, on a small project, with an agent that needs no model."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ags import records, runs
from ags.cli import options, start
from ags.cli.diff import whole
from ags.cli.invocation import Invocation, engine_of
from ags.cli.options import Flags
from ags.engine import Engine, Wish
from ags.errors import AgsError
from ags.events import read
from ags.model import Limits
from ags.paint import Paint, paint_for
from ags.prepare import limits_here
from ags.review import review
from ags.runs import Run
from ags.text import one_line
from ags.workspace import git

EXAMPLE = Path(__file__).parents[3] / "example"
GOAL = "Make greet() use the name, and test it"
MOST = 1000


@click.command(short_help="See it work: an agent without a model, on a small project.")
@click.pass_obj
def command(invocation: Invocation, /) -> int:
    """Run the built-in demo agent on a copy of the example project, in a sandbox.

    It reads the code, changes a file and adds one; and it tries what a hijacked agent would: to
    read ~/.ssh and to reach the network. Then you see what it did, and how to take it.
    """
    paint = paint_for(sys.stdout, invocation.environ)
    limits = limits_here(options.settings(invocation, Flags(), None))
    with engine_of(invocation) as engine:
        return asyncio.run(_demo(engine, limits, paint))


async def _demo(engine: Engine, limits: Limits, paint: Paint) -> int:
    name = _free_name(engine)
    project = await _project(engine, name)
    print(f"A small project is in {project}. The agent gets a copy of it, in a sandbox:\n")
    starting = engine.start(Wish(name, GOAL, "demo", project, limits))
    ended = await start.followed(engine, starting)
    if ended.result is None:
        start.summary(ended)
        return start.exit_code(ended)
    print(paint("\nWhat was blocked", "bold"))
    for line in _blocked(engine, ended):
        print(f"  {line}")
    print(paint("\nWhat changed", "bold"))
    for line in whole(await review(engine, name), paint):
        print(line)
    print(paint("\nWhat now", "bold"))
    print(f"  ags apply {name}   takes it into the project; `ags undo {name}` takes it back")
    print(f"  ags logs {name}    shows again what it did")
    print(f"  ags rm {name}      removes it all")
    return start.exit_code(ended)


def _free_name(engine: Engine) -> str:
    for number in range(1, MOST):
        name = "demo" if number == 1 else f"demo-{number}"
        try:
            engine.run_dir(name)
        except AgsError:
            if not (engine.ags_home / "demo" / name).exists():
                return name
    raise AgsError("find a name for the demo", cause="there are a thousand of them", hint="ags rm")


async def _project(engine: Engine, name: str) -> Path:
    project = engine.ags_home / "demo" / name
    try:
        records.private_folder(project.parent)
        shutil.copytree(EXAMPLE, project)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("copy the example", subject=project, cause=cause) from error
    await git.create(project, "A small project")
    return project


def _blocked(engine: Engine, run: Run) -> Iterator[str]:
    """What the agent tried and did not get, as it told itself."""
    asked = ""
    for event in read(runs.directory(engine.ags_home, run.id) / "events.jsonl"):
        if event.kind == "tool_call":
            asked = one_line(str(event.fields.get("input", "")))
        elif event.kind == "tool_result" and event.fields.get("ok") is False:
            tool, why = (one_line(str(event.fields.get(key, ""))) for key in ("tool", "output"))
            yield f"{tool} {asked}: {why}"
