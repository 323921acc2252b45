"""What the built-in agents are asked to run, and what becomes of what they print."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.agents import AGENTS, agent
from ags.agents.base import Said, Wish
from ags.errors import AgsError
from tests.box import Box

EXAMPLE = Path(__file__).parent.parent.parent / "example"


def said(name: str, line: str) -> Said:
    """The one thing a line means."""
    (only,) = agent(name).parse(line).said
    return only


def test_an_unknown_agent_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(AgsError) as caught:
        agent("nobody")
    assert "shell" in caught.value.hint


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_is_what_it_is_called(name: str) -> None:
    assert agent(name).name == name


@given(line=st.text())
def test_whatever_a_shell_prints_is_output(line: str) -> None:
    assert said("shell", line) == Said("output", {"text": line})


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"kind": []}', '{"kind": "nonsense"}', "null", "1e999"]
)
def test_hostile_json_is_just_output(line: str) -> None:
    found = said("demo", line)
    assert (found.kind, found.fields["text"]) == ("output", line)


def test_for_the_shell_the_goal_is_the_script() -> None:
    assert agent("shell").headless(Wish("echo $((1 + 1))"))[-1] == "echo $((1 + 1))"
    assert agent("shell").interactive(Wish(arguments=("-lc", "id")))[-2:] == ("-lc", "id")


@given(goal=st.text())
def test_no_goal_changes_what_the_demo_does(goal: str) -> None:
    script = agent("demo").headless(Wish(goal))[-1]
    line = next(line for line in script.splitlines() if "I was asked" in line)
    assert line.count('"') == 2
    assert not set("$`\\") & set(line)


def test_the_demo_repairs_the_example_and_is_refused_the_rest(tmp_path: Path) -> None:
    """Inside the sandbox only: what it tries is not to be tried for real."""
    workspace = tmp_path / "example"
    shutil.copytree(EXAMPLE, workspace)
    command = agent("demo").headless(Wish("greet by name"))
    outcome = Box(workspace, tmp_path / "home").run(*command)
    assert outcome.code == 0, outcome.err
    told = [said("demo", line) for line in outcome.out.splitlines()]
    assert {each.kind for each in told} == {"message", "tool_call", "tool_result"}
    assert "Hello, {name}!" in (workspace / "greet.py").read_text()
    assert (workspace / "test_greet.py").exists()
    results = {str(each.fields["tool"]): each.fields for each in told if each.kind == "tool_result"}
    assert results["run"]["output"] == "passed"
    assert results["send"]["ok"] is False
    assert "not there" in str(results["read"]["output"])
