"""Real calls and real programs in a process of their own, behind the real filter or not."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import platform
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ags.kernel import syscalls
from ags.kernel.seccomp import program

MACHINE = platform.machine()
NUMBERS = syscalls.numbers(MACHINE)
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long

PATIENCE = 180
"""Seconds a child may take."""
AT_HOME = 0x20000 | 0x40000000 | 0x04000000 | 0x08000000
"""CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWUTS, CLONE_NEWIPC."""


def call(name: str | int, *arguments: int) -> str:
    """Make a system call: `ok`, or the name of its error."""
    number = NUMBERS[name] if isinstance(name, str) else name
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *(ctypes.c_ulong(a) for a in arguments))
    return errno.errorcode[ctypes.get_errno()] if result == -1 else "ok"


def install(filtered: bytes) -> None:
    """Put this process, for good, behind the filter."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    steps = ctypes.create_string_buffer(filtered, len(filtered))
    header = Program(len(filtered) // 8, ctypes.addressof(steps))
    assert call("prctl", 38, 1, 0, 0, 0) == "ok"
    assert call("seccomp", 1, 0, ctypes.addressof(header)) == "ok"


def leave_the_host_alone() -> None:
    os.setsid()
    if os.geteuid() == 0:
        assert call("unshare", AT_HOME) == "ok"
        root = ctypes.create_string_buffer(b"/")
        private_and_below = 0x40000 | 0x4000
        assert call("mount", 0, ctypes.addressof(root), 0, private_and_below, 0) == "ok"


def in_child(
    work: Callable[[], object], *, behind: bytes | None, prepare: Callable[[], None] = os.setsid
) -> str:
    """What `work` returns in a process of its own, behind the filter or not."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()  # it would close what a test before left open, while descriptors are counted
        try:
            prepare()
            if behind is not None:
                install(behind)
            os.write(writer, str(work()).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        said = _read_to_end(reader)
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    code = os.waitstatus_to_exitcode(status)
    return said if code == 0 else f"ended by {signal.Signals(-code).name}"


def _read_to_end(reader: int) -> str:
    """All the child says. One that a wrong filter keeps from exiting would spin for ever."""
    said, deadline = b"", time.monotonic() + PATIENCE
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
            piece = stream.read(4096)
            if not piece:
                return said.decode()
            said += piece
    raise AssertionError(f"the child did not end in {PATIENCE} s; so far it said {said!r}")


def behind_filter(argv: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    filtered = program(MACHINE)
    return subprocess.run(
        argv,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), "LC_ALL": "C.UTF-8"},
        preexec_fn=lambda: install(filtered),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
