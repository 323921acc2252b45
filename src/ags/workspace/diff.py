"""What changed between two commits, as values. Nothing a repository holds can change the answer."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ags.errors import AgsError
from ags.model import KIB, MIB
from ags.text import encode, one_line, plain, utf8
from ags.workspace import git
from ags.workspace.git import Repository
from ags.workspace.patchtext import Hunk as Hunk
from ags.workspace.patchtext import Kind, RawChange, parse_patch, parse_raw
from ags.workspace.patchtext import Line as Line
from ags.workspace.scratch import resolve, scratch

_WHOLE = "the diff as a whole is too long"
LINK, SUBMODULE = 0o120000, 0o160000
COUNTED = 32 * MIB
"""Bytes up to which git looks for lines in a file."""
MOST_PATCHED = 512 * MIB
"""Bytes of all files before and after, up to which there is a patch: at most about twice that."""

# The person's settings are not there to be asked, so that these are all that counts. A similarity
# search over more files than -l allows is left out by git, and they show as deleted and added.
# Lines of a larger file are not counted: for a file of nothing but line breaks git takes forty
# times its size in memory, and packed it is next to nothing.
_COMPARE = (
    *("-c", f"core.bigFileThreshold={COUNTED}"),
    *("diff-tree", "-r", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color"),
)
_RENAMES = ("--find-renames=50%", "-l1000")


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of a diff is held; beyond it files keep their counts and lose their content."""

    names: int = 64 * MIB
    """Bytes of git's list of changed files. A longer list is an error: no file is left unnamed."""
    file_size: int = 16 * MIB
    """Bytes before and after, together: a larger file is not opened for its lines."""
    file_lines: int = 20_000
    file_bytes: int = 1 * MIB
    lines: int = 100_000
    bytes: int = 16 * MIB


CAPS = Caps()


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs. Names and lines that are not UTF-8 carry their bytes as surrogates."""

    path: str
    kind: Kind
    old_path: str | None = None
    """Where it was, if it was renamed or copied."""
    old_mode: int = 0
    new_mode: int = 0
    old_id: str = ""
    new_id: str = ""
    old_size: int | None = None
    new_size: int | None = None
    binary: bool = False
    additions: int = 0
    deletions: int = 0
    hunks: tuple[Hunk, ...] = ()
    left_out: str = ""
    """Why the content is not here although there is some to show; empty if it is."""

    @property
    def is_link(self) -> bool:
        return self.new_mode == LINK

    @property
    def is_submodule(self) -> bool:
        return SUBMODULE in (self.old_mode, self.new_mode)

    @property
    def became_executable(self) -> bool:
        return self.new_mode == 0o100755 and self.old_mode != 0o100755

    def added_lines(self) -> Iterator[tuple[int, str]]:
        """The new lines that are here, with their numbers in the new file."""
        for hunk in self.hunks:
            number = hunk.new_start
            for line in hunk.lines:
                if line.kind == "added":
                    yield number, line.text
                number += line.kind != "removed"


@dataclass(frozen=True, slots=True)
class Stat:
    """A diff in numbers."""

    files: int
    additions: int
    deletions: int
    binaries: int
    left_out: int
    kinds: tuple[tuple[Kind, int], ...]

    def __str__(self) -> str:
        parts = [f"{self.files} {'file' if self.files == 1 else 'files'}"]
        parts += [f"{count} {kind}" for kind, count in self.kinds]
        return f"{', '.join(parts)}, +{self.additions} −{self.deletions}"


@dataclass(frozen=True, slots=True)
class Diff:
    """All that differs between two commits, in git's order."""

    old: str
    new: str
    files: tuple[FileChange, ...]
    others: tuple[FileChange, ...] = ()
    """What comes behind these where only the beginning was wanted; by names and counts alone."""

    def stat(self) -> Stat:
        """Of all files, the others too."""
        files = (*self.files, *self.others)
        kinds = Counter(file.kind for file in files)
        return Stat(
            files=len(files),
            additions=sum(file.additions for file in files),
            deletions=sum(file.deletions for file in files),
            binaries=sum(file.binary for file in files),
            left_out=sum(bool(file.left_out) for file in files),
            kinds=tuple(sorted(kinds.items())),
        )

    def is_patchable(self) -> bool:
        """Whether a patch of it takes little room, and little memory to make.

        A few thousand names for one file are a small commit, and would be a patch without end; and
        for a patch git looks for lines in a file of any size.
        """
        sizes = [(file.old_size or 0) + (file.new_size or 0) for file in self.files]
        return sum(sizes) <= MOST_PATCHED and max(map(_weight, self.files), default=0) <= COUNTED

    def to_json(self) -> dict[str, object]:
        stat = self.stat()
        return {
            "old": self.old,
            "new": self.new,
            "files": [_file_json(file) for file in self.files],
            "stat": {
                "files": stat.files,
                "additions": stat.additions,
                "deletions": stat.deletions,
                "binaries": stat.binaries,
                "left_out": stat.left_out,
                "kinds": dict(stat.kinds),
            },
        }


def _file_json(file: FileChange) -> dict[str, object]:
    return {
        **_name_json("path", file.path),
        **_name_json("old_path", file.old_path),
        "kind": file.kind,
        "old_mode": f"{file.old_mode:06o}",
        "new_mode": f"{file.new_mode:06o}",
        "old_id": file.old_id,
        "new_id": file.new_id,
        "old_size": file.old_size,
        "new_size": file.new_size,
        "binary": file.binary,
        "additions": file.additions,
        "deletions": file.deletions,
        "left_out": file.left_out,
        "hunks": [_hunk_json(hunk) for hunk in file.hunks],
    }


def _name_json(key: str, name: str | None) -> dict[str, str | None]:
    """As text, and where that is not the name itself, its bytes too."""
    text = None if name is None else utf8(name)
    exact = None if name is None or text == name else base64.b64encode(encode(name)).decode()
    return {key: text, f"{key}_base64": exact}


def _hunk_json(hunk: Hunk) -> dict[str, object]:
    return {
        "old_start": hunk.old_start,
        "old_lines": hunk.old_lines,
        "new_start": hunk.new_start,
        "new_lines": hunk.new_lines,
        "heading": utf8(hunk.heading),
        "lines": [
            {"kind": line.kind, "text": utf8(line.text), "no_newline": line.no_newline}
            for line in hunk.lines
        ],
    }


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a diff for a person to read; what the agent wrote in it is harmless already."""

    kind: Literal["file", "note", "hunk", "context", "added", "removed"]
    text: str


def lines(files: Iterable[FileChange]) -> Iterator[Row]:
    """The diff as rows, one terminal line each (or more where it wraps)."""
    for file in files:
        yield Row("file", _title(file))
        for note in _notes(file):
            yield Row("note", note)
        for hunk in file.hunks:
            place = f"-{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines}"
            yield Row("hunk", f"@@ {place} @@ {plain(hunk.heading)}".rstrip())
            for line in hunk.lines:
                yield Row(line.kind, plain(line.text))
                if line.no_newline:
                    yield Row("note", "no newline at the end of the file")


def _title(file: FileChange) -> str:
    name = one_line(file.path)
    if file.old_path is not None:
        name = f"{one_line(file.old_path)} → {name}"
    counts = "binary" if file.binary else f"+{file.additions} −{file.deletions}"
    return f"{file.kind} {name} ({counts})"


def _notes(file: FileChange) -> Iterator[str]:
    if file.old_mode and file.new_mode and file.old_mode != file.new_mode:
        yield f"mode {file.old_mode:06o} → {file.new_mode:06o}"
    elif file.new_mode not in (0, 0o100644) and not file.old_mode:
        yield f"mode {file.new_mode:06o}"
    if file.is_submodule:
        yield "a submodule: only the commit it stands at is part of the repository"
    elif file.binary:
        yield f"{_size(file.old_size)} → {_size(file.new_size)}"
    if file.left_out:
        yield f"content left out: {file.left_out}"


def _size(count: int | None) -> str:
    if count is None:
        return "nothing"
    for unit, size in (("MiB", MIB), ("KiB", KIB)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


async def diff(
    repository: Repository,
    old: str,
    new: str,
    caps: Caps = CAPS,
    *,
    spaces: bool = True,
    beginning: int | None = None,
) -> Diff:
    """What leads from `old` to `new`: commits, or trees.

    Without `spaces`, lines that differ in nothing else are not among the hunks; counts have them.
    For the `beginning`, only the first files are opened: up to so many changed lines.
    """
    before, after = await resolve(repository, old), await resolve(repository, new)
    async with scratch(repository) as bare:
        listed = await git.run(
            bare, *_COMPARE, *_RENAMES, "-z", "--raw", "--numstat", before, after, most=caps.names
        )
        files = [_change(raw) for raw in parse_raw(listed.stdout)]
        first = len(files) if beginning is None else _first(files, caps, beginning)
        measured = await _measured(bare, files[:first])
        filled = await _filled(bare, measured, caps, spaces)
        return Diff(before, after, tuple(filled), tuple(files[first:]))


def _first(files: list[FileChange], caps: Caps, most: int) -> int:
    """How many files have up to so many changed lines to show: at least one."""
    count = 0
    for at, file in enumerate(files):
        count += 0 if _too_much(file, caps) else file.additions + file.deletions
        if at and count > most:
            return at
    return len(files)


def _change(raw: RawChange) -> FileChange:
    return FileChange(
        path=raw.path,
        kind=raw.kind,
        old_path=raw.old_path,
        old_mode=raw.old_mode,
        new_mode=raw.new_mode,
        old_id=raw.old_id,
        new_id=raw.new_id,
        binary=raw.counts is None,
        additions=raw.counts[0] if raw.counts else 0,
        deletions=raw.counts[1] if raw.counts else 0,
    )


async def _measured(bare: Repository, files: list[FileChange]) -> list[FileChange]:
    """With the sizes before and after, of what is stored in this repository."""
    sides = [
        (file.old_id if file.old_mode not in (0, SUBMODULE) else "",
         file.new_id if file.new_mode not in (0, SUBMODULE) else "")
        for file in files
    ]  # fmt: skip
    wanted = sorted({side for pair in sides for side in pair if side})
    answer = await git.run(
        bare,
        "cat-file",
        "--batch-check=%(objectname) %(objectsize)",
        stdin="".join(f"{name}\n" for name in wanted).encode(),
        most=128 * len(wanted) + KIB,
    )
    found = (line.split() for line in answer.text.splitlines())
    sizes = {name: int(size) for name, size in found if size.isdecimal()}
    return [
        replace(file, old_size=sizes.get(before), new_size=sizes.get(after))
        for file, (before, after) in zip(files, sides, strict=True)
    ]


async def _filled(
    bare: Repository, files: list[FileChange], caps: Caps, spaces: bool
) -> list[FileChange]:
    """With their hunks, as far as the caps allow."""
    done = [replace(file, left_out=_too_much(file, caps)) for file in files]
    room_lines, room_bytes = caps.lines, caps.bytes
    waiting = [at for at, file in enumerate(done) if _has_lines(file) and not file.left_out]
    for batch in _batches(waiting, done, caps.file_size):
        fits = []
        for at in batch:
            if (count := done[at].additions + done[at].deletions) <= room_lines:
                room_lines -= count
                fits.append(at)
            else:
                done[at] = replace(done[at], left_out=_WHOLE)
        for at, (hunks, size) in (await _hunks(bare, done, fits, spaces)).items():
            if size > caps.file_bytes:
                done[at] = replace(done[at], left_out=f"{_size(size)} of changed text")
            elif size > room_bytes:
                done[at] = replace(done[at], left_out=_WHOLE)
            else:
                room_bytes -= size
                done[at] = replace(done[at], hunks=hunks)
    return done


def _has_lines(file: FileChange) -> bool:
    # Of a binary file that became a link, the link is text.
    return file.old_id != file.new_id and (not file.binary or file.kind == "type-changed")


def _too_much(file: FileChange, caps: Caps) -> str:
    if file.binary and _weight(file) > max(caps.file_size, COUNTED):
        return f"a file of {_size(_weight(file))}"  # which may be text
    if not _has_lines(file):
        return ""
    if (count := file.additions + file.deletions) > caps.file_lines:
        return f"{count} changed lines"
    if (size := _weight(file)) > caps.file_size:
        return f"a file of {_size(size)}"
    return ""


def _weight(file: FileChange) -> int:
    return max(file.old_size or 0, file.new_size or 0)


def _batches(waiting: list[int], files: list[FileChange], most: int) -> Iterator[list[int]]:
    """In order, so that what git prints for one batch is bounded by what the files weigh."""
    batch: list[int] = []
    weight = 0
    for at in waiting:
        if batch and weight + _weight(files[at]) > most:
            yield batch
            batch, weight = [], 0
        batch.append(at)
        weight += _weight(files[at])
    if batch:
        yield batch


async def _hunks(
    bare: Repository, files: list[FileChange], batch: list[int], spaces: bool
) -> dict[int, tuple[tuple[Hunk, ...], int]]:
    """The hunks of some files and the bytes they took.

    The two sides are put into trees of our own under their place in the list for a name: neither
    a hostile name nor a rename is left in what has to be parsed.
    """
    if not batch:
        return {}
    old = b"".join(_entry(at, files[at].old_mode, files[at].old_id) for at in batch)
    new = b"".join(_entry(at, files[at].new_mode, files[at].new_id) for at in batch)
    trees = (await _tree(bare, old), await _tree(bare, new))
    weight = sum((files[at].old_size or 0) + (files[at].new_size or 0) for at in batch)
    flags = () if spaces else ("--ignore-all-space",)
    most = 4 * weight + KIB * len(batch)
    printed = await git.run(bare, *_COMPARE, "--no-renames", *flags, "-p", *trees, most=most)
    return parse_patch(printed.stdout)


def _entry(at: int, mode: int, name: str) -> bytes:
    return f"{mode:o} {at:08d}\0".encode() + bytes.fromhex(name) if mode else b""


async def _tree(bare: Repository, content: bytes) -> str:
    # Not mktree, which fails on a submodule whose commit is, to spite us, the id of a file.
    made = await git.run(bare, "hash-object", "-t", "tree", "-w", "--stdin", stdin=content)
    return made.text.strip()


async def contents(
    repository: Repository, files: Iterable[FileChange], most: int = MIB
) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Before and after, of files of up to `most` bytes; larger ones are not in the answer."""
    found = {}
    for file in files:
        if max(file.old_size or 0, file.new_size or 0) <= most:
            sides = ((file.old_id, file.old_size), (file.new_id, file.new_size))
            old, new = [await _blob(repository, name, size) for name, size in sides]
            found[file.path] = (old, new)
    return found


async def _blob(repository: Repository, name: str, size: int | None) -> bytes | None:
    if size is None:
        return None
    return (await git.run(repository, "cat-file", "blob", name, most=size)).stdout


async def patch(repository: Repository, old: str, new: str, most: int = 256 * MIB) -> bytes:
    """All of it as `git apply` takes it, binary files included."""
    before, after = await resolve(repository, old), await resolve(repository, new)
    async with scratch(repository) as bare:
        made = await git.run(
            bare, *_COMPARE, "--no-renames", "--binary", "-p", before, after, most=most
        )
        return made.stdout


async def write_patch(repository: Repository, old: str, new: str, target: Path) -> int:
    """The same into a new file, of any size. Returns its size."""
    before, after = await resolve(repository, old), await resolve(repository, new)
    async with scratch(repository) as bare:
        made = bare.git_dir / "patch"
        await git.run(
            bare, *_COMPARE, "--no-renames", "--binary", "-p", f"--output={made}", before, after
        )
        return _copy(made, target)


def _copy(source: Path, target: Path) -> int:
    try:
        with source.open("rb") as reader, target.open("xb") as writer:
            while piece := reader.read(MIB):
                writer.write(piece)
            return writer.tell()
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("write the patch", subject=target, cause=cause) from error
