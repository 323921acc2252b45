"""Real repositories for tests, made with the person's own git and whatever names it can hold."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ags.workspace import git
from ags.workspace.git import Repository

T = TypeVar("T")

HOSTILE_NAMES = (
    "line\nbreak",
    "tab\there",
    'quote"d',
    "back\\slash",
    "-leading-dash",
    "--output=owned",
    "a -> b",
    "a => b",
    "{a => b}/c",
    " spaces ",
    "not-utf8-\udcff\udcfe",
    "ünïcode",
    "esc\x1b[31m",
    ":(top)magic",
    "*",
    "[x]",
    "diff --git a/x b/x",
    "\nb/diff --git a/1 b/1",
    "#",
    "!bang",
)


def go(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with a repository in it, used as the person uses it."""

    folder: Path
    environment: Mapping[str, str]

    def git(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> bytes:
        ran = subprocess.run(
            ("git", *arguments),
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert ran.returncode == code, ran.stderr.decode(errors="replace")
        return ran.stdout

    def ask(self, *arguments: str) -> str:
        return self.git(*arguments).decode().strip()

    def write(self, name: str, content: str | bytes = "", mode: int = 0o644) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def commit(self, message: str = "work") -> str:
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.ask("rev-parse", "HEAD")

    def tree(self, revision: str = "HEAD") -> str:
        return self.ask("rev-parse", f"{revision}^{{tree}}")

    def state(self) -> tuple[str, bytes, dict[str, bytes]]:
        """All that must be as it was when nothing happened: refs, index, files."""
        files = {
            str(path.relative_to(self.folder)): (
                os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            )
            for path in self.folder.rglob("*")
            if ".git" not in path.relative_to(self.folder).parts
            and (path.is_symlink() or path.is_file())
        }
        refs = self.ask("for-each-ref") + self.ask("rev-parse", "--symbolic-full-name", "HEAD")
        return refs, self.git("ls-files", "--stage", "-z"), files

    @property
    def repository(self) -> Repository:
        return go(git.find(self.folder))


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "ann@example.org",
    }


def checkout(folder: Path, *options: str) -> Checkout:
    folder.mkdir(parents=True, exist_ok=True)
    made = Checkout(folder, environment(folder.parent))
    made.git("init", "--quiet", "--initial-branch=main", *options)
    return made
