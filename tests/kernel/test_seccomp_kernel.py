"""The filter, call by call, on the real kernel; each refusal with the same call unfiltered.

Unfiltered calls are made by root, in namespaces of their own, without a terminal, and with
arguments for which the kernel can only fail, or with which it harms only the child that calls.
Not shown here, as the kernel's own answer is the filter's: x32 calls and numbers that no kernel
has (ENOSYS). tests/kernel/test_seccomp.py has them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pty
import select
import signal
import subprocess
import tty
from pathlib import Path

import pytest

from ags.kernel.seccomp import program
from tests.kernel.fenced import (
    MACHINE,
    NUMBERS,
    behind_filter,
    call,
    in_child,
    leave_the_host_alone,
)
from tests.kernel.filter_rules import REFUSED

NOWHERE = 1
"""An address that no process has mapped."""
NOBODY = 0x7FFFFFF0
"""A process id beyond the highest there can be."""
NO_FD = 0xFFFFFFFF
WRONG = 0xFFFFFFFF
"""Flags, sizes and commands the kernel knows not one of."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's calls get past the kernel")


def outcome(name: str | int, arguments: tuple[int, ...], behind: bytes | None) -> str:
    return in_child(lambda: call(name, *arguments), behind=behind, prepare=leave_the_host_alone)


# One way to make each call that is refused whatever its arguments are.
ATTEMPTS: dict[str, tuple[int, ...]] = {
    "setns": (NO_FD, 0),
    "clone3": (0, 0),
    "openat2": (NO_FD, NOWHERE, NOWHERE, WRONG),
    "mount": (NOWHERE, NOWHERE, NOWHERE, 0, 0),
    "umount2": (NOWHERE, 0),
    "pivot_root": (NOWHERE, NOWHERE),
    "chroot": (NOWHERE,),
    "open_tree": (NO_FD, NOWHERE, 0),
    "open_tree_attr": (NO_FD, NOWHERE, 0, 0, 0),
    "move_mount": (NO_FD, NOWHERE, NO_FD, NOWHERE, WRONG),
    "mount_setattr": (NO_FD, NOWHERE, WRONG, 0, 0),
    "fsopen": (NOWHERE, WRONG),
    "fsconfig": (NO_FD, WRONG, 0, 0, 0),
    "fsmount": (NO_FD, WRONG, 0),
    "fspick": (NO_FD, NOWHERE, WRONG),
    "statmount": (NOWHERE, NOWHERE, 0, WRONG),
    "listmount": (NOWHERE, NOWHERE, 0, WRONG),
    "add_key": (NOWHERE, NOWHERE, 0, 0, 0),
    "request_key": (NOWHERE, NOWHERE, 0, 0),
    "keyctl": (WRONG, 0, 0, 0, 0),
    "bpf": (WRONG, NOWHERE, 0),
    "perf_event_open": (NOWHERE, 0, 0, NO_FD, WRONG),
    "userfaultfd": (WRONG,),
    "io_uring_setup": (0, NOWHERE),
    "io_uring_enter": (NO_FD, 0, 0, 0, 0, 0),
    "io_uring_register": (NO_FD, WRONG, 0, 0),
    "ptrace": (WRONG, NOBODY, 0, 0),
    "process_vm_readv": (NOBODY, 0, 0, 0, 0, WRONG),
    "process_vm_writev": (NOBODY, 0, 0, 0, 0, WRONG),
    "process_madvise": (NO_FD, 0, 0, 0, WRONG),
    "kcmp": (NOBODY, NOBODY, WRONG, 0, 0),
    "pidfd_getfd": (NO_FD, NO_FD, WRONG),
    "kexec_load": (0, WRONG, 0, WRONG),
    "kexec_file_load": (NO_FD, NO_FD, 0, 0, WRONG),
    "init_module": (NOWHERE, 0, NOWHERE),
    "finit_module": (NO_FD, NOWHERE, WRONG),
    "delete_module": (NOWHERE, 0),
    "create_module": (0, 0),
    "query_module": (0, 0, 0, 0, 0),
    "get_kernel_syms": (0,),
    "open_by_handle_at": (NO_FD, NOWHERE, 0),
    "name_to_handle_at": (NO_FD, NOWHERE, NOWHERE, NOWHERE, WRONG),
    "quotactl": (WRONG, 0, 0, 0),
    "quotactl_fd": (NO_FD, WRONG, 0, 0),
    "fanotify_init": (WRONG, 0),
    "fanotify_mark": (NO_FD, WRONG, 0, NO_FD, 0),
    "acct": (NOWHERE,),  # 0 would turn accounting off
    "swapon": (NOWHERE, WRONG),
    "swapoff": (NOWHERE,),
    "reboot": (0, 0, 0, 0),  # without its magic numbers
    "syslog": (WRONG, 0, 0),
    "vhangup": (),  # the child has no terminal
    "settimeofday": (NOWHERE, 0),
    "clock_settime": (WRONG, NOWHERE),
    "sethostname": (0, WRONG),
    "setdomainname": (0, WRONG),
    "iopl": (4,),  # 3 is the highest
    "ioperm": (WRONG, 1, 1),
    "modify_ldt": (99, 0, 0),
    "move_pages": (NOBODY, 0, 0, 0, 0, WRONG),
    "migrate_pages": (NOBODY, 0, 0, 0),
    "uselib": (NOWHERE,),
    "ustat": (WRONG, NOWHERE),
    "sysfs": (99, 0, 0),
    "_sysctl": (NOWHERE,),
    "lookup_dcookie": (0, 0, 0),
    "nfsservctl": (99, 0, 0),
    "afs_syscall": (),
    "getpmsg": (),
    "putpmsg": (),
    "security": (),
    "tuxcall": (),
    "vserver": (),
    "epoll_ctl_old": (),
    "epoll_wait_old": (),
}

NEW = {
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x02000000,
    "NEWUTS": 0x04000000,
    "NEWIPC": 0x08000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}
CLONE_THREAD = 0x10000
"""Alone, without CLONE_SIGHAND, it makes the kernel refuse any clone with EINVAL."""
READ_IMPLIES_EXEC = 0x400000

# What is refused by its arguments: name, call, arguments, error.
BY_ARGUMENT: list[tuple[str, str, tuple[int, ...], str]] = [
    *(("clone " + new, "clone", (flag | CLONE_THREAD,), "EPERM") for new, flag in NEW.items()),
    *(("unshare " + new, "unshare", (flag,), "EPERM") for new, flag in NEW.items()),
    ("set-user-id by fchmod", "fchmod", (NO_FD, 0o4755), "EPERM"),
    ("set-group-id by fchmodat", "fchmodat", (NO_FD, NOWHERE, 0o2755), "EPERM"),
    ("set-user-id by mknodat", "mknodat", (NO_FD, NOWHERE, 0o104755), "EPERM"),
    ("set-user-id by openat", "openat", (NO_FD, NOWHERE, 0o101, 0o4755), "EPERM"),
    (
        "set-user-id by openat, high bits",
        "openat",
        (NO_FD, NOWHERE, 0o101, 1 << 32 | 0o4755),
        "EPERM",
    ),
    ("unshare NEWTIME", "unshare", (0x80,), "EPERM"),
    ("ioctl TIOCLINUX", "ioctl", (NO_FD, 0x541C, NOWHERE), "EPERM"),
    ("ioctl TIOCCONS", "ioctl", (NO_FD, 0x541D, 0), "EPERM"),
    ("ioctl TIOCSETD", "ioctl", (NO_FD, 0x5423, NOWHERE), "EPERM"),
    ("ioctl TIOCLINUX, high bits", "ioctl", (NO_FD, 1 << 32 | 0x541C, NOWHERE), "EPERM"),
    ("packet socket", "socket", (17, 3, 0), "EAFNOSUPPORT"),
    ("packet socket, high bits", "socket", (1 << 32 | 17, 3, 0), "EAFNOSUPPORT"),
    ("vsock", "socket", (40, 1, 0), "EAFNOSUPPORT"),
    ("packet socketpair", "socketpair", (17, 3, 0, NOWHERE), "EAFNOSUPPORT"),
    ("netlink uevent", "socket", (16, 3, 15), "EPROTONOSUPPORT"),
    ("netlink netfilter", "socket", (16, 3, 12), "EPROTONOSUPPORT"),
    ("raw socket", "socket", (2, 3, 1), "EPROTONOSUPPORT"),
    ("raw socket, high bits", "socket", (2, 1 << 32 | 3, 255), "EPROTONOSUPPORT"),
    ("raw socket, close on exec", "socket", (2, 3 | 0o2000000, 1), "EPROTONOSUPPORT"),
    ("raw socket of IPv6", "socket", (10, 3, 58), "EPROTONOSUPPORT"),
    ("packets the old way", "socket", (2, 10, 0x300), "EPROTONOSUPPORT"),
    ("multipath TCP", "socket", (2, 1, 262), "EPROTONOSUPPORT"),
    ("multipath TCP of IPv6", "socket", (10, 1, 262), "EPROTONOSUPPORT"),
    ("readable is executable", "personality", (READ_IMPLIES_EXEC,), "EPERM"),
    ("persona with high bits", "personality", (1 << 32 | READ_IMPLIES_EXEC,), "EPERM"),
]

REFUSALS = [
    *(
        pytest.param(name, ATTEMPTS[name], error, id=name)
        for verdicts in REFUSED.values()
        for error, names in verdicts.items()
        for name in names.split()
        if name in NUMBERS
    ),
    *(pytest.param(name, args, error, id=title) for title, name, args, error in BY_ARGUMENT),
]


@pytest.mark.parametrize(("name", "arguments", "error"), REFUSALS)
def test_behind_the_filter_the_call_fails(
    name: str, arguments: tuple[int, ...], error: str
) -> None:
    assert outcome(name, arguments, program(MACHINE)) == error


@needs_root
@pytest.mark.parametrize(("name", "arguments", "error"), REFUSALS)
def test_without_the_filter_the_kernel_gives_the_same_call_another_answer(
    name: str, arguments: tuple[int, ...], error: str
) -> None:
    answer = outcome(name, arguments, None)
    assert answer == "ok" or answer in errno.errorcode.values()
    assert answer != error


@pytest.mark.parametrize("number", [463, 464, 465, 466, 468, 469])
def test_a_call_newer_than_our_review_is_there_and_the_filter_hides_it(number: int) -> None:
    arguments = (NO_FD, NOWHERE, 0, 0, WRONG, 0)
    if outcome(number, arguments, None) == "ENOSYS":
        pytest.skip("this kernel is too old to have such a call")
    assert outcome(number, arguments, program(MACHINE)) == "ENOSYS"


def type_into_own_terminal(request: int) -> str:
    """Push a character into the terminal, as if the person had typed it, and see what arrives."""
    _master, slave = pty.openpty()
    tty.setraw(slave)
    assert call("ioctl", slave, 0x540E, 0) == "ok"  # TIOCSCTTY
    character = ctypes.create_string_buffer(b"x")
    answer = call("ioctl", slave, request, ctypes.addressof(character))
    arrived, _, _ = select.select([slave], [], [], 0.1)
    return f"{answer} {os.read(slave, 10) if arrived else b''!r}"


@needs_root
@pytest.mark.parametrize("high", [0, 1 << 32, 0xFFFFFFFF << 32])
def test_nothing_is_typed_into_the_terminal_but_by_the_person(high: int) -> None:
    request = high | 0x5412
    assert in_child(lambda: type_into_own_terminal(request), behind=None) == "ok b'x'"
    behind = in_child(lambda: type_into_own_terminal(request), behind=program(MACHINE))
    assert behind == "EPERM b''"


def read_own_memory() -> str:
    secret = ctypes.create_string_buffer(b"secret")
    copied = ctypes.create_string_buffer(len(secret))
    there = (ctypes.c_ulong * 2)(ctypes.addressof(secret), len(secret))
    here = (ctypes.c_ulong * 2)(ctypes.addressof(copied), len(copied))
    into, source = ctypes.addressof(here), ctypes.addressof(there)
    return f"{call('process_vm_readv', os.getpid(), into, 1, source, 1, 0)} {copied.value!r}"


def test_debugging_works_once_asked_for() -> None:
    assert in_child(read_own_memory, behind=program(MACHINE, ptrace=True)) == "ok b'secret'"
    assert in_child(lambda: call("ptrace", 0), behind=program(MACHINE, ptrace=True)) == "ok"


def test_debugging_is_off_otherwise() -> None:
    assert in_child(read_own_memory, behind=program(MACHINE)) == "EPERM b''"
    assert in_child(lambda: call("ptrace", 0), behind=program(MACHINE)) == "EPERM"


INT80 = r"""
#include <stdio.h>
int main(void) {
    long id;
    __asm__ volatile("int $0x80" : "=a"(id) : "a"(20) : "memory");
    printf("%ld\n", id);
    return 0;
}
"""

if MACHINE == "x86_64":

    def test_a_call_through_the_table_of_i386_ends_the_process(tmp_path: Path) -> None:
        (tmp_path / "int80.c").write_text(INT80)
        caller = str(tmp_path / "int80")
        subprocess.run(["gcc", "-o", caller, f"{caller}.c"], check=True)
        with subprocess.Popen([caller], stdout=subprocess.PIPE, text=True) as free:
            answer, _ = free.communicate()
            assert answer == f"{free.pid}\n"
        fenced = behind_filter([caller])
        assert fenced.returncode == -signal.SIGSYS
        assert fenced.stdout == ""
