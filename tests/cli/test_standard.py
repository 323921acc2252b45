"""With streams that are closed, full or read by nobody, a verb still says what is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.desk import Desk, Said

VERBS = {
    "help": "--help",
    "help of a verb": "start --help",
    "version": "--version",
    "list": "list",
    "list as JSON": "list --json",
    "show": "show fix-login",
    "logs": "logs fix-login",
    "logs followed": "logs -f fix-login",
    "logs as JSON": "logs --json fix-login",
    "diff": "diff fix-login",
    "apply": "apply --yes fix-login",
    "rm": "rm fix-login",
    "cleanup": "cleanup",
    "policy": "policy show",
    "doctor": "doctor",
}
LINES = 20_000
"""More than any buffer or pipe holds."""


def ags(desk: Desk, words: str, redirected: str) -> Said:
    """By a shell, which tells the exit code of ours and not that of a reader."""
    program = f"{sys.executable} -m ags.cli.main"
    ran = subprocess.run(
        ("/bin/bash", "-c", f"{program} {words} {redirected}; exit ${{PIPESTATUS[0]}}"),
        cwd=desk.project.folder,
        env=desk.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Said(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture
def run(desk: Desk) -> Desk:
    desk.log(desk.finished(workspace=True), ("output", {"text": "said"}))
    return desk


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("redirected", "cause"), [(">&-", "bad file descriptor"), ("> /dev/full", "no space left")]
)
def test_what_cannot_be_written_is_told_in_two_lines(
    run: Desk, verb: str, redirected: str, cause: str
) -> None:
    said = ags(run, VERBS[verb], redirected)
    lines = [line for line in said.err.splitlines() if not line.startswith("ags: note: ")]
    assert lines[:1] in ([], ["ags: cannot write the output"]), said.err
    if lines:
        assert said.code == 1 and len(lines) == 2 and cause in lines[1], said.err
    else:  # it had nothing to say
        assert said.code == 0 and ags(run, VERBS[verb], "").out == ""


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_who_leaves_ends_it_in_silence(run: Desk, verb: str) -> None:
    said = ags(run, VERBS[verb], "| exec true")
    assert said.code in (0, 141) and said.err.replace("ags: note", "") == said.err, said


def test_a_reader_has_all_that_it_waits_for(desk: Desk) -> None:
    lines = (("output", {"text": f"line {number}"}) for number in range(LINES))
    desk.log(desk.record(), *lines)
    said = ags(desk, "logs fix-login", "| head -1")
    assert (said.code, said.out, said.err) == (141, "line 0\n", "")
    assert ags(desk, "logs fix-login", "| tail -1").out == f"line {LINES - 1}\n"
    said = ags(desk, "logs fix-login", "> /dev/full")
    assert said.code == 1 and said.err.startswith("ags: cannot write the output\n")


@pytest.mark.parametrize("verb", ["list", "logs followed", "diff", "apply", "rm", "cleanup"])
def test_a_closed_stdin_is_an_empty_one(run: Desk, verb: str) -> None:
    said = ags(run, VERBS[verb], "<&-")
    assert said.code == 0 and "Traceback" not in said.err, said


@pytest.mark.parametrize("redirected", ["2>&-", "2> /dev/full", "2> >(exec true)"])
def test_complaints_that_nobody_hears_change_nothing(run: Desk, redirected: str) -> None:
    assert ags(run, "show nobody", redirected).code == 1
    assert ags(run, "no-such-verb", redirected).code == 2
    assert ags(run, "list", redirected).code == 0
    assert "fix-login" in ags(run, "list", redirected).out


def test_with_nothing_open_at_all_a_file_of_ours_is_not_written_to(run: Desk) -> None:
    before = {path: path.read_bytes() for path in run.state.rglob("run.json")}
    assert ags(run, "list", "<&- >&- 2>&-").code == 1
    assert {path: path.read_bytes() for path in run.state.rglob("run.json")} == before


def test_an_error_of_a_verbs_own_comes_before_that_of_the_output(run: Desk) -> None:
    said = ags(run, "show nobody", "> /dev/full")
    assert said.code == 1 and "there is no run of this name" in said.err
    assert "write the output" not in said.err


@pytest.mark.parametrize("redirected", [">&-", "> /dev/full", "<&-", "<&- >&- 2>&-", "| exec true"])
def test_a_command_in_a_sandbox_does_not_need_them(run: Desk, redirected: str) -> None:
    said = ags(run, "exec -- sh -c 'touch made; exit 7'", redirected)
    assert said.code == 7 and "Traceback" not in said.err, said
    assert (run.project.folder / "made").exists()
