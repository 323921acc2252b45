"""A workspace of its own for a run, on repositories of several sizes."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ags.workspace import git, private, separate, spare
from ags.workspace.git import Repository
from ags.workspace.private import Private
from bench.measure import NS_PER_MS, Once, Peer, Row, Series, at_most, finish, interleaved
from bench.workshop import Workshop, without_settings, workshop

ROUNDS = {1_000: 15, 10_000: 7, 50_000: 3}
QUICK_ROUNDS = {100: 2, 1_000: 2}
OURS, READY, MOVED = "checked out", "kept ready", "kept ready of another commit"
FINDING = "finding the repository and the commit"
WORKTREE, CLONE = "git worktree add", "git clone --local"
NEVER_SLOWER = at_most(1.05, "never slower (± 5 %)")
FLAT = at_most(1.25, "flat: ≤ 1.25 ×")
CHANGED = 100


def rows(*, quick: bool) -> Iterator[Row]:
    """Each size beside the peers, and the largest beside the smallest."""
    ready: dict[int, Series] = {}
    for count, rounds in (QUICK_ROUNDS if quick else ROUNDS).items():
        figures = compare(count, rounds)
        ready[count] = figures[READY]
        for case, peer in itertools.product((OURS, READY, MOVED), (WORKTREE, CLONE)):
            yield Row(
                *("workspace", f"{count:,} files, {case}", figures[case]),
                peer=Peer(peer, figures[peer]),
                mark=NEVER_SLOWER,
                note=f"{FINDING}: {figures[FINDING].median:.0f} ms before",
            )
    least, most = min(ready), max(ready)
    peer_ = Peer(f"{least:,} files, {READY}", ready[least])
    yield Row("workspace", f"{most:,} files, {READY}", ready[most], peer=peer_, mark=FLAT)


def compare(count: int, rounds: int) -> dict[str, Series]:
    """Everyone on one repository of so many files."""
    with workshop() as shop, asyncio.Runner() as runner:
        make_project(shop.workspace, count)
        site = Site(shop)
        contenders: dict[str, Once] = {
            OURS: lambda: runner.run(_checked_out(site)),
            READY: lambda: runner.run(_kept_ready(site, "HEAD")),
            MOVED: lambda: runner.run(_kept_ready(site, "HEAD~")),
            FINDING: lambda: runner.run(_finding(site)),
            WORKTREE: lambda: _worktree(shop),
            CLONE: lambda: _clone(shop),
        }
        return interleaved(contenders, rounds)


def make_project(folder: Path, count: int) -> None:
    """A repository of so many small files, some of which have changed in the last commit."""
    env = without_settings(os.environ)
    finish(("git", "init", "--quiet", "--initial-branch=main"), cwd=folder, env=env)
    with subprocess.Popen(
        ("git", "fast-import", "--quiet"), cwd=folder, env=env, stdin=subprocess.PIPE
    ) as importer:
        assert importer.stdin is not None
        importer.stdin.write(_commit("first", file_names(count)))
        importer.stdin.write(_commit("second", file_names(count)[-CHANGED:]))
    finish(("git", "reset", "--quiet", "--hard"), cwd=folder, env=env)


def file_names(count: int) -> list[str]:
    """Fifty in a part of the project, as in many a real one."""
    return [f"part{number // 50}/section{number % 7}/file{number}.txt" for number in range(count)]


def _commit(message: str, names: Sequence[str]) -> bytes:
    head = "commit refs/heads/main\ncommitter bench <bench@localhost> 0 +0000\n"
    parts = [f"{head}data {len(message)}\n{message}\n"]
    for name in names:
        content = f"{message}: the content of {name}\n" * 20
        parts.append(f"M 100644 inline {name}\ndata {len(content)}\n{content}\n")
    return "".join(parts).encode()


@dataclass(frozen=True, slots=True)
class Site:
    """Where workspaces of the project in a workshop are made."""

    shop: Workshop
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def state(self) -> Path:
        return self.shop.workspace.parent

    @property
    def worktrees(self) -> Path:
        return self.state / "worktrees"

    def build(
        self, project: Repository, base: str, name: str
    ) -> Coroutine[object, object, Private]:
        return private.build(
            project,
            into=self.state / f"git-{name}",
            branch=f"agent--{name}",
            base=base,
            run=name,
            workspace=self.worktrees / name,
            home=self.state,
        )

    def remove(self, name: str) -> None:
        separate.remove(self.worktrees, name)
        shutil.rmtree(self.state / f"git-{name}")


Make = Callable[[str], Awaitable[Private]]
"""A workspace by that name, with its git directory."""


async def made(site: Site, project: Repository, make: Make) -> float:
    """From a repository that is known to a workspace that a sandbox can be planned around."""
    name = f"bench-{next(site.numbers)}"
    begun = time.monotonic_ns()
    built = await make(name)
    await separate.wants_filters(project, site.worktrees / name, built.git_dir)
    taken = time.monotonic_ns() - begun
    site.remove(name)
    return taken / NS_PER_MS


async def _checked_out(site: Site) -> float:
    project, base = await found(site)

    async def make(name: str) -> Private:
        building = site.build(project, base, name)
        return await separate.create_beside(
            building, project, name=name, base=base, worktrees=site.worktrees
        )

    return await made(site, project, make)


async def _kept_ready(site: Site, revision: str) -> float:
    spares = site.state / "spares"
    project, base = await found(site)
    earlier = await git.resolve(project, revision)
    await spare.prepare(project, base=earlier, spares=spares)
    await asyncio.sleep(1.1)  # between two runs there is more; git goes by whole seconds

    async def make(name: str) -> Private:
        building = site.build(project, base, name)
        return await spare.create(
            building, project, name=name, base=base, worktrees=site.worktrees, spares=spares
        )

    return await made(site, project, make)


async def found(site: Site) -> tuple[Repository, str]:
    project = await git.find(site.shop.workspace)
    return project, await git.resolve(project, "HEAD")


async def _finding(site: Site) -> float:
    begun = time.monotonic_ns()
    await found(site)
    return (time.monotonic_ns() - begun) / NS_PER_MS


def _worktree(shop: Workshop) -> float:
    place = shop.workspace.parent / "peer"
    taken = _git(shop, "worktree", "add", "--quiet", "-b", "peer", str(place))
    for words in (("worktree", "remove", "--force", str(place)), ("branch", "-q", "-D", "peer")):
        _git(shop, *words)
    return taken


def _clone(shop: Workshop) -> float:
    place = shop.workspace.parent / "peer"
    taken = _git(shop, "clone", "--quiet", "--local", ".", str(place))
    shutil.rmtree(place)
    return taken


def _git(shop: Workshop, *words: str) -> float:
    begun = time.monotonic_ns()
    finish(("git", *words), cwd=shop.workspace, env=without_settings(os.environ))
    return (time.monotonic_ns() - begun) / NS_PER_MS
