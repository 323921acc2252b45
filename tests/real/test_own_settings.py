"""What of the person's own agent settings comes along: what is on the list, and no key with it."""

from __future__ import annotations

import json

import pytest

from tests.models import Say
from tests.real.stage import Stage, holding

CANARY = "canary-5f1c"


@pytest.mark.parametrize("stage", ["claude"], indirect=True)
def test_instructions_and_servers_come_along_as_a_copy_and_keys_stay(stage: Stage) -> None:
    home = stage.home
    (home / ".claude/skills/greet").mkdir(parents=True)
    (home / ".claude/CLAUDE.md").write_text("Always greet Ada first.\n")
    (home / ".claude/skills/greet/SKILL.md").write_text(
        "---\nname: greet\ndescription: how to greet\n---\nSay hello.\n"
    )
    (home / ".claude/settings.json").write_text(json.dumps({"env": {"A": CANARY}}))
    (home / ".claude/history.jsonl").write_text(json.dumps({"display": CANARY}))
    servers = {"notes": {"command": "true", "env": {"KEY": CANARY}}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers, "oauthAccount": CANARY}))
    stage.script.extend([Say("Hello.")])
    assert stage.start("try", "say something").returncode == 0, stage.told()
    assert "Always greet Ada first." in stage.seen(), "it was told"
    shown = stage.ags("show", "try").stdout
    assert ".claude/CLAUDE.md" in shown and ".claude/skills" in shown
    (lent,) = (stage.state / "home").iterdir()
    assert "notes" in json.loads((lent / "files/.claude.json").read_text())["mcpServers"]
    assert holding(CANARY, *stage.own_files) == [] and CANARY not in stage.seen()
    assert (home / ".claude/CLAUDE.md").read_text() == "Always greet Ada first.\n"
