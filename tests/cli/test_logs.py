"""`ags logs`: what happened in a run, afterwards and meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys

from ags.events import Writer
from tests.cli.desk import HOSTILE, Desk, is_harmless
from tests.runs.examples import create

TOLD: tuple[tuple[str, dict[str, object]], ...] = (
    ("status", {"state": "running"}),
    ("message", {"text": "I look."}),
    ("output", {"text": "a line"}),
    ("status", {"state": "done"}),
)


def test_events_are_shown_as_text(desk: Desk) -> None:
    desk.log(desk.record(), *TOLD)
    said = desk.ags("logs", "fix-login")
    assert said.out == "── running\n\nI look.\na line\n── done\n"
    assert (said.code, said.err) == (0, "")


def test_the_last_ones_only(desk: Desk) -> None:
    desk.log(desk.record(), *TOLD)
    assert desk.ags("logs", "-n", "2", "fix-login").out == "a line\n── done\n"
    assert desk.ags("logs", "-n", "0", "fix-login").out == ""
    assert desk.ags("logs", "-n", "-1", "fix-login").code == 2


def test_json_has_every_event_whole(desk: Desk) -> None:
    run = desk.record()
    log = desk.log(run, *TOLD, ("output", {"text": f"ü {HOSTILE}"}))
    said = desk.ags("logs", "--json", "fix-login")
    assert said.out.isascii()
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    assert [json.loads(line) for line in said.out.splitlines()] == kept
    assert kept[-1]["text"] == f"ü {HOSTILE}"


def test_a_run_without_a_log_has_nothing_to_show(desk: Desk) -> None:
    desk.record()
    assert desk.ags("logs", "fix-login").out == ""
    assert desk.ags("logs", "-f", "fix-login").out == ""


def test_a_name_that_is_no_runs_is_refused(desk: Desk) -> None:
    assert "there is no run of this name" in desk.refused("logs", "nobody")


def test_nothing_an_agent_printed_is_obeyed_by_the_terminal(desk: Desk) -> None:
    run = desk.record()
    desk.log(run, *((kind, {"text": HOSTILE}) for kind in ("message", "output", "system")))
    for arguments in ((), ("--json",), ("-f",)):
        code, screen = desk.on_terminal("logs", *arguments, "fix-login")
        assert code == 0 and is_harmless(screen), screen


def test_following_shows_what_comes_until_the_run_has_ended(desk: Desk) -> None:
    held = create(desk.state, state="running")
    writer = Writer(held.run_dir / "events.jsonl")
    writer.write("output", text="before")
    writer.write("output", text="shortly before")
    writer.flush()
    for arguments, expected in (
        (("-f",), "before\nshortly before\nlive\n"),
        (("-f", "-n", "2"), "shortly before\nlive\nlive\n"),
    ):
        command = (sys.executable, "-m", "ags.cli.main", "logs", *arguments, "fix-login")
        with subprocess.Popen(
            command, env=desk.environment(), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first == expected.splitlines(keepends=True)[0]
            writer.write("output", text="live")
            writer.flush()
            if arguments == ("-f",):
                seen = first + process.stdout.readline() + process.stdout.readline()
                process.terminate()
                assert seen == expected
                continue
            writer.close()
            held.close()
            assert first + process.stdout.read() == expected
        assert process.returncode == 0


def test_ctrl_c_ends_the_following_and_not_the_run(desk: Desk) -> None:
    with create(desk.state, state="running") as held:
        writer = Writer(held.run_dir / "events.jsonl")
        writer.write("output", text="at work")
        writer.close()
        code, screen = desk.on_terminal("logs", "-f", "fix-login", keys={"at work": "\x03"})
        assert code == 0 and "Traceback" not in screen
        assert "running" in desk.ags("list").out


def test_a_reader_that_goes_away_is_no_error(desk: Desk) -> None:
    desk.log(desk.record(), *(("output", {"text": "y" * 1000}) for _ in range(2000)))
    done = subprocess.run(
        f"{sys.executable} -m ags.cli.main logs fix-login | head -n 1",
        shell=True,
        env=desk.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("y" * 1000 + "\n", "")
