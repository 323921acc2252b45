"""What a commit's `.gitignore` files ignore, as one list: for a look that no later file changes."""

from __future__ import annotations

import asyncio
import os

from ags.model import MIB
from ags.workspace import git
from ags.workspace.git import Repository

NAME = b".gitignore"
MOST = 1000


async def rules(project: Repository, commit: str) -> bytes:
    """For `git ls-files -X`. Those of deeper folders come later, and so have the last word."""
    listed = await git.run(project, "ls-tree", "-r", "-z", "--full-tree", commit, most=512 * MIB)
    found = [_entry(line) for line in listed.stdout.split(b"\0") if line.endswith(NAME)]
    files = sorted((each for each in found if each), key=lambda each: each[0].count(b"/"))[:MOST]
    contents = await asyncio.gather(*(_content(project, blob) for _, blob in files))
    return b"".join(
        translated(content, path.removesuffix(NAME))
        for (path, _), content in zip(files, contents, strict=True)
    )


def _entry(line: bytes) -> tuple[bytes, str] | None:
    facts, _, path = line.partition(b"\t")
    mode, _, blob = facts.split(b" ")[:3]
    plain = mode.startswith(b"100") and os.path.basename(path) == NAME
    return (path, blob.decode()) if plain else None


async def _content(project: Repository, blob: str) -> bytes:
    return (await git.run(project, "cat-file", "blob", blob, check=False, most=8 * MIB)).stdout


def translated(content: bytes, folder: bytes) -> bytes:
    """The lines of one file, as they would be written at the top. `folder` ends with a slash."""
    place = b"".join(b"\\%c" % c if c in b"\\*?[" else b"%c" % c for c in folder)
    lines = []
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        pattern = line.removesuffix(b"\r")
        if not pattern.strip() or pattern.startswith(b"#"):
            continue
        negated, pattern = (b"!", pattern[1:]) if pattern.startswith(b"!") else (b"", pattern)
        anchored = b"/" in pattern.rstrip().removesuffix(b"/")
        way = b"" if anchored or not folder else b"**/"
        lines.append(negated + b"/" * bool(folder or anchored) + place + way
                     + (pattern.removeprefix(b"/") if folder or anchored else pattern))  # fmt: skip
    return b"".join(line + b"\n" for line in lines)
