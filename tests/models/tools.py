"""The same deeds as each agent's tools have them."""

from __future__ import annotations

import json

from tests.models.anthropic import Anthropic
from tests.models.gemini import Gemini
from tests.models.openai import OpenAI
from tests.models.script import Call, Model, Script

MODELS = {"claude": "", "codex": "", "gemini": "", "opencode": "anthropic/claude-sonnet-4-5",
          "pi": "anthropic/claude-sonnet-4-5"}  # fmt: skip
"""What to ask for, where the agent would choose by itself otherwise."""


def model(agent: str, script: Script) -> Model:
    """The model that an agent speaks to, by MODELS."""
    if agent == "codex":
        return OpenAI(script)
    return Gemini(script) if agent == "gemini" else Anthropic(script)


def write(agent: str, path: str, text: str) -> Call:
    """A new file. `path` is absolute."""
    match agent:
        case "claude":
            return Call("Write", {"file_path": path, "content": text})
        case "codex":
            return Call(
                "exec", f"text(JSON.stringify(await tools.apply_patch({_patch(path, text)})))"
            )
        case "gemini":
            return Call("write_file", {"file_path": path, "content": text})
        case "opencode":
            return Call("write", {"filePath": path, "content": text})
        case _:
            return Call("write", {"path": path, "content": text})


def run(agent: str, command: str) -> Call:
    match agent:
        case "claude":
            return Call("Bash", {"command": command, "description": "run it"})
        case "codex":
            given = json.dumps({"cmd": command})
            return Call("exec", f"text(JSON.stringify(await tools.exec_command({given})))")
        case "gemini":
            return Call("run_shell_command", {"command": command, "description": "run it"})
        case "opencode":
            return Call("bash", {"command": command, "description": "run it"})
        case _:
            return Call("bash", {"command": command})


def _patch(path: str, text: str) -> str:
    """As a JavaScript string: its tools are called from there."""
    added = "".join(f"+{line}\n" for line in text.splitlines())
    return json.dumps(f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n")
