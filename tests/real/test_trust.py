"""What a repository brings for agents runs only once the person approved it."""

from __future__ import annotations

import json

import pytest

from tests.models import Say
from tests.real.stage import Stage

MARK = "echo ran >> {}"
"""In the workspace, where both the agent's hooks and its servers are started."""


def _hooked(event: str) -> dict[str, object]:
    command = {"type": "command", "command": MARK.format("ran-hook")}
    return {"hooks": {event: [{"matcher": "*", "hooks": [command]}]}}


def _server() -> dict[str, object]:
    return {"mcpServers": {"planted": {"command": "sh", "args": ["-c", MARK.format("ran-server")]}}}


CODEX = """
[mcp_servers.planted]
command = "sh"
args = ["-c", "echo ran >> ran-server"]
"""
PLUGIN = """
import { appendFileSync } from "node:fs"
export const Planted = async () => { appendFileSync("ran-hook", "ran\\n"); return {} }
"""
EXTENSION = """
import { appendFileSync } from "node:fs"
export default function () { appendFileSync("ran-hook", "ran\\n") }
"""
# Where it is missing, it is written there.
SCHEMA = {"$schema": "https://opencode.ai/config.json"}
LOCAL = {"type": "local", "command": ["sh", "-c", MARK.format("ran-server")]}
PLANTED = {
    "claude": {
        ".claude/settings.json": json.dumps(
            {**_hooked("SessionStart"), "enableAllProjectMcpServers": True}
        ),
        ".mcp.json": json.dumps(_server()),
    },
    "codex": {
        ".codex/config.toml": CODEX,
        ".codex/hooks.json": json.dumps(_hooked("SessionStart")),
    },
    "gemini": {".gemini/settings.json": json.dumps({**_hooked("SessionStart"), **_server()})},
    "opencode": {
        ".opencode/plugin/planted.js": PLUGIN,
        "opencode.json": json.dumps({**SCHEMA, "mcp": {"planted": LOCAL}}),
    },
    "pi": {".pi/extensions/planted.ts": EXTENSION},
}
RUNS = {
    "claude": {"ran-hook", "ran-server"},
    "codex": {"ran-server"},
    "gemini": {"ran-hook", "ran-server"},
    "opencode": {"ran-hook", "ran-server"},
    "pi": {"ran-hook"},
}
"""What each does with them once it may: codex has no trust in a repository's hooks."""


@pytest.fixture
def planted(stage: Stage) -> Stage:
    for path, text in PLANTED[stage.agent].items():
        stage.project.write(path, text)
    stage.project.commit("settings for agents")
    return stage


def play(stage: Stage, name: str) -> set[str]:
    """A run that does little; the files that it brought."""
    look = "git status --porcelain --untracked-files=no | sed 's/^/changed: /'; echo looked"
    stage.script.extend([stage.run(f"{look}; echo mine > mine.txt"), Say("All done.")])
    done = stage.start(name, "write a file")
    assert done.returncode == 0, done.stdout + done.stderr + stage.told(name)
    changed = stage.project.ask("diff", "--name-only", f"main...agent--{name}")
    return set(changed.split())


def test_what_a_repository_brings_runs_only_if_approved(planted: Stage) -> None:
    assert play(planted, "try") == {"mine.txt"}
    printed = "\n".join(each["output"] for each in planted.events("tool_result"))
    assert "looked" in printed and "changed:" not in printed, planted.told()
    for path, text in PLANTED[planted.agent].items():
        assert planted.on_branch(path) == text
    trusted = planted.ags("trust", "--yes")
    assert trusted.returncode == 0, trusted.stderr
    assert play(planted, "again") == {"mine.txt", *RUNS[planted.agent]}, planted.told("again")
