"""Files of a run, read for somebody else: of its workspace, where the agent may be at work right
now and nothing is what it seems, or of a commit. No link is ever followed, and all is bounded."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias
from urllib.parse import quote_from_bytes

from ags.errors import AgsError, Missing, Unfit
from ags.frozen import frozen
from ags.model import KIB, MIB
from ags.runs import Run
from ags.text import utf8
from ags.workspace import git
from ags.workspace.git import Repository
from ags.workspace.tree import Owner, acting_as, closing, descend, look, open_top

MOST_TEXT = 1 * MIB
MOST_SOUGHT = 8 * MIB
"""Of a file in a commit, which git gives whole, to show its beginning."""
MOST_RAW = 64 * MIB
MOST_ENTRIES = 2000
MOST_LISTED = 64 * MIB
MOST_PATH = 4096
CHUNK = 256 * KIB
BINARY = 8000
"""Bytes from the start in which a NUL tells that it is no text, as git has it."""

Side: TypeAlias = Literal["workspace", "base", "result"]
Kind: TypeAlias = Literal["file", "folder", "link", "submodule", "other"]
Parts: TypeAlias = tuple[str, ...]

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MODES: dict[str, Kind] = {
    "040000": "folder",
    "100644": "file",
    "100755": "file",
    "120000": "link",
    "160000": "submodule",
}
_WHAT = "read this path"
_SUCH_AS = "such as src/main.py"
_LIST = "list the folder that it is in, or should be in"


@frozen
class Entry:
    name: str
    kind: Kind
    size: int | None = None


@frozen
class InCommit:
    """What a commit has at a path."""

    kind: Kind
    object: str
    size: int | None


def parts_of(path: str) -> Parts:
    """The names on the way, from the top of the workspace. Bytes that are no text are surrogates.

    Whatever could lead elsewhere is refused before anything is opened.
    """
    if "\0" in path or len(path.encode(errors="surrogatepass")) > MOST_PATH:
        cause = "it holds a NUL" if "\0" in path else f"it is over {MOST_PATH} bytes long"
        raise Unfit(_WHAT, cause=cause, hint=_SUCH_AS)
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/") or ".." in parts:
        cause = "it is not below the workspace"
        raise Unfit(_WHAT, subject=utf8(path)[:200], cause=cause, hint=_SUCH_AS)
    if ".git" in parts:
        raise _missing(parts, "git's own files are not shown")
    return parts


async def read(run: Run, parts: Parts, side: Side) -> dict[str, Any]:
    """A folder with its entries, or a file with its text."""
    if side == "workspace":
        return _read_here(run, parts)
    repository, found = await _in_commit(run, parts, side)
    if found.kind == "folder":
        return _folder(parts, await _listed(repository, found.object))
    data, size = b"", found.size or 0
    if size <= MOST_SOUGHT:
        data = await _blob(repository, found)
    return _file(parts, size, data if size <= MOST_SOUGHT else None)


async def raw(run: Run, parts: Parts, side: Side) -> IO[bytes] | bytes:
    """All of a file: open, where it is in the workspace, and else as it is in the commit."""
    if side == "workspace":
        with _opened(run, parts) as descriptor:
            size = _regular(descriptor, parts).st_size
            _check_size(parts, size)
            return open(os.dup(descriptor), "rb", buffering=0)  # noqa: ASYNC230
    repository, found = await _in_commit(run, parts, side)
    if found.kind == "folder":
        raise AgsError(_WHAT, subject=shown(parts), cause="it is a folder", hint="list it")
    _check_size(parts, found.size or 0)
    return await _blob(repository, found)


def shown(parts: Parts) -> str:
    return utf8("/".join(parts))


# In the workspace


def _read_here(run: Run, parts: Parts) -> dict[str, Any]:
    with _opened(run, parts) as descriptor:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return _folder(parts, _entries(descriptor))
        size = _regular(descriptor, parts).st_size
        return _file(parts, size, _start(descriptor))


@contextlib.contextmanager
def _opened(run: Run, parts: Parts) -> Iterator[int]:
    """What is there, reached name by name from the top, with the rights of who works there."""
    if run.workspace is None or not os.path.lexists(run.workspace):
        cause = "its workspace is gone" if run.is_final else "it has no workspace yet"
        hint = "look at base or result"
        raise Missing("look into its workspace", subject=run.name, cause=cause, hint=hint)
    # The way there is ours, and may be closed to others; what is below is theirs.
    place = Path(os.path.realpath(run.workspace.parent)) / run.workspace.name
    with closing(open_top(place)) as top:
        facts = os.fstat(top)
        try:
            with acting_as(Owner(facts.st_uid, facts.st_gid)):
                descriptor = _open(top, parts)
        except OSError as error:
            raise _trouble(parts, error) from error
    with closing(descriptor):
        yield descriptor


def _open(top: int, parts: Parts) -> int:
    if not parts:
        return os.open(".", _OPEN | os.O_DIRECTORY, dir_fd=top)
    with closing(descend(top, parts[:-1])) as folder:
        facts = look(folder, parts[-1])
        if facts is None:
            raise _missing(parts)
        # Before it is opened: to open a pipe or a device is to do something to it.
        if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
            raise _unreadable(parts, facts.st_mode)
        return os.open(parts[-1], _OPEN, dir_fd=folder)


def _regular(descriptor: int, parts: Parts) -> os.stat_result:
    """Once more, of what was really opened."""
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise _unreadable(parts, facts.st_mode)
    return facts


def _entries(descriptor: int) -> list[Entry]:
    """One more than are shown, where there are more."""
    found: list[Entry] = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.name == ".git":
                continue
            with contextlib.suppress(OSError):  # gone meanwhile
                found.append(_entry(entry.name, entry.stat(follow_symlinks=False)))
            if len(found) > MOST_ENTRIES:
                break
    return found


def _entry(name: str, facts: os.stat_result) -> Entry:
    kind = _kind(facts.st_mode)
    return Entry(name, kind, facts.st_size if kind == "file" else None)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _start(descriptor: int) -> bytes:
    data = b""
    while len(data) <= MOST_TEXT and (more := os.pread(descriptor, 256 * KIB, len(data))):
        data += more
    return data


# In a commit


async def _in_commit(run: Run, parts: Parts, side: Side) -> tuple[Repository, InCommit]:
    commit = run.base if side == "base" else run.result.commit if run.result else None
    if commit is None:
        cause = "it has none" if run.is_final else "it has none yet"
        hint = "look at its workspace" if run.workspace else "look at base"
        raise Missing(f"look into its {side}", subject=run.name, cause=cause, hint=hint)
    repository = await git.find(run.project)
    if not parts:
        return repository, InCommit("folder", f"{commit}^{{tree}}", None)
    listed = await _tree(repository, commit, "/".join(parts))
    if not listed:
        raise _missing(parts)
    mode, found, size = listed[0][0]
    kind = _MODES.get(mode, "other")
    if kind not in ("file", "folder"):
        cause = f"it is a {kind}, which is not followed"
        raise AgsError(_WHAT, subject=shown(parts), cause=cause, hint=_LIST)
    return repository, InCommit(kind, found, size)


async def _listed(repository: Repository, tree: str) -> list[Entry]:
    return [
        Entry(name, _MODES.get(mode, "other"), size)
        for (mode, _, size), name in await _tree(repository, tree)
        if name != ".git"
    ]


async def _tree(
    repository: Repository, tree: str, *paths: str
) -> list[tuple[tuple[str, str, int | None], str]]:
    """Mode, object, size and name of each. Paths are taken by the letter."""
    told = await git.run(
        repository,
        *("ls-tree", "-z", "-l", "--full-tree", "--end-of-options", tree, *paths),
        most=MOST_LISTED,
        env={"GIT_LITERAL_PATHSPECS": "1"},
    )
    lines = told.stdout.split(b"\0", MOST_ENTRIES + 1)[: MOST_ENTRIES + 1]
    return [_told(line) for line in lines if line]


def _told(line: bytes) -> tuple[tuple[str, str, int | None], str]:
    head, _, name = line.partition(b"\t")
    mode, _, found, size = head.decode().split()
    return (mode, found, int(size) if size.isdecimal() else None), os.fsdecode(name)


async def _blob(repository: Repository, found: InCommit) -> bytes:
    told = await git.run(repository, "cat-file", "blob", found.object, most=found.size or 0)
    return told.stdout


# As the API tells it


def _folder(parts: Parts, found: list[Entry]) -> dict[str, Any]:
    listed = sorted(found[:MOST_ENTRIES], key=lambda entry: entry.name)
    return {
        "path": shown(parts),
        "kind": "folder",
        "entries": [_told_of(parts, entry) for entry in listed],
        "truncated": len(found) > MOST_ENTRIES,
    }


def _told_of(parts: Parts, entry: Entry) -> dict[str, Any]:
    path = (*parts, entry.name)
    return {
        "name": utf8(entry.name),
        "path": shown(path),
        "address": quote_from_bytes(os.fsencode("/".join(path))),
        "kind": entry.kind,
        "size": entry.size,
    }


def _file(parts: Parts, size: int, data: bytes | None) -> dict[str, Any]:
    """`data` is its beginning, as far as it was read; None: it is too large to be."""
    truncated = data is None or len(data) > MOST_TEXT or len(data) < size
    binary = data is not None and b"\0" in data[:BINARY]
    text = None if data is None or binary else _text(data[:MOST_TEXT], whole=not truncated)
    told = {"path": shown(parts), "kind": "file", "size": size, "binary": binary}
    return {**told, "text": text, "truncated": truncated and not binary}


def _text(data: bytes, *, whole: bool) -> str:
    """A character that is cut at the end is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return utf8(decoder.decode(data, final=whole))


def _check_size(parts: Parts, size: int) -> None:
    if size > MOST_RAW:
        cause = f"it is larger than {MOST_RAW // MIB} MiB"
        raise AgsError(_WHAT, subject=shown(parts), cause=cause, hint="open it on the server")


def _missing(parts: Parts, cause: str = "there is no such file or folder") -> Missing:
    return Missing(_WHAT, subject=shown(parts)[:200], cause=cause, hint=_LIST)


def _unreadable(parts: Parts, mode: int) -> AgsError:
    kinds = {stat.S_IFLNK: "a link, which is not followed", stat.S_IFDIR: "a folder"}
    cause = f"it is {kinds.get(stat.S_IFMT(mode), 'neither a file nor a folder')}"
    return AgsError(_WHAT, subject=shown(parts), cause=cause, hint=_LIST)


def _trouble(parts: Parts, error: OSError) -> AgsError:
    # A link on the way is no folder; nor is one that was put there just now.
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
        return _missing(parts)
    cause = (error.strerror or str(error)).lower()
    return AgsError(_WHAT, subject=shown(parts), cause=cause, hint="open it on the server")


async def pieces(file: IO[bytes], most: int | None = None) -> AsyncIterator[bytes]:
    """A file's bytes, up to `most`; each is sent before the next is read."""
    with file:
        while (most is None or most > 0) and (piece := file.read(CHUNK)):
            yield piece if most is None else piece[:most]
            most = None if most is None else most - len(piece)
