"""Where an environment lives: in the checkout if that is ours, else in our cache."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bootstrap.start import LOCKS, is_current


@dataclass(frozen=True, slots=True)
class Environment:
    """One virtual environment. `run` is what ags needs, `dev` what its tests need on top."""

    root: Path
    base: Path
    kind: str

    @property
    def prefix(self) -> Path:
        return self.base / self.kind

    @property
    def unfinished(self) -> Path:
        return self.base / f"{self.kind}.new"

    @property
    def replaced(self) -> Path:
        return self.base / f"{self.kind}.old"

    @property
    def log(self) -> Path:
        return self.base / f"{self.kind}.log"

    @property
    def lock(self) -> Path:
        return self.base / f"{self.kind}.lock"

    @property
    def packages(self) -> Path:
        """Where packages are installed before the environment moves to its final place."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.unfinished / "lib" / version / "site-packages"

    @property
    def requirements(self) -> tuple[Path, ...]:
        return tuple(self.root / name for name in LOCKS[self.kind])

    @property
    def current(self) -> bool:
        alive = os.access(self.prefix / "bin" / "python", os.X_OK)
        return alive and is_current(str(self.prefix), str(self.root), self.kind)


def choose_base(root: Path, env: Mapping[str, str]) -> Path:
    """The directory for the environments of a checkout. bin/ags looks in the same two places."""
    inside = root / ".venv"
    if is_ours(root) and (is_ours(inside) or not os.path.lexists(inside)):
        return inside
    return cache_directory(env) / "ags" / "environments" / root.relative_to("/") / ".venv"


def cache_directory(env: Mapping[str, str]) -> Path:
    chosen = env.get("XDG_CACHE_HOME", "")
    if chosen.startswith("/"):
        return Path(chosen)
    home = Path(env.get("HOME", ""))
    # sudo may keep HOME: what root leaves in a person's home gets in that person's way.
    if home.is_absolute() and is_ours(home):
        return home / ".cache"
    return Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache"


def is_ours(directory: Path) -> bool:
    """A directory (no link to one) that we own and can write to."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    writable = os.access(directory, os.W_OK | os.X_OK, effective_ids=True)
    return writable and directory.stat().st_uid == os.geteuid()
