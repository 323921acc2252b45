"""Paths of a workspace that a run may read but not change, whatever it renames or creates."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Literal, Self

from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Bind, Mask, MountStep
from ags.workspace.placeholders import Placeholders
from ags.workspace.survey import Survey
from ags.workspace.tree import Inode, Owner, closing, descend, look, open_top, parts, shown


@frozen
class Protected:
    """A path below the workspace. `even_absent`: it is also kept from coming into being.

    `around`: where it is absent, the folder around it is held. A folder in the place of a file
    would be an error to the program that reads it.
    """

    path: str
    even_absent: bool = True
    around: bool = False


# What a program of the host obeys because somebody opened or entered the folder, or because git
# did something. What runs on a command that says so (build files, CI, `.pre-commit-config.yaml`)
# is the agent's work, to be reviewed like all of it; so are an agent's commands and skills.
PROTECTED = (
    Protected(".git", even_absent=False),  # in a folder without one, `git init` is fair
    Protected(".githooks"),
    Protected(".husky"),
    Protected(".vscode"),
    Protected(".idea"),
    Protected(".zed"),
    Protected(".devcontainer"),
    Protected(".devcontainer.json"),
    Protected(".envrc"),
    Protected(".exrc"),
    Protected(".vimrc"),
    Protected(".nvim.lua"),
    Protected(".ags"),
    Protected(".mcp.json"),
    Protected(".claude/settings.json", around=True),
    Protected(".claude/settings.local.json", around=True),
    Protected(".claude/hooks"),
    Protected(".codex"),
    Protected(".cursor"),
    Protected(".gemini"),
    Protected(".opencode"),
    # Only opencode itself reads these, and an empty directory in their place would stop it.
    Protected("opencode.json", even_absent=False),
    Protected("opencode.jsonc", even_absent=False),
    Protected(".pi"),
)


@frozen
class Held:
    """A place that becomes a mount of its own, and so can be neither renamed nor removed inside.

    An anchor stays writable: it is there because renaming a parent takes the mounts below along.
    """

    path: str
    inode: Inode
    how: Literal["anchor", "read-only", "mask"]


class Protection:
    """The protected paths of one run, held from before its start until `close`."""

    def __init__(self, root: Path, held: Iterable[Held], ending: ExitStack) -> None:
        self.root = root
        self.held = tuple(held)
        self._ending = ending

    @property
    def read_only(self) -> tuple[str, ...]:
        """What a survey has to take for out of the run's reach."""
        return tuple(held.path for held in self.held if held.how == "read-only")

    def close(self) -> None:
        """After the sandbox has ended: placeholders that no other run needs go."""
        self._ending.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def prepare(root: Path, paths: Iterable[Protected], state_dir: Path, owner: Owner) -> Protection:
    """Make every path something that can be mounted over. `root` is resolved, `owner` the run's."""
    held: dict[str, Held] = {}
    with ExitStack() as undo:
        top = open_top(root)
        undo.callback(os.close, top)
        try:
            placeholders = Placeholders(top, state_dir, owner)
            undo.callback(placeholders.close)
            for protected in sorted(paths, key=lambda each: parts(each.path)):
                _check(protected.path)
                held |= {each.path: each for each in _hold(top, protected, placeholders, held)}
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            subject = error.filename or root
            raise AgsError("protect the workspace", subject=subject, cause=cause) from error
        return Protection(root, held.values(), undo.pop_all())


def _check(path: str) -> None:
    names = parts(path)
    if not names or ".." in names or path.startswith("/") or "\0" in path:
        raise AgsError(
            "protect a path",
            subject=shown(path),
            cause="it must be relative to the workspace and stay inside it",
        )


def _hold(
    top: int, protected: Protected, placeholders: Placeholders, held: dict[str, Held]
) -> list[Held]:
    """The places that hold one path: its parents as anchors, then itself."""
    names = parts(protected.path)
    chain: list[Held] = []
    for depth in range(1, len(names) + 1):
        path = "/".join(names[:depth])
        if path in held and held[path].how == "read-only":
            return []
        with closing(descend(top, names[: depth - 1])) as folder:
            facts = look(folder, names[depth - 1])
            if facts is None and protected.around and chain:
                return [*chain[:-1], replace(chain[-1], how="read-only")]
            if facts is None and protected.even_absent:
                facts = placeholders.make(folder, path)
        if facts is None:
            return []
        how = _how(path, facts, last=depth == len(names))
        chain.append(Held(path, Inode.of(facts), how))
        if how == "read-only":
            return chain
    return chain


def _how(path: str, facts: os.stat_result, *, last: bool) -> Literal["anchor", "read-only"]:
    if stat.S_ISDIR(facts.st_mode):
        return "read-only" if last else "anchor"
    if stat.S_ISREG(facts.st_mode):
        return "read-only"  # as a parent, too: removed, it would make way for a directory
    what = "a symbolic link" if stat.S_ISLNK(facts.st_mode) else "neither a file nor a directory"
    raise AgsError(
        "protect a path",
        subject=shown(path),
        cause=f"it is {what}, which cannot be held in place",
        hint="put a real file or directory there, or list the path in [workspace] unprotect",
    )


def steps(protection: Protection, survey: Survey) -> tuple[MountStep, ...]:
    """The mounts that hold everything, parents first, to come after the workspace's own."""
    return tuple(_step(protection.root, each) for each in places(protection, survey))


def _step(root: Path, held: Held) -> MountStep:
    path = root / held.path
    if held.how == "mask":
        return Mask(PurePosixPath(path), "file")
    inode = (held.inode.device, held.inode.number)
    return Bind(path, PurePosixPath(path), writable=held.how == "anchor", inode=inode)


def places(protection: Protection, survey: Survey) -> tuple[Held, ...]:
    """All that is held, without what a read-only directory above it holds already."""
    chosen = {each.path: Held(each.path, each.inode, "anchor") for each in survey.anchors}
    chosen |= {each.path: each for each in protection.held if each.how == "anchor"}
    chosen |= {each.path: Held(each.path, each.inode, "read-only") for each in survey.repositories}
    chosen |= {each.path: each for each in protection.held if each.how == "read-only"}
    closed = {path for path, each in chosen.items() if each.how == "read-only"}
    open_places = [each for path, each in chosen.items() if not closed & set(_above(path))]
    masks = [Held(each.path, each.inode, "mask") for each in survey.sockets]
    return tuple(sorted((*open_places, *masks), key=lambda each: parts(each.path)))


def _above(path: str) -> list[str]:
    names = parts(path)
    return ["/".join(names[:depth]) for depth in range(1, len(names))]


def adrift(root: Path, held: Sequence[Held]) -> tuple[str, ...]:
    """What somebody replaced on the host meanwhile: that lifts the mount inside, in silence."""
    with closing(open_top(root)) as top:
        return tuple(each.path for each in held if not _in_place(each, top))


def _in_place(held: Held, top: int) -> bool:
    if held.how == "mask":  # a socket that is gone can no more be reached
        return True
    *leading, name = parts(held.path)
    with suppress(OSError), closing(descend(top, leading)) as folder:
        facts = look(folder, name)
        return facts is not None and Inode.of(facts) == held.inode
    return False
