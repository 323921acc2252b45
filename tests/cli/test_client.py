"""`--client` on every verb that has it, and `ags client`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ags import clients, runs
from ags.agents.base import LATEST
from ags.cli import interactive
from ags.cli import start as cli_start
from ags.engine import Engine, Wish
from ags.errors import AgsError
from ags.runs import Order, Run
from tests.cli.desk import Desk, is_harmless, on_terminal
from tests.cli.working import wait_for

SCRIPT = "import sys; from ags.cli.main import main; sys.exit(main())"
BAD = ["../x", "-x", "", "a b", "A", "x\x1b[2J", "x" * 49, "a/b"]


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", clients.DATA):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def wishes(monkeypatch: pytest.MonkeyPatch) -> list[Wish]:
    """What the engine is asked for, which is all that happens."""
    asked: list[Wish] = []

    async def start(self: Engine, wish: Wish) -> Run:
        asked.append(wish)
        raise AgsError("go on", cause="this is a test")

    monkeypatch.setattr(Engine, "start", start)
    for module in (cli_start, interactive):
        monkeypatch.setattr(module, "equip", lambda *given: None)
    return asked


def secret(desk: Desk, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = (sys.executable, "-m", "ags.cli.main", "secret", *arguments)
    return subprocess.run(
        command, env=desk.environment(), input=b"sk-canary-1", capture_output=True, check=True
    )


def of(desk: Desk, name: str, client: str, **changes: object) -> Run:
    return desk.record(name, order=Order(client=client), **changes)  # type: ignore[arg-type]


def test_the_flags_are_kept_with_the_run(desk: Desk, wishes: list[Wish]) -> None:
    (desk.home / "log-in").mkdir()
    flags = ("--client", "acme", "--model", "m-1", "-D", "--yolo", "--claude-config", "~/log-in")
    folder = str(desk.project.folder)
    desk.ags("start", "fix", "goal", "--agent", "claude", "--project", folder, *flags)
    desk.ags("--agent", "claude", *flags, folder)
    desk.ags(*flags, folder)
    expected = ("acme", "m-1", True, True, desk.home / "log-in")
    for wish in wishes:
        order = wish.order
        found = (order.client, order.model, order.defaults, order.yolo, order.login)
        assert found == expected and wish.agent == "claude"
    assert len(wishes) == 3


def test_without_flags_it_is_the_persons_own_and_nothing_is_weakened(
    desk: Desk, wishes: list[Wish]
) -> None:
    desk.ags("--agent", "shell", str(desk.project.folder))
    desk.ags("--agent", "shell", "--client", "default", str(desk.project.folder))
    for wish in wishes:
        order = wish.order
        found = (order.client, order.model, order.session, order.login, order.config)
        assert found == ("", "", "", None, None) and not order.defaults and not order.yolo
    assert len(wishes) == 2


def test_with_a_client_it_is_claude_unless_another_is_named(desk: Desk, wishes: list[Wish]) -> None:
    folder = str(desk.project.folder)
    desk.ags("--client", "acme", folder)
    desk.ags("--client", "acme", "--agent", "shell", folder)
    assert [wish.agent for wish in wishes] == ["claude", "shell"]
    said = desk.ags("--model", "x", folder)
    assert said.code == 2 and "--agent" in said.err and len(wishes) == 2


@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_starts_and_keeps_nothing(desk: Desk, wishes: list[Wish], name: str) -> None:
    folder = str(desk.project.folder)
    for arguments in (
        ("start", "fix", "goal", "--agent", "shell", "--project", folder, f"--client={name}"),
        ("--agent", "shell", f"--client={name}", folder),
        (f"--client={name}", "--resume"),
        ("secret", "list", f"--client={name}"),
        ("secret", "remove", f"--client={name}", "k"),
        ("list", f"--client={name}"),
        ("client", "show", "--", name),
        ("client", "remove", "--yes", "--", name),
    ):
        if arguments[0] == "list":
            of(desk, f"run-{os.urandom(2).hex()}", "")
        said = desk.refused(*arguments)
        assert "client" in said and is_harmless(said)
    assert wishes == []


def test_a_model_is_never_an_option_of_the_agents(desk: Desk, wishes: list[Wish]) -> None:
    for name in ("--dangerous", "", "a\nb"):
        desk.refused("--agent", "claude", f"--model={name}", str(desk.project.folder))
    assert wishes == []


def test_a_log_in_to_share_must_be_there_and_be_of_that_agent(
    desk: Desk, wishes: list[Wish]
) -> None:
    folder = str(desk.project.folder)
    assert "no such folder" in desk.refused("--client=acme", "--claude-config=~/none", folder)
    said = desk.refused("--agent=codex", f"--claude-config={desk.home}", folder)
    assert "log-in of claude" in said and wishes == []


def test_a_clients_own_settings_take_the_place_of_the_persons(
    desk: Desk, wishes: list[Wish]
) -> None:
    own = desk.home / ".config/ags/clients/acme/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[limits]\npids = 77\n")
    folder = str(desk.project.folder)
    for name in ("acme", "beta"):
        desk.ags("--client", name, folder)
    acme, beta = wishes
    assert (acme.order.config, acme.limits.pids) == (own, 77)
    assert beta.order.config is None and beta.limits.pids != 77
    own.write_text("nonsense = 1\n")
    assert "nonsense" in desk.refused("--client", "acme", folder)


def test_continue_is_the_last_conversation_in_that_folder(desk: Desk, wishes: list[Wish]) -> None:
    desk.ags("--agent", "claude", "--continue", str(desk.project.folder))
    assert wishes[0].order.session == LATEST


def test_resume_goes_on_where_the_client_last_was_and_only_that_client(
    desk: Desk, wishes: list[Wish]
) -> None:
    places = {name: desk.home / name for name in ("old", "new", "theirs", "mine")}
    for folder in places.values():
        folder.mkdir()
    whose = {"old": "acme", "new": "acme", "theirs": "beta", "mine": ""}
    for name, client in whose.items():
        of(desk, name, client, mode="inplace", project=places[name])
    of(desk, "headless", "acme")
    for arguments in (
        ("--client", "acme", "--resume"),
        ("--client", "acme", "--resume", str(places["old"])),
        ("--client", "beta", "--resume"),
        ("--resume",),
    ):
        desk.ags(*arguments)
    found = [(wish.folder.name, wish.order.client, wish.order.session) for wish in wishes]
    assert found == [
        ("new", "acme", LATEST), ("old", "acme", LATEST), ("theirs", "beta", LATEST),
        ("mine", "", LATEST),
    ]  # fmt: skip
    assert {wish.agent for wish in wishes} == {"shell"}


def test_with_nothing_to_resume_it_says_so(desk: Desk, wishes: list[Wish]) -> None:
    of(desk, "theirs", "beta", mode="inplace")
    assert "acme has no session" in desk.refused("--client", "acme", "--resume")
    assert "you have no session" in desk.refused("--resume")
    said = desk.refused("--client", "beta", "--resume", "--agent", "claude")
    assert "beta has no session" in said and wishes == []


def test_resume_comes_back_to_the_session_at_work(
    desk: Desk, wishes: list[Wish], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def visit(engine: Engine, run_dir: Path) -> int:
        seen.append(runs.load(run_dir).name)
        return 0

    monkeypatch.setattr(interactive, "visit", visit)
    at_work = of(desk, "working", "acme", mode="inplace", state="running")
    of(desk, "newer", "acme", mode="inplace")
    with runs.hold(runs.directory(desk.state, at_work.id)) as held:
        held.save(replace(held.run, order=Order(client="acme", terminal=True)))
        assert desk.ags("--client", "acme", "--resume").code == 0
        assert "no session" in desk.refused("--client", "beta", "--resume")
    assert seen == ["working"] and wishes == []


def test_homes_elsewhere_are_kept_from_what_a_run_sees(
    desk: Desk, wishes: list[Wish], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = desk.project.folder / "data"
    data.mkdir()
    folder = str(desk.project.folder)
    monkeypatch.setenv(clients.DATA, str(data))
    assert "homes of all clients" in desk.refused("--client", "acme", folder)
    monkeypatch.setenv(clients.DATA, str(desk.home / "data"))
    (desk.home / "data").mkdir()
    flags = (f"--mount={desk.home}/data", folder)
    assert "homes of all clients" in desk.refused("--client", "acme", *flags)
    assert wishes == []
    desk.ags("--client", "acme", folder)
    assert len(wishes) == 1


def test_a_list_of_one_client_has_the_runs_of_no_other(desk: Desk) -> None:
    for name, client in (("one", "acme"), ("two", "beta"), ("three", "")):
        of(desk, name, client)

    def listed(*arguments: str) -> set[str]:
        return {each["name"] for each in json.loads(desk.ags("list", "--json", *arguments).out)}

    assert listed() == {"one", "two", "three"}
    assert listed("--client", "acme") == {"one"} and listed("--client", "default") == {"three"}
    assert "no such runs" in desk.ags("list", "--client", "gamma").out
    assert "one" in desk.ags("show", "one").out


def test_secrets_of_clients_are_apart(desk: Desk) -> None:
    secret(desk, "set", "own")
    secret(desk, "set", "--client", "acme", "theirs")
    assert (desk.state / "secrets/acme/theirs.file").read_text() == "sk-canary-1"
    assert (desk.state / "secrets/acme").stat().st_mode & 0o077 == 0

    def listed(*arguments: str) -> list[str]:
        found = json.loads(desk.ags("secret", "list", "--json", *arguments).out)
        return [each["name"] for each in found]

    assert (listed(), listed("--client", "acme")) == (["own"], ["theirs"])
    assert listed("--client", "default") == ["own"] and listed("--client", "beta") == []
    assert "--client beta" in desk.ags("secret", "list", "--client", "beta").out
    assert "beta has none" in desk.refused("secret", "remove", "--client", "beta", "theirs")
    assert "no secret" in desk.refused("secret", "remove", "theirs")
    assert desk.ags("secret", "remove", "--client", "acme", "theirs").code == 0


def furnished(desk: Desk, name: str) -> None:
    secret(desk, "set", "--client", name, "token")
    (desk.state / f"homes/{name}/claude").mkdir(parents=True)
    own = desk.home / f".config/ags/clients/{name}"
    own.mkdir(parents=True)
    (own / "policy.yaml").write_text("domains: [a.example]\n")


def test_clients_are_listed_and_shown_without_a_value(desk: Desk) -> None:
    assert "no clients yet" in desk.ags("client", "list").out
    furnished(desk, "acme")
    of(desk, "one", "beta")
    heads, acme, beta = desk.ags("client", "list").out.splitlines()
    assert acme.split() == ["acme", "0", "0", "claude", "1", "own"]
    assert beta.split()[:2] == ["beta", "1"] and heads.startswith("NAME")
    names = [each["name"] for each in json.loads(desk.ags("client", "list", "--json").out)]
    assert names == ["acme", "beta"]
    shown = desk.ags("client", "show", "acme").out
    for words in ("token", "homes/acme/claude", "policy.yaml", "ags list --client acme"):
        assert words in shown
    assert "canary" not in shown and is_harmless(shown)
    assert json.loads(desk.ags("client", "show", "--json", "beta").out)["runs"] == 1
    assert "nothing of a client" in desk.refused("client", "show", "gamma")
    assert "your own work" in desk.refused("client", "show", "default")


def test_a_removed_client_is_gone_and_its_runs_are_told_of(desk: Desk) -> None:
    furnished(desk, "acme")
    furnished(desk, "beta")
    run = of(desk, "one", "acme")
    assert "nobody to ask" in desk.refused("client", "remove", "acme")
    assert (desk.state / "homes/acme/claude").exists()
    said = desk.ags("client", "remove", "--yes", "acme")
    assert (said.code, said.out) == (0, "removed acme\n") and "ags rm one" in said.err
    left = [path for path in desk.home.parent.rglob("*") if path.name == "acme"]
    assert left == [] and desk.again(run).order.client == "acme"
    assert desk.ags("client", "show", "beta").code == 0
    assert "nothing is kept" in desk.ags("client", "remove", "acme").out


def test_the_person_is_asked_and_told_what_goes(desk: Desk) -> None:
    furnished(desk, "acme")
    command = (sys.executable, "-c", SCRIPT, "client", "remove", "acme")
    code, screen = on_terminal(command, desk.environment(), {"remove acme? [y/N] ": "n\r"})
    assert code == 1 and (desk.state / "homes/acme/claude").exists()
    for words in ("homes/acme/claude", "token", "policy.yaml"):
        assert words in screen
    code, _ = on_terminal(command, desk.environment(), {"remove acme? [y/N] ": "y\r"})
    assert code == 0 and not (desk.state / "homes/acme").exists()


def test_a_client_with_a_run_at_work_is_not_removed(desk: Desk) -> None:
    furnished(desk, "acme")
    folder, script = str(desk.project.folder), "echo at work; sleep 600"
    given = ("--detach", "--agent", "shell", "--client", "acme", "--project", folder)
    assert desk.ags("start", *given, "working", script).code == 0
    try:
        wait_for(desk, "working", "at work")
        assert "`ags stop working` first" in desk.refused("client", "remove", "--yes", "acme")
        assert (desk.state / "homes/acme/claude").exists()
    finally:
        desk.ags("stop", "--now", "working")
    assert desk.ags("client", "remove", "--yes", "acme").code == 0


@pytest.mark.parametrize("verb", ["list", "show", "remove"])
def test_each_has_help_with_an_example(desk: Desk, verb: str) -> None:
    said = desk.ags("client", verb, "--help")
    assert said.code == 0 and f"\n    ags client {verb}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
