"""Whoever starts a run may be killed at any time, too: from the hand-over on it is not theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ags.engine import Engine
from ags.runs import Run
from tests.faults.workshop import CHANGED, WORK, Workshop, wait_for
from tests.workspace.scene import forked

SLOW = f"sleep 0.5; {WORK}"


def dies(workshop: Workshop, start: Callable[[], None]) -> Run:
    """`start` in a process that is killed on the way; the run that it left behind."""
    assert forked(start) == signal.SIGKILL
    (listed,) = workshop.engine().listing().runs
    return workshop.engine().find(listed.name)


def test_killed_before_it_hands_the_run_over(workshop: Workshop) -> None:
    def start() -> None:
        environ, home = workshop.environ, workshop.place / "home"
        engine = Engine(environ, home, workshop.ags_home, supervisor=dying)
        workshop.does(engine.start(workshop.wish("try")))

    own = workshop.own()
    run = dies(workshop, start)
    assert run.state == "interrupted"
    workshop.nothing_runs(run)
    again = workshop.restarted(run)
    assert (again.state, workshop.files(again)) == ("done", CHANGED)
    workshop.does(workshop.engine().remove(run.name))
    assert workshop.traces(run) == []
    assert workshop.own() == own


def dying(_: Path, __: str) -> tuple[str, ...]:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_killed_right_after_the_start(workshop: Workshop) -> None:
    def start() -> None:
        workshop.start(goal=SLOW)
        os.kill(os.getpid(), signal.SIGKILL)

    run = workshop.ended(dies(workshop, start))
    assert (run.state, run.notes, workshop.files(run)) == ("done", (), CHANGED)


def test_killed_while_it_shows_the_run(workshop: Workshop) -> None:
    held = f"echo shown; until [ -e go ]; do sleep 0.05; done; rm go; {WORK}"
    with workshop.cli("start", "--agent", "shell", "try", held) as shown:
        assert shown.stdout is not None
        wait_for("it shows the run", lambda: "shown" in str(shown.stdout.readline()))  # type: ignore[union-attr]
        shown.kill()
    run = workshop.engine().find("try")
    assert not run.is_final and run.workspace is not None
    (run.workspace / "go").touch()
    run = workshop.ended(run)
    assert (run.state, run.notes, workshop.files(run)) == ("done", (), CHANGED)


def test_temporary_folders_of_a_killed_process_are_swept(workshop: Workshop) -> None:
    """And those of one that lives are not."""
    script = (
        "import sys, time; from pathlib import Path; from ags.workspace import git, temporary\n"
        "from ags.workspace.tree import Owner; import os\n"
        "with temporary.folder('git', Owner(os.geteuid(), os.getegid())) as made:\n"
        "    (made / 'file').touch(); print(made, flush=True); time.sleep(600)\n"
    )
    command = (sys.executable, "-I", "-c", script)
    environ = workshop.environ
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        made = Path(process.stdout.readline().strip())
        stranger = made.with_name("ags-git-of-nobody")
        stranger.mkdir()
        assert made.parent == workshop.place / "tmp"
        workshop.engine().sweep()
        assert (made / "file").exists()
        process.kill()
        process.wait()
        workshop.engine().sweep()
        assert not made.exists()
        assert stranger.exists()
