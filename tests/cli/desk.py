"""A person with a project and runs that have ended, made without a supervisor: a real repository,
real branches and commits, and records as a supervisor leaves them."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ags import runs
from ags.cli.main import main
from ags.events import Writer
from ags.runs import FINAL, Result, Run, State
from tests.people import ROOT
from tests.workspace.repositories import Checkout, checkout

STEPS: tuple[State, ...] = ("preparing", "running", "collecting")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\rover\x00"


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Desk:
    home: Path
    state: Path
    project: Checkout
    capsys: pytest.CaptureFixture[str]

    def ags(self, *arguments: str) -> Said:
        """As `bin/ags` would be called, in this process."""
        self.capsys.readouterr()
        code = main(arguments)
        return Said(code, *self.capsys.readouterr())

    def refused(self, *arguments: str) -> str:
        """What it says if it cannot: what, why and, where there is one, the way on."""
        said = self.ags(*arguments)
        assert said.code == 1 and "Traceback" not in said.err, said
        assert said.err.startswith("ags: cannot ") and "\n  why: " in said.err, said
        return said.err

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "AGS_HOME": str(self.state),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "PYTHONPATH": str(ROOT / "src"),
        }

    def on_terminal(
        self,
        *arguments: str,
        keys: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """At a terminal of 100 columns; each key is pressed once its text is on the screen."""
        command = (sys.executable, "-m", "ags.cli.main", *arguments)
        return on_terminal(command, self.environment() | dict(env or {}), dict(keys or {}))

    def branch(self, name: str, files: Mapping[str, str | bytes | None]) -> str:
        """A commit on a branch of its own, begun at main; None removes a file."""
        project = self.project
        project.git("checkout", "--quiet", "-b", name, "main")
        for path, content in files.items():
            if content is None:
                project.git("rm", "--quiet", path)
            else:
                project.write(path, content)
        made = project.commit(f"on {name}")
        project.git("checkout", "--quiet", "main")
        return made

    def finished(
        self,
        name: str = "fix-login",
        files: Mapping[str, str | bytes | None] | None = None,
        *,
        state: State = "done",
        workspace: bool = False,
        **changes: Any,
    ) -> Run:
        """A run that has ended, with its work on a branch."""
        base, branch = self.project.ask("rev-parse", "main"), f"agent--{name}"
        commit = self.branch(branch, {"a.txt": "hello\nworld\n"} if files is None else files)
        counts = self.project.ask("diff", "--numstat", base, commit).splitlines()
        sizes = [tuple(map(int, line.replace("-", "0").split()[:2])) for line in counts]
        added, removed = (sum(size[at] for size in sizes) for at in (0, 1))
        return self.record(
            name,
            state=state,
            workspace=workspace,
            **{
                "base": base,
                "branch": branch,
                "left_at": commit,
                "result": Result(commit, len(counts), added, removed),
                "exit_code": 0,
                **changes,
            },
        )

    def record(
        self, name: str = "fix-login", *, state: State = "done", workspace: bool = False,
        **changes: Any,
    ) -> Run:  # fmt: skip
        """Whatever became of it; one that is not final seems at work while nobody tends it."""
        at = self._later()
        made = Run(
            id=runs.new_id(at),
            name=name,
            agent="shell",
            goal=changes.pop("goal", "make the log-in work"),
            mode=changes.pop("mode", "separate"),
            project=changes.pop("project", self.project.folder),
            created=changes.pop("created", at),
        )
        with runs.create(self.state, made) as held:
            for step in STEPS[: STEPS.index(state) + 1] if state in STEPS else STEPS:
                held.save(runs.moved(held.run, step, runs.now()))
            if state in FINAL:
                held.save(runs.moved(held.run, state, runs.now()))
            if workspace:
                changes["workspace"] = self.state / "worktrees" / name
                changes["workspace"].mkdir(parents=True)
                (changes["workspace"] / "a.txt").write_text("hello\nworld\n")
            return held.save(replace(held.run, **changes))

    def _later(self) -> runs.Moment:
        """By more than ids tell, which are in order to the millisecond: a quick disk is quicker."""
        newest = max((path.name[:12] for path in self.state.glob("runs/*")), default="")
        while runs.new_id(at := runs.now())[:12] == newest:
            pass
        return at

    def log(self, run: Run, *told: tuple[str, Mapping[str, object]]) -> Path:
        path = runs.directory(self.state, run.id) / "events.jsonl"
        writer = Writer(path)
        for kind, fields in told:
            writer.write(kind, **fields)  # type: ignore[arg-type]
        writer.close()
        return path

    def again(self, run: Run) -> Run:
        return runs.load(runs.directory(self.state, run.id))


def on_terminal(
    command: tuple[str, ...], env: Mapping[str, str], keys: dict[str, str]
) -> tuple[int, str]:
    master, slave = pty.openpty()
    subprocess.run(("stty", "rows", "24", "columns", "100"), stdin=slave, check=True)
    with subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(slave)
        try:
            shown = _watch(master, keys, time.monotonic() + 120)
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(master)
    assert not keys, f"never shown: {keys}"
    return process.returncode, shown


def _watch(master: int, keys: dict[str, str], until: float) -> str:
    shown = b""
    while select.select([master], [], [], max(0, until - time.monotonic()))[0]:
        try:
            shown += os.read(master, 65536)
        except OSError:  # the last one has closed it
            return shown.decode(errors="replace").replace("\r\n", "\n")
        for text in [text for text in keys if text.encode() in shown]:
            os.write(master, keys.pop(text).encode())
    raise AssertionError(f"no end; shown: {shown!r}")


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Desk:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
    project = checkout(home / "project")
    project.write("a.txt", "hello\n")
    project.commit("first")
    for name in ("NO_COLOR", "COLUMNS", "PAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AGS_HOME", str(tmp_path / "state"))
    return Desk(home, tmp_path / "state", project, capsys)


def is_harmless(text: str) -> bool:
    """Nothing in it that a terminal would obey, colours of ours aside."""
    for code in ("0", "1", "2", "31", "32", "33", "36", "33;1", "36;1", "1;36"):
        text = text.replace(f"\x1b[{code}m", "")
    return all(c.isprintable() or c in "\n\t" for c in text)
