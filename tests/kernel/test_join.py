"""The steps of joining, each in a process of its own. Whether the whole of it holds is asked in
`tests/attack/test_enter.py`, against a real sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ags.kernel import join, seccomp
from tests.kernel.fenced import MACHINE, in_child

SCRIPT = str(join.__file__)


def status(*names: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return " ".join(found[name] for name in names)


def after(*steps: Callable[[], object], say: Callable[[], object]) -> str:
    def work() -> object:
        for step in steps:
            step()
        return say()

    return in_child(work, behind=None)


def test_no_capability_is_left_in_any_set() -> None:
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    if os.geteuid() != 0:
        pytest.skip("only root has capabilities to drop")
    assert after(join._drop_capabilities, say=lambda: status(*sets)) == " ".join(["0" * 16] * 5)
    assert after(say=lambda: status("CapEff")) != "0" * 16


def test_the_walls_are_a_filter_and_no_new_privileges() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has capabilities to drop")
    program = seccomp.program(MACHINE)
    walls = ("NoNewPrivs", "Seccomp")
    assert after(lambda: join._raise_walls(program), say=lambda: status(*walls)) == "1 2"
    assert after(say=lambda: status(*walls)) == "0 0"


def test_a_filter_that_is_none_is_an_error() -> None:
    def load() -> str:
        with pytest.raises(OSError, match="prctl"):
            join._load(b"")
        return "refused"

    assert after(lambda: join._prctl(join.PR_SET_NO_NEW_PRIVS, 1), say=load) == "refused"


def in_python(script: str) -> str:
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, SCRIPT],
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


LOADED = "import runpy, sys; steps = runpy.run_path(sys.argv[1]); "
SHOW = "print(open('/proc/self/cmdline').read().strip(chr(0)))"


def test_the_argument_list_is_blank() -> None:
    assert in_python(f"{LOADED} steps['_hide_arguments'](); {SHOW}") == "\n"
    assert SCRIPT in in_python(f"{LOADED} {SHOW}")


def test_no_module_is_loaded_any_more() -> None:
    attempt = "exec('try: import wave; print(1)\\nexcept ImportError: print(0)')"
    assert in_python(f"{LOADED} steps['_stop_importing'](); {attempt}") == "0\n"
    assert in_python(f"{LOADED} {attempt}") == "1\n"


def test_nothing_is_joined_after_the_one_who_asked_has_gone() -> None:
    def ask() -> str:
        with pytest.raises(OSError, match="gone"):
            join._die_with(os.getppid() + 1)
        join._die_with(os.getppid())
        return "asked"

    assert after(say=ask) == "asked"


def test_a_process_that_is_in_no_sandbox_cannot_be_joined(tmp_path: Path) -> None:
    """Its user namespace is our own, and nobody joins that one: the script says so and ends."""
    go, ready = os.pipe(), os.pipe()
    ran = tmp_path / "ran"
    orders = {
        "parent": os.getpid(),
        "user": None,
        "terminal": False,
        "cwd": "/",
        "environment": [],
        "command": ["touch", str(ran)],
    }
    given = {
        join.GO: go[0],
        join.READY: ready[1],
        join.ORDERS: file(json.dumps(orders).encode()),
        join.TARGET: os.pidfd_open(os.getpid()),
        join.FILTER: file(seccomp.program(MACHINE)),
        join.STDERR: 2,
    }
    high = {theirs: os.dup2(ours, 100 + theirs) for theirs, ours in given.items()}
    os.write(go[1], b"--")
    run = subprocess.run(
        [sys.executable, "-I", "-S", SCRIPT],
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        close_fds=False,
        preexec_fn=lambda: [os.dup2(ours, theirs) for theirs, ours in high.items()],
    )
    for fd in {*given.values(), *high.values(), *go, *ready} - {2}:
        os.close(fd)
    assert run.returncode == 1 and b"setns" in run.stderr
    assert not ran.exists()


def file(content: bytes) -> int:
    fd = os.memfd_create("given")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
