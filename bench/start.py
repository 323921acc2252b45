"""From the library call to the first instruction inside."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ags import plan as plans
from ags.backends import bwrap
from ags.backends.base import Streams
from ags.backends.bubblewrap import FIRST_FILE, Bubblewrap, render
from ags.egress.fence import Terms
from ags.egress.load import from_flags
from ags.egress.policy import merge
from ags.errors import AgsError
from ags.model import Bind, Cover, Dev, Link, MountStep, Plan, Proc, Text
from ags.network import Network
from ags.prepare import Request
from bench import stopwatch
from bench.measure import NS_PER_MS, Missing, Once, Peer, Row, Series, at_most, interleaved
from bench.peers import Program, containers
from bench.workshop import Workshop, make_repository, workshop

ROUNDS, QUICK_ROUNDS = 40, 5
SEALED, WHOLE = "launch and release", "prepare, launch and release"
FENCED = "network, launch, open and release"
FENCED_WHOLE = "network, prepare, launch, open and release"
SAME, FEWEST = "bwrap, same binds", "bwrap, fewest binds"
FENCED_SAME = f"{SAME} as with a network"
MARKS = {SAME: at_most(3, "≤ 3 ×"), "docker run": at_most(0.1, "≤ 1/10")}
ALLOWED = "allowed.example"

Start = Callable[[int], Awaitable[None]]
"""Runs the stopwatch to its end, with that descriptor as its output."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Ours on a plan that is made already, and with the making of it, beside each peer.

    Without a network, and with one: its CA made, its listeners open and checked.
    """
    with workshop() as shop, asyncio.Runner() as runner, containers() as engines:
        make_repository(shop.workspace, {"README.md": "A small project.\n"})
        program = stopwatch.write(shop.workspace)
        request = shop.request(str(program))
        fenced = replace(request, network=_network(shop).plan())
        with (
            runner.run(shop.preparer.prepare(request)) as prepared,
            runner.run(shop.preparer.prepare(fenced)) as with_network,
        ):
            plan, other = prepared.plan, with_network.plan
            binary = runner.run(bwrap.choose(plan.identity.host_uid))
            contenders = {
                SEALED: _ours(runner, lambda output: _launch(plan, output)),
                FENCED: _ours(runner, lambda output: _fence(_network(shop), other, output)),
                WHOLE: _ours(runner, lambda output: _prepare_and_launch(shop, request, output)),
                FENCED_WHOLE: _ours(
                    runner, lambda output: _prepare_and_fence(shop, request, output)
                ),
                SAME: _bare(binary, plan),
                FENCED_SAME: _bare(binary, other),
                FEWEST: _bare(binary, fewest_binds(plan)),
            }
            for name, engine in engines.items():
                if isinstance(engine, Program):
                    contenders[name] = _contained(engine)
            figures = interleaved(contenders, QUICK_ROUNDS if quick else ROUNDS)
    yield from _compared(figures, engines, len(plan.mounts), len(other.mounts))


def _compared(
    figures: dict[str, Series],
    engines: dict[str, Program | Missing],
    mounts: int,
    with_network: int,
) -> Iterator[Row]:
    def row(case: str, peer: str, figure: Series | Missing, note: str = "") -> Row:
        mark = MARKS.get(peer) if case in (SEALED, FENCED) else None
        return Row("start", case, figures[case], peer=Peer(peer, figure), mark=mark, note=note)

    same = {SEALED: figures[SAME], FENCED: figures[FENCED_SAME]}
    yield row(SEALED, SAME, same[SEALED], f"{mounts} mount steps")
    yield row(FENCED, SAME, same[FENCED], f"{with_network} mount steps")
    for case in same:
        yield row(case, FEWEST, figures[FEWEST])
        for name, engine in engines.items():
            if isinstance(engine, Missing):
                yield row(case, name, engine)
            else:
                yield row(case, name, figures[name], " ".join(engine.flags))
    yield row(WHOLE, SAME, same[SEALED])
    yield row(FENCED_WHOLE, SAME, same[FENCED])


def fewest_binds(plan: Plan) -> Plan:
    """What a person would type who only wants programs to run: the system and the workspace."""

    def wanted(step: object) -> bool:
        system = isinstance(step, Link | Proc | Dev) and "etc" not in step.target.parts
        return system or (isinstance(step, Bind) and (step.source == Path("/usr") or step.writable))

    return replace(plan, mounts=tuple(step for step in plan.mounts if wanted(step)))


def _network(shop: Workshop) -> Network:
    """With the person's own roots, as a run has it, and one name that is allowed."""
    terms = Terms(merge([from_flags((ALLOWED,))]))
    return Network("bench", terms, environ=shop.environ, record=lambda line: None)


async def _launch(plan: Plan, output: int, network: Network | None = None) -> None:
    with _nothing() as nothing:
        # A new backend each time, as each run has a process of its own that begins with one.
        sandbox = await Bubblewrap().launch(plan, Streams(nothing, output, nothing))
        if network is not None:
            await network.open(sandbox)
        await sandbox.release()
        ending = await sandbox.wait()
    _check("a sandbox", ending.code)


async def _fence(network: Network, plan: Plan, output: int) -> None:
    """On a plan of another network: what this one puts inside is exchanged."""
    network.get_ready()
    await _launch_fenced(network, with_trust(plan, network.plan()), output)


async def _launch_fenced(network: Network, plan: Plan, output: int) -> None:
    try:
        await _launch(plan, output, network)
    finally:
        await network.close()


def with_trust(plan: Plan, network: plans.Network) -> Plan:
    """The plan, with the CAs of this network."""

    def exchanged(step: MountStep) -> MountStep:
        if isinstance(step, Cover):
            return replace(step, content=network.bundle)
        if isinstance(step, Text) and step.target in (plans.BUNDLE, plans.TRUSTSTORE):
            mine = network.bundle if step.target == plans.BUNDLE else network.truststore
            return replace(step, content=mine)
        return step

    return replace(plan, mounts=tuple(map(exchanged, plan.mounts)))


async def _prepare_and_launch(shop: Workshop, request: Request, output: int) -> None:
    with await shop.preparer.prepare(request) as prepared:
        await _launch(prepared.plan, output)


async def _prepare_and_fence(shop: Workshop, request: Request, output: int) -> None:
    network = _network(shop)
    network.get_ready()
    wanted = replace(request, network=network.plan())
    with await shop.preparer.prepare(wanted) as prepared:
        await _launch_fenced(network, prepared.plan, output)


def _ours(runner: asyncio.Runner, start: Start) -> Once:
    async def begun(output: int) -> int:
        now = time.monotonic_ns()
        await start(output)
        return now

    return lambda: _clocked(lambda output: runner.run(begun(output)))


def _bare(binary: str, plan: Plan) -> Once:
    """The same mounts and namespaces from bwrap alone: no filter, limits, gate or check of ours."""
    rendered = render(plan)
    options = without(rendered.arguments, "--seccomp", "--info-fd")
    argv = (binary, *options, "--", *plan.command)

    def once() -> float:
        with _files(rendered.files) as files:
            return _clocked(lambda output: _spawn(argv, {}, output, files))

    return once


def _contained(program: Program) -> Once:
    return lambda: _clocked(lambda output: _spawn(program.argv, os.environ, output, {}))


def without(arguments: Sequence[str], *options: str) -> list[str]:
    """Take out options that are followed by one value."""
    kept = list(arguments)
    for option in options:
        place = kept.index(option)
        del kept[place : place + 2]
    return kept


def _clocked(start: Callable[[int], int]) -> float:
    """`start` is told where the stopwatch is to write, and returns when it began."""
    told, tells = os.pipe()
    with open(told, "rb") as output:
        try:
            begun = start(tells)
        finally:
            os.close(tells)
        return (stopwatch.reading(output.read()) - begun) / NS_PER_MS


def _spawn(
    argv: Sequence[str], environ: Mapping[str, str], output: int, files: Mapping[int, int]
) -> int:
    with _nothing() as nothing:
        wiring = {0: nothing, 1: output, **files}
        actions = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in wiring.items()]
        begun = time.monotonic_ns()
        pid = os.posix_spawn(argv[0], tuple(argv), environ, file_actions=actions)
        _check(argv[0], os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return begun


def _check(where: str, code: int) -> None:
    if code != 0:
        raise AgsError("run the stopwatch", subject=where, cause=f"exit code {code}")


@contextlib.contextmanager
def _nothing() -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _files(contents: Sequence[bytes]) -> Iterator[dict[int, int]]:
    """What bwrap reads by descriptor, in ours that are higher than any of theirs (theirs: ours)."""
    with contextlib.ExitStack() as stack:
        files = {}
        for number, content in enumerate(contents):
            with open(os.memfd_create("bench"), "w+b") as file:
                file.write(content)
                file.seek(0)
                ours = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, FIRST_FILE + len(contents))
            stack.callback(os.close, ours)
            files[FIRST_FILE + number] = ours
        yield files
