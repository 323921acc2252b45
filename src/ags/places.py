"""Places of the host that no sandbox may be handed, whatever they are called."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Sequence
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


Identity = tuple[int, int]
"""Device and inode: the same folder under whatever name, bind mounts of it included."""


class Place:
    """One guarded folder: where it is, and all that would contain it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.identity = _identity(path)
        # What does not exist yet is known by name alone, so its name must be the real one.
        self.real = os.path.realpath(path)
        self.above = {_identity(folder) for folder in _ancestors(self.real)}

    def is_in(self, path: str, identity: Identity | None) -> bool:
        """Whether `path`, resolved, is this place or contains it."""
        return _below(self.real, path) or (identity is not None and identity in self.above)

    def holds(self, path: str, identities: set[Identity | None]) -> bool:
        """Whether `path`, resolved, is this place or lies in it."""
        return _below(path, self.real) or (
            self.identity is not None and self.identity in identities
        )


class Places:
    """The homes of the person and of the run, AGS's state and settings: looked at once."""

    def __init__(self, homes: Sequence[Path], ags_home: Path, settings: Path, *more: Path) -> None:
        """`more` are folders of ours elsewhere, such as the homes of clients."""
        self.homes = tuple(homes)
        folders = [os.path.join(home, name) for home in homes for name in CREDENTIAL_FOLDERS]
        self.homes_and_ours = [Place(str(path)) for path in (*homes, ags_home, settings, *more)]
        self.ours = self.homes_and_ours[len(self.homes) :]
        self.credentials = [Place(path) for path in folders]

    @property
    def own(self) -> tuple[Path, ...]:
        return tuple(Path(place.path) for place in self.homes_and_ours)

    @property
    def forbidden(self) -> tuple[Path, ...]:
        """What may neither be mounted nor lie below a mount."""
        return (*self.own, *(Path(place.path) for place in self.credentials))


def _identity(path: str) -> Identity | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    # The root shows under many inodes in containers; by name it is compared anyway.
    return None if path == "/" else (facts.st_dev, facts.st_ino)


def _ancestors(path: str) -> Iterator[str]:
    """The path itself, then each folder above it but the root."""
    while path != "/":
        yield path
        path = os.path.dirname(path)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


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
    if not writable and (inside := _credentials_at(path, places)):
        return Weakening(
            "credentials mounted", f"{path} is readable inside ({inside} holds credentials)"
        )
    return None


def _too_much(path: Path, places: Places, *, writable: bool) -> str | None:
    name = str(path)
    identity = _identity(name)
    above = {_identity(folder) for folder in _ancestors(name)}
    for place in places.homes_and_ours:
        if place.is_in(name, identity):
            return f"it is or contains {place.path}"
    if name in SHARED_FOLDERS:
        return "it is shared by the whole system"
    for place in places.ours:
        if place.holds(name, above):
            return f"it lies in {place.path}, which is AGS's own"
    if not writable:
        return None
    for place in places.credentials:
        if place.is_in(name, identity) or place.holds(name, above):
            return f"it is, contains or lies in {place.path}, which holds credentials"
    for folder in SYSTEM_FOLDERS:
        if _below(name, folder):
            return f"it lies in {folder}, which belongs to the system"
    return None


def _credentials_at(path: Path, places: Places) -> str | None:
    above = {_identity(folder) for folder in _ancestors(str(path))}
    return next((p.path for p in places.credentials if p.holds(str(path), above)), None)


def check_target(target: PurePosixPath, places: Places, flag: str) -> None:
    """Refuse a place inside that is not the person's to fill."""
    parts = target.parts
    if parts[:1] != ("/",) or ".." in parts:  # two slashes at the front would be another root
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


def check_state_folder(ags_home: Path, *, written: bool = False) -> None:
    """One that is there must be ours to use; for who only looks, a read-only one will do."""
    wanted = os.R_OK | os.X_OK | (os.W_OK if written else 0)
    if os.access(ags_home, wanted, effective_ids=True):
        return
    try:
        facts = ags_home.stat()
    except PermissionError:
        cause, hint = "a folder above it is closed to you", "set AGS_HOME to a folder of your own"
    except OSError:  # it is not there yet; whoever makes it tells what is in the way
        return
    else:
        cause, hint = _why_closed(ags_home, facts)
    raise AgsError("use the state folder", subject=ags_home, cause=cause, hint=hint, exit_code=125)


def _why_closed(ags_home: Path, facts: os.stat_result) -> tuple[str, str]:
    uid, quoted = os.geteuid(), shlex.quote(str(ags_home))
    elsewhere = "set AGS_HOME to a folder of your own"
    if not stat.S_ISDIR(facts.st_mode):
        return "it is not a folder", elsewhere
    if os.statvfs(ags_home).f_flag & os.ST_RDONLY:
        return "it is on a read-only file system", elsewhere
    if facts.st_uid != uid:
        owner = f"it belongs to user {facts.st_uid}, and you are {uid}"
        return owner, f"{elsewhere}, or, if this should be yours: `sudo chown -R {uid} {quoted}`"
    mode = stat.S_IMODE(facts.st_mode)
    return f"its mode {mode:04o} is in the way", f"`chmod 700 {quoted}`, or {elsewhere}"


def make_state_folder(ags_home: Path) -> None:
    """Nobody else's to look into."""
    try:
        ags_home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        hint = "set AGS_HOME to a folder of yours"
        raise AgsError("make the state folder", subject=ags_home, cause=cause, hint=hint) from error
