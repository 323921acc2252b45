"""What work costs inside: the same commands in a sandbox and out of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ags import proc
from ags.backends.base import Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.errors import AgsError
from ags.model import Plan
from bench.measure import NS_PER_MS, Missing, Once, Peer, Row, at_most, finish, interleaved
from bench.workshop import make_repository, without_settings, workshop

ROUNDS, QUICK_ROUNDS = 25, 3
MARK = at_most(1.05, "≤ 1.05 ×")

# A byte before the work and one after it, so that the start of the sandbox is not counted.
FRAME = "printf b; {{ {work}; }} >/dev/null || exit; printf e"


@dataclass(frozen=True, slots=True)
class Work:
    """Something a person does all day."""

    name: str
    program: str
    script: str
    """For a shell in the workspace; `$0` is the path of `program`."""
    prepare: Callable[[Path], None] = lambda folder: None


def _sources(folder: Path) -> None:
    head = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    for number in range(4):
        (folder / f"unit{number}.c").write_text(head + "".join(map(_function, range(40))))


def _function(number: int) -> str:
    return (
        f"int work{number}(const char *text, int n) {{\n"
        f"  int sum = {number};\n"
        "  for (int i = 0; i < n; i++) sum = sum * 31 + text[i % (int)(strlen(text) + 1)];\n"
        '  if (sum == 42) printf("%d %s\\n", sum, text);\n'
        "  return abs(sum);\n}\n"
    )


def _repository(folder: Path) -> None:
    names = [f"part{number % 60}/section{number % 7}/file{number}" for number in range(3000)]
    make_repository(folder, {name: f"the content of {name}\n" * 20 for name in names})
    # Git reads files as young as its index anew each time, until a later look settles them.
    time.sleep(1.1)
    finish(("git", "status"), cwd=folder, env=without_settings(os.environ))


WORKS = (
    Work(
        "compile 4 C files",
        "gcc",
        'for unit in *.c; do "$0" -pipe -O1 -c $unit -o object || exit; done',
        _sources,
    ),
    Work(
        "git status 10 times, 3,000 files",
        "git",
        'n=0; while [ $n -lt 10 ]; do "$0" status --porcelain || exit; n=$((n+1)); done',
        _repository,
    ),
    Work(
        "create, stat and remove 1,000 files",
        "rm",
        "mkdir storm; n=0; while [ $n -lt 1000 ]; do : >storm/$n; n=$((n+1)); done;"
        ' for file in storm/*; do [ ! -s $file ] || exit; done; "$0" -r storm',
    ),
    Work(
        "start Python 15 times",
        "python3",
        'n=0; while [ $n -lt 15 ]; do "$0" -I -c pass || exit; n=$((n+1)); done',
    ),
)


def rows(*, quick: bool) -> Iterator[Row]:
    """Each kind of work on a workspace of its own."""
    for work in WORKS:
        program = proc.find(work.program)
        if program is None:
            missing = Missing(f"{work.program} is not installed")
            yield Row("inside", work.name, missing, peer=Peer("outside", missing), mark=MARK)
        else:
            yield compare(work, program, QUICK_ROUNDS if quick else ROUNDS)


def compare(work: Work, program: str, rounds: int) -> Row:
    """One kind of work, inside and outside by turns."""
    argv = ("/bin/sh", "-c", FRAME.format(work=work.script), program)
    with workshop() as shop, asyncio.Runner() as runner:
        work.prepare(shop.workspace)
        with runner.run(shop.preparer.prepare(shop.request(*argv))) as prepared:
            plan = prepared.plan
            # The home inside is empty, so the one outside has to be.
            environ = dict(plan.environment) | {"HOME": str(shop.workspace.parent)}
            contenders: dict[str, Once] = {
                "inside": lambda: runner.run(_inside(plan)),
                "outside": lambda: _outside(plan, environ),
            }
            figures = interleaved(contenders, rounds)
    peer = Peer("outside", figures["outside"])
    return Row("inside", work.name, figures["inside"], peer=peer, mark=MARK)


async def _inside(plan: Plan) -> float:
    told, tells = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        try:
            sandbox = await Bubblewrap().launch(plan, Streams(nothing, tells, 2))
        finally:
            os.close(tells)
        await sandbox.release()
        try:
            begun = await _moment(told)
            ended = await _moment(told)
        finally:
            await sandbox.wait()
    finally:
        os.close(nothing)
        os.close(told)
    return (ended - begun) / NS_PER_MS


async def _moment(told: int) -> int:
    # Not a plain read: the watch over the sandbox runs meanwhile, and what it takes counts.
    await proc.readable(told)
    return _read(told)


def _outside(plan: Plan, environ: Mapping[str, str]) -> float:
    with subprocess.Popen(
        plan.command,
        cwd=plan.cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        begun, ended = _read(process.stdout.fileno()), _read(process.stdout.fileno())
    return (ended - begun) / NS_PER_MS


def _read(told: int) -> int:
    if not os.read(told, 1):
        raise AgsError("measure work", cause="it ended in an error")
    return time.monotonic_ns()
