"""What the tests need from the distribution: the one list, and how it gets there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM_FOLDERS = (
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
)  # fmt: skip
"""The PATH that every sandbox has. The caller's own may name folders that no sandbox shows."""
SHOWN_FOLDERS = tuple(Path(folder) for folder in ("/usr", "/bin", "/sbin"))
"""A program that is only a link to somewhere else cannot be run in a sandbox."""

APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120")


@dataclass(frozen=True, slots=True)
class Need:
    """A Debian package, and the command or file (pattern) that shows it is not needed any more."""

    package: str
    proof: str


NEEDS = (
    Need("git", "git"),
    Need("git-lfs", "git-lfs"),
    Need("tmux", "tmux"),
    Need("gcc", "gcc"),
    Need("g++", "g++"),
    Need("make", "make"),
    Need("less", "less"),
    Need("procps", "ps"),
    Need("libc6-dev", "/usr/include/stdio.h"),
    Need("nodejs", "node"),
    Need("npm", "npm"),
    Need("chromium", "/usr/bin/chromium"),
    Need("fonts-liberation", "/usr/share/fonts/truetype/liberation*/LiberationSans-Regular.ttf"),
    Need("fonts-dejavu-core", "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"),
    Need("vim", "vim"),
    Need("util-linux", "unshare"),
    Need("iproute2", "ip"),
    Need("curl", "curl"),
    Need("wget", "wget"),
    Need("openssl", "openssl"),
    Need("ca-certificates", "/etc/ssl/certs/ca-certificates.crt"),
    Need("openssh-server", "sshd"),
    Need("postgresql-client", "psql"),
    Need("default-jdk-headless", "javac"),
    Need("golang-go", "go"),
    Need("musl-tools", "musl-gcc"),
    Need("passwd", "useradd"),
    Need("python3", "/usr/bin/python3"),
    Need("python3-venv", "/usr/lib*/python3*/ensurepip/__init__.py"),
)


def missing(needs: Iterable[Need], present: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(need.package for need in needs if not present(need.proof))


def present(proof: str) -> bool:
    if proof.startswith("/"):
        return any(Path("/").glob(proof[1:]))
    return find_program(proof) is not None


def find_program(name: str, folders: Sequence[str] = PROGRAM_FOLDERS) -> str | None:
    """Return the path of a program that a sandbox can run. Tests look programs up by this too,
    so that whatever they miss is installed."""
    for folder in folders:
        found = shutil.which(name, path=folder)
        if found and any(Path(found).resolve().is_relative_to(shown) for shown in SHOWN_FOLDERS):
            return found
    return None


def provide() -> None:
    """Installs what is missing where we may; otherwise says what to install and goes on."""
    packages = missing(NEEDS, present)
    if not packages:
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _say(f"installing {' '.join(packages)}")
        # A fresh container has no package lists; elsewhere fetching them first is time lost.
        if not _apt("install", packages):
            _apt("update", ())
            _apt("install", packages)
        packages = missing(NEEDS, present)
    if packages:
        _say(
            "some tests will be skipped, because this is missing: "
            f"{' '.join(packages)}\nhint: apt-get install {' '.join(packages)}"
        )


def _apt(verb: str, packages: Sequence[str]) -> bool:
    flags = ("-y", "--no-install-recommends") if verb == "install" else ()
    done = subprocess.run(
        (*APT, verb, *flags, *packages),
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        _say(f"apt-get {verb} failed:\n{done.stdout[-2000:].decode(errors='replace').strip()}")
    return done.returncode == 0


def _say(text: str) -> None:
    print(f"ags-test: {text}", file=sys.stderr, flush=True)
