"""Claude Code and one more at the person's terminal: no questions first, and the talk is kept."""

from __future__ import annotations

import re

import pytest

from tests.interactive.screen import Screen
from tests.models import Say
from tests.real.stage import Stage, holding
from tests.real.terminal import terminal

AT_TERMINAL = ("claude", "codex", "gemini")
READY = {"claude": r"❯", "codex": r"›", "gemini": r"Type your message"}
"""On the screen once it waits for the person's words."""
# Where they are missing, folders stand in their place, about which it complains.
SETTINGS = {"claude": (".claude/settings.json", ".claude/settings.local.json")}
ENDS = {"claude": ("C-c", "C-c"), "codex": ("C-c", "C-c"), "gemini": ("C-c", "C-c")}


def say(at: Screen, words: str) -> None:
    """Some take a key that comes together with words for a part of what was pasted."""
    at.type(words)
    at.wait(re.escape(words), visible=True)
    at.press("Enter")


def end(at: Screen, agent: str) -> None:
    for key in ENDS[agent]:
        at.press(key)


@pytest.mark.parametrize("stage", AT_TERMINAL, indirect=True)
def test_an_agent_at_a_terminal_asks_nothing_first_and_its_talk_is_kept(stage: Stage) -> None:
    for path in SETTINGS.get(stage.agent, ()):
        stage.project.write(path, "{}\n")
    stage.project.commit("settings")
    stage.script.extend([Say("Greetings from the script.")])
    with terminal(stage) as at:
        before = at.prompt()
        at.enter(f"ags --agent {stage.agent} --name first")
        at.wait(READY[stage.agent], visible=True)
        say(at, "say the magic word")
        at.wait("Greetings from the script", visible=True)
        end(at, stage.agent)
        done = at.done(before)
        assert done.code == 0, done.output
        stage.script.extend([Say("Welcome back.")])
        sent = len(stage.server.requests)
        before = at.prompt()
        at.enter(f"clear; ags --agent {stage.agent} --name second --continue")
        at.wait("Greetings from the script", visible=True)
        say(at, "and what was that")
        at.wait("Welcome back", visible=True)
        end(at, stage.agent)
        at.done(before)
    later = [each.body.decode(errors="replace") for each in stage.server.requests[sent:]]
    both = [body for body in later if "and what was that" in body]
    assert any("say the magic word" in body for body in both)
    states = {stage.record(name).state for name in ("first", "second")}
    assert states == {"done"}
    maker = stage.maker
    assert {each.header(maker.header) for each in stage.server.requests} == {maker.sent}
    own = [each for each in stage.state.iterdir() if each.name != "agents"]
    assert holding(maker.key, stage.project.folder, *own) == []
