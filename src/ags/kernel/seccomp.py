"""The system call filter, as the BPF bytes that `bwrap --seccomp FD` takes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from errno import EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT
from typing import NamedTuple

from ags.errors import AgsError
from ags.kernel import syscalls

ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What the kernel calls a machine in `seccomp_data.arch`. All are little-endian."""

ALL_BITS = 0xFFFFFFFF


# Named tuples, not dataclasses: five of those take 5 ms to import, as long as bwrap to start.


class Argument(NamedTuple):
    """A test on the low half of one argument: once masked, it is among the values, or is not.

    The kernel drops the high half of these arguments (unshare refuses it). A filter that compares
    all 64 bits lets `TIOCSTI | 1 << 32` pass, which the kernel then takes for TIOCSTI.
    """

    position: int
    values: tuple[int, ...]
    mask: int = ALL_BITS
    among: bool = True


class Calls(NamedTuple):
    """These calls, as far as the machine has them, fail with `errno` when all tests hold."""

    names: tuple[str, ...]
    errno: int = EPERM
    when: tuple[Argument, ...] = ()


class ForeignArchitecture(NamedTuple):
    """A call through another architecture's table, where our numbers mean other calls.

    It ends the process: a program whose every call fails, `exit` included, may spin for ever.
    """


class ForeignNumbers(NamedTuple):
    """Calls whose number has any of these bits: a second table under our own architecture."""

    bits: int
    errno: int


class Settled(NamedTuple):
    """No rule after this one is about these calls, so they are allowed here.

    For calls made all the time: judged by their arguments, they are judged each time anew.
    """

    names: tuple[str, ...]


class Unreviewed(NamedTuple):
    """Calls in no table of ours. What a newer kernel adds stays shut until it was looked at."""

    errno: int


Rule = Calls | Settled | ForeignArchitecture | ForeignNumbers | Unreviewed

X32_BIT = 0x40000000

CLONE_NEW = 0x7E020000
"""NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; clone() cannot ask for NEWTIME."""
UNSHARE_HARMLESS = 0x00050F00
"""VM, FS, FILES, SIGHAND, THREAD, SYSVSEM. All others are namespaces, or will be."""

TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD = 0x5412, 0x541C, 0x541D, 0x5423

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM, SOCK_TYPE_MASK = 1, 2, 0xF
IPPROTO_ANY, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6 = 0, 1, 6, 17, 58
NETLINK_ROUTE = 0

PER_LINUX32, UNAME26, ADDR_NO_RANDOMIZE, ASK_PERSONALITY = 0x8, 0x20000, 0x40000, ALL_BITS

SET_ID, MAKES_A_FILE = 0o6000, 0o20000100
"""S_ISUID and S_ISGID; O_CREAT and O_TMPFILE, without which open() does not look at its mode."""


def _any_of(position: int, bits: int) -> Argument:
    return Argument(position, (0,), mask=bits, among=False)


_SOCKETS = ("socket", "socketpair")
_INTERNET = Argument(0, (AF_INET, AF_INET6))

# In the order of the program: all other rules rely on the foreign ones to have sorted out what a
# number means. EPERM, unless programs have a way around ENOSYS.
RULES: Mapping[str, tuple[Rule, ...]] = {
    "foreign": (ForeignArchitecture(), ForeignNumbers(X32_BIT, ENOSYS)),
    # On the host such a file would run as its owner, for anybody: as root, if root started us.
    "set-id": (
        Calls(("openat",), when=(_any_of(2, MAKES_A_FILE), _any_of(3, SET_ID))),
        Calls(("open",), when=(_any_of(1, MAKES_A_FILE), _any_of(2, SET_ID))),
        Settled(("openat", "open")),
        Calls(("chmod", "fchmod", "creat", "mknod"), when=(_any_of(1, SET_ID),)),
        Calls(("fchmodat", "fchmodat2", "mknodat"), when=(_any_of(2, SET_ID),)),
        # Its mode is behind a pointer. Who knows this call knows to go on without it.
        Calls(("openat2",), ENOSYS),
    ),
    "unknown": (Unreviewed(ENOSYS),),
    "terminal": (Calls(("ioctl",), when=(Argument(1, (TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD)),)),),
    "namespaces": (
        Calls(("clone",), when=(Argument(0, (0,), mask=CLONE_NEW, among=False),)),
        Calls(
            ("unshare",),
            when=(Argument(0, (0,), mask=ALL_BITS ^ UNSHARE_HARMLESS, among=False),),
        ),
        Calls(("setns",)),
        # Its flags are behind a pointer, out of a filter's sight. C libraries go on with clone.
        Calls(("clone3",), ENOSYS),
    ),
    "sockets": (
        Calls(
            _SOCKETS,
            EAFNOSUPPORT,
            (Argument(0, (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK), among=False),),
        ),
        Calls(
            _SOCKETS,
            EPROTONOSUPPORT,
            (Argument(0, (AF_NETLINK,)), Argument(2, (NETLINK_ROUTE,), among=False)),
        ),
        Calls(
            _SOCKETS,
            EPROTONOSUPPORT,
            (_INTERNET, Argument(1, (SOCK_STREAM, SOCK_DGRAM), SOCK_TYPE_MASK, among=False)),
        ),
        # Multipath TCP is none of these: it can dial more addresses than the one it was given.
        Calls(
            _SOCKETS,
            EPROTONOSUPPORT,
            (
                _INTERNET,
                Argument(
                    2,
                    (IPPROTO_ANY, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6),
                    among=False,
                ),
            ),
        ),
    ),
    "personality": (
        Calls(
            ("personality",),
            when=(
                Argument(
                    0,
                    (
                        0,
                        PER_LINUX32,
                        UNAME26,
                        PER_LINUX32 | UNAME26,
                        ADDR_NO_RANDOMIZE,
                        ASK_PERSONALITY,
                    ),
                    among=False,
                ),
            ),
        ),
    ),
    "mounts": (
        Calls(("mount", "umount2", "pivot_root", "chroot")),
        Calls(("open_tree", "open_tree_attr", "move_mount", "mount_setattr")),
        Calls(("fsopen", "fsconfig", "fsmount", "fspick")),
        # Readers go on with /proc/self/mountinfo.
        Calls(("statmount", "listmount"), ENOSYS),
    ),
    "keyring": (Calls(("add_key", "request_key", "keyctl")),),
    "bpf": (Calls(("bpf",)),),
    "perf": (Calls(("perf_event_open",)),),
    "userfaultfd": (Calls(("userfaultfd",)),),
    "io_uring": (Calls(("io_uring_setup", "io_uring_enter", "io_uring_register"), ENOSYS),),
    "ptrace": (
        Calls(("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise")),
        Calls(("kcmp", "pidfd_getfd")),
    ),
    "kexec": (Calls(("kexec_load", "kexec_file_load")),),
    "modules": (
        Calls(("init_module", "finit_module", "delete_module")),
        Calls(("create_module", "query_module", "get_kernel_syms")),
    ),
    "handles": (Calls(("open_by_handle_at", "name_to_handle_at")),),
    "quota": (Calls(("quotactl", "quotactl_fd")),),
    "fanotify": (Calls(("fanotify_init", "fanotify_mark")),),
    "system": (Calls(("acct", "swapon", "swapoff", "reboot", "syslog", "vhangup")),),
    # adjtimex and clock_adjtime also tell the time's quality, and set nothing without a capability.
    "clock": (Calls(("settimeofday", "clock_settime")),),
    "hostname": (Calls(("sethostname", "setdomainname")),),
    "hardware": (Calls(("iopl", "ioperm", "modify_ldt")),),
    "pages": (Calls(("move_pages", "migrate_pages")),),
    "obsolete": (
        Calls(("uselib", "ustat", "sysfs", "_sysctl", "lookup_dcookie", "nfsservctl")),
        Calls(("afs_syscall", "getpmsg", "putpmsg", "security", "tuxcall", "vserver")),
        Calls(("epoll_ctl_old", "epoll_wait_old")),
    ),
}

GROUPS: tuple[str, ...] = tuple(RULES)


def program(machine: str, *, ptrace: bool = False) -> bytes:
    """The filter for `platform.machine()`; with `ptrace`, debuggers work inside."""
    if machine not in ARCHITECTURES:
        raise AgsError(
            "build the system call filter",
            subject=machine,
            cause="the system calls of this kind of machine have not been reviewed",
            hint=f"use a machine of one of these kinds: {', '.join(ARCHITECTURES)}",
        )
    numbers = syscalls.numbers(machine)
    steps: list[Step] = []
    for group, rules in RULES.items():
        if not (ptrace and group == "ptrace"):
            for rule in rules:
                steps += _refusal(rule, machine, numbers)
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(_STEP.pack(*step) for step in steps)


# From here on: struct sock_filter and struct seccomp_data of the kernel.

Step = tuple[int, int, int, int]
"""Code, how many steps to skip if true, how many if false, operand."""
_STEP = struct.Struct("<HBBI")

_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_IF_EQUAL, _IF_GREATER, _IF_NOT_LESS = 0x15, 0x25, 0x35
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def _refusal(rule: Rule, machine: str, numbers: Mapping[str, int]) -> list[Step]:
    match rule:
        case ForeignArchitecture():
            native = (ARCHITECTURES[machine],)
            return _provided(_ARCHITECTURE, native, [(_RETURN, 0, 0, _KILL_PROCESS)], among=False)
        case ForeignNumbers(bits, errno):
            return _provided(_NUMBER, (0,), _fail(errno), mask=bits, among=False)
        case Settled(names):
            here = [numbers[name] for name in names if name in numbers]
            return _provided(_NUMBER, here, [(_RETURN, 0, 0, _ALLOW)])
        case Unreviewed(errno):
            return _in_ranges(syscalls.gaps(machine), _fail(errno))
        case Calls(names, errno, when):
            body = _fail(errno)
            for test in reversed(when):
                low_half = _ARGUMENTS + 8 * test.position
                body = _provided(low_half, test.values, body, mask=test.mask, among=test.among)
            here = [numbers[name] for name in names if name in numbers]
            return _provided(_NUMBER, here, body)


def _fail(errno: int) -> list[Step]:
    return [(_RETURN, 0, 0, _ERRNO | errno)]


def _provided(
    word: int,
    values: Sequence[int],
    body: list[Step],
    *,
    mask: int = ALL_BITS,
    among: bool = True,
) -> list[Step]:
    """`body`, or past its end, as the word at that offset is among the values or not.

    A conditional jump reaches only 255 steps, so it goes no further than over the plain jump
    that follows it.
    """
    steps: list[Step] = [(_LOAD, 0, 0, word)]
    if mask != ALL_BITS:
        steps.append((_AND, 0, 0, mask))
    tail: list[Step] = [(_JUMP, 0, 0, len(body)), *body] if among else body
    match_lands = 1 if among else len(tail)
    for left, value in zip(reversed(range(len(values))), values, strict=True):
        steps += [(_IF_EQUAL, 0, 1, value), (_JUMP, 0, 0, 2 * left + match_lands)]
    return steps + tail


def _in_ranges(ranges: Iterable[tuple[int, int]], outcome: list[Step]) -> list[Step]:
    """`outcome`, a single return, for numbers in any of the ranges, both ends included."""
    steps: list[Step] = [(_LOAD, 0, 0, _NUMBER)]
    for first, last in ranges:
        steps += [(_IF_NOT_LESS, 0, 2, first), (_IF_GREATER, 1, 0, last), *outcome]
    return steps
