"""A workspace on a real file system, for each way a person can stand to it."""

from __future__ import annotations

import functools
import os
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ags.workspace.protect import PROTECTED, Protected, Protection, prepare
from ags.workspace.tree import Owner, acting_as

NOBODY = Owner(65534, 65534)
ME = Owner(os.geteuid(), os.getegid())
# Ourselves; and, where the tests run as root: root on another user's files, and that user.
SEATS = ("self", "root for another", "ordinary") if ME.uid == 0 else ("self",)


@dataclass(frozen=True, slots=True)
class Scene:
    seat: str
    owner: Owner
    root: Path
    outside: Path
    state: Path

    @contextmanager
    def person(self) -> Iterator[None]:
        """What happens inside belongs to the owner of the workspace."""
        with acting_as(self.owner):
            yield

    def write(self, path: str, text: str = "") -> Path:
        file = self.root / path
        with self.person():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return file

    def folder(self, path: str) -> Path:
        with self.person():
            (self.root / path).mkdir(parents=True)
        return self.root / path

    def shared(self, path: str, text: str = "victim") -> Path:
        """A file outside that has a further name in the workspace; the one outside is returned."""
        victim = self.outside / path.replace("/", "-")
        with self.person():
            victim.write_text(text)
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(victim, self.root / path)
        return victim

    def prepare(self, *paths: str) -> Protection:
        chosen = tuple(Protected(path) for path in paths) or PROTECTED
        return prepare(self.root, chosen, self.state, self.owner)

    def names(self) -> set[str]:
        """Everything in the workspace, by its path."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


@contextmanager
def scene_for(seat: str) -> Iterator[Scene]:
    base = Path(tempfile.mkdtemp(prefix="ags-scene-")).resolve()
    owner = ME if seat == "self" else NOBODY
    try:
        base.chmod(0o755)
        for name in ("workspace", "outside", "state"):
            (base / name).mkdir(mode=0o755)
            if name != "state" or seat == "ordinary":
                os.chown(base / name, owner.uid, owner.gid)
        yield Scene(seat, owner, base / "workspace", base / "outside", base / "state")
    finally:
        # Not shutil: some tests nest deeper than it goes.
        subprocess.run(("rm", "-rf", base), check=True)


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with scene_for(getattr(request, "param", "self")) as made:
        yield made


def by_everyone(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test once per seat; the ordinary user's in a process that was never root again."""

    @functools.wraps(test)
    def seated(scene: Scene, **others: object) -> None:
        if scene.seat == "ordinary":
            forked(lambda: test(scene=scene, **others), scene.owner)
        else:
            test(scene=scene, **others)

    marked: Callable[..., None] = pytest.mark.parametrize("scene", SEATS, indirect=True)(seated)
    return marked


def forked(body: Callable[[], None], owner: Owner | None = None) -> int:
    """Run `body` in a child, whose failure is ours; returns the signal that ended it, or 0."""
    return end_fork(start_fork(body, owner))


def start_fork(body: Callable[[], None], owner: Owner | None = None) -> tuple[int, int]:
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            if owner is not None:
                os.setgroups([])
                os.setresgid(owner.gid, owner.gid, owner.gid)
                os.setresuid(owner.uid, owner.uid, owner.uid)
            body()
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-60000:])
        finally:
            os._exit(0)
    os.close(writer)
    return pid, reader


def end_fork(child: tuple[int, int]) -> int:
    pid, reader = child
    with os.fdopen(reader, "rb") as pipe:
        report = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    if report:
        pytest.fail(report, pytrace=False)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


SWAP = """
import os, sys
one, other, *folders = sys.argv[1:]
print(flush=True)
while True:
    for folder in folders:
        os.chdir(folder)
        os.rename(one, "between"); os.rename(other, one); os.rename("between", other)
        os.chdir("..")
"""


@contextmanager
def swapping(root: Path, one: str, other: str, folders: Sequence[str]) -> Iterator[None]:
    """In each folder two names change places all the time, as a hostile run would have them."""
    command = (sys.executable, "-I", "-c", SWAP, one, other, *folders)
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield
        finally:
            swapper.kill()


def is_empty_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode) and not list(path.iterdir())
