"""What a person can ask for, be it by the command line or in a browser: values in, values out.

It has no process of its own: each run has a supervisor, and whatever stands here works as well
after a crash of any of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ags import places, proc, runs
from ags.agents import agent
from ags.config.load import load, settings_folder
from ags.control import client
from ags.control.wire import SOCKET
from ags.errors import AgsError, Unfit
from ags.frozen import frozen
from ags.kernel import cgroup
from ags.model import KIB, Limits
from ags.prepare import Preparer, Request
from ags.runs import Held, Mode, Order, Run, Turn
from ags.shelf import Shelf
from ags.store import Store
from ags.supervisor import process
from ags.supervisor.ground import ground
from ags.supervisor.site import site
from ags.workspace import git, inplace, private, separate, spare, temporary
from ags.workspace.git import Repository

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds for a run to end in order, before the person is told that it takes long."""
UNPIN_TURNS = 8
ENDING = 5.0
"""Seconds in which a run that does not answer any more should be gone."""
LEAVING = 0.5
"""Seconds for somebody to let go of a run's lock."""
LAST_WORD = 10.0
"""The same for a run that has ended: its record is seen before a slow disk has it, and until then
its supervisor has the lock."""
ASKED = 0.1
"""Seconds: whoever only asks whether a run is tended has its lock for a moment."""
CHANGING = 10.0
"""Seconds to wait for another ags that is just making or removing a run."""
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.2
MOST_GOAL = 120 * KIB


@frozen
class Wish:
    """A run to be."""

    name: str
    goal: str
    agent: str
    folder: Path
    """Anywhere in the project."""
    limits: Limits
    base: str = "HEAD"
    mode: Mode = "separate"
    group: str = ""
    order: Order = Order()
    id: str = ""
    """For who has to know the run again, however its start ends; else one is made."""


class Engine(Shelf):
    """Everything hangs on this: the person's environment, and their state folder."""

    def __init__(
        self,
        environ: Mapping[str, str],
        home: Path,
        ags_home: Path,
        *,
        store: Store | None = None,
        supervisor: Callable[[Path, str], tuple[str, ...]] = process.command,
    ) -> None:
        super().__init__(ags_home, store=store)
        self.environ = environ
        self.home = home
        self._supervisor = supervisor

    def sweep(self) -> None:
        """And clear up what was in the hands of those that died."""
        temporary.sweep()
        super().sweep()

    async def hold(self, name: str) -> Held:
        """Take the lock of a run that nobody tends, or is about to leave."""
        run_dir, waited = self.run_dir(name), 0.0
        patience = LAST_WORD if runs.load(run_dir).is_final else LEAVING
        while runs.is_alive(run_dir) and waited < patience:
            await asyncio.sleep(FIRST_LOOK)
            waited += FIRST_LOOK
        return runs.hold(run_dir, patience=ASKED)

    async def start(self, wish: Wish) -> Run:
        """A new run with a supervisor of its own; returns as soon as that is there."""
        agent(wish.agent)
        self.sweep()
        runs.check_free(self.ags_home, wish.name)
        at = runs.now()
        made = Run(
            id=wish.id or runs.new_id(at),
            name=wish.name,
            agent=wish.agent,
            goal=wish.goal,
            mode=wish.mode,
            project=wish.folder,
            created=at,
            group=wish.group,
            order=wish.order,
            limits=wish.limits,
        )
        self._check(made)
        project = None
        if wish.mode == "separate":
            project = await self._project(wish.folder)
            made = await self._based(made, wish, project)
        places.make_state_folder(self.ags_home)
        with await _in_turn(partial(runs.create, self.ags_home, made)) as held:
            if project is not None and made.base is not None:
                # At once, lest a garbage collection be quicker.
                await private.pin(project, made.id, made.base)
            self._supervise(held)
        return made

    def _check(self, run: Run) -> None:
        """Refuse now what the supervisor would have to refuse: then there is no run at all."""
        _check_goal(run.goal, may_be_empty=run.mode != "separate")
        order = run.order
        settings = load(order.config, self.environ, self.home)
        folder = settings_folder(self.environ, self.home)
        request = Request(
            run=run.id,
            command=(),
            cwd=run.project,
            mounts=tuple((each.flag, each.config) for each in order.mounts),
            workspace=self.ags_home / "worktrees" / run.name if run.mode == "separate" else None,
        )
        Preparer(self.environ, self.home, self.ags_home, settings, folder).check(request)

    async def _based(self, run: Run, wish: Wish, project: Repository) -> Run:
        base = await git.resolve(project, wish.base)
        branch = f"agent--{run.name}"
        if await _commit_of(project, branch) is not None:
            raise AgsError(
                "start a run of this name",
                subject=run.name,
                cause=f"the project has a branch {branch} already",
                hint=f"choose another name, or delete it: git branch -D {branch}",
            )
        top = project.work_tree or project.git_dir
        inner = PurePosixPath(".")
        if project.work_tree is not None:
            inner = PurePosixPath(wish.folder.resolve().relative_to(top.resolve()))
        order = replace(run.order, folder=inner)
        return replace(run, project=top, base=base, branch=branch, order=order)

    async def _project(self, folder: Path) -> Repository:
        try:
            return await git.find(folder)
        except git.NotARepository as error:
            error.hint = error.hint or "go to a repository, or name one with --project DIR"
            raise

    def _supervise(self, held: Held) -> None:
        """Hand the lock over: from here on the run is its supervisor's."""
        # One of a supervisor that was killed: whoever asks must wait for the new one instead.
        (held.run_dir / SOCKET).unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        log = os.open(held.run_dir / "supervisor.log", flags, 0o600)
        try:
            proc.spawn(
                self._supervisor(self.ags_home, held.run.id),
                env=self.environ | {"HOME": str(self.home)},  # type: ignore[operator]
                descriptors={0: nothing, 1: log, 2: log, process.LOCK: held.descriptor},
            )
        finally:
            os.close(nothing)
            os.close(log)

    async def stop(self, name: str, *, at_once: bool = False, patience: float = PATIENCE) -> Run:
        """Ask it to end, and wait until it has."""
        run_dir = self.at_work(name, "stop the run")
        await self.answering(run_dir)
        try:
            await client.ask(run_dir, "stop", at_once=at_once)
        except AgsError:
            # It may just be ending, with nobody left to answer: that is all that was wanted.
            with contextlib.suppress(AgsError):
                return await self.ended(run_dir, ENDING)
            raise
        return await self.ended(run_dir, patience)

    async def answering(self, run_dir: Path) -> None:
        """A run that was just begun does not listen yet: wait for that moment, or for its end."""
        waited = 0.0
        while not (run_dir / SOCKET).exists() and runs.is_alive(run_dir) and waited < PATIENCE:
            await asyncio.sleep(FIRST_LOOK)
            waited += FIRST_LOOK

    async def ended(self, run_dir: Path, patience: float | None = None) -> Run:
        """The run as it is once nobody tends it any more."""
        pause, waited = FIRST_LOOK, 0.0
        while runs.is_alive(run_dir):
            if patience is not None and waited > patience:
                raise AgsError(
                    "wait for the end of the run",
                    subject=runs.load(run_dir).name,
                    cause=f"it has not ended after {patience:g} s",
                    hint="`ags stop --now` ends it at once",
                )
            await asyncio.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, LONGEST_LOOK)
        self.sweep()
        return runs.load(run_dir)

    async def ports(self, name: str) -> dict[str, object]:
        """What of its sandbox is on this machine's loopback."""
        return await client.ask(self.at_work(name, "list its ports"), "ports")

    async def publish(self, name: str, port: int, host_port: int = 0) -> dict[str, object]:
        """Bring a port of its sandbox to this machine's loopback."""
        run_dir = self.at_work(name, "publish the port")
        return await client.ask(run_dir, "port", port=port, host_port=host_port)

    async def restart(self, name: str) -> Run:
        """The same goal again, from the same base, in a fresh workspace.

        What the last attempt brought stays: on a ref of ours, until the run is removed.
        """
        with await self.hold(name) as held:
            self._check_separate(held.run, "restart it")
            await self._gather(held)
            if held.run.left_at is not None:
                await self._keep_commit(held.run, held.run.left_at)
            await self._clear(held)
            anew = replace(held.run, notes=(), session="", answer="", turn=0, turns=(), said=None)
            held.save(runs.moved(anew, "queued", runs.now()))
            self._supervise(held)
            return held.run

    async def tell(self, name: str, text: str) -> Run:
        """Its next turn: in the same workspace, on the same branch, in the same conversation."""
        _check_goal(text, may_be_empty=False)
        with await self.hold(name) as held:
            what = "give it another turn"
            self._check_separate(held.run, what)
            run = await self._gather(held)
            self._check_can_go_on(run, what)
            turns = run.turns
            if run.result is not None:
                await self._keep_commit(run, run.result.commit)
                turns = (*turns, Turn(run.result.commit, run.said))
            told = replace(run, notes=(), said=text, turn=run.turn + 1, turns=turns, answer="")
            held.save(runs.moved(told, "queued", runs.now()))
            self._supervise(held)
            return held.run

    def _check_can_go_on(self, run: Run, what: str) -> None:
        """A shell has no conversation: its next turn is another script in the same workspace."""
        converses = agent(run.agent).program is not None
        home = self.ags_home / "home" / run.id
        cause = ""
        if run.workspace is None or not run.workspace.exists() or (converses and not home.exists()):
            cause = "its workspace is gone"
        elif converses and not run.session:
            cause = "the agent never said which conversation it was in"
        if cause:
            hint = f"`ags restart {run.name}`"
            raise AgsError(what, subject=run.name, cause=cause, hint=hint)

    async def _keep_commit(self, run: Run, commit: str) -> None:
        """Until the run is removed, wherever its branch goes."""
        project = await self._project(run.project)
        earlier = f"refs/ags/earlier/{run.id}/{commit[:12]}"
        await git.run(project, "update-ref", earlier, commit)

    def _check_separate(self, run: Run, what: str) -> None:
        if run.mode != "separate":
            cause = "it worked in your own folder"
            hint = f"start another: ags --agent {run.agent}"
            raise AgsError(what, subject=run.name, cause=cause, hint=hint)

    async def gather(self, name: str) -> Run:
        """The run with its work collected, if an interrupted one still had to be."""
        run_dir = self.run_dir(name)
        if _is_gathered(runs.load(run_dir)):
            return runs.load(run_dir)
        with await self.hold(name) as held:
            return await self._gather(held)

    async def _gather(self, held: Held) -> Run:
        run = held.run
        if _is_gathered(run):
            return run
        state = run.state
        place = site(held, self.ags_home, self.environ, self.home, self.notes.append)
        where = ground(place)
        held.save(runs.moved(run, "collecting", runs.now()))
        try:
            with await place.preparer.prepare(await where.request(("true",))) as prepared:
                result = await where.collect(prepared.plan)
            held.save(replace(held.run, result=result))
            self.notes.append(f"the work of {run.name} was not collected before: done now")
        finally:
            held.save(runs.moved(held.run, state, runs.now()))
        return held.run

    async def remove(self, name: str, *, force: bool = False) -> Run | None:
        """Take away all that is recorded as the run's own. Its branch stays.

        Returns what it was; None, with `force`, for a run whose record cannot be read.
        """
        run_dir = self.run_dir(name)
        if force and _is_damaged(run_dir):
            await self._discard(run_dir)
            return None
        with await self.hold(name) as held:
            await self._make_sure(held, force=force)
            await self._unpin(held.run)
            await self._clear(held)
            demo = held.run.project
            if demo.parent == self.ags_home / "demo":  # a project that we made
                await proc.aside(partial(separate.remove, demo.parent, demo.name))
            await _in_turn(partial(runs.remove, self.ags_home, held))
            return held.run

    async def _discard(self, run_dir: Path) -> None:
        """By its id, which names the folder of its git directory; a workspace it has stays."""
        await _in_turn(partial(runs.discard, self.ags_home, run_dir))
        if (self.ags_home / "git" / run_dir.name).exists():
            gone = partial(separate.remove, self.ags_home / "git", run_dir.name)
            await proc.aside(gone)

    async def clean(self, name: str, *, force: bool = False) -> bool:
        """Take away an ended run's workspace; whether there was one."""
        with await self.hold(name) as held:
            if not any((folder / name).exists() for folder, name in self._made_for(held.run)):
                return False
            await self._make_sure(held, force=force)
            await self._clear(held)
            return True

    def spares(self) -> tuple[Path, ...]:
        """The checkouts that are kept ready for runs to come."""
        return tuple((self.ags_home / "spares").glob("*/[0-9a-f]*-*"))

    def forget_spares(self) -> None:
        spare.forget(self.ags_home / "spares")

    async def _make_sure(self, held: Held, *, force: bool) -> None:
        """That nothing is lost which is nowhere else."""
        if force:
            return
        hint = f"`ags rm --force {held.run.name}` drops it for good"
        try:
            run = await self._gather(held)
            lost = run.mode == "separate" and run.result and not await self._is_kept(run)
        except AgsError as error:
            raise AgsError(
                "let go of its work", subject=held.run.name, cause=error.cause, hint=hint
            ) from error
        if lost:
            cause = f"{run.branch} is gone and was not applied: nothing else holds this work"
            keep = f"git branch {run.branch} {run.result.commit}" if run.result else ""
            hint = f"keep it with `{keep}`; or {hint}"
            raise AgsError("let go of its work", subject=run.name, cause=cause, hint=hint)

    async def _is_kept(self, run: Run) -> bool:
        assert run.result is not None
        if run.result.commit == run.base or any(not each.undone for each in run.applied):
            return True
        if any(each.commit == run.result.commit for each in run.pushed):
            return True
        project = await self._project(run.project)
        holding = await git.run(
            project, "for-each-ref", "--count=1", "--contains", run.result.commit, "refs/heads/"
        )
        return bool(holding.stdout.strip())

    async def repository(self, run: Run) -> Repository:
        """That has the run's work."""
        if run.mode == "inplace":
            return await inplace.repository(run.project, runs.directory(self.ags_home, run.id))
        return await self._project(run.project)

    async def has_branch(self, run: Run) -> bool:
        """Whether the one that it left is there still: it is the person's to remove."""
        if not run.branch or not run.left_at:
            return False
        try:
            project = await self._project(run.project)
        except (AgsError, OSError):
            return False
        asked = await git.run(
            project, "rev-parse", "--verify", "--quiet", f"refs/heads/{run.branch}", check=False
        )
        return asked.code == 0

    async def _unpin(self, run: Run) -> None:
        try:
            project = await self.repository(run)
        except (AgsError, OSError):
            return  # it is gone, and our refs with it
        listed = await git.run(
            project,
            "for-each-ref",
            "--format=delete %(refname)",
            *(f"refs/ags/{kind}/{run.id}" for kind in ("base", "start", "end", "earlier")),
        )
        for turn in range(UNPIN_TURNS):
            done = await git.run(project, "update-ref", "--stdin", stdin=listed.stdout, check=False)
            if done.code == 0:
                return
            # A git of somebody who was killed may just be at the end of its work there.
            await asyncio.sleep(0.1 * turn)
        self.notes.append(f"refs/ags of {run.name} stay in {run.project}: git has them locked")

    def _made_for(self, run: Run) -> tuple[tuple[Path, str], ...]:
        mine = ((self.ags_home / kind, run.id) for kind in ("git", "home"))
        return (self.ags_home / "worktrees", run.name), *mine

    async def _clear(self, held: Held) -> None:
        """The workspace and the private git directory, by the names that we gave them."""
        run = held.run
        cgroup.sweep()
        if made := [each for each in self._made_for(run) if (each[0] / each[1]).exists()]:
            await proc.aside(partial(separate.remove_all, made))
        held.save(replace(run, workspace=None if run.mode == "separate" else run.workspace))


async def _in_turn(change: Callable[[float], T]) -> T:
    """A change to the list of runs; others are served while another ags is at one."""
    until = time.monotonic() + CHANGING
    while True:
        try:
            return change(0)
        except runs.Busy:
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(FIRST_LOOK)


def _check_goal(goal: str, *, may_be_empty: bool) -> None:
    """It is an argument of the agent's, for which the kernel has room of 128 KiB."""
    if not (may_be_empty or goal.strip()):
        # Which is what a shell makes of a file that is not there.
        raise Unfit("use the goal", cause="it is empty", hint="say what is to be done")
    if "\0" in goal or len(os.fsencode(goal)) > MOST_GOAL:
        cause = "it holds a NUL character" if "\0" in goal else f"it is over {MOST_GOAL} bytes long"
        hint = "put it into a file of the project's, and name that in the goal"
        raise Unfit("use the goal", cause=cause, hint=hint)


def _is_damaged(run_dir: Path) -> bool:
    try:
        runs.load(run_dir)
    except AgsError:
        return True
    return False


def _is_gathered(run: Run) -> bool:
    """Whether there is nothing (left) to collect."""
    never = run.started is None or run.workspace is None
    return run.result is not None or never or not run.is_final


async def _commit_of(project: Repository, branch: str) -> str | None:
    ref = f"refs/heads/{branch}"
    found = await git.run(project, "rev-parse", "--verify", "--quiet", ref, check=False)
    return found.text.strip() or None
