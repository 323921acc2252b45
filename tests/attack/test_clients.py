"""Two clients side by side, with canaries in each, looked for from inside the other's runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ags import homes, records
from ags.agents.claude import Claude
from ags.programs import installed
from ags.programs.installed import Facts
from ags.toolchains.known import KNOWN
from tests.cli.desk import Desk, desk
from tests.cli.working import wait_for
from tests.workspace.repositories import checkout

__all__ = ("desk",)
VERSION = "1.0.0"
PROGRAM = '#!/bin/sh\nfor last; do :; done\neval "$last"\n'
"""Stands in for an agent with a home of its own: it does what its last argument says."""
LOOK = r"""
{
  find / \( -path /usr -o -path /proc -o -path /dev \) -prune -o -print
  find / \( -path /usr -o -path /proc -o -path /dev \) -prune -o -type f -print0 | xargs -0 sed ''
  echo
  env
  cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/mountinfo /proc/net/unix
} 2>/dev/null | tr '\0' '\n' | grep -ae '%s' | cut -c 1-300 > seen.txt
"""
"""Every name, file and process. `sed` ends each file's last line, so that it is not the next's."""


def canary(client: str) -> str:
    return f"{client}-canary-7f3a"


def look(client: str) -> str:
    # A pattern that does not match itself, or the search would find its own arguments.
    return LOOK % canary(client).replace("-c", "-[c]")


class Office:
    """One person, two clients with a project each, and an agent that obeys."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.projects = {}
        for name in ("acme", "beta"):
            project = checkout(desk.home / name / "work")
            project.write("a.txt", "hello\n")
            project.commit("first")
            self.projects[name] = project.folder
        self._install()

    def _install(self) -> None:
        folder = self.desk.state / "agents/claude" / VERSION
        program = folder / Claude.program.path
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM)
        facts = Facts(Claude.program.package, VERSION, Claude.program.path)
        records.replace_file(folder / installed.FACTS, records.encode(facts))
        for place in (program, *program.parents):  # whatever the umask is
            if place.is_relative_to(self.desk.state):
                place.chmod(0o755)
        installed.switch(self.desk.state, "claude", VERSION)

    def plant(self, client: str) -> None:
        """What lies outside for a client, in every place there is."""
        word, state = canary(client), self.desk.state
        self.keep(client, "token", word)
        own = self.desk.home / ".config/ags/clients" / client
        own.mkdir(parents=True)
        (own / "policy.yaml").write_text(f"domains: [{word}.example]\n")
        log_ins = state / "logins" / client
        log_ins.mkdir(parents=True)
        (log_ins / "claude.json").write_text(word)
        kept = homes.folder(state, client, "claude")
        (kept / ".claude/projects").mkdir(parents=True)
        (kept / ".mcp-auth").mkdir()
        for path in (".claude/history.jsonl", ".claude/projects/1.jsonl", ".mcp-auth/token"):
            (kept / path).write_text(f"{word}\n")

    def keep(self, client: str, name: str, value: str) -> None:
        command = (sys.executable, "-m", "ags.cli.main", "secret", "set", "--client", client, name)
        done = subprocess.run(
            command, env=self.desk.environment(), input=value.encode(), capture_output=True
        )
        assert done.returncode == 0, done.stderr

    def run(self, client: str, script: str) -> str:
        """In the client's project, in place; returns what it saw."""
        folder = self.projects[client]
        said = self.desk.ags("--client", client, "--no-network", str(folder), "--", script)
        assert said.code == 0, said
        seen: Path = folder / "seen.txt"
        return seen.read_text() if seen.exists() else ""

    @contextmanager
    def at_work(self, client: str) -> Iterator[None]:
        """A run of the client's, whose process has the canary in its name and environment."""
        word, folder = canary(client), str(self.projects[client])
        script = (
            f"echo {word} > work.txt; export W={word}; echo at work;"
            f" sh -c 'sleep 600; : {word}' {word}"
        )
        given = ("--detach", "--agent", "shell", "--client", client, "--project", folder)
        said = self.desk.ags("start", *given, "--no-network", f"{client}-run", script)
        assert said.code == 0, said
        try:
            wait_for(self.desk, f"{client}-run", "at work")
            yield
        finally:
            self.desk.ags("stop", "--now", f"{client}-run")


@pytest.fixture
def office(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Office:
    ours = ("DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "AGENT_SANDBOX_DATA")
    toolchains = (each.variable for each in KNOWN if each.variable)  # gigabytes, at every look
    for name in (*ours, *toolchains):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    made = Office(desk)
    for client in ("acme", "beta"):
        made.plant(client)
    return made


def test_a_client_finds_its_own_history_and_nothing_of_another_that_is_at_work(
    office: Office,
) -> None:
    with office.at_work("beta"):
        assert office.run("acme", look("beta")) == ""
        own = office.run("acme", look("acme")).splitlines()
    # Its history, conversation and MCP log-in; not the secret, policy or log-in that lie outside.
    assert own == [canary("acme")] * 3


def test_the_search_finds_files_names_and_processes_where_they_are_its_own(office: Office) -> None:
    word = canary("acme")
    there = f"echo file {word} > /tmp/x; touch /tmp/{word}-name; W={word} sleep 600 &"
    there += " until tr '\\0' '\\n' < /proc/$!/environ | grep -q ^W=; do :; done;"
    own = office.run("acme", f"{there} {look('acme')}").splitlines()
    assert {f"file {word}", f"/tmp/{word}-name", f"W={word}"} <= set(own)


def test_what_a_client_leaves_in_its_home_is_for_its_next_run_alone(office: Office) -> None:
    word = canary("acme")
    leave = f"echo {word}-late >> ~/.claude/history.jsonl; mkdir -p ~/.claude/projects/x;"
    office.run("acme", f"{leave} echo {word}-new > ~/.claude/projects/x/2.jsonl; rm -f seen.txt")
    assert office.run("beta", look("acme")) == ""
    assert {f"{word}-late", f"{word}-new"} <= set(office.run("acme", look("acme")).splitlines())
    for path in homes.folder(office.desk.state, "beta", "claude").rglob("*"):
        assert path.is_dir() or word not in path.read_text()


def test_nothing_of_a_client_is_in_the_files_that_ags_keeps_of_another(office: Office) -> None:
    office.run("acme", f"echo {canary('acme')}; touch ~/.claude/history.jsonl")
    with office.at_work("beta"):
        pass
    state = office.desk.state
    for mine, theirs in (("acme", "beta"), ("beta", "acme")):
        folders = [state / place / mine for place in ("homes", "secrets", "logins")]
        folders.append(office.desk.home / ".config/ags/clients" / mine)
        for path in (state / "runs").iterdir():
            if f'"client":"{mine}"' in (path / "run.json").read_text().replace(": ", ":"):
                folders += [path, state / "home" / path.name]
        assert len(folders) >= 5
        files = [path for each in folders for path in each.rglob("*") if path.is_file()]
        assert any(canary(mine).encode() in path.read_bytes() for path in files)
        assert [path for path in files if canary(theirs).encode() in path.read_bytes()] == []


def test_the_persons_own_runs_and_a_clients_do_not_meet_either(office: Office) -> None:
    office.projects["default"] = office.projects["beta"]
    kept = homes.folder(office.desk.state, "", "claude")
    (kept / ".claude").mkdir(parents=True)
    (kept / ".claude/history.jsonl").write_text(canary("own") + "\n")
    assert office.run("default", look("acme")) == ""
    assert office.run("acme", look("own")) == ""
    assert office.run("default", look("own")).splitlines() == [canary("own")]


def test_what_was_approved_for_one_client_is_covered_for_the_other(office: Office) -> None:
    shared = office.projects["acme"]
    office.projects["beta"] = shared
    (shared / ".mcp.json").write_text(f'{{"mcpServers": {{"{canary("acme")}": {{}}}}}}')
    said = office.desk.ags("trust", "--client", "acme", "--yes", str(shared))
    assert said.code == 0, said
    show = "cat .mcp.json > seen.txt"
    assert canary("acme") in office.run("acme", show)
    assert office.run("beta", show).strip() == "{}"
    assert canary("acme") in office.run("acme", show)
