"""A shell in the person's folder: every installed agent is at hand, as in a run of its own."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from ags import homes, records
from ags.agents import agent
from ags.programs import installed
from ags.programs.installed import Facts
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.internet.world import Origin
from tests.supervisor.test_network import Person, person

__all__ = ["internet", "person", "the_internet"]
VERSION = "1.0.0"
PROGRAM = '#!/bin/sh\necho "this is NAME, called with: $*"\n'
KEY = "sk-ant-api03-" + "R" * 93 + "AA"
HOSTS = {"claude": "api.anthropic.com", "codex": "api.openai.com"}


def install(state: Path, name: str) -> None:
    """A program that stands in for the agent's own, where `ags update-agents` would put it."""
    what = agent(name).program
    assert what is not None
    folder = state / "agents" / name / VERSION
    program = folder / what.path
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.replace("NAME", name))
    records.replace_file(
        folder / installed.FACTS, records.encode(Facts(what.package, VERSION, what.path))
    )
    for place in (program, *program.parents):
        if place.is_relative_to(state):
            place.chmod(0o755)
    installed.switch(state, name, VERSION)


def shell(person: Person, script: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return person.ags("--agent", "shell", "--name", "try", *flags, "--", "-c", script)


def home(person: Person) -> Path:
    return Path(person.environ["HOME"])


@pytest.fixture(scope="module", name="makers")
def _makers(the_internet: Internet) -> dict[str, Origin]:
    return {name: the_internet.origin(host, tls=True) for name, host in HOSTS.items()}


@pytest.fixture
def at_hand(person: Person) -> Person:
    for name in ("claude", "codex"):
        install(person.state, name)
    return person


def test_an_agent_is_called_by_its_name_as_a_run_of_its_own_would_start_it(at_hand: Person) -> None:
    install(at_hand.state, "pi")
    script = 'claude --model "a b" mcp; codex; pi; command -v claude gemini; ls /ags/agents'
    ran = shell(at_hand, script, "--no-network")
    said = ran.stdout
    told = "--append-system-prompt-file /etc/ags/prompt.md"
    assert f"this is claude, called with: {told} --model a b mcp" in said, said + ran.stderr
    assert "this is codex, called with: --sandbox danger-full-access" in said
    assert "this is pi, called with: --append-system-prompt" in said
    assert "--extension /ags/hooks/pi.ts" in said
    assert "/ags/bin/claude" in said and "gemini" not in said


def test_what_it_is_told_and_what_asks_the_hooks_is_there_and_cannot_be_changed(
    at_hand: Person,
) -> None:
    install(at_hand.state, "pi")
    script = """
    cat /etc/claude-code/managed-settings.json /etc/codex/requirements.toml /ags/hooks/pi.ts
    grep -q sandbox /etc/ags/prompt.md && echo told; test -S /ags/inside.sock && echo socket
    for file in /ags/bin/claude /ags/agents/claude/ags.json /etc/codex/requirements.toml; do
        (echo x >> $file) 2>/dev/null && echo "changed $file"
    done
    echo "$IS_SANDBOX $PI_OFFLINE"
    """
    said = shell(at_hand, script, "--no-network").stdout
    assert said.count("/ags/hooks/forward.py /ags/inside.sock") == 6, said
    assert "told\nsocket\n" in said and "1 1" in said and "changed" not in said


def test_one_that_others_could_have_changed_is_left_out_and_told(at_hand: Person) -> None:
    (at_hand.state / "agents/codex" / VERSION).chmod(0o777)
    ran = shell(at_hand, "claude; command -v codex", "--no-network")
    assert "this is claude" in ran.stdout and "/ags/bin/codex" not in ran.stdout, ran.stderr
    assert "codex is not at hand: others may write to it" in at_hand.ags("show", "try").stdout


def test_a_script_and_a_shell_without_agents_have_none_of_it(person: Person) -> None:
    look = "ls /ags; command -v claude"
    assert "agents" not in shell(person, look, "--no-network").stdout
    install(person.state, "claude")
    ran = person.ags("start", "script", "-a", "shell", "--no-network", look)
    assert "agents" not in ran.stdout and "/ags/bin" not in ran.stdout


def test_only_the_hosts_of_agents_with_a_key_are_open_and_the_key_stays_outside(
    makers: dict[str, Origin], at_hand: Person
) -> None:
    at_hand.environ["ANTHROPIC_API_KEY"] = KEY
    script = """
    curl -sS -m 90 -H "x-api-key: $ANTHROPIC_API_KEY" https://api.anthropic.com/
    curl -sS -m 90 https://api.openai.com/
    env; cat ~/.claude.json
    """
    ran = shell(at_hand, script)
    (seen,) = makers["claude"].requests
    assert seen.header("x-api-key") == KEY
    assert makers["codex"].visits == [] and KEY not in ran.stdout
    shown = at_hand.ags("show", "try").stdout
    assert "at hand in this shell: claude, codex; the hosts of claude are open" in shown
    assert "no key and no log-in, so nothing is open, for codex" in shown
    at_hand.environ["OPENAI_API_KEY"] = "sk-proj-" + "S" * 48
    again = at_hand.ags("--agent", "shell", "--", "-c", script + "cat ~/.codex/auth.json")
    assert len(makers["codex"].requests) == 1, again.stderr
    assert '"auth_mode": "apikey"' in again.stdout and "S" * 48 not in again.stdout


def test_each_log_in_stands_in_the_home_and_goes_to_its_own_maker_alone(
    makers: dict[str, Origin], at_hand: Person
) -> None:
    install(at_hand.state, "pi")
    expires = int((time.time() + 3600) * 1000)
    real = {"claude": f"sk-ant-oat01-{'a' * 80}AA", "pi": f"sk-ant-api03-{'c' * 80}AA"}
    claude = {"accessToken": real["claude"], "refreshToken": "sk-ant-ort01-" + "b" * 80}
    log_in(
        home(at_hand) / ".claude/.credentials.json",
        {"claudeAiOauth": claude | {"expiresAt": expires}},
    )
    log_in(
        home(at_hand) / ".pi/agent/auth.json", {"anthropic": {"type": "api_key", "key": real["pi"]}}
    )
    script = """
    claude=$(sed -n 's/.*"accessToken": "\\(.*\\)".*/\\1/p' ~/.claude/.credentials.json)
    pi=$(sed -n 's/.*"key": "\\(.*\\)".*/\\1/p' ~/.pi/agent/auth.json)
    curl -sS -m 90 -H "Authorization: Bearer $claude" https://api.anthropic.com/claude
    curl -sS -m 90 -H "x-api-key: $pi" https://api.anthropic.com/pi
    curl -sS -m 90 -H "Authorization: Bearer $claude" https://api.openai.com/
    cat ~/.claude/.credentials.json ~/.pi/agent/auth.json
    """
    ran = shell(at_hand, script, "--allow", HOSTS["codex"])
    sent = [
        (seen.header("authorization"), seen.header("x-api-key"))
        for seen in makers["claude"].requests
    ]
    assert sent == [(f"Bearer {real['claude']}", None), (None, real["pi"])], ran.stdout + ran.stderr
    assert makers["codex"].requests == []
    assert not any(token in ran.stdout for token in real.values())


def log_in(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))
    file.chmod(0o600)


def test_conversations_come_from_each_agents_own_home_and_go_back_there(at_hand: Person) -> None:
    for name, path in (("claude", ".claude/history.jsonl"), ("codex", ".codex/history.jsonl")):
        kept = homes.folder(at_hand.state, "", name) / path
        kept.parent.mkdir(parents=True)
        kept.write_text(f"{name} before\n")
    script = """
    cat ~/.claude/history.jsonl ~/.codex/history.jsonl
    echo more >> ~/.claude/history.jsonl
    mkdir -p ~/.codex/sessions; echo new > ~/.codex/sessions/1.jsonl; echo other > ~/.other
    """
    ran = shell(at_hand, script, "--no-network")
    assert "claude before\ncodex before\n" in ran.stdout, ran.stderr
    claude, codex = (homes.folder(at_hand.state, "", name) for name in ("claude", "codex"))
    assert (claude / ".claude/history.jsonl").read_text() == "claude before\nmore\n"
    assert (codex / ".codex/sessions/1.jsonl").read_text() == "new\n"
    assert (codex / ".codex/history.jsonl").read_text() == "codex before\n"
    assert not (claude / ".codex").exists() and not list(at_hand.state.glob("homes/**/.other"))


def test_what_a_repository_brings_for_any_of_them_is_covered_until_it_is_approved(
    at_hand: Person,
) -> None:
    at_hand.project.write(".codex/config.toml", "evil = 1\n")
    at_hand.project.write(".mcp.json", '{"evil": 1}\n')
    look = "cat .codex/config.toml .mcp.json"
    assert "evil" not in shell(at_hand, look, "--no-network").stdout
    at_hand.ags("trust", "--yes")
    ran = at_hand.ags("--agent", "shell", "--no-network", "--", "-c", look)
    assert ran.stdout.count("evil") == 2, ran.stderr
