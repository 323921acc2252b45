"""A second process inside a running sandbox. A script: it runs in an interpreter of its own.

Whoever joins a sandbox must not have held a secret, and must not have threads. So this is started
afresh, without an environment, and with nothing but the descriptors below. It joins, puts the walls
up around itself, and waits to be looked at and limited; it has no number inside yet, so nobody can
reach it from there. Only then it forks: no process is ever seen inside without a wall or a limit.

Between that fork and the first exec, the host's Python is a process inside. Everything there
runs as one user, so it is closed to its peers (not dumpable): through its `exe` they would reach
the host's program, through its memory the host's paths, through its descriptors what it waits for.
For the same reason the first program is the sandbox's own shell, on a read-only mount: what an
agent could have put there might be a link to `/proc/self/exe`, and the host's Python would run on
as a process that is open to all.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import struct
import sys
import termios
from typing import Any

# 0 and 1 are the command's, and so is STDERR; complaints of ours go to 2. At GO each byte is leave
# to take the next step, and end-of-file the order to give up; READY tells that a step is done.
GO, READY, ORDERS, TARGET, FILTER, STDERR, FIRST_FOREIGN = 3, 4, 5, 6, 7, 8, 9
SHELL = "/bin/sh"

NAMESPACES = 0x7E020000
"""Mount, cgroup, uts, ipc, user, pid and net."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 47, 4
CAPABILITY_VERSION = 0x20080522
ARG_START, ARG_END = 45, 46
"""Where /proc/self/stat has them, counted from behind the program's name."""
UNTOUCHABLE = {signal.SIGKILL, signal.SIGSTOP}

_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    try:
        orders, filter_ = json.loads(_drain(ORDERS)), _drain(FILTER)
        os.closerange(FIRST_FOREIGN, os.sysconf("SC_OPEN_MAX"))
        _hide_arguments()
        _stop_importing()
        _become(orders["user"])
        _join()
        _raise_walls(filter_)
        _die_with(orders["parent"])
        _be_looked_at()
        code = _start(orders)
    except BaseException as error:
        os.write(2, f"{error}\n".encode(errors="replace"))
        code = 1
    os._exit(code)


def _drain(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


def _hide_arguments() -> None:
    """An argument list is open to all, and ours tells where things lie on the host."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[ARG_START]), int(fields[ARG_END])
    ctypes.memset(start, 0, end - start)


def _stop_importing() -> None:
    """From the joining on, the folders that modules come from are the agent's."""
    sys.path.clear()
    sys.meta_path.clear()


def _become(user: list[int] | None) -> None:
    if user is not None:
        uid, gid = user
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def _join() -> None:
    """All at once, by the owner of the outer user namespace: so we have rights in the inner one,
    in which the command lives, and none in the outer one, which owns the mounts."""
    _call("setns", ctypes.c_int(TARGET), ctypes.c_int(NAMESPACES))
    os.close(TARGET)


def _raise_walls(filter_: bytes) -> None:
    _drop_capabilities()
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _load(filter_)


def _drop_capabilities() -> None:
    number = 0
    while _LIBC.prctl(PR_CAPBSET_READ, ctypes.c_ulong(number), *_zeros(3)) >= 0:
        _prctl(PR_CAPBSET_DROP, number)
        number += 1
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION, 0), 8)
    _call("capset", header, ctypes.create_string_buffer(24))


def _load(filter_: bytes) -> None:
    steps = ctypes.create_string_buffer(filter_, len(filter_))
    program = struct.pack("@HP", len(filter_) // 8, ctypes.addressof(steps))
    held = ctypes.create_string_buffer(program, len(program))
    _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(held))


def _die_with(parent: int) -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError("the one who started this is gone")


def _be_looked_at() -> None:
    _prctl(PR_SET_DUMPABLE, 1)  # or an ordinary user could not see our namespaces
    os.write(READY, b"joined\n")
    _wait_to_go()
    _prctl(PR_SET_DUMPABLE, 0)


def _wait_to_go() -> None:
    if not os.read(GO, 1):
        raise OSError("the one who started this is gone")


def _start(orders: dict[str, Any]) -> int:
    # Peers may send signals as well. Blocked, they come to nothing before the command runs.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    armed, arming = os.pipe()
    child = os.fork()
    if child == 0:
        _inside(orders, arming)
    for fd in (0, 1, GO, STDERR, arming):  # a reader must see the command's end, not ours
        os.close(fd)
    if os.read(armed, 1):
        os.write(READY, f"{child}\n".encode())
    os.closerange(3, FIRST_FOREIGN)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _inside(orders: dict[str, Any], arming: int) -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    if orders["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(orders["cwd"])
    if not os.statvfs(SHELL).f_flag & os.ST_RDONLY:
        raise OSError(f"{SHELL} can be written to inside")
    # A parent outside has no number here to ask for. That ours lives shows in its passing this on.
    os.write(arming, b"-")
    _wait_to_go()
    for number in signal.valid_signals() - UNTOUCHABLE:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.dup2(STDERR, 2)
    os.closerange(3, FIRST_FOREIGN)
    # Past the one door for processes: from inside there is no way to it.
    argv = (SHELL, "-c", 'exec "$@"', "ags", *orders["command"])
    os.execve(SHELL, argv, dict(orders["environment"]))  # noqa: S606


def _prctl(option: int, *arguments: int) -> None:
    given = [ctypes.c_ulong(argument) for argument in arguments]
    _call("prctl", ctypes.c_int(option), *given, *_zeros(4 - len(given)))


def _zeros(count: int) -> list[ctypes.c_ulong]:
    return [ctypes.c_ulong(0)] * count


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
