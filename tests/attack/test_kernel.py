"""THREATS K: the kernel's own doors, tried from inside a real sandbox.

Call by call, the filter is tested in `tests/kernel/`; here are the attacks those calls are for,
judged at what they would have changed.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from ags.backends.base import Streams
from ags.model import Limits
from tests.box import Box

# Made to be put in front of a script: system calls by number, with the errno of a failure.
CALLS = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == 'x86_64'
def call(number, *args):
    given = (a if isinstance(a, bytes) else ctypes.c_long(a) for a in args)
    result = libc.syscall(ctypes.c_long(number), *given)
    return result if result >= 0 else -ctypes.get_errno()
"""

NAMESPACE_CALLS = """
for name, flag in dict(user=0, net=0x40000000, mnt=0x20000, uts=0x4000000).items():
    pid = os.fork()
    if pid == 0:
        before = os.readlink(f'/proc/self/ns/{name}')
        libc.unshare(0x10000000 | flag)
        if os.readlink(f'/proc/self/ns/{name}') != before: os.write(1, f'ENTERED {name} '.encode())
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_no_namespace_can_be_made_inside(box: Box) -> None:
    assert "ENTERED" not in box.python(CALLS + NAMESPACE_CALLS).out
    outside = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", CALLS + NAMESPACE_CALLS],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ENTERED user" in outside.stdout


def test_even_without_the_filter_no_user_namespace_can_be_made(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ags.kernel import seccomp

    rules = {name: group for name, group in seccomp.RULES.items() if name != "namespaces"}
    monkeypatch.setattr(seccomp, "RULES", rules)
    assert "ENTERED" not in box.python(CALLS + NAMESPACE_CALLS).out


def test_nothing_can_be_mounted(box: Box) -> None:
    script = (
        CALLS
        + "print(libc.mount(b'x', os.getcwd().encode(), b'tmpfs', 0, b''), ctypes.get_errno())"
    )
    assert box.python(script).out.split()[0] == "-1"
    assert box.shell("grep -c . /proc/mounts").out.strip() != "0"


def test_a_key_does_not_reach_the_persons_session(box: Box) -> None:
    """The session's keyring is passed on from process to process, namespaces or not."""
    add, keyctl = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
    join, search, session = 1, 10, -3
    name = f"ags-canary-{time.monotonic_ns()}".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(keyctl, join, None) > 0

    def arrived() -> bool:
        return bool(libc.syscall(keyctl, search, session, b"user", name, 0) > 0)

    box.python(CALLS + f"call({add}, b'user', {name!r}, b'x', 1, {session})")
    assert not arrived()
    assert libc.syscall(add, b"user", name, b"x", 1, session) > 0
    assert arrived()


PTRACE = """
import time
secret = 'canary' + str(4711 * 3)
victim = os.fork()
if victim == 0:
    time.sleep(600)
time.sleep(0.2)
attached = call(101 if x86 else 117, 16, victim, 0, 0)  # PTRACE_ATTACH
print('ATTACHED' if attached == 0 else attached)
os.kill(victim, 9)
"""


def test_one_process_cannot_debug_another_unless_asked_for(box: Box) -> None:
    assert "ATTACHED" not in box.python(CALLS + PTRACE).out
    assert "ATTACHED" in box.python(CALLS + PTRACE, ptrace=True).out


GROUP_CALLS = {
    # group: a call that the kernel itself would not refuse to an ordinary process with this errno
    "bpf": ("call(321 if x86 else 280, 0, 0, 0)", "-1"),
    "perf": ("call(298 if x86 else 241, 0, 0, -1, -1, 0)", "-1"),
    "userfaultfd": ("call(323 if x86 else 282, 1)", "-1"),
    "io_uring": ("call(425, 1, 0)", "-38"),
    "handles": ("call(303 if x86 else 264, -100, b'/', 0, 0, 0)", "-1"),
    "quota": ("call(179 if x86 else 60, 0, 0, 0, 0)", "-1"),
    "fanotify": ("call(300 if x86 else 262, 0x200, 0)", "-1"),
    "pages": ("call(279 if x86 else 239, 0, 1, 0, 0, 0, 0)", "-1"),
    "personality": ("call(135 if x86 else 92, 0x0400000)", "-1"),
    "unknown": ("call(463, -1, 0, 0, 0, 0, 0)", "-38"),
    "mounts": ("call(428, -100, b'/', 0)", "-1"),
    "hardware": ("call(154, 0, 0, 0) if x86 else -1", "-1"),
    "obsolete": ("call(139, 3) if x86 else -1", "-1"),
    "sockets": ("libc.socket(17, 3, 0) * ctypes.get_errno()", "-97"),
}


@pytest.mark.parametrize("group", GROUP_CALLS)
def test_a_door_of_the_kernel_is_shut(box: Box, group: str) -> None:
    attempt, refused = GROUP_CALLS[group]
    assert box.python(CALLS + f"print({attempt})").out.strip() == refused
    assert outside(attempt) != refused, "the attempt proves nothing: the kernel says the same"


@cache
def outside(attempt: str) -> str:
    """What the kernel says where no filter is, to whomever."""
    command = ("/usr/bin/python3", "-c", CALLS + f"print({attempt})")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


STUFF = """
import fcntl, termios
for byte in b'echo pwned':
    try: fcntl.ioctl(0, termios.TIOCSTI, bytes([byte]))
    except OSError as error: print('refused', error.errno)
"""


def typed_by_the_command(box: Box, script: str, *, sandboxed: bool) -> bytes:
    """What a command on a terminal managed to put into that terminal's input."""
    master, slave = pty.openpty()
    settings = termios.tcgetattr(slave)
    settings[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    command = ("/usr/bin/python3", "-I", "-c", script)

    async def scene() -> None:
        streams = Streams(slave, slave, slave, terminal=True)
        sandbox = await box.backend.launch(box.plan(*command), streams)
        await sandbox.release()
        await sandbox.wait()

    if sandboxed:
        asyncio.run(scene())
    else:
        subprocess.run(["setsid", "-c", *command], stdin=slave, stdout=slave, check=True)
    os.set_blocking(slave, False)
    try:
        return os.read(slave, 100) if select.select([slave], [], [], 0.3)[0] else b""
    finally:
        os.close(master)
        os.close(slave)


@contextmanager
def typing_left_to_the_filter() -> Iterator[None]:
    """Newer kernels can refuse it by themselves; here they are told not to."""
    switch = Path("/proc/sys/dev/tty/legacy_tiocsti")
    if not switch.exists():
        yield
        return
    with switch.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # it is one for the machine, and trials run side by side
        before = switch.read_text()
        switch.write_text("1")
        try:
            yield
        finally:
            switch.write_text(before)


def test_nothing_can_be_typed_into_the_terminal_from_inside(box: Box) -> None:
    with typing_left_to_the_filter():
        assert typed_by_the_command(box, STUFF, sandboxed=True) == b""
        assert typed_by_the_command(box, STUFF, sandboxed=False) == b"echo pwned"


def test_host_processes_are_neither_seen_nor_signalled(box: Box) -> None:
    owner = box.workspace.stat().st_uid
    victim = subprocess.Popen(["sleep", "600"], user=owner)
    try:
        seen = box.shell(f"ls /proc; kill -9 {victim.pid}; kill -9 -1; true").out
        assert victim.poll() is None
        pids = [int(name) for name in seen.split() if name.isdecimal()]
        assert pids and max(pids) < 50
        control = subprocess.run(["kill", "-9", str(victim.pid)], user=owner, check=True)
        assert control.returncode == 0 and victim.wait(60) == -9
    finally:
        victim.kill()
        victim.wait()


def test_the_ipc_of_the_host_is_not_there(box: Box) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x0A65_0000 + os.getpid() % 0xFFFF
    segment = libc.shmget(key, 4096, 0o1666)
    assert segment >= 0
    try:
        look = f"import ctypes; print(ctypes.CDLL(None).shmget({key}, 4096, 0))"
        assert box.python(look).out.strip() == "-1"
        outside = subprocess.run(
            ["/usr/bin/python3", "-c", look], capture_output=True, text=True, check=True
        )
        assert int(outside.stdout) >= 0
    finally:
        libc.shmctl(segment, 0, None)


def test_the_hosts_name_is_not_told(box: Box) -> None:
    assert os.uname().nodename != "ags"
    assert box.shell("uname -n").out.strip() == "ags"


def test_our_place_among_the_hosts_cgroups_is_not_told(box: Box) -> None:
    canary = f"ags-canary-{os.getpid()}"
    line = next(
        x for x in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in x
    )
    folder = Path(line.split()[4], canary)
    folder.mkdir()
    (folder / "cgroup.procs").write_text(str(os.getpid()))
    try:
        assert canary in Path("/proc/self/cgroup").read_text()
        assert canary not in box.shell("cat /proc/self/cgroup").out
    finally:
        (folder.parent / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(100):
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def test_inside_is_a_user_namespace_of_one_user(box: Box) -> None:
    maps = box.shell("cat /proc/self/uid_map").out.split()
    assert maps[2] == "1"
    assert int(maps[0]) != 0


def test_no_capability_is_left_and_none_can_be_gained(box: Box) -> None:
    found = box.shell("grep -E '^(Cap|NoNewPrivs)' /proc/self/status").out
    assert set(found.replace("CapBnd", "").split()) >= {"NoNewPrivs:", "1"}
    assert all(line.split()[1] == "0" * 16 for line in found.splitlines() if line.startswith("Cap"))


@pytest.mark.parametrize("setting", ["kernel/core_pattern", "vm/swappiness", "kernel/modprobe"])
def test_kernel_settings_cannot_be_changed(box: Box, setting: str, tmp_path: Path) -> None:
    """The host's uid 0 owns these files: a program named in one runs on the host, as root."""
    place = Path("/proc/sys", setting)
    if not place.exists():
        assert box.shell(f"test -e {place}").code == 1
        return
    # Writing back what it says: harmless should the wall be missing.
    write = f"cat {place} > x; cat x > {place} && echo WROTE"
    assert "WROTE" not in box.shell(write).out
    assert (
        "WROTE"
        in subprocess.run(["sh", "-c", write], capture_output=True, text=True, cwd=tmp_path).stdout
    )


def test_nothing_unexpected_is_writable(box: Box) -> None:
    """Looks at every file there is instead of guessing which one was forgotten."""
    skipped = f"-path {box.workspace} -prune -o -path '/proc/[0-9]*' -prune"
    look = f"find / {skipped} -o ! -type l -writable -print"
    found = set(box.shell(look).out.split())
    devices = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "pts/ptmx", "shm"}
    expected = {f"/dev/{name}" for name in devices} | {
        "/tmp",
        dict(box.plan("true").environment)["HOME"],
    }
    assert {path for path in found - expected if not path.startswith("/tmp/")} == set()
    assert "/tmp" in found


@pytest.mark.parametrize("name", ["slabinfo", "vmallocinfo", "kpagecount", "timer_list", "keys"])
def test_kernel_tables_cannot_be_read(box: Box, name: str) -> None:
    outside = Path("/proc", name)
    if not outside.exists():
        assert name not in box.shell("ls /proc").out.split()
        return
    with outside.open("rb") as file:
        assert file.read(8), "the host itself sees nothing: the test proves nothing"
    assert box.shell(f"head -c 8 /proc/{name}").out == ""


def test_a_set_user_id_program_gains_nothing(box: Box) -> None:
    program = box.workspace / "su"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    assert "euid=0" not in box.run("./su").out
    assert "uid=0" not in box.run("./su").out


def test_everything_inside_ends_with_the_one_who_started_it(box: Box, tmp_path: Path) -> None:
    """THREATS R2: kill -9 to us leaves no process behind."""
    mark = f"ags-orphan-{os.getpid()}-{time.monotonic_ns()}"
    pid = os.fork()
    if pid == 0:
        try:
            # Without a cgroup: the next start of any run would end what a dead one left in it.
            script = f"while echo >> beats; do sleep 0.1; done; : {mark}"
            box.shell(script, limits=Limits(pids=None))
        finally:
            os._exit(0)

    def alive() -> list[int]:
        entries = Path("/proc").glob("[0-9]*")
        return [int(entry.name) for entry in entries if mark.encode() in _cmdline(entry)]

    beats = box.workspace / "beats"
    deadline = time.monotonic() + 60
    while not beats.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive()
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    enough = beats.stat().st_size + 50
    while alive() and beats.stat().st_size < enough:
        time.sleep(0.05)
    left = alive()
    for each in left:
        os.kill(each, 9)
    assert left == []


def _cmdline(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
