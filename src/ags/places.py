"""Places of the host that no sandbox may be handed, whatever they are called."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.model import Weakening

# Relative to the home: keys, log-ins, password stores, browsers, and the agents' own log-ins.
CREDENTIAL_FOLDERS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".password-store",
    ".terraform.d", ".config/gcloud", ".config/gh", ".config/op", ".config/hub", ".config/rclone",
    ".config/containers", ".local/share/keyrings", ".local/share/kwalletd", ".mozilla",
    ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    ".claude", ".codex", ".gemini", ".pi", ".local/share/opencode", ".mcp-auth",
)  # fmt: skip

# Handed out whole, these would show or change what belongs to everybody.
SHARED_FOLDERS = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt",
    "/opt", "/proc", "/root", "/run", "/sbin", "/snap", "/srv", "/sys", "/tmp", "/usr", "/var",
    "/var/lib", "/var/run", "/var/tmp",
)  # fmt: skip

# Nothing below these is anybody's project.
SYSTEM_FOLDERS = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/sbin", "/usr/share",
    "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/var/run",
)  # fmt: skip

# Ours inside the sandbox: a mount of the person's may not cover or share them.
MADE_INSIDE = (
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    "/ags",
)


@dataclass(frozen=True, slots=True)
class Places:
    """The person's home and the run's, AGS's state and settings."""

    homes: tuple[Path, ...]
    ags_home: Path
    settings: Path

    @property
    def credentials(self) -> tuple[Path, ...]:
        return tuple(home / name for home in self.homes for name in CREDENTIAL_FOLDERS)

    @property
    def own(self) -> tuple[Path, ...]:
        return (*self.homes, self.ags_home, self.settings)

    @property
    def forbidden(self) -> tuple[Path, ...]:
        """What may neither be mounted nor lie below a mount."""
        return (*self.own, *self.credentials)


def resolve(path: Path, flag: str) -> Path:
    """The one true spelling of a path that must exist."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AgsError(f"use {flag}", subject=path, cause=reason.lower()) from error


def check_source(path: Path, places: Places, *, writable: bool, flag: str) -> Weakening | None:
    """Refuse a mount that would hand out too much. `path` is resolved. Keep the weakening."""
    if why := _too_much(path, places, writable=writable):
        raise AgsError(
            f"use {flag}",
            subject=path,
            cause=why,
            hint="choose a folder that holds only the work, such as a project of its own",
        )
    if not writable and (inside := _holding(path, places.credentials)):
        return Weakening(
            "credentials mounted", f"{path} is readable inside ({inside} holds credentials)"
        )
    return None


def _too_much(path: Path, places: Places, *, writable: bool) -> str | None:
    if inner := _held(path, places.own):
        return f"it is or contains {inner}"
    if str(path) in SHARED_FOLDERS:
        return "it is shared by the whole system"
    if outer := _holding(path, (places.ags_home, places.settings)):
        return f"it lies in {outer}, which is AGS's own"
    if not writable:
        return None
    if inner := _held(path, places.credentials):
        return f"it is or contains {inner}, which holds credentials"
    if outer := _holding(path, places.credentials):
        return f"it lies in {outer}, which holds credentials"
    if outer := _holding(path, (Path(folder) for folder in SYSTEM_FOLDERS)):
        return f"it lies in {outer}, which belongs to the system"
    return None


def _held(path: Path, guarded: Iterable[Path]) -> Path | None:
    """The first guarded place that `path` is or contains, bind mounts of it included."""
    for place in guarded:
        real = place.resolve()
        if any(_same(path, ancestor) for ancestor in (real, *real.parents)):
            return place
    return None


def _holding(path: Path, guarded: Iterable[Path]) -> Path | None:
    """The first guarded place that `path` is or lies in."""
    for place in guarded:
        real = place.resolve()
        if any(_same(real, ancestor) for ancestor in (path, *path.parents)):
            return place
    return None


def _same(one: Path, other: Path) -> bool:
    if one == other:
        return True
    try:
        # The root shows under many inodes in containers; by name it was just compared.
        return other != Path("/") and os.path.samefile(one, other)
    except OSError:
        return False


def check_target(target: PurePosixPath, places: Places, flag: str) -> None:
    """Refuse a place inside that is not the person's to fill."""
    parts = target.parts
    if not target.is_absolute() or ".." in parts:
        raise AgsError(
            f"use {flag}", subject=target, cause="the path inside must be absolute, without .."
        )
    taken = next((made for made in MADE_INSIDE if target.is_relative_to(made)), None)
    if taken is None and str(target) in (*SHARED_FOLDERS, *map(str, places.homes)):
        taken = str(target)
    if taken:
        raise AgsError(
            f"use {flag}", subject=target, cause=f"{taken} is made by the sandbox itself"
        )
