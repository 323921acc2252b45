"""The commands that start each agent: what they say, and what no goal can make them say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.agents import agent
from ags.agents.base import AGENT_DIR, LATEST, PROMPT_FILE, Wish

REAL = ("claude", "codex", "gemini", "opencode", "pi")
UNASKED = {
    "claude": "--dangerously-skip-permissions",
    "codex": "--dangerously-bypass-approvals-and-sandbox",
    "gemini": "--yolo",
    "opencode": "--auto",
}
RESUMED = {
    "claude": (("--resume", "ID"), ("--continue",)),
    "codex": (("ID",), ("--last",)),
    "gemini": (("--resume", "ID"), ("--resume", LATEST)),
    "opencode": (("--session", "ID"), ("--continue",)),
    "pi": (("--session", "ID"), ("--continue",)),
}


def has(command: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return any(command[at : at + len(part)] == part for at in range(len(command)))


@pytest.mark.parametrize("name", REAL)
def test_the_program_is_run_where_it_is_mounted(name: str) -> None:
    program = agent(name).program
    assert program is not None and not program.scripts
    for command in (agent(name).headless(Wish("go")), agent(name).interactive(Wish())):
        assert command[0] == f"{AGENT_DIR}/{program.path}"


@pytest.mark.parametrize("name", UNASKED)
def test_without_a_person_it_does_not_ask(name: str) -> None:
    assert UNASKED[name] in agent(name).headless(Wish("go"))


@pytest.mark.parametrize("name", UNASKED)
def test_with_a_person_it_asks_unless_told_otherwise(name: str) -> None:
    assert UNASKED[name] not in agent(name).interactive(Wish())
    assert UNASKED[name] in agent(name).interactive(Wish(defaults=True))
    assert UNASKED[name] in agent(name).interactive(Wish(yolo=True))


def test_the_defaults_of_claude_leave_out_servers_that_were_not_named() -> None:
    for wish, there in ((Wish("go", defaults=True), True), (Wish("go"), False)):
        assert ("--strict-mcp-config" in agent("claude").headless(wish)) is there
        assert ("--strict-mcp-config" in agent("claude").interactive(wish)) is there


def test_codex_never_builds_a_sandbox_in_the_sandbox() -> None:
    assert has(agent("codex").interactive(Wish()), ("--sandbox", "danger-full-access"))


@pytest.mark.parametrize("name", REAL)
def test_a_conversation_goes_on_by_its_id_or_as_the_latest(name: str) -> None:
    by_id, latest = RESUMED[name]
    for session, part in (("ID", by_id), (LATEST, latest)):
        wish = Wish("go on", session=session)
        assert has(agent(name).headless(wish), part)
        assert has(agent(name).interactive(wish), part)
        assert "go on" in agent(name).headless(wish)[-1]
        assert not has(agent(name).headless(Wish("go on")), part)


@pytest.mark.parametrize("name", REAL)
def test_a_model_is_named_only_if_one_is_wanted(name: str) -> None:
    for wish in (Wish("go", model="maker/big"), Wish(model="maker/big")):
        command = agent(name).headless(wish) if wish.goal else agent(name).interactive(wish)
        assert has(command, ("--model", "maker/big"))
    assert "--model" not in agent(name).headless(Wish("go"))


@pytest.mark.parametrize("name", REAL)
def test_own_arguments_come_last_but_for_the_goal(name: str) -> None:
    wish = Wish("the goal", arguments=("--own", "x"))
    assert agent(name).interactive(wish)[-2:] == ("--own", "x")
    command = agent(name).headless(wish)
    after = command[command.index("--own") + 2 :]
    assert [part for part in after if part != "--"] in (["the goal"], ["--prompt=the goal"])


@pytest.mark.parametrize("name", REAL)
@given(goal=st.text() | st.sampled_from(("--help", "-p", "@/etc/passwd", "--", "-", "@", "")))
def test_no_goal_is_read_as_an_option(name: str, goal: str) -> None:
    """After `--`, as an option's value in one word, or with a space before: as each takes it."""
    wish = Wish("~plain~")
    plain, command = agent(name).headless(wish), agent(name).headless(Wish(goal))
    assert command[:-1] == plain[:-1]
    last = command[-1]
    if name == "gemini":
        assert last == f"--prompt={goal}"
    elif name == "pi":
        assert last.removeprefix(" ") == goal.removeprefix(" ") and last[:1] not in ("-", "@")
    else:
        assert plain[-2] == "--" and last == goal


@pytest.mark.parametrize("name", ("claude", "pi"))
def test_what_it_is_told_is_named_on_the_command_line(name: str) -> None:
    assert PROMPT_FILE in agent(name).headless(Wish("go"))
    assert PROMPT_FILE in agent(name).interactive(Wish())


def test_a_repository_is_trusted_only_if_the_person_said_so() -> None:
    for wish in (Wish("go"), Wish("go", trusted=True)):
        assert ("--no-extensions" in agent("pi").headless(wish)) is not wish.trusted
        assert ("--skip-trust" in agent("gemini").headless(wish)) is not wish.trusted
