"""What in a work tree git on the host obeys, although it lies outside `.git`.

A repository's settings can name a folder of hooks, further settings, or programs that lie among the
files; and an empty folder of a submodule is one `.git` away from a repository that `git status` at
the top steps into. All these are held like the settings folders of editors.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from ags.errors import AgsError
from ags.model import MIB
from ags.workspace import git
from ags.workspace.git import Repository
from ags.workspace.protect import Protected

# Before git is asked, which takes longer than the rest of a start: is there anything of the kind?
_HINT = re.compile(
    rb"hookspath|fsmonitor|include|external|textconv|command|driver|clean|smudge|process|program"
    rb"|editor|pager|askpass|alias|helper|cmd|attributesfile|excludesfile",
    re.IGNORECASE,
)
_HOOKS = re.compile(rb"hookspath", re.IGNORECASE)
_PROGRAM = re.compile(
    r"core\.(fsmonitor|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand)"
    r"|diff\.external|(diff|merge|filter|difftool|mergetool)\..*\.(command|textconv|driver|clean"
    r"|smudge|process|cmd)|gpg\.(.*\.)?program|sequence\.editor|alias\..*"
    r"|credential\.(.*\.)?helper|pager\..*|uploadpack\.packobjectshook|interactive\.difffilter"
)
_FILE = re.compile(r"include\.path|includeif\..*\.path|core\.(attributesfile|excludesfile)")
MOST = 256


async def steered(root: Path, home: Path) -> tuple[Protected, ...]:
    """Paths in the work tree at `root` that must not change while a run is at it."""
    if not (root / ".git").exists():
        return ()
    modules = (root / ".gitmodules").exists()
    if not modules and not _worth_asking(root, home):
        return ()
    try:
        repository = await git.find(root)
    except AgsError:
        return ()  # git on the host cannot use it either
    if repository.work_tree is None or not repository.work_tree.samefile(root):
        return ()
    found = list(dict.fromkeys(await _named(repository, root, home)))
    links = await _submodules(repository) if modules else []
    if len(found) + len(links) > MOST:
        cause = f"its git settings and submodules name more than {MOST} paths in it"
        raise AgsError("protect the workspace", subject=root, cause=cause)
    return (
        *(Protected(path) for path in found),
        *(Protected(f"{path}/.git") for path in links if (root / path).is_dir()),
    )


def _worth_asking(root: Path, home: Path) -> bool:
    if not (root / ".git").is_dir():  # elsewhere: a linked worktree, a submodule
        return True
    own = (root / ".git/config", root / ".git/config.worktree")
    personal = (home / ".gitconfig", home / ".config/git/config", Path("/etc/gitconfig"))
    return any(_HINT.search(_content(file)) for file in own) or any(
        _HOOKS.search(_content(file)) for file in personal
    )


def _content(file: Path) -> bytes:
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(file, flags), "rb") as reader:
            return reader.read(MIB)
    except OSError:
        return b""


async def _named(repository: Repository, root: Path, home: Path) -> list[str]:
    named: list[str] = []
    for scope, key, value in await git.effective(repository, home):
        local = scope in ("local", "worktree")
        if key == "core.hookspath":
            named += _inside(root, root, value, home, even_absent=True)
        elif local and _FILE.fullmatch(key):
            base = repository.common if key.startswith("include") else root
            named += _inside(root, base, value, home, even_absent=True)
        elif local and _PROGRAM.fullmatch(key):
            for word in _words(value):
                named += _inside(root, root, word, home, even_absent=False)
    return named


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command.removeprefix("!"))
    except ValueError:
        return command.split()


def _inside(
    root: Path, base: Path, written: str, home: Path, *, even_absent: bool
) -> Iterator[str]:
    """The path as seen from the root, if it lies there. A link on the way would be followed."""
    if not written or "\0" in written:
        return
    expanded = str(home) + written[1:] if written.startswith("~/") else written
    path = os.path.normpath(os.path.join(base, expanded))
    relative = os.path.relpath(path, root)
    if relative == "." or relative.split("/")[0] in ("..", ".git"):
        return
    if even_absent or os.path.isfile(path):
        yield relative


async def _submodules(repository: Repository) -> list[str]:
    listed = await git.run(repository, "ls-files", "--stage", "-z", check=False)
    entries = os.fsdecode(listed.stdout).split("\0")
    return [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]
