"""What each agent says of a tool it is about to use, as one `ToolCall`."""

from __future__ import annotations

import itertools
import posixpath
import shlex
from collections.abc import Iterator, Mapping

from ags.frozen import frozen
from ags.hooks.model import Kind, Moment, ToolCall
from ags.hooks.patch import patched

AGENTS = ("claude", "codex", "gemini", "opencode", "pi")
MOMENTS: dict[str, Moment] = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "Stop": "stop",
    "BeforeTool": "before",
    "AfterTool": "after",
    "AfterAgent": "stop",
    "tool.execute.before": "before",
    "tool.execute.after": "after",
    "session.idle": "stop",
    "tool_call": "before",
    "tool_result": "after",
    "agent_end": "stop",
}
"""By the agents' own names."""

_KINDS: dict[Kind, tuple[str, ...]] = {
    "bash": (
        "bash", "shell", "local_shell", "exec_command", "shell_command", "run_shell_command",
        "unified_exec", "container.exec", "write_stdin", "powershell", "run_command",
    ),
    "write": (
        "write", "edit", "multiedit", "notebookedit", "write_file", "replace", "apply_patch",
        "applypatch", "patch", "edit_file", "create_file", "str_replace_editor", "multi_edit",
    ),
    "read": (
        "read", "read_file", "read_many_files", "glob", "grep", "grep_search", "ls", "list",
        "search_file_content", "list_directory", "find", "view_image", "notebookread",
    ),
}  # fmt: skip
_KIND = {name: kind for kind, names in _KINDS.items() for name in names}
_PATCHES = ("apply_patch", "applypatch", "patch")
_COMMANDS = ("command", "cmd", "chars", "script")
_PATCH_TEXTS = ("command", "input", "patch", "patchText", "patch_text")
_PATHS = (
    "file_path", "filePath", "path", "notebook_path", "absolute_path", "dir_path", "directory",
    "filename", "file", "paths", "file_paths", "include", "edits", "files", "source", "destination",
)  # fmt: skip
FOLDERS = ("workdir", "working_directory", "dir_path", "directory", "cwd")
MOST_PATHS = 1000
MOST_NAME = 200


class BadCall(ValueError):
    """Nothing that an agent's hook would say."""


@frozen
class Heard:
    """One call of a hook."""

    moment: Moment
    call: ToolCall
    """At a stop without a tool."""


def read(agent: object, hook: object, payload: object) -> Heard:
    """Raises BadCall, and nothing else, whatever comes."""
    if not isinstance(hook, str) or hook not in MOMENTS:
        raise BadCall("it is no hook that is known here")
    if not isinstance(agent, str) or agent not in AGENTS:
        raise BadCall("it is no agent that is known here")
    if not isinstance(payload, dict):
        raise BadCall("the hook says nothing")
    moment = MOMENTS[hook]
    cwd, session = _text(payload, "cwd"), _text(payload, "session_id", "sessionID")
    if moment == "stop":
        return Heard(moment, ToolCall(agent, "", "other", cwd=cwd, session=session))
    tool = _text(payload, "tool_name", "tool", "toolName")
    if not tool or len(tool) > MOST_NAME:
        raise BadCall("the hook names no tool")
    given = _first(payload, "tool_input", "args", "input")
    return Heard(moment, _call(agent, tool, _fields(given), cwd, session))


def _call(agent: str, tool: str, given: Mapping[str, object], cwd: str, session: str) -> ToolCall:
    name = tool.lower()
    kind = _KIND.get(name, "other")
    if name in _PATCHES:
        paths = patched(_text(given, *_PATCH_TEXTS)) + _paths(given)
        return ToolCall(agent, tool, "write", "", paths, cwd, session, given)
    command = _command(given) if kind in ("bash", "other") else ""
    if kind == "bash" and not command and name != "write_stdin":
        raise BadCall("the hook tells no command")
    if kind == "bash":
        cwd = posixpath.normpath(posixpath.join(cwd, _text(given, *FOLDERS))) if cwd else cwd
    wanted = _text(given, "pattern") if name in ("glob", "find") else ""
    paths = (*_paths(given), *((wanted,) if wanted.startswith(("/", "~", "..")) else ()))
    return ToolCall(agent, tool, kind, command, paths, cwd, session, given)


def _first(payload: Mapping[str, object], *names: str) -> object:
    return next((payload[name] for name in names if name in payload), None)


def _text(payload: Mapping[str, object], *names: str) -> str:
    found = (payload[name] for name in names if isinstance(payload.get(name), str))
    return str(next(found, ""))


def _fields(given: object) -> dict[str, object]:
    if given is None:
        return {}
    if isinstance(given, str):
        return {"input": given}
    if not isinstance(given, dict):
        raise BadCall("a tool's input is no object")
    return given


def _command(given: Mapping[str, object]) -> str:
    found = _first(given, *_COMMANDS)
    if isinstance(found, str):
        return found
    if isinstance(found, list) and all(isinstance(word, str) for word in found):
        return shlex.join(found)
    if found is not None:
        raise BadCall("a command is no text")
    return ""


def _paths(given: Mapping[str, object]) -> tuple[str, ...]:
    found = tuple(itertools.islice(_nested(given, 3), MOST_PATHS + 1))
    if len(found) > MOST_PATHS:
        raise BadCall("it names more paths than anybody would look at")
    return found


def _nested(given: Mapping[str, object], depth: int) -> Iterator[str]:
    for name in _PATHS:
        value = given.get(name)
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, str) and each:
                yield each
            elif isinstance(each, dict) and depth:
                yield from _nested(each, depth - 1)
