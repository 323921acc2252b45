"""From the end of a run to its stored diff."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ags.backends.base import Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.errors import AgsError
from ags.model import Ending, Plan
from ags.prepare import Request
from ags.workspace import collect, diff, git, separate
from ags.workspace.collect import Work
from bench.measure import NS_PER_MS, Mark, Once, Peer, Row, Series, finish, interleaved
from bench.workshop import Workshop, without_settings, workshop
from bench.workspace import Site, found, make_project

ROUNDS = {1_000: 15, 10_000: 9, 50_000: 5}
QUICK_ROUNDS = {100: 2, 1_000: 2}
OURS, PEER = "collected", "git add -A && git commit"
CHANGED = 100
RATIO, MORE = 1.5, 150.0
"""What we owe: so many times the peer's time, and so many milliseconds more."""


def rows(*, quick: bool) -> Iterator[Row]:
    """The same changes in the same repository, collected and plainly committed."""
    for count, rounds in (QUICK_ROUNDS if quick else ROUNDS).items():
        figures = compare(count, rounds)
        yield Row(
            *("collect", f"{count:,} files, {CHANGED} of them changed", figures[OURS]),
            peer=Peer(PEER, figures[PEER]),
            mark=mark(figures[PEER]),
            note="committed and bundled inside, checked, stored as branch, diff and patch",
        )


def mark(theirs: Series) -> Mark:
    """Asked with the ratio, so that the milliseconds count in parts of the peer's time."""
    return Mark("≤ 1.5 × + 150 ms", lambda ratio: ratio <= RATIO + MORE / theirs.median)


def compare(count: int, rounds: int) -> dict[str, Series]:
    with workshop() as shop, asyncio.Runner() as runner:
        make_project(shop.workspace, count)
        finished = runner.run(_finished(Site(shop)))
        contenders: dict[str, Once] = {
            OURS: lambda: runner.run(finished.collect()),
            PEER: lambda: _plainly(shop, next(finished.site.numbers)),
        }
        return interleaved(contenders, rounds)


@dataclass(slots=True)
class Finished:
    """A run whose agent has ended."""

    work: Work
    plan: Plan
    site: Site

    async def collect(self) -> float:
        """Each time other changes on top of those before, and as a branch of its own."""
        number = next(self.site.numbers)
        change(self.work.workspace, number)
        work = replace(self.work, branch=f"agent--bench-{number}")
        output, patch = (self.site.state / f"{number}.{kind}" for kind in ("bundle", "patch"))
        begun = time.monotonic_ns()
        came = await collect.collect(work, _run_inside, self.plan, output=output)
        await diff.write_patch(work.project, work.base, came.commit, patch)
        stored = await diff.diff(work.project, work.base, came.commit)
        taken = time.monotonic_ns() - begun
        if len(stored.files) != CHANGED:
            raise AgsError("collect", cause=f"{len(stored.files)} files instead of {CHANGED}")
        self.work = replace(work, base=came.commit)
        return taken / NS_PER_MS


async def _finished(site: Site) -> Finished:
    project, base = await found(site)
    workspace = site.worktrees / "bench"
    building = site.build(project, base, "bench")
    made = await separate.create_beside(
        building, project, name="bench", base=base, worktrees=site.worktrees
    )
    await asyncio.sleep(1.1)
    separate.settle(made.git_dir)
    request = Request(
        run="bench", command=("true",), cwd=workspace, workspace=workspace, git=made.steps
    )
    with await site.shop.preparer.prepare(request) as prepared:
        person = await git.identity(site.state)
        work = Work(project, workspace, made.git_dir, "agent--bench", base, person)
        return Finished(work, prepared.plan, site)


async def _run_inside(plan: Plan, stdin: int, stdout: int, stderr: int) -> Ending:
    sandbox = await Bubblewrap().launch(plan, Streams(stdin, stdout, stderr))
    await sandbox.release()
    return await sandbox.wait()


def change(folder: Path, number: int) -> None:
    """The same files each time, spread over the whole project."""
    files = sorted(folder.glob("part*/*/*.txt"))
    for file in files[:: len(files) // CHANGED][:CHANGED]:
        file.write_text(f"change {number}\n" * 20)


def _plainly(shop: Workshop, number: int) -> float:
    change(shop.workspace, number)
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
    env = without_settings(os.environ)
    begun = time.monotonic_ns()
    finish(("git", "add", "-A"), cwd=shop.workspace, env=env)
    finish(("git", *who, "commit", "--quiet", "-m", "work"), cwd=shop.workspace, env=env)
    return (time.monotonic_ns() - begun) / NS_PER_MS
