"""`ags agents` and `ags update-agents`: installed by name, listed, and said when it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.desk import Desk, is_harmless
from tests.programs.registry import Registry, registry

CANARY = "canary-7d1f"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CODEX_API_KEY",
        "GEMINI_API_KEY", "OPENAI_API_KEY")  # fmt: skip


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEYS, "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shelf(desk: Desk) -> Iterator[Registry]:
    """What the person's npm settings name."""
    with registry() as made:
        (desk.home / ".npmrc").write_text(f"registry={made.url}/\nfetch-retries=0\n")
        yield made


def row(desk: Desk, agent: str, *flags: str) -> list[str]:
    lines = desk.ags("agents", *flags).out.splitlines()
    return next(line for line in lines if line.startswith(agent)).split()


def test_all_agents_are_listed_and_none_is_installed_yet(desk: Desk) -> None:
    said = desk.ags("agents")
    assert said.code == 0 and said.err == ""
    assert said.out.splitlines()[0].split() == ["AGENT", "INSTALLED", "LOG-IN", "SIZE"]
    names = [line.split()[0] for line in said.out.splitlines()[1:-1]]
    assert names == ["claude", "codex", "gemini", "opencode", "pi"]
    assert said.out.splitlines()[-1] == "none is installed yet: `ags update-agents NAME`"
    assert not (desk.state / "agents").exists()


def test_an_installed_one_is_listed_with_its_version_size_and_newest(
    desk: Desk, shelf: Registry
) -> None:
    shelf.publish_claude("1.0.0")
    said = desk.ags("update-agents", "claude")
    assert said.code == 0 and said.out.startswith("claude 1.0.0 installed ("), said
    assert "ags: claude: fetching 2 packages\n" in said.err and is_harmless(said.err)
    assert row(desk, "claude")[1] == "1.0.0"
    shelf.publish_claude("1.1.0")
    shelf.publish_claude("1.2.0", days=0.2)
    assert row(desk, "claude", "--check")[1:3] == ["1.0.0", "1.1.0"]
    listed = {each["agent"]: each for each in json.loads(desk.ags("agents", "--json").out)}
    found = listed["claude"]
    assert (found["installed"], found["newest"], found["problem"]) == ("1.0.0", None, None)
    assert found["size"] > 0 and listed["pi"]["installed"] is None


def test_without_a_name_what_is_installed_is_updated(desk: Desk, shelf: Registry) -> None:
    shelf.publish_claude("1.0.0")
    desk.ags("update-agents", "claude")
    assert desk.ags("update-agents").out == "claude 1.0.0 is installed already\n"


def test_one_that_fails_does_not_keep_the_others_back(desk: Desk, shelf: Registry) -> None:
    shelf.publish_claude("1.0.0")
    said = desk.ags("update-agents", "codex", "claude")
    assert said.code == 1 and said.out.startswith("claude 1.0.0 installed")
    assert "ags: codex: cannot look for @openai/codex" in said.err
    assert "no such package" in desk.refused("update-agents", "codex")


def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    desk: Desk, shelf: Registry
) -> None:
    assert "there is none by that name" in desk.refused("update-agents", "claude", "clod")
    assert "every sandbox has it" in desk.refused("update-agents", "shell")
    assert "for one agent" in desk.refused("update-agents", "claude", "pi", "--version", "1.0.0")
    assert shelf.log == []


def test_a_damaged_one_is_told_of(desk: Desk, shelf: Registry) -> None:
    place = desk.state / "agents/claude"
    place.mkdir(parents=True)
    (place / "current").symlink_to("1.0.0")
    said = desk.ags("agents")
    assert row(desk, "claude")[1] == "damaged" and "ags update-agents claude" in said.out
    assert "use the installed claude" in json.loads(desk.ags("agents", "--json").out)[0]["problem"]


def test_log_ins_are_named_and_never_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert row(desk, "claude")[2] == "none"
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    assert row(desk, "claude")[2:4] == ["ANTHROPIC_API_KEY", "exported"]
    said = desk.ags("agents", "--json").out
    assert json.loads(said)[0]["keys"] == [{"variable": "ANTHROPIC_API_KEY", "where": "exported"}]
    assert CANARY not in said + desk.ags("agents").out


@pytest.mark.parametrize("verb", ["agents", "update-agents"])
def test_each_has_help_with_an_example(desk: Desk, verb: str) -> None:
    said = desk.ags(verb, "--help")
    assert said.code == 0 and f"\n    ags {verb}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert any(line.startswith(f"  {verb} ") for line in desk.ags("--help").out.splitlines())
