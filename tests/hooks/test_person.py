"""The person's own hooks: real executables, and every way they can go wrong."""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.hooks import person
from ags.hooks.call import Heard, read
from ags.hooks.decide import Bench, Decider
from ags.hooks.model import Ground, ToolCall, Verdict
from ags.hooks.person import Hook

GROUND = Ground("/work/space", "/home/me")


def bash(command: str = "ls") -> Heard:
    said = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": "/work/space"}
    return read("claude", "PreToolUse", said)


def writing(hook: str = "PreToolUse") -> Heard:
    said = {"tool_name": "Write", "tool_input": {"file_path": "a"}, "cwd": "/work/space"}
    return read("claude", hook, said)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "hooks"
    made.mkdir(mode=0o700)
    return made


def script(folder: Path, name: str, text: str, mode: int = 0o700) -> Hook:
    path = folder / name
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    path.chmod(mode)
    return Hook(name, path)


def ask(hook: Hook, heard: Heard | None = None, patience: float = 60) -> Verdict:
    heard = heard or bash()
    return asyncio.run(person.ask(hook, heard, "run-1", home=Path("/home/me"), patience=patience))


async def nobody(call: ToolCall, asking: Sequence[Verdict], left: asyncio.Event) -> Verdict:
    """For whom no hook here has a question."""
    raise AssertionError(asking)


def decide(folder: Path, heard: Heard, guard: bool = True) -> tuple[Verdict, list[object]]:
    noted: list[object] = []

    async def whole() -> Verdict:
        hooks = person.find(folder, ())
        bench = Bench("run-1", GROUND, Path("/home/me"), hooks, guard, patience=60)
        return await Decider(bench, noted.append, nobody).hear(heard, asyncio.Event())

    return asyncio.run(whole()), noted


def test_a_hook_reads_the_call_as_claude_code_would_tell_it(folder: Path, tmp_path: Path) -> None:
    hook = script(
        folder, "pre-bash", f"cat > {tmp_path}/seen; env > {tmp_path}/env; echo $# $0 >&2"
    )
    said = {"toolName": "bash", "input": {"command": "ls; $(x)"}, "cwd": "/work/space"}
    assert ask(hook, read("pi", "tool_call", said)).allowed
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["hook_event_name"] == "PreToolUse"
    assert (seen["tool_name"], seen["tool_input"]["command"]) == ("Bash", "ls; $(x)")
    assert (seen["session_id"], seen["cwd"], seen["agent"]) == ("run-1", "/work/space", "pi")
    environment = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert environment.keys() <= {
        "PATH", "LC_ALL", "HOME", "AGS_RUN", "AGS_HOOK", "PWD", "OLDPWD", "SHLVL", "_"
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "exit 0",
        "cat > /dev/null",
        "echo '{}'",
        """echo '{"decision": "approve"}'""",
        """echo '{"decision": "allow", "reason": "fine"}'""",
        """echo '{"continue": true, "suppressOutput": true}'""",
        """echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'""",
        "echo a complaint >&2",
    ],
)
def test_a_clear_yes_is_a_yes(folder: Path, text: str) -> None:
    assert ask(script(folder, "pre-any", text)).allowed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo not this >&2; exit 2", "not this"),
        ("exit 2", "says no"),
        ("""echo '{"decision": "block", "reason": "no such thing"}'""", "no such thing"),
        ("""echo '{"decision": "deny"}'""", "says no"),
        (
            """echo '{"hookSpecificOutput": {"permissionDecision": "deny",
            "permissionDecisionReason": "because"}}'""",
            "because",
        ),
        ("""echo '{"continue": false, "stopReason": "enough"}'""", "enough"),
        (
            """echo '{"decision":"allow","hookSpecificOutput":{"permissionDecision":"deny"}}'""",
            "no",
        ),
    ],
)
def test_a_clear_no_is_a_no_in_its_own_words(folder: Path, text: str, reason: str) -> None:
    verdict = ask(script(folder, "pre-any", text))
    assert not verdict.allowed and reason in verdict.reason and verdict.by == "pre-any"
    assert not verdict.asks


@pytest.mark.parametrize(
    ("answer", "asks"),
    [
        ({"hookSpecificOutput": {"permissionDecision": "ask"}}, True),
        ({"decision": "allow", "hookSpecificOutput": {"permissionDecision": "ask"}}, True),
        ({"decision": "block", "hookSpecificOutput": {"permissionDecision": "ask"}}, False),
        ({"continue": False, "hookSpecificOutput": {"permissionDecision": "ask"}}, False),
    ],
    ids=str,
)
def test_a_question_to_the_person_is_no_yes_and_a_no_beside_it_wins(
    folder: Path, answer: object, asks: bool
) -> None:
    verdict = ask(script(folder, "pre-any", f"echo '{json.dumps(answer)}'"))
    assert not verdict.allowed and verdict.asks is asks


@pytest.mark.parametrize(
    "text",
    [
        "exit 1",
        "exit 127",
        "kill -9 $$",
        "kill -SEGV $$",
        "sleep 600",
        "exec 0<&-; sleep 600 & exit 0",
        "echo yes",
        "echo '[]'",
        "echo 'null'",
        "echo true",
        """echo '{"decision": "allow"'""",
        """echo '{"decision": "maybe"}'""",
        """echo '{"decision": true}'""",
        """echo '{"decision": null}'""",
        """echo '{"decision": ["allow"]}'""",
        """echo '{"decision": "deny", "decision": "allow"}'""",
        """echo '{"continue": "yes"}'""",
        """echo '{"hookSpecificOutput": {"updatedInput": {"command": "true"}}}'""",
        """echo '{"hookSpecificOutput": []}'""",
        """echo '{"decision": "allow"}{"decision": "allow"}'""",
        "printf '\\377\\376'",
        "head -c 100000 /dev/zero",
        "yes",
        "yes '[' | head -n 20000 | tr -d '\\n'",
    ],
)
def test_a_hook_that_ends_or_answers_oddly_says_no(folder: Path, text: str) -> None:
    start = time.monotonic()
    verdict = ask(script(folder, "pre-any", text), patience=2)
    assert not verdict.allowed and verdict.reason
    assert time.monotonic() - start < 300


def test_a_hook_that_cannot_be_started_says_no(folder: Path) -> None:
    path = folder / "pre-any"
    path.write_bytes(b"\x7fELF nothing")
    path.chmod(0o700)
    assert not ask(Hook("pre-any", path)).allowed
    path.unlink()
    assert not ask(Hook("pre-any", path)).allowed


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o600])
def test_a_hook_that_others_may_write_to_is_not_run(
    folder: Path, tmp_path: Path, mode: int
) -> None:
    hook = script(folder, "pre-any", f"touch {tmp_path}/ran", mode)
    assert not ask(hook).allowed
    with pytest.raises(AgsError) as error:
        person.find(folder, ())
    assert error.value.hint
    assert not (tmp_path / "ran").exists()
    hook.path.chmod(0o755)
    assert ask(hook).allowed and (tmp_path / "ran").exists()


def test_a_folder_that_others_may_write_to_holds_no_hook(folder: Path) -> None:
    hook = script(folder, "pre-any", "exit 0")
    folder.chmod(0o777)
    assert not ask(hook).allowed
    folder.chmod(0o700)
    assert ask(hook).allowed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_hook_of_another_user_is_not_run(folder: Path) -> None:
    hook = script(folder, "pre-any", "exit 0", 0o755)
    os.chown(hook.path, 12345, 12345)
    assert "another user" in ask(hook).reason
    os.chown(hook.path, 0, 0)
    assert ask(hook).allowed


def test_a_hook_reached_through_a_workspace_is_not_run(folder: Path, tmp_path: Path) -> None:
    workspace, elsewhere = tmp_path / "space", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    real = script(elsewhere, "real", "exit 0")
    hook = Hook("pre-any", folder / "pre-any")
    for way in (workspace / "link", workspace / "folder" / "real"):
        hook.path.unlink(missing_ok=True)
        hook.path.symlink_to(way)
        if way.name == "link":
            way.symlink_to(real.path)
        else:
            way.parent.symlink_to(elsewhere)
        with pytest.raises(AgsError, match="can write"):
            person.find(folder, (workspace,))
    hook.path.unlink()
    hook.path.symlink_to(real.path)
    assert person.find(folder, (workspace,)) == (hook,)
    hook.path.unlink()
    hook.path.symlink_to(hook.path)
    with pytest.raises(AgsError):
        person.find(folder, ())


def test_no_folder_means_no_hooks(tmp_path: Path) -> None:
    assert person.find(tmp_path / "none", ()) == ()


def test_each_hook_is_called_for_what_it_is_named_for(folder: Path, tmp_path: Path) -> None:
    for name in person.NAMES:
        script(folder, name, f"echo {name} >> {tmp_path}/ran")

    def ran(heard: Heard) -> set[str]:
        (tmp_path / "ran").write_text("")
        assert decide(folder, heard)[0].allowed
        return set((tmp_path / "ran").read_text().split())

    assert ran(bash()) == {"pre-any", "pre-bash"}
    assert ran(writing()) == {"pre-any", "pre-writes"}
    assert ran(writing("PostToolUse")) == {"post-writes"}
    assert ran(read("claude", "Stop", {})) == {"post-stop"}
    assert ran(read("claude", "PreToolUse", {"tool_name": "Read", "tool_input": {}})) == {"pre-any"}


def test_one_no_wins_over_every_yes(folder: Path) -> None:
    yes = """echo '{"decision": "allow"}'"""
    script(folder, "pre-any", yes)
    script(folder, "pre-bash", yes)
    assert decide(folder, bash())[0].allowed
    verdict, noted = decide(folder, bash("rm -rf /"))
    assert not verdict.allowed and verdict.by == "guard"
    assert isinstance(noted[0], dict) and noted[0]["decision"] == "deny"
    assert decide(folder, bash("rm -rf /"), guard=False)[0].allowed
    script(folder, "pre-any", "echo never >&2; exit 2")
    verdict, _ = decide(folder, bash(), guard=False)
    assert (verdict.allowed, verdict.reason) == (False, "never")


def test_a_hook_that_is_only_told_cannot_refuse_and_its_failure_is_noted(folder: Path) -> None:
    script(folder, "post-writes", "exit 1")
    script(folder, "post-stop", "echo no >&2; exit 2")
    for heard in (writing("PostToolUse"), read("claude", "Stop", {})):
        verdict, noted = decide(folder, heard)
        assert verdict.allowed
        assert isinstance(noted[0], dict) and noted[0]["reason"] and noted[0]["by"]
