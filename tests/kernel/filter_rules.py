"""The rules of the filter once more: said by hand and in plain words, sharing nothing with it."""

from __future__ import annotations

from collections.abc import Iterator

from ags.kernel import syscalls
from tests.kernel.bpf import NATIVE

HIGH = 0xDEADBEEF << 32
"""Noise in the half of an argument that the kernel does not look at."""

REFUSED: dict[str, dict[str, str]] = {
    "namespaces": {"EPERM": "setns", "ENOSYS": "clone3"},
    "mounts": {
        "EPERM": "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount"
        " mount_setattr fsopen fsconfig fsmount fspick",
        "ENOSYS": "statmount listmount",
    },
    "set-id": {"ENOSYS": "openat2"},
    "keyring": {"EPERM": "add_key request_key keyctl"},
    "bpf": {"EPERM": "bpf"},
    "perf": {"EPERM": "perf_event_open"},
    "userfaultfd": {"EPERM": "userfaultfd"},
    "io_uring": {"ENOSYS": "io_uring_setup io_uring_enter io_uring_register"},
    "ptrace": {
        "EPERM": "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise"
    },
    "kexec": {"EPERM": "kexec_load kexec_file_load"},
    "modules": {
        "EPERM": "init_module finit_module delete_module create_module query_module get_kernel_syms"
    },
    "handles": {"EPERM": "open_by_handle_at name_to_handle_at"},
    "quota": {"EPERM": "quotactl quotactl_fd"},
    "fanotify": {"EPERM": "fanotify_init fanotify_mark"},
    "system": {"EPERM": "acct swapon swapoff reboot syslog vhangup"},
    "clock": {"EPERM": "settimeofday clock_settime"},
    "hostname": {"EPERM": "sethostname setdomainname"},
    "hardware": {"EPERM": "iopl ioperm modify_ldt"},
    "pages": {"EPERM": "move_pages migrate_pages"},
    "obsolete": {
        "EPERM": "uselib ustat sysfs _sysctl lookup_dcookie nfsservctl afs_syscall getpmsg putpmsg"
        " security tuxcall vserver epoll_ctl_old epoll_wait_old"
    },
}

ONLY_X86_64 = (
    "iopl ioperm modify_ldt create_module query_module get_kernel_syms uselib ustat sysfs _sysctl"
    " afs_syscall getpmsg putpmsg security tuxcall vserver epoll_ctl_old epoll_wait_old"
    " open creat chmod mknod"
)

# (group, call, arguments, verdict)
JUDGED_BY_ARGUMENT: list[tuple[str, str, tuple[int, ...], str]] = [
    *(
        ("terminal", "ioctl", (0, high | request), "EPERM")
        for request in (0x5412, 0x541C, 0x541D, 0x5423)
        for high in (0, 1 << 32, HIGH)
    ),
    *(
        ("set-id", call, (*(0,) * place, high | mode), "EPERM")
        for call, place in (("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("mknodat", 2))
        for mode in (0o4755, 0o2755, 0o6000, 0o104755)
        for high in (0, HIGH)
    ),
    *(
        ("set-id", "openat", (0, 0, high | flags, high | mode), "EPERM")
        for flags in (0o100, 0o101, 0o302, 0o20200002)
        for mode in (0o4755, 0o2700, 0o6777)
        for high in (0, HIGH)
    ),
    *(
        ("namespaces", call, (high | flag,), "EPERM")
        for call in ("clone", "unshare")
        for flag in (1 << 17, *(1 << bit for bit in range(25, 31)), 0x7E020000)
        for high in (0, HIGH)
    ),
    ("namespaces", "clone", (0x10000000 | 0x11,), "EPERM"),
    ("namespaces", "unshare", (0x80,), "EPERM"),
    ("namespaces", "unshare", (0x00100000,), "EPERM"),
    ("namespaces", "unshare", (0x400 | 0x10000000,), "EPERM"),
    *(
        ("sockets", call, (high | family, 1, 0), "EAFNOSUPPORT")
        for call in ("socket", "socketpair")
        for family in (0, 3, 9, 15, 17, 21, 29, 30, 31, 38, 40, 43, 44, 45, 255, 0xFFFFFFFF)
        for high in (0, HIGH)
    ),
    *(
        ("sockets", "socket", (high | 16, 3, high | protocol), "EPROTONOSUPPORT")
        for protocol in (2, 4, 6, 9, 12, 15, 16, 0xFFFFFFFF)
        for high in (0, HIGH)
    ),
    *(
        ("sockets", "socket", (family, high | kind, 0), "EPROTONOSUPPORT")
        for family in (2, 10)
        for kind in (0, 3, 4, 5, 6, 10, 3 | 0o2000000, 3 | 0o4000, 10 | 0o2004000)
        for high in (0, HIGH)
    ),
    *(
        ("sockets", "socket", (family, 1, high | protocol), "EPROTONOSUPPORT")
        for family in (2, 10)
        for protocol in (2, 33, 132, 136, 255, 256, 262, 0x10006, 0xFFFFFFFF)
        for high in (0, HIGH)
    ),
    *(
        ("personality", "personality", (high | persona,), "EPERM")
        for persona in (1, 4, 0x10000, 0x20001, 0x400000, 0x440000, 0x100000, 0xFFFFFFFE)
        for high in (0, HIGH)
    ),
]

ALLOWED_BY_ARGUMENT: list[tuple[str, tuple[int, ...]]] = [
    *(("ioctl", (0, request)) for request in (0x5401, 0x5410, 0x5413, 0x5414, 0x540E, 0x5421)),
    ("ioctl", (0x5412, 0x5401, 0x5412)),
    *((call, (0, 0o755)) for call in ("fchmod",)),
    *((call, (0, 0, mode)) for call in ("fchmodat", "mknodat") for mode in (0o644, 0o1777)),
    ("openat", (0, 0, 0o100, 0o644)),
    ("openat", (0, 0, 0, 0o6777)),  # opens what is there: the mode is noise
    ("openat", (0, 0, 0o200000, 0o4000)),  # O_DIRECTORY alone is not O_TMPFILE
    ("ioctl", (0, 0x15412)),
    ("clone", (0x11,)),
    ("clone", (0x4111,)),  # vfork
    ("clone", (0x3D0F00,)),  # a thread of glibc's
    ("clone", (0x50F00,)),  # a thread of Go's
    ("clone", (0x1200011,)),  # fork of glibc's
    ("clone", (0x80 | 0x11,)),
    *(("unshare", (flags,)) for flags in (0, 0x200, 0x400, 0x600, 0x40000)),
    *(
        ("socket", (HIGH | family, HIGH | kind | flags, HIGH | protocol))
        for family in (2, 10)
        for kind in (1, 2)
        for flags in (0, 0o2000000, 0o4000, 0o2004000)
        for protocol in (0, 1, 6, 17, 58)
    ),
    *(("socket", (1, kind | 0o2000000, 0)) for kind in (1, 2, 3, 5)),
    *(("socketpair", (1, kind, 0)) for kind in (1, 2, 5)),
    ("socket", (16, 3 | 0o2000000, 0)),
    ("socket", (16, 2, HIGH)),
    *(
        ("personality", (persona,))
        for persona in (0, 0xFFFFFFFF, 0x8, 0x20000, 0x20008, 0x40000, HIGH, 0xFFFFFFFFFFFFFFFF)
    ),
]

ALLOWED = {
    "every program": "read write close fstat lseek mmap mprotect munmap brk execve exit exit_group"
    " rt_sigaction rt_sigprocmask rt_sigreturn futex set_tid_address set_robust_list rseq getrandom"
    " prlimit64 openat newfstatat statx readlinkat getcwd uname prctl wait4 waitid kill tgkill",
    "compilers and make": "execveat pipe2 dup3 unlinkat renameat renameat2 mkdirat fchmodat"
    " fchmodat2 faccessat2 linkat symlinkat utimensat ftruncate fallocate madvise mremap getrusage"
    " sched_getaffinity times umask truncate copy_file_range sync_file_range flock fcntl",
    "Node": "epoll_create1 epoll_ctl epoll_pwait eventfd2 timerfd_create inotify_init1"
    " inotify_add_watch inotify_rm_watch accept4 sendmmsg recvmmsg preadv pwritev statfs"
    " pkey_alloc pkey_mprotect membarrier sysinfo getpriority setpriority close_range",
    "Python": "getdents64 memfd_create pidfd_open pidfd_send_signal sendfile splice signalfd4"
    " setsid setpgid getresuid setitimer nanosleep clock_nanosleep shmget shmat semget semtimedop"
    " msgget mq_open getxattr setxattr sigaltstack clock_gettime setrlimit",
    "Go": "tgkill sched_yield mincore epoll_pwait2 timer_create timer_settime timer_delete gettid"
    " pselect6 ppoll setgroups capget capset rt_sigtimedwait tkill",
    "Java": "mlock munlock sched_setaffinity get_mempolicy set_mempolicy mbind clock_getres"
    " rt_sigsuspend fadvise64 msync getcpu mlock2 mlockall process_mrelease",
    "git": "fsync fdatasync syncfs chdir fchdir fchownat fchown readv writev pread64 pwrite64",
    "tmux and shells": "getpgid getsid setreuid setresuid setfsuid restart_syscall mknodat",
    "sandboxes inside": "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    "databases": "io_setup io_submit io_getevents io_destroy io_pgetevents ioprio_set readahead",
    "networks": "bind listen accept connect getsockname getpeername sendto recvfrom sendmsg"
    " recvmsg setsockopt getsockopt shutdown",
    "newer C libraries": "futex_waitv futex_wake futex_wait futex_requeue mseal map_shadow_stack"
    " cachestat memfd_secret lsm_get_self_attr",
    "telling the time": "gettimeofday adjtimex clock_adjtime",
}

ALLOWED_ON_X86_64 = (
    "open stat lstat access poll select pipe dup2 fork vfork unlink rename mkdir rmdir readlink"
    " chmod link symlink epoll_wait epoll_create inotify_init eventfd signalfd arch_prctl alarm"
    " pause getpgrp time utimes getdents creat"
)


def named(machine: str, group: str) -> Iterator[tuple[int, str]]:
    """Numbers and verdicts of what a group refuses whatever the arguments are."""
    numbers = syscalls.numbers(machine)
    for error, names in REFUSED.get(group, {}).items():
        yield from ((numbers[name], error) for name in names.split() if name in numbers)


def expected(machine: str, architecture: int, number: int, arguments: tuple[int, ...]) -> str:
    """The rules, said in plain Python."""
    if architecture != NATIVE[machine]:
        return "kill"
    names = {value: name for name, value in syscalls.numbers(machine).items()}
    first, second, third, fourth = ((a & 0xFFFFFFFF) for a in (*arguments, 0, 0, 0, 0)[:4])
    match names.get(number):
        case None:
            return "ENOSYS"
        case "chmod" | "fchmod" | "creat" | "mknod":
            return "EPERM" if second & 0o6000 else "allow"
        case "fchmodat" | "fchmodat2" | "mknodat":
            return "EPERM" if third & 0o6000 else "allow"
        case "open":
            return "EPERM" if second & 0o20000100 and third & 0o6000 else "allow"
        case "openat":
            return "EPERM" if third & 0o20000100 and fourth & 0o6000 else "allow"
        case "ioctl":
            return "EPERM" if second in (0x5412, 0x541C, 0x541D, 0x5423) else "allow"
        case "clone":
            return "EPERM" if first & 0x7E020000 else "allow"
        case "unshare":
            return "EPERM" if first & ~0x50F00 else "allow"
        case "personality":
            fine = first in (0, 8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
            return "allow" if fine else "EPERM"
        case "socket" | "socketpair":
            return expected_socket(first, second % 16, third)
        case name:
            for verdicts in REFUSED.values():
                for error, refused in verdicts.items():
                    if name in refused.split():
                        return error
            return "allow"


def expected_socket(family: int, kind: int, protocol: int) -> str:
    if family == 1 or (family == 16 and protocol == 0):
        return "allow"
    if family in (2, 10):
        fine = kind in (1, 2) and protocol in (0, 1, 6, 17, 58)
        return "allow" if fine else "EPROTONOSUPPORT"
    return "EPROTONOSUPPORT" if family == 16 else "EAFNOSUPPORT"
