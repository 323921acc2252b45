"""Bare repositories for git origins."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": f"somebody{at}"
        for who in ("AUTHOR", "COMMITTER")
        for what, at in (("NAME", ""), ("EMAIL", "@git.example"))
    },
}


def make(path: Path, files: Mapping[str, str]) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", "--bare", "-b", "main")
    git(path, "config", "http.receivepack", "true")
    entries = (f"100644 blob {blob(path, text)}\t{name}" for name, text in files.items())
    tree = git(path, "mktree", given="".join(f"{entry}\n" for entry in entries))
    commit = git(path, "commit-tree", "-m", "first", tree)
    git(path, "update-ref", "refs/heads/main", commit)
    return path


def blob(path: Path, text: str) -> str:
    return git(path, "hash-object", "-w", "--stdin", given=text)


def git(path: Path, *arguments: str, given: str = "") -> str:
    command = ("git", f"--git-dir={path}", *arguments)
    done = subprocess.run(
        command, env=ENVIRONMENT, input=given, text=True, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.strip()
