"""`ags --server URL VERB`: what the verbs do here, done by a real server."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ags.cli import remote
from ags.cli.main import VERBS
from tests.cli.desk import Desk, Said
from tests.cli.test_asks import POST, WEB, at_work
from tests.cli.test_stop import ENDLESS
from tests.server.conftest import Server, serving
from tests.workspace.repositories import checkout

GOAL = "echo hello there; echo more >>a.txt"
SIZED = "until stty size | grep -x '24 100'; do sleep 0.1; done"
"""Waits for the size of the person's terminal, which may come a moment after the shell."""


@dataclass(frozen=True)
class Office:
    """A person's desk, and a server of theirs."""

    desk: Desk
    server: Server

    def ags(self, *words: str) -> Said:
        return self.desk.ags("--server", self.server.url, *words)

    def refused(self, *words: str) -> str:
        return self.desk.refused("--server", self.server.url, *words)

    def start(self, name: str = "fix-login", goal: str = GOAL, *flags: str) -> Said:
        project = str(self.desk.project.folder)
        said = self.ags("start", "--agent", "shell", "--project", project, *flags, name, goal)
        assert said.code == 0, said
        return said


@pytest.fixture
def office(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Office]:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
    project = checkout(home / "project")
    project.write("a.txt", "hello\n")
    project.commit("first")
    for name in ("NO_COLOR", "COLUMNS", "PAGER", "LESS", "AGS_SERVER", "AGS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AGS_HOME", str(tmp_path / "ags"))
    desk = Desk(home, tmp_path / "ags", project, capsys)
    with serving(tmp_path) as server:
        yield Office(desk, server)
    # What a failed test left at work.
    monkeypatch.delenv("AGS_SERVER", raising=False)
    monkeypatch.setenv("AGS_HOME", str(desk.state))
    for run in json.loads(desk.ags("list", "--json", "--state", "running").out):
        desk.ags("stop", "--now", run["name"])


def settled(text: str) -> str:
    """Without what depends on the moment, and without the room that its column leaves for it."""
    return re.sub(r" *\b\d+[sm]( ago| left)?\b *", " SOON ", text)


def test_a_run_is_started_and_shown_as_it_goes(office: Office) -> None:
    said = office.start()
    assert "hello there\n" in said.out
    assert "fix-login: done" in said.err and "on branch agent--fix-login" in said.err
    assert office.desk.project.ask("show", "agent--fix-login:a.txt") == "hello\nmore"


def test_what_is_shown_is_what_the_local_verbs_show(office: Office) -> None:
    office.start()
    office.start("other", "exit 3", "--detach")
    office.ags("logs", "-f", "other")
    desk = office.desk
    linked = office.ags("project", "add", "--here", str(desk.project.folder))
    assert linked.code == 0 and ") is linked: " in linked.out
    assert office.ags("project", "add", f"file://{desk.project.folder}", "--client", "a").code == 0
    for words in (
        ("list",),
        ("list", "--json"),
        ("list", "--state", "done"),
        ("list", "--state", "running"),
        ("list", "--agent", "claude", "--all"),
        ("list", "--client", "default"),
        ("diff", "fix-login"),
        ("diff", "--stat", "fix-login"),
        ("diff", "--json", "fix-login"),
        ("diff", "--color", "always", "fix-login"),
        ("logs", "fix-login"),
        ("logs", "-f", "fix-login"),
        ("logs", "-n", "2", "fix-login"),
        ("logs", "--json", "fix-login"),
        ("logs", "--json", "-f", "-n", "3", "fix-login"),
        ("asks",),
        ("asks", "--json"),
        ("project", "list"),
        ("project", "list", "--client", "a"),
    ):
        here, there = desk.ags(*words), office.ags(*words)
        assert (there.code, there.err) == (here.code, here.err) == (0, ""), words
        assert settled(there.out) == settled(here.out), words


def test_show_tells_all_that_the_server_tells(office: Office) -> None:
    office.start()
    here = settled(office.desk.ags("show", "fix-login").out).splitlines()
    there = settled(office.ags("show", "fix-login").out).splitlines()
    own = ("log ", "patch ", "limits")
    assert [line for line in here if not line.startswith(own)] == [
        line for line in there if not line.startswith(own)
    ]
    whole = json.loads(office.desk.ags("show", "--json", "fix-login").out)
    told = json.loads(office.ags("show", "--json", "fix-login").out)
    assert told["result"] == whole["result"] and told["goal"] == whole["goal"]
    assert set(told) < set(whole) and set(told["order"]) < set(whole["order"])
    assert {name for name in told if told[name] != whole[name]} <= {
        *("created", "started", "ended", "order", "limits"),
    }


def test_work_is_applied_and_taken_back(office: Office) -> None:
    office.start()
    project = office.desk.project
    said = office.ags("apply", "fix-login")
    assert said.code == 0 and "applied fix-login: main moved forward" in said.out
    assert (project.folder / "a.txt").read_text() == "hello\nmore\n"
    assert "it was applied to main already" in office.refused("apply", "fix-login")
    said = office.ags("undo", "fix-login")
    assert said.code == 0 and "undone fix-login: main is at" in said.out
    assert (project.folder / "a.txt").read_text() == "hello\n"
    assert "one commit on main" in office.ags("apply", "--squash", "fix-login").out


def test_a_conflict_is_told_with_its_files_and_changes_nothing(office: Office) -> None:
    office.start()
    office.desk.project.write("a.txt", "other\n")
    office.desk.project.commit("second")
    error = office.refused("apply", "fix-login")
    assert "other changes in the same places: a.txt" in error
    assert (office.desk.project.folder / "a.txt").read_text() == "other\n"


def test_what_should_be_looked_at_is_not_applied_without_a_word(office: Office) -> None:
    office.start(goal="mkdir .husky; echo x >.husky/pre-commit")
    error = office.refused("apply", "fix-login")
    assert "there is no terminal to ask on" in error
    assert office.ags("apply", "--yes", "fix-login").code == 0
    assert (office.desk.project.folder / ".husky/pre-commit").exists()


def test_work_is_pushed_to_a_remote(office: Office, tmp_path: Path) -> None:
    project = office.desk.project
    subprocess.run(("git", "init", "--quiet", "--bare", str(tmp_path / "hub.git")), check=True)
    project.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    office.start()
    said = office.ags("apply", "--push", "origin/work", "fix-login")
    assert said.code == 0, said
    commit = project.ask("rev-parse", "agent--fix-login")
    assert said.out == f"pushed {commit[:12]} to work of origin\n"
    assert project.ask("ls-remote", "origin", "refs/heads/work").split()[0] == commit


def test_a_run_is_stopped_restarted_and_removed(office: Office) -> None:
    office.start("fix-login", ENDLESS, "--detach")
    _until(office, "fix-login", "at work")
    said = office.ags("stop", "fix-login")
    assert said.code == 0 and "fix-login: stopped" in said.err
    assert "it is not at work" in office.refused("stop", "fix-login")
    said = office.ags("restart", "--detach", "fix-login")
    assert "fix-login is at work again" in said.out
    assert "at work" in office.refused("rm", "fix-login")
    assert office.ags("stop", "--now", "fix-login").code == 0
    office.start("other")
    said = office.ags("rm", "fix-login", "nobody", "other")
    assert said.code == 1
    first, second = said.out.splitlines()
    assert (first, second) == ("removed fix-login", "removed other")
    assert "there is no run of this name" in said.err
    assert office.ags("list").out.startswith("no runs yet")


def test_a_restart_shows_only_what_is_new(office: Office) -> None:
    office.start()
    said = office.ags("restart", "fix-login")
    assert said.code == 0 and said.out.count("hello there") == 1


def test_a_next_turn_shows_only_what_is_new(office: Office) -> None:
    office.start()
    said = office.ags("tell", "fix-login", "echo second turn")
    assert said.code == 0 and "second turn" in said.out and "hello there" not in said.out


def test_what_runs_ask_is_shown_and_answered(office: Office) -> None:
    with at_work(office.desk) as run:
        first, second = run.send(WEB), run.send(POST)
        here, there = office.desk.ags("asks"), office.ags("asks")
        assert settled(there.out) == settled(here.out) and "https://new.example:443" in there.out
        ids = [each["id"] for each in json.loads(office.ags("asks", "--json").out)]
        said = office.ags("allow", ids[0], "--for", "1h", "--uses", "3")
        assert said.out == "allowed for 1 h: fix-login: https://new.example:443\n", said
        assert first.result(60).allowed
        said = office.ags("deny", ids[1], "--run", "fix-login")
        assert "denied for the rest of the run: fix-login: POST https://api.example" in said.out
        assert not second.result(60).allowed
        assert "no run asks this" in office.refused("allow", ids[0])


def test_a_goal_that_fails_has_its_exit_code(office: Office) -> None:
    project = str(office.desk.project.folder)
    words = ("start", "--agent", "shell", "--project", project, "failing", "exit 7")
    assert office.ags(*words).code == 7


def test_a_name_that_is_none_is_told_as_by_the_local_verb(office: Office) -> None:
    words = ("start", "--agent", "shell", "--project", str(office.desk.project.folder))
    here = office.desk.refused(*words, "Bad_Name", "true")
    assert "'Bad_Name' is not a name for a run" in here
    assert office.refused(*words, "Bad_Name", "true") == here


def test_several_attempts_are_started_at_once(office: Office) -> None:
    said = office.start("many", "true", "--attempts", "3")
    assert said.out.splitlines()[:3] == [f"many-{n} is at work" for n in (1, 2, 3)]
    for number in (1, 2, 3):
        assert office.ags("logs", "-f", f"many-{number}").code == 0
    assert len(json.loads(office.ags("list", "--json").out)) == 3


def test_ctrl_c_stops_the_run_in_order(office: Office) -> None:
    words = ("start", "--agent", "shell", "--project", str(office.desk.project.folder))
    code, screen = office.desk.on_terminal(
        *("--server", office.server.url, *words, "fix-login", ENDLESS), keys={"at work": "\x03"}
    )
    assert code == 130 and "Traceback" not in screen and "stopping it" in screen
    assert "fix-login  stopped" in office.ags("show", "fix-login").out
    assert "+kept" in office.ags("diff", "fix-login").out


def test_ctrl_c_ends_the_following_and_not_the_run(office: Office) -> None:
    office.start("fix-login", ENDLESS, "--detach")
    code, screen = office.desk.on_terminal(
        "--server", office.server.url, "logs", "-f", "fix-login", keys={"at work": "\x03"}
    )
    assert code == 0 and "Traceback" not in screen
    assert office.ags("stop", "--now", "fix-login").code == 0


def test_a_shell_is_opened_beside_the_agent(office: Office) -> None:
    office.start("fix-login", ENDLESS, "--detach")
    _until(office, "fix-login", "at work")
    code, screen = office.desk.on_terminal(
        *("--server", office.server.url, "shell", "fix-login"),
        keys={"$ ": f"{SIZED}; echo in-$((40+2)) $TERM; exit 5\n"},
    )
    assert "24 100\nin-42 xterm\n" in screen and code == 5, screen
    assert office.ags("stop", "--now", "fix-login").code == 0


def test_a_terminal_is_visited_and_left(office: Office) -> None:
    desk = office.desk
    desk.on_terminal(
        *("--agent", "shell", "--name", "sitting", str(desk.project.folder)),
        keys={"$ ": "echo here-$((40+2))\n", "here-42": "\x1d"},
    )
    code, screen = desk.on_terminal(
        "--server", office.server.url, "attach", "sitting", keys={"here-42": "\x1d"}
    )
    assert code == 0 and "detached; `ags attach sitting` comes back" in screen
    code, screen = desk.on_terminal(
        "--server", office.server.url, "attach", "sitting", keys={"here-42": "exit 4\n"}
    )
    assert code == 4 and "sitting: failed (exit code 4)" in screen, screen


def test_a_run_without_a_terminal_cannot_be_attached_to(office: Office) -> None:
    office.start("fix-login", ENDLESS, "--detach")
    _until(office, "fix-login", "at work")
    words = ("--server", office.server.url, "attach")
    code, screen = office.desk.on_terminal(*words, "fix-login")
    assert code == 1 and "it was started without a terminal" in screen
    code, screen = office.desk.on_terminal(*words, "nobody")
    assert code == 1 and "there is no run of this name" in screen
    assert "not a terminal" in office.refused("attach", "fix-login")
    assert office.ags("stop", "--now", "fix-login").code == 0


def test_a_port_of_a_run_comes_to_the_servers_machine(office: Office) -> None:
    office.start("web", ENDLESS, "--detach")
    _until(office, "web", "at work")
    said = office.ags("port", "web", "5199")
    assert said.code == 0 and said.out.startswith("http://127.0.0.1:") and said.err == ""
    assert office.ags("stop", "--now", "web").code == 0


def test_a_project_is_added_pulled_used_and_removed(office: Office) -> None:
    origin = office.desk.project
    said = office.ags("project", "add", f"file://{origin.folder}")
    assert said.code == 0 and re.match(r"project \(project-[0-9a-f]{20}\) is cloned", said.out), (
        said
    )
    (listed,) = json.loads(office.ags("project", "list", "--json").out)
    local = json.loads(office.desk.ags("project", "list", "--json").out)[0]
    assert listed == {name: local[name] for name in listed}
    origin.write("b.txt", "new\n")
    origin.commit("second")
    assert office.ags("project", "pull", "project").out == "project: updated: main\n"
    assert office.ags("project", "pull", listed["id"]).out == "project: nothing new\n"
    origin.git("branch", "old")
    assert office.ags("project", "pull", "project").out == "project: new: old\n"
    origin.git("branch", "--delete", "old")
    said = office.ags("project", "pull", "project")
    assert said.err.endswith("note: are gone where they came from, and stay: old\n")
    here, there = (each("project", "branches", "project") for each in (office.desk.ags, office.ags))
    assert settled(there.out) == settled(here.out)
    made = office.ags("start", "--agent", "shell", "-p", "project", "fix", "cat b.txt")
    assert made.code == 0 and "new\n" in made.out
    assert json.loads(office.ags("list", "--project", "project", "--json").out)[0]["name"] == "fix"
    assert "runs" in office.refused("project", "remove", "project")
    assert office.ags("project", "remove", "--force", "project").out == "removed project\n"
    assert "there is no such project" in office.refused("project", "pull", "project")
    said = office.ags("project", "add", "http://127.0.0.1:9/x.git")
    assert said.code == 1 and "ags: cannot bring the project (x)" in said.err


@contextlib.contextmanager
def kept_free(port: int) -> Iterator[None]:
    """Bound and not listened at: nobody is given it by chance, and a server can have it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
        yield


def test_a_server_that_is_started_anew_meanwhile_loses_nothing(
    office: Office, tmp_path: Path
) -> None:
    goal = "for n in $(seq 60); do echo line-$n; sleep 0.05; done"
    office.start("counting", goal, "--detach")
    words = ("--server", office.server.url, "logs", "-f", "counting")
    command = (sys.executable, "-m", "ags.cli.main", *words)
    port = office.server.port
    env = office.desk.environment()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert next(line for line in following.stdout if line == "line-5\n")
        office.server.process.kill()
        office.server.process.wait()
        with kept_free(port), serving(tmp_path, port=port):
            shown = [int(line[5:]) for line in following.stdout if line.startswith("line-")]
            assert following.wait(120) == 0
    assert shown == list(range(6, 61))


# Who may be asked, and what may not


def test_the_address_may_be_in_the_environment(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGS_SERVER", office.server.url)
    assert office.desk.ags("list").out.startswith("no runs yet")
    assert "AGS_SERVER" in office.desk.refused("doctor")


def test_another_token_is_refused_by_the_server(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGS_TOKEN", "wrong" * 9)
    error = office.refused("list")
    assert "it needs a token that is good" in error and "wrong" not in error
    monkeypatch.setenv("AGS_TOKEN", office.server.token)
    monkeypatch.setenv("AGS_HOME", str(office.desk.home / "elsewhere"))
    assert office.ags("list").code == 0
    assert "only on its own machine" in office.refused("project", "add", "--here")


def test_who_took_the_port_of_a_server_that_ended_does_not_get_its_token(office: Office) -> None:
    from tests.client.scripted import reply, scripted

    office.server.end()
    lock = office.desk.state / "server" / "web.lock"
    with scripted(reply({}), last=True) as thief:
        told = json.loads(lock.read_bytes())
        lock.write_text(json.dumps(told | {"url": thief.url}))
        error = office.desk.refused("--server", thief.url, "list")
    assert "no server of yours listens there" in error and "ags up" in error
    assert thief.asked == []


@pytest.mark.parametrize("verb", sorted(set(VERBS) - set(remote.VERBS)))
def test_what_is_about_this_machine_is_not_done_by_a_server(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from ags.cli.main import main

    assert main(("--server", "http://127.0.0.1:9", verb)) == 1
    error = capsys.readouterr().err
    assert f"have a server do `ags {verb}`" in error and "leave out --server" in error


def test_nor_is_an_agent_at_ones_own_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from ags.cli.main import main

    assert main(("--server", "http://127.0.0.1:9", "--agent", "claude")) == 1
    assert "have a server do `ags --agent`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ("--mount", "/etc"),
        ("--mount-rw", "/tmp"),
        ("--add-dir", "/tmp"),
        ("--env", "A=b"),
        ("--policy", "x.yaml"),
        ("--ptrace",),
        ("--yolo",),
        ("--defaults",),
        ("--claude-config", "/tmp"),
        ("--config", "x.toml"),
    ],
)
def test_flags_about_this_machine_are_refused(office: Office, flags: tuple[str, ...]) -> None:
    assert f"use {flags[0]} with a server" in office.refused("start", *flags, "a", "true")
    assert office.ags("list").out.startswith("no runs yet")


def test_every_remote_verb_has_the_flags_of_the_local_one() -> None:
    import importlib

    for verb in remote.VERBS:
        here = importlib.import_module(f"ags.cli.{verb}").command
        there = importlib.import_module(f"ags.cli.remote.{verb}").command
        assert {each.name for each in here.params} == {each.name for each in there.params}, verb
        assert there.help == here.help
        for each in (there, *getattr(there, "commands", {}).values()):
            taken = (
                inspect.signature(inspect.unwrap(each.callback)).parameters if each.params else {}
            )
            is_open = any(one.kind is one.VAR_KEYWORD for one in taken.values())
            assert is_open or {one.name for one in each.params} == set(taken) - {"there"}, each.name


def _until(office: Office, name: str, text: str) -> None:
    until = time.monotonic() + 90
    while text not in office.ags("logs", name).out:
        assert time.monotonic() < until
        time.sleep(0.1)
