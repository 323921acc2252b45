"""A real sandbox for tests: run a command in it, see what came out and what it did outside."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ags import host, identity, plan
from ags.backends.base import Backend, Sandbox, Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.model import GIB, MIB, Bind, Ending, Limits, MountStep, Plan


@dataclass(frozen=True)
class Outcome:
    """What a person would have seen."""

    code: int
    out: str
    err: str
    ending: Ending


@dataclass
class Box:
    """One workspace and how to run commands on it. `backend` may be swapped for another."""

    workspace: Path
    home: Path
    backend: Backend = field(default_factory=Bubblewrap)
    environ: dict[str, str] = field(default_factory=lambda: {"TERM": "dumb", "LANG": "C.UTF-8"})

    def plan(
        self,
        *command: str,
        limits: Limits | None = None,
        binds: Sequence[Bind] = (),
        protections: Sequence[MountStep] = (),
        environment: Sequence[tuple[str, str]] = (),
        cwd: Path | None = None,
        ptrace: bool = False,
    ) -> Plan:
        who = identity.resolve(self.workspace.stat(), self.home)
        spec = plan.Spec(
            run="test",
            command=command,
            cwd=cwd or self.workspace,
            identity=who,
            limits=limits or Limits(),
            sizes=plan.Sizes(tmp=GIB, home=GIB, shm=64 * MIB),
            binds=(Bind(self.workspace, PurePosixPath(self.workspace), writable=True), *binds),
            protections=tuple(protections),
            environment=tuple(environment),
            ptrace=ptrace,
        )
        return plan.build(spec, host.read(self.environ, who.host_uid))

    def run(self, *command: str, stdin: bytes = b"", **wishes: object) -> Outcome:
        """To its end, with everything it printed."""
        made = self.plan(*command, **wishes)  # type: ignore[arg-type]
        return asyncio.run(run_plan(self.backend, made, stdin))

    def shell(self, script: str, **wishes: object) -> Outcome:
        return self.run("/bin/sh", "-c", script, **wishes)  # type: ignore[arg-type]

    def python(self, script: str, **wishes: object) -> Outcome:
        """The system's Python: the one of the tests may lie where the sandbox sees nothing."""
        return self.run("/usr/bin/python3", "-I", "-c", script, **wishes)  # type: ignore[arg-type]


async def run_plan(backend: Backend, made: Plan, stdin: bytes = b"") -> Outcome:
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        source.write(stdin)
        source.seek(0)
        streams = Streams(source.fileno(), out.fileno(), err.fileno())
        sandbox: Sandbox = await backend.launch(made, streams)
        await sandbox.release()
        ending = await sandbox.wait()
        return Outcome(ending.code, _content(out.fileno()), _content(err.fileno()), ending)


def _content(fd: int) -> str:
    return os.pread(fd, 16 * MIB, 0).decode(errors="replace")
