"""A bare sandbox around a scene's workspace, with just the mounts under test."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ags.backends import bwrap
from ags.model import Bind, Mask, MountStep
from tests.workspace.scene import Scene

PROGRAM = next((path for path in bwrap.SYSTEM if Path(path).exists()), str(bwrap.wheel()))


def rendered(step: MountStep, empty: Path) -> tuple[str, str, str]:
    match step:
        case Bind(source=source, target=target, writable=writable):
            return ("--bind" if writable else "--ro-bind", str(source), str(target))
        case Mask(target=target, kind="file"):
            return ("--ro-bind", str(empty), str(target))
    raise AssertionError(step)


class Box:
    """A shell inside that does as it is told, one line at a time."""

    def __init__(self, scene: Scene, steps: Sequence[MountStep]) -> None:
        info, write = os.pipe()
        empty = scene.outside / "empty"
        with scene.person():
            empty.touch()
        mounts = [word for step in steps for word in rendered(step, empty)]
        root = str(scene.root)
        become = scene.owner.uid != os.geteuid()
        self._shell = subprocess.Popen(
            (
                *(PROGRAM, "--unshare-user", "--unshare-pid", "--die-with-parent"),
                *("--info-fd", str(write), "--ro-bind", "/", "/", "--dev", "/dev"),
                *("--bind", root, root, *mounts, "--chdir", root, "--", "/bin/sh"),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(write,),
            user=scene.owner.uid if become else None,
            group=scene.owner.gid if become else None,
            extra_groups=[] if become else None,
        )
        os.close(write)
        with os.fdopen(info) as reader:
            told = reader.read()
        self.pid = int(json.loads(told)["child-pid"]) if told else 0
        self.do("true")

    def do(self, line: str) -> str:
        """What the line printed, its complaints included."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(os.fsencode(line) + b"\necho --done--\n")
        self._shell.stdin.flush()
        said: list[bytes] = []
        while not (answer := self._shell.stdout.readline()).endswith(b"--done--\n"):
            assert answer, b"".join(said).decode()
            said.append(answer)
        said.append(answer.removesuffix(b"--done--\n"))
        return b"".join(said).decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shell.kill()
        self._shell.communicate()
