"""A person with git settings of their own, and a repository elsewhere that they want."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace import git, remote
from ags.workspace.git import Repository
from ags.workspace.remote import Person, Pulled, checked_url
from tests.workspace.forge import PASSWORD, USER, Forge, forge
from tests.workspace.repositories import checkout, go


class Room:
    """A person at home, with a repository elsewhere that they want."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
        self.origin = checkout(folder / "origin")
        self.origin.write("a.txt", "hello\n")
        self.first = self.origin.commit("first")

    @property
    def person(self) -> Person:
        return Person(self.environ, self.home)

    def settings(self, text: str) -> None:
        with (self.home / ".gitconfig").open("a") as file:
            file.write(text)

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def clone(self, url: str | None = None, name: str = "clone.git") -> Repository:
        judged = checked_url(url or str(self.origin.folder), self.folder)
        return go(remote.clone(judged, self.folder / name, self.person))

    def fetch(self, repository: Repository, url: str | None = None) -> Pulled:
        judged = checked_url(url or str(self.origin.folder), self.folder)
        return go(remote.fetch(repository, judged, self.person))

    def push(
        self, repository: Repository, commit: str, branch: str, url: str | None = None
    ) -> None:
        judged = checked_url(url or str(self.origin.folder), self.folder)
        go(remote.push(repository, judged, commit, branch, self.person))

    def refuses(self, url: str | None = None) -> AgsError:
        """What a clone says, of which nothing is left."""
        with pytest.raises(AgsError) as caught:
            self.clone(url, "refused.git")
        assert not (self.folder / "refused.git").exists()
        return caught.value


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture
def site(room: Room) -> Iterator[Forge]:
    with forge(room.folder) as made:
        bare(room, made.root / "shop.git")
        subprocess.run(
            ("git", "-C", made.root / "shop.git", "config", "http.receivepack", "true"), check=True
        )
        yield made


def bare(room: Room, into: Path) -> None:
    room.origin.git("clone", "--quiet", "--bare", str(room.origin.folder), str(into))


def refs(repository: Repository) -> dict[str, str]:
    listed = go(git.run(repository, "for-each-ref", "--format=%(refname) %(objectname)")).text
    return dict(line.split() for line in listed.splitlines())


def helper(room: Room) -> None:
    """A credential helper of the person's own."""
    keeps = room.script(
        "keeps", f'[ "$1" = get ] && echo username={USER}; echo password={PASSWORD}'
    )
    room.settings(f'[credential]\n\thelper = "!{keeps}"\n')


def trusts(room: Room, site: Forge) -> None:
    room.settings(f"[http]\n\tsslCAInfo = {site.authority}\n")
