"""The head of a git bundle, read without git: what it brings, and where its pack begins."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ags.errors import AgsError
from ags.workspace.tree import shown

LENGTH = {"sha1": 40, "sha256": 64}
SIGNATURE = re.compile(rb"# v[23] git bundle")


@dataclass(frozen=True, slots=True)
class Header:
    """One ref, which is all that is ever accepted."""

    commit: str
    needs: tuple[str, ...]
    """Commits that the receiver must have."""
    length: int
    """Bytes before the pack."""


def read(head: bytes, object_format: str, ref: str) -> Header:
    """Refuses all but a bundle of exactly `ref`, in the repository's own object format."""
    text, end, _ = head.partition(b"\n\n")
    signature, *lines = text.split(b"\n")
    if not end or not SIGNATURE.fullmatch(signature):
        raise _refused("it is no git bundle")
    name = rb"[0-9a-f]{%d}" % LENGTH[object_format]
    needs, commits = [], []
    for line in lines:
        if line.startswith(b"@"):
            if line != b"@object-format=" + object_format.encode():
                raise _refused(f"it asks for {shown(line.decode(errors='replace'))!r}")
        elif match := re.fullmatch(rb"-(" + name + rb")(?: .*)?", line):
            needs.append(match[1].decode())
        elif match := re.fullmatch(rb"(" + name + rb") (.+)", line):
            if match[2] != ref.encode():
                raise _refused(f"it brings {shown(match[2].decode(errors='replace'))!r}")
            commits.append(match[1].decode())
        else:
            raise _refused(f"a line of it reads {shown(line.decode(errors='replace'))!r}")
    if len(commits) != 1:
        raise _refused(f"it brings {len(commits)} refs instead of one")
    return Header(commits[0], tuple(needs), len(text) + len(end))


def _refused(cause: str) -> AgsError:
    return AgsError(
        "take in the agent's work",
        cause=cause,
        hint="the workspace and the run's own git directory are kept as they are",
    )
