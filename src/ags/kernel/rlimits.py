"""Limits each process of a run carries by itself, set from outside before its command starts."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterable
from pathlib import Path

from ags.errors import AgsError
from ags.model import Limits

# Not RLIMIT_AS: Node, Java and Go reserve far more address space than they ever touch.
# Not RLIMIT_DATA: it holds for one process, not for the run, and counts every thread's untouched
# 8 MiB stack, so it stops honest builds and not a hog that forks. The watch sums real memory.
# MEMLOCK, MSGQUEUE and the rest stay as the person has them.

Wanted = dict[int, int]


def wanted(limits: Limits, *, contained: bool, release: str) -> Wanted:
    """The ceilings these limits ask for, by RLIMIT number."""
    ceilings: dict[int, int | None] = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_size,
    }
    # With a cgroup, pids.max counts better. Without one, NPROC counts the sandbox's own user
    # namespace since Linux 5.14; before, it counted all the person's processes, so that a small
    # number would stop the run at once. It never holds for host uid 0. The watch covers both.
    if not contained and _kernel(release) >= (5, 14):
        ceilings[resource.RLIMIT_NPROC] = limits.pids
    return {number: ceiling for number, ceiling in ceilings.items() if ceiling is not None}


def tightened(current: tuple[int, int], ceiling: int) -> tuple[int, int]:
    """Soft and hard limit under `ceiling`, neither of them higher than it was."""
    soft, hard = (_lower(value, ceiling) for value in current)
    return soft, hard


def raise_open_files() -> None:
    """Of this process, to all it may have: whoever connects must not take the last of them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def apply(pids: Iterable[int], limits: Limits, *, contained: bool) -> None:
    """Lower the limits of these processes and so of all they start from now on."""
    ceilings = wanted(limits, contained=contained, release=os.uname().release)
    for pid in pids:
        try:
            _set(pid, ceilings)
        except PermissionError:
            _set_as_owner(pid, ceilings)
        except OSError as error:
            raise _failure(pid, error) from error


def _set(pid: int, ceilings: Wanted) -> None:
    for number, ceiling in ceilings.items():
        resource.prlimit(pid, number, tightened(resource.prlimit(pid, number), ceiling))


def _set_as_owner(pid: int, ceilings: Wanted) -> None:
    """For a root without CAP_SYS_RESOURCE, as in most containers: only the owner may do it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError as error:
        raise _failure(pid, error) from error
    uid, gid = (
        int(found[1]) if (found := re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)) else -1
        for name in ("Uid", "Gid")
    )
    helper = os.fork()
    if helper == 0:
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            _set(pid, ceilings)
        except OSError as error:
            os._exit(error.errno or 1)
        except BaseException:
            os._exit(255)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(helper, 0)[1])
    if code != 0:
        raise _failure(pid, OSError(code, os.strerror(code)))


def _failure(pid: int, error: OSError) -> AgsError:
    return AgsError(
        "limit the sandbox", subject=f"process {pid}", cause=error.strerror or str(error)
    )


def _lower(value: int, ceiling: int) -> int:
    return ceiling if value == resource.RLIM_INFINITY else min(value, ceiling)


def _kernel(release: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)
