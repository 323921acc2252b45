"""A run from its first state to its last, whatever happens on the way."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ags import plan as plans
from ags import records, runs
from ags.agents.base import Agent, Heard, Wish
from ags.agents.shell import members
from ags.backends.base import Sandbox
from ags.control.server import Control, Verb, Viewing
from ags.errors import AgsError
from ags.events import Writer
from ags.model import Ending, not_held
from ags.prepare import Prepared, Request
from ags.runs import Held, Result, Run, State
from ags.supervisor.asking import Asking
from ags.supervisor.covers import Covers
from ags.supervisor.crew import crew
from ags.supervisor.ground import Ground, ground
from ags.supervisor.output import Output
from ags.supervisor.site import Site, site
from ags.supervisor.surface import Surface
from ags.supervisor.terminal import Desk, Room
from ags.supervisor.words import Words

if TYPE_CHECKING:
    from ags.network import Network
    from ags.supervisor.fencing import Fencing

LOCK = 3
"""The descriptor on which the run's lock is handed over."""
BEFORE: tuple[State, ...] = ("queued", "preparing")
GRACE = 10.0
"""Seconds for an agent to end by itself once it is asked to."""
HANG_UP = 2.0
"""Seconds after which it loses its terminal, if it has one: shells do not end before."""


class Supervisor:
    """Tends one run. It is the only writer of its record and of its log."""

    def __init__(self, held: Held, ags_home: Path, environ: Mapping[str, str]) -> None:
        self._held = held
        self._ags_home = ags_home
        self._environ = environ
        self._home = Path(environ["HOME"])
        self._log = Writer(held.run_dir / "events.jsonl")
        self._asking = Asking(held, self._log)
        self._sandbox: Sandbox | None = None
        self._stopped_by: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._surface: asyncio.Future[Surface] = asyncio.get_running_loop().create_future()
        self._rooms: list[Room] = []
        self._network: Network | None = None
        self._words = Words()
        self._closing = contextlib.ExitStack()

    async def run(self) -> None:
        """To the end, and never with an error: what goes wrong is the run's, and is told there."""
        self._listen_to_signals()
        self._work = asyncio.create_task(self._whole())
        try:
            await self._work
        except asyncio.CancelledError:
            self._finish("stopped")
        except AgsError as error:
            self._fail(error)
        except Exception as error:
            traceback.print_exc()  # to the supervisor's own log, beside the record
            self._fail(AgsError("go on", cause=f"AGS has a fault: {error!r}"))
        finally:
            self._closing.close()
            self._log.close()
            self._held.close()

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: self.stop("the machine or its person"))
        for ignored in (signal.SIGHUP, signal.SIGINT):
            signal.signal(ignored, signal.SIG_IGN)

    async def _whole(self) -> None:
        self.reached("queued")
        self._held.save(replace(self._held.run, supervisor=runs.Supervisor.me()))
        self._to("preparing")
        place = site(self._held, self._ags_home, self._environ, self._home, self._tell)
        program = crew(place)
        fencing = await self._fence(place, program)
        verbs: dict[str, Verb] = {
            "stop": self._asked_to_stop,
            "attach": self._attach,
            "enter": self._enter,
            **self._asking.verbs(),
            **(fencing.verbs() if fencing else {}),
        }
        control = await Control.open(self._held.run_dir, verbs)
        try:
            where = ground(place)
            if not self._held.run.turn:
                await where.create()
            else:
                self._log.write("system", text="told to go on", told=self._held.run.wanted)
            self.reached("created")
            request = await where.request(self._command(program))
            if fencing is not None:
                fencing.network.get_ready()
                request = fencing.given(request)
            async with self._fitted_out(place, program, request, fencing) as (request, covers):
                with await place.preparer.prepare(request) as prepared:
                    ending = await self._supervised(prepared, where, program, place, covers)
        finally:
            await control.close()
            if fencing is not None:
                await fencing.settle()
            self._closing.close()
        self._finish(self._verdict(ending))

    async def _fence(self, place: Site, program: Agent) -> Fencing | None:
        """Loaded only now: a sealed run has no use for it."""
        if not self._held.run.order.network:
            return None
        from ags.supervisor.fencing import Fencing

        made = await Fencing.of(place, program, self._log, self._asking, self._environ)
        self._closing.callback(made.close)
        self._network = made.network
        return made

    @contextlib.asynccontextmanager
    async def _fitted_out(
        self, place: Site, program: Agent, request: Request, fencing: Fencing | None
    ) -> AsyncIterator[tuple[Request, Covers]]:
        """With what an agent of its own program needs; and what must not be there for git."""
        if not members(program):
            yield request, Covers()
            return
        from ags.supervisor.outfit import Outfit

        keys, logins = (fencing.keys, fencing.logins) if fencing else ({}, {})
        ask = self._asking.questions.ask
        outfit = Outfit(place, program, request, keys, logins, self._log, ask)
        await outfit.open()
        try:
            yield outfit.given(), outfit.covers
        finally:
            await outfit.close()

    def _command(self, program: Agent) -> tuple[str, ...]:
        run = self._held.run
        if run.mode == "inplace":
            return program.interactive(Wish(arguments=run.order.arguments))
        return program.headless(Wish(run.wanted))

    async def _supervised(
        self,
        prepared: Prepared,
        where: Ground,
        program: Agent,
        place: Site,
        covers: Covers,
    ) -> Ending:
        self._keep_plan(prepared)
        # git is to see the repository's own files, and not what stands over them for the agent.
        bare = covers.lifted(prepared.plan)
        if not self._held.run.turn:
            await where.settle(bare, functools.partial(place.run_inside, network=self._network))
        # From here on its home is the agent's, with whatever traps it leaves there.
        bare = place.homeless(bare)
        await covers.hide_from_git(place, bare)
        self.reached("prepared")
        ending = await self._agent_at_work(prepared, program, place, where)
        self._to("collecting")
        self._note_ending(ending)
        for warning in prepared.warnings():
            self._tell(warning)
        if (result := await where.collect(bare)) is not None:
            self._stored(result)
        return ending

    def _stored(self, result: Result) -> None:
        self.reached("collected")
        self._held.save(replace(self._held.run, result=result))
        self._log.write(
            "system",
            text="the work is stored",
            commit=result.commit,
            branch=self._held.run.branch,
            files=result.files,
            insertions=result.insertions,
            deletions=result.deletions,
        )

    def _keep_plan(self, prepared: Prepared) -> None:
        plan = prepared.plan
        records.replace_file(self._held.run_dir / "plan.json", plans.described(plan))
        for note in prepared.notes:
            self._tell(note)
        self._held.save(replace(self._held.run, weakenings=plan.weakenings, limits=plan.limits))

    async def _agent_at_work(
        self, prepared: Prepared, program: Agent, place: Site, where: Ground
    ) -> Ending:
        terminal = self._held.run.order.terminal
        surface: Surface = Desk(self._log) if terminal else self._output(program)
        with contextlib.closing(surface):
            if self._network is not None:
                self._network.get_ready()
            sandbox = await place.backend.launch(prepared.plan, surface.open())
            try:
                if self._network is not None:
                    await self._network.open(sandbox)
                    self._publish()
                self.reached("launched")
                if self._stopped_by:
                    # A cancellation may be lost on the way: wait_for of Python 3.11 drops one that
                    # comes together with what it waits for.
                    raise asyncio.CancelledError
                self._held.save(replace(self._held.run, limited_by=sandbox.limited_by))
                if missing := not_held(prepared.plan.limits, sandbox.limited_by):
                    self._tell(missing)
                self._to("running")
                self._sandbox = sandbox
                await sandbox.release()
                self._surface.set_result(surface)
                self.reached("released")
                async with _beside(where.meanwhile()):
                    return await surface.accompany(sandbox)
            except BaseException:
                await sandbox.kill()
                raise
            finally:
                self._sandbox = None
                if self._network is not None:
                    await self._network.close()

    def _output(self, program: Agent) -> Output:
        return Output(program, self._log, self._held.run_dir / "output.log", self._heard)

    def _heard(self, heard: Heard) -> None:
        known = self._words.session
        self._words.hear(heard)
        # At once only the first, lest every line of a flood costs a write to the disk.
        if heard.session and not known:
            self._held.save(replace(self._held.run, session=heard.session))

    def _publish(self) -> None:
        for port in self._held.run.order.publish:
            if self._network is not None and self._network.ports is not None:
                made = self._network.ports.publish(port)
                self._tell(f"port {port} of the sandbox is at {made.url}")

    async def _attach(self, request: Mapping[str, object]) -> Viewing:
        """A run that is just being prepared has no terminal yet: worth a moment's wait."""
        if not self._held.run.order.terminal:
            hint = f"`ags logs -f {self._held.run.name}` follows it"
            raise AgsError("attach", cause="it works without a terminal", hint=hint)
        surface = await asyncio.shield(self._surface)
        assert isinstance(surface, Desk)
        return Viewing.asked(surface.hub, request)

    async def _enter(self, request: Mapping[str, object]) -> Viewing:
        if self._sandbox is None:
            cause = f"it is {self._held.run.state}, so nothing runs in its sandbox"
            raise AgsError("open a shell", cause=cause)
        room = await Room.open(self._sandbox, request.get("term"))
        self._rooms.append(room)
        return Viewing.asked(room.hub, request)

    async def _asked_to_stop(self, request: Mapping[str, object]) -> dict[str, object]:
        self.stop("you", at_once=request.get("at_once") is True)
        return {"state": self._held.run.state}

    def stop(self, by: str, *, at_once: bool = False) -> None:
        """In order: the agent is asked to end, and what it did is collected."""
        self._stopped_by = self._stopped_by or f"stopped by {by}"
        if self._sandbox is not None:
            if self._ending is not None:
                if not at_once:
                    return  # to ask again must not give it more time
                self._ending.cancel()
            terminal = self._held.run.order.terminal
            ending = self._sandbox.kill() if at_once else _end(self._sandbox, terminal=terminal)
            self._ending = asyncio.create_task(ending)
        # Without a sandbox and yet running, its agent has just ended: its work is to be collected.
        elif self._work is not None and (at_once or self._held.run.state in BEFORE):
            self._work.cancel()

    def _verdict(self, ending: Ending) -> State:
        if self._stopped_by:
            return "stopped"
        # Exit codes lie: some agents end with 0 after their model refused them.
        return "done" if ending.code == 0 and not self._words.failure else "failed"

    def _note_ending(self, ending: Ending) -> None:
        run, words = self._held.run, self._words
        self._held.save(
            replace(
                run,
                exit_code=ending.code,
                stopped_by=self._stopped_by or ending.stopped_by or words.failure or None,
                answer=words.answer,
                session=words.session or run.session,
            )
        )

    def _to(self, state: State) -> None:
        self._held.save(runs.moved(self._held.run, state, runs.now()))
        self._log.write("status", state=state)
        self.reached(state)

    def _finish(self, state: State, *notes: str) -> None:
        """The log first: whoever sees the run ended finds all of it there.

        And the record in one step: on a full disk only the last save has room.
        """
        self.reached("ending")
        run = self._held.run
        why = run.stopped_by or self._stopped_by
        self._log.write("status", state=state, exit_code=run.exit_code, stopped_by=why)
        self._log.sync()
        run = replace(run, stopped_by=why, notes=(*run.notes, *notes))
        self._held.save(runs.moved(run, state, runs.now()))

    def _fail(self, error: AgsError) -> None:
        said = {"what": error.what, "cause": error.cause, "hint": error.hint}
        subject = str(error.subject) if error.subject else ""
        self._log.write("system", text=f"cannot {error.what}", subject=subject, error=said)
        cause = f": {error.cause}" if error.cause else ""
        self._finish("failed", f"cannot {error.what}{cause}")

    def _tell(self, text: str) -> None:
        self._log.write("system", text=text)
        self._note(text)

    def _note(self, text: str) -> None:
        run: Run = self._held.run
        self._held.save(replace(run, notes=(*run.notes, text)))

    def reached(self, point: str) -> None:
        """Nothing; crash tests put something here."""


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Something that nobody waits for, and that may fail, as long as this lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _end(sandbox: Sandbox, *, terminal: bool) -> None:
    """Not with SIGHUP at once: it ends whoever still puts things in order after SIGTERM."""
    sandbox.signal(signal.SIGTERM, group=True)
    if terminal:
        await asyncio.sleep(HANG_UP)
        sandbox.signal(signal.SIGHUP, group=True)
    await asyncio.sleep(GRACE - HANG_UP if terminal else GRACE)
    await sandbox.kill()


def command(ags_home: Path, run_id: str) -> tuple[str, ...]:
    """How a supervisor is started; its lock goes along as descriptor LOCK."""
    return (sys.executable, "-I", "-m", "ags.supervisor", os.fspath(ags_home), run_id)
