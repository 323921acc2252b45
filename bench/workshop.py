"""A throw-away workspace, and what prepares runs in it, with the settings everybody begins with."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ags.config.schema import Settings
from ags.prepare import Preparer, Request
from bench.measure import finish

AGS = Path(__file__).resolve().parent.parent / "bin" / "ags"


@dataclass(frozen=True, slots=True)
class Workshop:
    """Nothing in it is the person's, but it is theirs to run programs on."""

    workspace: Path
    environ: Mapping[str, str]
    """The person's own, except that state and settings of AGS are kept in the throw-away folder."""
    preparer: Preparer

    def request(self, *command: str) -> Request:
        return Request(run="bench", command=command, cwd=self.workspace)


@contextlib.contextmanager
def workshop() -> Iterator[Workshop]:
    """Gone with everything in it at the end."""
    with tempfile.TemporaryDirectory(prefix="ags-bench-") as name:
        folder = Path(name).resolve()
        workspace, state, settings = (folder / part for part in ("workspace", "state", "settings"))
        workspace.mkdir()
        environ = dict(os.environ) | {"AGS_HOME": str(state), "XDG_CONFIG_HOME": str(settings)}
        preparer = Preparer(environ, Path.home(), state, Settings(), settings / "ags")
        yield Workshop(workspace, environ, preparer)


def make_repository(folder: Path, files: Mapping[str, str]) -> None:
    """A git repository with these files in one commit."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    settings = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "all")):
        finish(("git", *settings, *words), cwd=folder, env=without_settings(os.environ))


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Git as if nobody had ever configured it: no signing, no templates, no hooks."""
    return dict(environ) | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
