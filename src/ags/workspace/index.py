"""The person's index, changed under git's own lock."""

from __future__ import annotations

import functools
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ags.errors import AgsError
from ags.text import encode
from ags.workspace import git, temporary
from ags.workspace.git import Repository
from ags.workspace.patchtext import parse_raw
from ags.workspace.tree import acting_as

OURS = re.compile(rf"ags-lock-{temporary.MARK}-[0-9a-f]+")


class Lock:
    """Git's own lock on the person's index, and a new index that is made meanwhile.

    The lock is a second name of a file that is named by our process: so one that a kill left
    behind is known for ours.
    """

    def __init__(self, project: Repository) -> None:
        name = f"{temporary.mark()}-{secrets.token_hex(4)}"
        self.project = project
        self.index = project.git_dir / "index"
        self.file = project.git_dir / "index.lock"
        self._own = project.git_dir / f"ags-lock-{name}"
        self.new = project.git_dir / f"ags-index-{name}"

    def take(self) -> None:
        self._own.touch(mode=0o666, exist_ok=False)
        try:
            os.link(self._own, self.file)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            self.file.touch(mode=0o666, exist_ok=False)

    def release(self) -> None:
        self.file.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        self.new.unlink(missing_ok=True)
        self._own.unlink(missing_ok=True)

    def install(self) -> None:
        """An empty new one stands for no index at all."""
        with acting_as(self.project.owner):
            if self.new.stat().st_size:
                self.new.rename(self.index)
            else:
                self.index.unlink(missing_ok=True)

    async def follow(self, old: str | None, new: str | None) -> None:
        """Make the new one of the index, taken from one commit to another. No file is looked at.

        What is staged stays so, but for what the new commit has otherwise than the old one.
        """
        run, given = functools.partial(git.run, self.project), {"GIT_INDEX_FILE": str(self.new)}
        empty = (await run("hash-object", "-t", "tree", "--stdin")).text.strip()
        before, after = old or empty, new or empty
        if not self.index.exists():
            await run("read-tree", after, env=given)
            return
        self.put(self.index)
        look = ("-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
        staged = parse_raw((await run("diff-index", "--cached", *look, before, env=given)).stdout)
        moving = {each.path for each in parse_raw(
            (await run("diff-tree", "-r", *look, before, after)).stdout)}  # fmt: skip
        entries = (
            f"{each.old_mode:o} {each.old_id}\t{each.path}\0" for each in staged
            if each.path in moving
        )  # fmt: skip
        listed = encode("".join(entries))
        await run("update-index", "-z", "--index-info", stdin=listed, env=given)
        await run("read-tree", "-i", "-m", before, after, env=given)

    def put(self, file: Path) -> None:
        """With its time: by that git knows which files it cannot tell by theirs."""
        content, facts = file.read_bytes(), file.stat()
        with acting_as(self.project.owner):
            self.new.write_bytes(content)
            os.utime(self.new, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@contextmanager
def locked(project: Repository) -> Iterator[Lock]:
    """While we hold it, the person's git neither stages nor commits."""
    clear(project)
    lock = Lock(project)
    with acting_as(project.owner):
        try:
            lock.take()
        except OSError as error:
            lock.forget()
            cause = f"git is at work there: {(error.strerror or str(error)).lower()}"
            raise AgsError("lock the index", subject=lock.file, cause=cause) from error
    try:
        yield lock
    finally:
        with acting_as(project.owner):
            lock.release()


def clear(project: Repository) -> None:
    """Take away what one of us left who was killed."""
    folder = project.git_dir
    with acting_as(project.owner):
        found = [OURS.fullmatch(name) for name in os.listdir(folder)]
        for each in found:
            if each is None or not temporary.is_dead(each):
                continue
            with suppress(OSError):
                if (folder / each[0]).samefile(folder / "index.lock"):
                    (folder / "index.lock").unlink()
            for left in folder.glob(f"{each[0].replace('lock', 'index', 1)}*"):
                left.unlink(missing_ok=True)
            (folder / each[0]).unlink(missing_ok=True)
