"""Facts of the machine. Reads and tries, never judges: that is `ags.doctor`.

What is read from files takes the root of the tree, so that any machine can be laid out in a test.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from ags import proc
from ags.frozen import frozen

ROOT = Path("/")
# The backend calls both by these paths.
SETSID, SHELL = Path("/usr/bin/setsid"), Path("/bin/sh")

_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_LANDLOCK_VERSION_FLAG = 1
_CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_TRIAL_SECONDS = 10
# An automount point of systemd on an empty directory: hides nothing, so the kernel ignores it.
_HARMLESS_PROC_MOUNT = "/proc/sys/fs/binfmt_misc"


@frozen
class Machine:
    """What it is. None or an empty text: could not be read."""

    kernel: str
    architecture: str
    memory: int | None
    container: str
    """Empty, or what kind of container this looks like."""
    families: tuple[str, ...]
    """The distribution and those it is like, as os-release names them."""
    systemd: bool
    proc_masks: tuple[str, ...]
    """What is mounted over parts of /proc; the kernel then refuses a fresh one in a namespace."""


@frozen
class NamespaceSwitches:
    """The settings that can forbid user namespaces. None: this kernel has no such setting."""

    maximum: int | None = None
    unprivileged: int | None = None
    apparmor_restricts: int | None = None


@frozen
class Security:
    """What the kernel offers, and which of its security modules are at work."""

    seccomp: bool | None
    landlock: int | None
    """The ABI version; 0 if there is none; None if the question was refused."""
    selinux: str
    """`enforcing`, `permissive`, or empty."""
    apparmor: bool
    apparmor_profiles: tuple[str, ...] | None
    """Names of the loaded ones. None: only root may read them."""


@frozen
class Trial:
    """One thing that was tried for real."""

    ok: bool
    cause: str = ""


@frozen
class Trials:
    """What the kernel let a sandbox program do."""

    namespace: Trial
    proc: Trial
    capabilities: int | None
    """All five sets of a process inside, together. None: no process got that far."""


@frozen
class Tool:
    """A program that was found and asked for its version."""

    path: str
    version: str


@frozen
class Tools:
    """Programs that runs lean on. None: not installed."""

    git: Tool | None
    setsid: Tool | None
    shell: bool
    tmux: Tool | None
    node: Tool | None


@frozen
class Folder:
    """A folder as it is. Without a mode: it is not there, or `trouble` says why it is unknown."""

    path: Path
    mode: int | None = None
    owner: int | None = None
    trouble: str = ""


def version(text: str) -> tuple[int, ...] | None:
    """The first dotted number in a text: `git version 2.39.5` is (2, 39, 5)."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else None


def machine(root: Path = ROOT, uname: Callable[[], os.uname_result] = os.uname) -> Machine:
    return Machine(
        kernel=read(root, "proc/sys/kernel/osrelease"),
        architecture=uname().machine,
        memory=memory(root),
        container=container(root),
        families=families(root),
        systemd=(root / "run/systemd/system").is_dir(),
        proc_masks=proc_masks(root),
    )


def memory(root: Path = ROOT) -> int | None:
    """Bytes of the whole machine."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", read(root, "proc/meminfo"), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def container(root: Path = ROOT) -> str:
    """What kind of container this looks like from inside, or nothing."""
    named = read(root, "run/systemd/container")
    if named:
        return named
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    found = re.search(r"docker|kubepods|libpod|lxc", read(root, "proc/1/cgroup"))
    return found.group() if found else ""


def families(root: Path = ROOT) -> tuple[str, ...]:
    text = read(root, "etc/os-release") or read(root, "usr/lib/os-release")
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return tuple(
        name for key in ("ID", "ID_LIKE") for name in fields.get(key, "").strip("\"'").split()
    )


def proc_masks(root: Path = ROOT) -> tuple[str, ...]:
    lines = read(root, "proc/self/mountinfo").splitlines()
    points = [line.split()[4] for line in lines if len(line.split()) > 4]
    return tuple(
        point for point in points if point.startswith("/proc/") and point != _HARMLESS_PROC_MOUNT
    )


def namespace_switches(root: Path = ROOT) -> NamespaceSwitches:
    return NamespaceSwitches(
        maximum=_number(root, "proc/sys/user/max_user_namespaces"),
        unprivileged=_number(root, "proc/sys/kernel/unprivileged_userns_clone"),
        apparmor_restricts=_number(root, "proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    )


def security(root: Path = ROOT) -> Security:
    return Security(
        seccomp=seccomp(root),
        landlock=landlock(),
        selinux={"1": "enforcing", "0": "permissive"}.get(read(root, "sys/fs/selinux/enforce"), ""),
        apparmor=read(root, "sys/module/apparmor/parameters/enabled") == "Y",
        apparmor_profiles=apparmor_profiles(root),
    )


def seccomp(root: Path = ROOT) -> bool | None:
    """Whether filters can be installed; None where /proc does not tell."""
    actions = read(root, "proc/sys/kernel/seccomp/actions_avail").split()
    if actions:
        return {"errno", "kill_process"} <= set(actions)
    status = read(root, "proc/self/status")
    return "\nSeccomp:" in status if status else None


def landlock() -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    number, flag = ctypes.c_long(_LANDLOCK_CREATE_RULESET), ctypes.c_uint(_LANDLOCK_VERSION_FLAG)
    answer = int(libc.syscall(number, None, ctypes.c_size_t(0), flag))
    if answer >= 0:
        return answer
    return 0 if ctypes.get_errno() in (errno.ENOSYS, errno.EOPNOTSUPP) else None


def apparmor_profiles(root: Path = ROOT) -> tuple[str, ...] | None:
    try:
        text = (root / "sys/kernel/security/apparmor/profiles").read_text()
    except OSError:
        return None
    return tuple(line.rsplit(" (", 1)[0] for line in text.splitlines())


def free_room(path: Path) -> int | None:
    """Bytes an ordinary user may still write where `path` is or will be."""
    for place in (path, *path.parents):
        try:
            room = os.statvfs(place)
        except OSError:
            continue
        return room.f_bavail * room.f_frsize
    return None


def folder(path: Path) -> Folder:
    """Links are followed: a state folder on another disk is the person's good right."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return Folder(path)
    except OSError as error:
        return Folder(path, trouble=error.strerror or str(error))
    if not stat.S_ISDIR(facts.st_mode):
        return Folder(path, trouble="it is not a folder")
    return Folder(path, stat.S_IMODE(facts.st_mode), facts.st_uid)


def folder_apart(path: Path, home: Path) -> Folder:
    """A folder that is ours alone to close: not one that holds the home, nor a shared one."""
    found = folder(path)
    if home.resolve().is_relative_to(path.resolve()):
        return Folder(path, trouble="it contains your home")
    if found.mode is not None and found.mode & stat.S_ISVTX:
        return Folder(path, trouble="all users share it")
    return found


def find_program(name: str, search: str) -> str | None:
    """As the shell finds it, except that a relative folder in PATH never counts."""
    for place in search.split(":"):
        candidate = Path(place) / name
        if place.startswith("/") and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


async def tool(name: str, search: str, *ask: str) -> Tool | None:
    """A program and the first line of its answer to `ask`, e.g. --version."""
    path = find_program(name, search)
    if path is None:
        return None
    try:
        result = await proc.run((path, *ask), timeout=_TRIAL_SECONDS, check=False)
    except proc.ProcessError:
        return Tool(path, "")
    answer = result.text or result.stderr.decode(errors="replace")
    return Tool(path, answer.strip().split("\n", 1)[0])


async def tools(search: str) -> Tools:
    """`search` is the person's PATH."""
    git, setsid, tmux, node = await asyncio.gather(
        tool("git", search, "--version"),
        tool(SETSID.name, str(SETSID.parent), "--version"),
        tool("tmux", search, "-V"),
        tool("node", search, "--version"),
    )
    return Tools(git, setsid, os.access(SHELL, os.X_OK), tmux, node)


async def trials(bwrap: str) -> Trials:
    """Start the sandbox program twice: with least demands, and with a /proc of its own."""
    least = (bwrap, "--unshare-user", "--ro-bind", "/", "/")
    # The program itself is the one command that is certain to be there.
    namespace, _ = await _attempt((*least, "--", bwrap, "--version"))
    more = (*least, "--unshare-pid", "--cap-drop", "ALL", "--proc", "/proc")
    mounted, status = await _attempt((*more, "--", "cat", "/proc/self/status"))
    return Trials(namespace, mounted, capabilities(status) if mounted.ok else None)


def capabilities(status: str) -> int | None:
    """Every capability in any set of a /proc/PID/status, as bits; None unless all sets are told."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if not all(name in fields for name in _CAPABILITY_SETS):
        return None
    bits = 0
    for name in _CAPABILITY_SETS:
        bits |= int(fields[name], 16)
    return bits


async def _attempt(argv: tuple[str, ...]) -> tuple[Trial, str]:
    try:
        result = await proc.run(argv, timeout=_TRIAL_SECONDS, check=False)
    except proc.ProcessError as error:
        return Trial(False, error.cause.split("\n", 1)[0]), ""
    if result.code == 0:
        return Trial(True), result.text
    said = result.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")
    return Trial(False, said or f"exit code {result.code}"), ""


def read(root: Path, name: str) -> str:
    """A missing or forbidden file of the kernel reads as empty; which one matters to no caller."""
    try:
        return (root / name).read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(root: Path, name: str) -> int | None:
    text = read(root, name)
    return int(text) if text.lstrip("-").isdigit() else None
