"""What is done with strangers' packages is done in a sealed sandbox: no network, nothing of the
person's, and one folder to write to."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ags import host, identity, plan, proc
from ags.backends.base import Backend, Streams
from ags.config.schema import Settings
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Bind, Ending, Plan
from ags.prepare import limits_here

TAIL = 2048
UNPACK_TIMEOUT, SCRIPT_TIMEOUT, TRY_TIMEOUT = 1800.0, 900.0, 120.0
WORK = PurePosixPath("/ags/install")


@frozen
class Said:
    """How a command ended, and the end of what it printed."""

    ending: Ending
    text: str

    @property
    def why(self) -> str:
        """For a command that failed."""
        return self.ending.stopped_by or self.text or f"it ended with {self.ending.code}"


@frozen
class Cell:
    """Makes sealed sandboxes for one folder of ours."""

    backend: Backend
    settings: Settings
    environ: Mapping[str, str]
    home: Path

    async def run(
        self,
        command: tuple[str, ...],
        bind: Bind,
        cwd: PurePosixPath,
        *,
        also: tuple[Bind, ...] = (),
        path: tuple[str, ...] = (),
        timeout: float,
    ) -> Said:
        """To its end, whatever that is."""
        made = self._plan(command, bind, cwd, also, path, timeout)
        with contextlib.ExitStack() as stack:
            nothing = proc.filled(b"", stack)
            reading, writing = os.pipe()
            stack.callback(os.close, reading)
            try:
                streams = Streams(nothing, writing, writing)
                sandbox = await self.backend.launch(made, streams)
            finally:
                os.close(writing)
            try:
                listening = asyncio.create_task(_tail(reading))
                await sandbox.release()
                ending = await sandbox.wait()
                return Said(ending, (await listening).strip())
            except BaseException:
                await sandbox.kill()
                raise

    def _plan(
        self,
        command: tuple[str, ...],
        bind: Bind,
        cwd: PurePosixPath,
        also: tuple[Bind, ...],
        path: tuple[str, ...],
        timeout: float,
    ) -> Plan:
        facts = os.stat(bind.source, follow_symlinks=False)
        who = identity.resolve(facts, self.home)
        judged = replace(bind, inode=(facts.st_dev, facts.st_ino))
        sandbox = self.settings.sandbox
        spec = plan.Spec(
            run=f"install-{os.urandom(3).hex()}",
            command=command,
            cwd=Path(cwd),
            identity=who,
            limits=replace(limits_here(self.settings), timeout=timeout),
            sizes=plan.Sizes(sandbox.tmp_size, sandbox.home_size, sandbox.shm_size),
            binds=(judged, *also),
            path=(*path, "/usr/local/bin", "/usr/bin", "/bin"),
            environment=(("NO_COLOR", "1"), ("CI", "1")),
        )
        return plan.build(spec, host.read(self.environ, who.host_uid))


async def _tail(fd: int) -> str:
    """All of it is read, so that nobody waits for us, and the end of it kept."""
    kept = b""
    while True:
        await proc.readable(fd)
        if not (data := os.read(fd, 1 << 16)):
            return kept.decode(errors="replace")
        kept = (kept + data)[-TAIL:]


def checked(what: str, subject: object, said: Said) -> Said:
    if said.ending.code == 0 and said.ending.stopped_by is None:
        return said
    hint = "nothing was changed; what was installed before still is"
    if "ENOSPC" in said.text or "disk" in (said.ending.stopped_by or ""):
        hint = f"make room on the disk, then try again; {hint}"
    raise AgsError(what, subject=subject, cause=said.why, hint=hint)
