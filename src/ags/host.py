"""What the host's own system offers to a sandbox: read once, then a value."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from ags.frozen import frozen

ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

# Of the host's /etc only what programs need in order to run, none of it secret.
ETC = (
    "alternatives", "bash.bashrc", "ca-certificates/extracted", "crypto-policies", "debian_version",
    "fonts", "gai.conf", "inputrc", "java-*", "ld.so.cache", "localtime", "locale.alias",
    "lsb-release", "magic", "manpath.config", "mime.types", "os-release", "pki/ca-trust",
    "pki/tls/certs", "protocols", "rpc", "services", "shells", "ssl/certs", "ssl/openssl.cnf",
    "terminfo", "timezone", "vim", "xattr.conf",
)  # fmt: skip

SMALL = 128 << 10

# Variables that say how to talk to the person, nothing else.
SPOKEN = (
    "TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "NO_COLOR", "LC_ALL", "LC_ADDRESS", "LC_COLLATE",
    "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY", "LC_NAME",
    "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
)  # fmt: skip

# Kernel settings. The host's uid 0 owns them and may write without any capability; bwrap covers
# only what is a writable *directory*, and these are not, while the files in them are.
PROC_READ_ONLY = tuple(Path("/proc", name) for name in ("sys", "irq", "bus", "pressure"))
# The person's keyrings show here, to any process of theirs.
PROC_HIDDEN = {"keys", "key-users"}
PROC_KEPT = {"self", "thread-self", "net", "sys", "irq", "bus", "pressure", "sysvipc", "tty"}


@frozen
class Entry:
    """Something of the host: a link into /usr, a small file to copy, or what has to be bound."""

    path: Path
    link: str | None = None
    content: bytes | None = None


@frozen
class Host:
    """Facts that a plan is built from."""

    root: tuple[Entry, ...]
    etc: tuple[Entry, ...]
    proc_read_only: tuple[Path, ...]
    proc_masks: tuple[tuple[Path, Literal["file", "dir"]], ...]
    environment: tuple[tuple[str, str], ...]
    shell: str


def read(environ: Mapping[str, str], host_uid: int) -> Host:
    """Look at the running system."""
    return Host(
        root=tuple(_root()),
        etc=tuple(_etc()),
        proc_read_only=tuple(path for path in PROC_READ_ONLY if path.is_dir()),
        proc_masks=tuple(_proc_masks(host_uid)),
        environment=tuple((name, value) for name, value in environ.items() if _spoken(name)),
        shell="/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh",
    )


def _spoken(name: str) -> bool:
    return name in SPOKEN


def _root() -> Iterator[Entry]:
    for name in ROOT_FOLDERS:
        path = Path("/", name)
        if path.is_symlink():
            yield Entry(path, str(path.readlink()))
        elif path.is_dir():
            yield Entry(path)


def _etc() -> Iterator[Entry]:
    for pattern in ETC:
        for path in (
            sorted(Path("/etc").glob(pattern)) if "*" in pattern else [Path("/etc", pattern)]
        ):
            if not path.exists() or not os.access(path, os.R_OK):
                continue
            real = path.resolve()
            if real == path:
                yield Entry(path, content=_small(path))
            elif real.is_relative_to("/usr"):
                yield Entry(path, str(real))


def _small(path: Path) -> bytes | None:
    """Every bind makes bwrap read the whole table of mounts again; a copy of a file does not."""
    if not path.is_file() or path.stat().st_size > SMALL:
        return None
    return path.read_bytes()


def _proc_masks(host_uid: int) -> Iterator[tuple[Path, Literal["file", "dir"]]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() or entry.name in PROC_KEPT or entry.is_symlink():
            continue
        mode = entry.stat(follow_symlinks=False).st_mode
        # The host's uid 0 owns these even without a capability, and so could open them.
        own = host_uid == 0 and bool(mode & stat.S_IWUSR or not mode & stat.S_IROTH)
        if stat.S_ISDIR(mode):
            if host_uid == 0:
                yield Path(entry.path), "dir"
        elif own or entry.name in PROC_HIDDEN:
            yield Path(entry.path), "file"
