"""The files that make each agent call its hooks, ready to be mounted read-only inside.

None of them lies where an agent or a repository can write. Settings are values, so that who mounts
them can add others of the same file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ags import proc
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Bind

SOCKET = PurePosixPath("/ags/inside.sock")
FOLDER = PurePosixPath("/ags/hooks")
FORWARD = FOLDER / "forward.py"
PLUGIN, EXTENSION = FOLDER / "opencode.js", FOLDER / "pi.ts"
PATIENCE = 360
"""Seconds that an agent grants a hook; more than the forwarder's own, which ends in a no."""
CLAUDE_SETTINGS = PurePosixPath("/etc/claude-code/managed-settings.json")
CODEX_REQUIREMENTS = PurePosixPath("/etc/codex/requirements.toml")

_INSIDE = Path(__file__).parent / "inside"


@frozen
class Interpreter:
    """A Python that is inside, and what has to be mounted for that."""

    path: str
    binds: tuple[Bind, ...] = ()


def interpreter() -> Interpreter:
    """The system's, which is there with /usr; else the one that we run on."""
    found = proc.find("python3")
    real = Path(found).resolve() if found else None
    if found and real and real.is_relative_to("/usr"):
        return Interpreter(str(real))
    # In a virtual environment sys.executable leads to one that is not inside.
    running = getattr(sys, "_base_executable", sys.executable)
    base, prefix = Path(running).resolve(), Path(sys.base_prefix).resolve()
    if not base.is_relative_to(prefix) or len(prefix.parts) < 3:
        cause = "no Python is found that could run in the sandbox"
        hint = "install python3 by the system's package manager"
        raise AgsError("set up the hooks", cause=cause, hint=hint)
    if prefix.is_relative_to("/usr"):
        return Interpreter(str(base))
    return Interpreter(str(base), (Bind(prefix, PurePosixPath(prefix)),))


def command(agent: str, event: str, python: str) -> str:
    """As agents want it: a line for a shell. Nothing in it is from elsewhere but our own paths."""
    return f"'{python}' -I -S {FORWARD} {SOCKET} {agent} {event}"


def forwarder() -> bytes:
    return (_INSIDE / "forward.py").read_bytes()


def plugin() -> bytes:
    """For opencode: its config names it, `"plugin": ["file:///ags/hooks/opencode.js"]`."""
    return _with_socket("opencode.js")


def extension() -> bytes:
    """For pi: `-e /ags/hooks/pi.ts`."""
    return _with_socket("pi.ts")


def _with_socket(name: str) -> bytes:
    return (_INSIDE / name).read_text().replace("@SOCKET@", str(SOCKET)).encode()


def claude_settings(python: str) -> dict[str, object]:
    return {"hooks": _hooks("claude", ("PreToolUse", "PostToolUse", "Stop"), python, PATIENCE)}


def gemini_settings(python: str) -> dict[str, object]:
    """Its times are in milliseconds."""
    events = ("BeforeTool", "AfterTool", "AfterAgent")
    return {"hooks": _hooks("gemini", events, python, 1000 * PATIENCE)}


def codex_requirements(python: str) -> str:
    lines = ["[hooks]", f'managed_dir = "{FOLDER}"']
    for event in ("PreToolUse", "PostToolUse", "Stop"):
        lines += [
            f"[[hooks.{event}]]",
            'matcher = "*"' if event != "Stop" else "",
            f"[[hooks.{event}.hooks]]",
            'type = "command"',
            f"command = {json.dumps(command('codex', event, python))}",
            f"timeout = {PATIENCE}",
        ]
    return "\n".join(line for line in lines if line) + "\n"


def _hooks(agent: str, events: tuple[str, ...], python: str, timeout: int) -> Mapping[str, object]:
    return {
        event: [
            {
                "matcher": "*",
                "hooks": [
                    {
                        "type": "command",
                        "command": command(agent, event, python),
                        "timeout": timeout,
                    }
                ],
            }
        ]
        for event in events
    }
