"""A repository for one question: the project's objects, none of its settings, attributes or refs.

An agent's `.gitattributes` can call its files binary, and so keep them out of a diff, or name a
merge driver of the person's. Git looks for that file in the work tree and in the index: here
both are empty. What git writes, such as the objects of a merge, is gone afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ags.errors import AgsError
from ags.text import one_line
from ags.workspace import git, temporary
from ags.workspace.git import Repository
from ags.workspace.tree import acting_as

_FORMAT = ("core.repositoryformatversion", "extensions.objectformat")


@asynccontextmanager
async def scratch(repository: Repository, attributes: bytes = b"") -> AsyncIterator[Repository]:
    """Borrow the project's objects. `attributes` are the only ones that will count."""
    with temporary.folder("scratch", repository.owner) as folder:
        with acting_as(repository.owner):
            _furnish(folder, repository, attributes)
        settings = tuple(each for each in repository.settings if each[0] in _FORMAT)
        yield Repository(folder, folder / "work", settings=settings)


def _furnish(folder: Path, repository: Repository, attributes: bytes) -> None:
    for name in ("work", "refs/heads", "logs", "info", "objects/info", "objects/pack"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "info/attributes").write_bytes(attributes)
    (folder / "objects/info/alternates").write_text(_quoted(repository.common / "objects") + "\n")
    if (shallow := repository.common / "shallow").is_file():
        shutil.copyfile(shallow, folder / "shallow")


def _quoted(path: Path) -> str:
    """As git quotes: no folder's name, a line break in it included, can be read as another."""
    return '"' + "".join(f"\\{byte:03o}" for byte in bytes(path)) + '"'


async def resolve(repository: Repository, revision: str) -> str:
    """The full id of the commit or tree that is meant."""
    asked = await git.run(
        repository,
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{}}"),
        check=False,
    )
    if asked.code != 0:
        cause = "there is no such commit or tree"
        raise AgsError("compare", subject=one_line(revision), cause=cause)
    return asked.text.strip()
