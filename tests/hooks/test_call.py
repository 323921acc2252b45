"""What each agent sends, in its own words, becomes one kind of call."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.hooks.call import BadCall, Heard, read

COMMON = {
    "session_id": "5f1c",
    "transcript_path": "/home/me/.claude/projects/-work/5f1c.jsonl",
    "cwd": "/work/space",
}
PATCH = """*** Begin Patch
*** Add File: new.py
+x
*** Update File: src/app.py
*** Move to: src/main.py
@@
-a
+b
*** Delete File: /etc/old
*** End Patch"""


def claude(tool: str, event: str = "PreToolUse", **given: object) -> dict[str, object]:
    said = {"permission_mode": "bypassPermissions", "hook_event_name": event}
    return {**COMMON, **said, "tool_name": tool, "tool_input": given}


@pytest.mark.parametrize(
    ("payload", "kind", "command", "paths"),
    [
        (claude("Bash", command="ls", description="List", timeout=5), "bash", "ls", ()),
        (claude("Write", file_path="/work/space/a", content="x"), "write", "", ("/work/space/a",)),
        (claude("Edit", file_path="a", old_string="x", new_string="y"), "write", "", ("a",)),
        (claude("MultiEdit", file_path="a", edits=[{"old_string": "x"}]), "write", "", ("a",)),
        (claude("NotebookEdit", notebook_path="a.ipynb", new_source=""), "write", "", ("a.ipynb",)),
        (claude("Read", file_path="a", limit=5), "read", "", ("a",)),
        (claude("Glob", pattern="~/.ssh/*"), "read", "", ("~/.ssh/*",)),
        (claude("Grep", pattern="rm -rf /", path="src"), "read", "", ("src",)),
        (claude("WebFetch", url="https://x.example", prompt="?"), "other", "", ()),
        (claude("Task", prompt="rm -rf /", description="x"), "other", "", ()),
        (claude("mcp__files__write", path="/x", content="y"), "other", "", ("/x",)),
        (claude("mcp__shell__run", command="ls"), "other", "ls", ()),
    ],
)
def test_claude(
    payload: dict[str, object], kind: str, command: str, paths: tuple[str, ...]
) -> None:
    heard = read("claude", "PreToolUse", payload)
    call = heard.call
    assert (heard.moment, call.kind, call.command, call.paths) == ("before", kind, command, paths)
    assert (call.agent, call.cwd, call.session) == ("claude", "/work/space", "5f1c")


def test_codex_says_a_command_or_a_patch() -> None:
    bash = read("codex", "PreToolUse", claude("Bash", command="ls")).call
    assert (bash.kind, bash.command) == ("bash", "ls")
    inner = claude("exec_command", cmd="rm x", workdir="/work/space/sub", yield_time_ms=1000)
    inside_code = read("codex", "PreToolUse", inner).call
    assert (inside_code.kind, inside_code.command) == ("bash", "rm x")
    assert inside_code.cwd == "/work/space/sub"
    words = claude("shell", command=["bash", "-lc", "echo 'a b'"])
    assert read("codex", "PreToolUse", words).call.command == "bash -lc 'echo '\"'\"'a b'\"'\"''"
    patch = read("codex", "PreToolUse", claude("apply_patch", command=PATCH)).call
    assert (patch.kind, patch.command) == ("write", "")
    assert patch.paths == ("new.py", "src/app.py", "src/main.py", "/etc/old")
    free = {**COMMON, "tool_name": "apply_patch", "tool_input": PATCH}
    assert read("codex", "PreToolUse", free).call.paths == patch.paths
    script = claude("exec", input="await tools.exec_command({cmd: 'ls'})")
    assert read("codex", "PreToolUse", script).call.kind == "other"
    typed = claude("write_stdin", session_id=3, chars="rm -rf /\n")
    assert read("codex", "PreToolUse", typed).call.command == "rm -rf /\n"


def test_gemini() -> None:
    shell = claude("run_shell_command", "BeforeTool", command="ls", dir_path="sub")
    call = read("gemini", "BeforeTool", shell).call
    assert (call.kind, call.command, call.cwd) == ("bash", "ls", "/work/space/sub")
    write = read("gemini", "BeforeTool", claude("write_file", file_path="a", content="x")).call
    assert (write.kind, write.paths) == ("write", ("a",))
    assert read("gemini", "BeforeTool", claude("replace", file_path="a")).call.kind == "write"
    many = claude("read_many_files", include=["a", "b"])
    assert read("gemini", "BeforeTool", many).call.paths == ("a", "b")
    assert read("gemini", "AfterTool", shell).moment == "after"
    assert read("gemini", "AfterAgent", {**COMMON, "prompt": "?"}).moment == "stop"


def test_opencode_by_its_plugin() -> None:
    said = {"tool": "bash", "sessionID": "ses_1", "cwd": "/work/space", "args": {"command": "ls"}}
    heard = read("opencode", "tool.execute.before", said)
    assert (heard.call.kind, heard.call.command, heard.call.session) == ("bash", "ls", "ses_1")
    edit = {"tool": "edit", "args": {"filePath": "/work/space/a", "oldString": "x"}}
    assert read("opencode", "tool.execute.before", edit).call.paths == ("/work/space/a",)
    patch = {"tool": "apply_patch", "args": {"patchText": PATCH}}
    assert len(read("opencode", "tool.execute.after", patch).call.paths) == 4
    assert read("opencode", "session.idle", {"sessionID": "ses_1"}).moment == "stop"


def test_pi_by_its_extension() -> None:
    said = {"toolName": "bash", "input": {"command": "ls"}, "cwd": "/work/space"}
    assert read("pi", "tool_call", said).call.command == "ls"
    write = {"toolName": "write", "input": {"path": "a", "content": "x"}}
    assert read("pi", "tool_call", write).call.paths == ("a",)
    edit = {"toolName": "edit", "input": {"path": "a", "edits": [{"oldText": "x"}]}}
    assert read("pi", "tool_result", edit).moment == "after"
    assert read("pi", "agent_end", {}).moment == "stop"


@pytest.mark.parametrize(
    ("agent", "hook", "payload"),
    [
        ("claude", "UserPromptSubmit", {}),
        ("claude", "stop", {}),
        ("claude", 5, {}),
        ("nobody", "PreToolUse", claude("Bash", command="ls")),
        (None, "PreToolUse", claude("Bash", command="ls")),
        ("claude", "PreToolUse", None),
        ("claude", "PreToolUse", []),
        ("claude", "PreToolUse", {}),
        ("claude", "PreToolUse", {"tool_name": 5, "tool_input": {}}),
        ("claude", "PreToolUse", {"tool_name": "Bash", "tool_input": []}),
        ("claude", "PreToolUse", claude("Bash")),
        ("claude", "PreToolUse", claude("Bash", command=5)),
        ("claude", "PreToolUse", claude("Bash", command=["rm", 5])),
        ("claude", "PreToolUse", claude("Bash", command={"rm": "-rf"})),
        ("claude", "PreToolUse", claude("Read", paths=["x"] * 2000)),
    ],
)
def test_what_is_no_call_is_refused(agent: object, hook: object, payload: object) -> None:
    with pytest.raises(BadCall):
        read(agent, hook, payload)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                ("tool_name", "tool_input", "command", "paths", "edits", "cwd", "file")
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=20,
)


@given(values)
def test_whatever_comes_it_is_a_call_or_refused(payload: object) -> None:
    try:
        heard = read("claude", "PreToolUse", payload)
    except BadCall:
        return
    assert isinstance(heard, Heard)
    assert all(isinstance(path, str) for path in heard.call.paths)
    json.dumps(heard.call.raw)
