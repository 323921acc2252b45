"""Other programs as peers: used where they are installed and work, else named as missing."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from ags.errors import AgsError
from bench import stopwatch
from bench.measure import Missing, finish

NOT_INSTALLED = Missing("not installed")
ENGINES = ("podman", "docker")

# Where we may not raise our own limits, an engine that wants to ends in an error. Tried in order.
CAREFUL = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
FLAGS: tuple[tuple[str, ...], ...] = ((), CAREFUL, ("--runtime", "runc", *CAREFUL))


@dataclass(frozen=True, slots=True)
class Program:
    """A command that was seen to work here."""

    argv: tuple[str, ...]
    flags: tuple[str, ...] = ()
    """Those of `argv` without which it would not work here."""


@contextlib.contextmanager
def containers() -> Iterator[dict[str, Program | Missing]]:
    """Each runs the stopwatch in a new container; their images are there while this is open."""
    with contextlib.ExitStack() as stack:
        yield {f"{name} run": stack.enter_context(_container(name)) for name in ENGINES}


@contextlib.contextmanager
def _container(name: str) -> Iterator[Program | Missing]:
    program = shutil.which(name)
    if program is None:
        yield NOT_INSTALLED
        return
    image = f"localhost/ags-bench-{name}:{os.getpid()}"
    try:
        finish((program, "import", "-", image), stdin=_image())
    except AgsError as error:
        yield _broken(error.cause)
        return
    try:
        yield _working(program, image)
    finally:
        finish((program, "rmi", "--force", image))


def _working(program: str, image: str) -> Program | Missing:
    why = ""
    for flags in FLAGS:
        argv = (program, "run", "--rm", "--network", "none", *flags, image, f"/{stopwatch.NAME}")
        try:
            stopwatch.reading(finish(argv))
        except AgsError as error:
            why = why or error.cause
        else:
            return Program(argv, flags)
    return _broken(why)


def sandbox_runtime() -> Program | Missing:
    """Its `srt`, which runs `true`."""
    program = shutil.which("srt")
    if program is None:
        return NOT_INSTALLED
    try:
        finish((program, "true"))
    except AgsError as error:
        return _broken(error.cause)
    return Program((program, "true"))


def _broken(why: str) -> Missing:
    return Missing(f"installed, but does not work here: {why}")


def _image() -> bytes:
    """A root file system with one file in it."""
    program = stopwatch.program(platform.machine())
    entry = tarfile.TarInfo(stopwatch.NAME)
    entry.size, entry.mode = len(program), 0o755
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(program))
    return buffer.getvalue()
