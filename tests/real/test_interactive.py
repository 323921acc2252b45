"""Claude Code and two more at the person's terminal: no questions first, and the talk is kept."""

from __future__ import annotations

import re
import time

import pytest

from tests.interactive.screen import Screen
from tests.models import Say
from tests.real.stage import Stage
from tests.real.terminal import terminal

AT_TERMINAL = ("claude", "codex", "gemini")
READY = {"claude": r"^❯", "codex": r"^›", "gemini": r"Type your message"}
"""On the screen once it waits for the person's words."""
LEAVE = {"claude": "/exit", "codex": "/quit", "gemini": "/quit"}
SETTLED, LATE = 1.0, 15.0
"""Seconds: a screen is drawn before its keys are read."""


def say(at: Screen, words: str) -> None:
    """As a person does it: a key that comes together with words would be pasted with them."""
    for _ in range(5):
        time.sleep(SETTLED)
        at.press("C-u")  # what is only late must not be there twice
        at.type(words)
        if is_shown(at, words):
            break
    time.sleep(SETTLED)
    at.press("Enter")


def is_shown(at: Screen, words: str) -> bool:
    """In time: keys that were pressed before any are read may be lost."""
    until = time.monotonic() + LATE
    while not (found := words in at.visible()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def talk(at: Screen, stage: Stage, words: str, answer: str) -> None:
    stage.script.extend([Say(answer)])
    at.wait(READY[stage.agent], visible=True)
    say(at, words)
    at.wait(re.escape(answer), visible=True)
    say(at, LEAVE[stage.agent])


@pytest.mark.parametrize("stage", AT_TERMINAL, indirect=True)
def test_an_agent_at_a_terminal_asks_nothing_first_and_its_talk_is_kept(stage: Stage) -> None:
    with terminal(stage) as at:
        before = at.prompt()
        at.enter(f"ags --agent {stage.agent} --name first")
        talk(at, stage, "say the magic word", "Greetings from the script.")
        assert at.done(before).code == 0, at.visible()
        sent = len(stage.server.requests)
        at.run("clear")
        before = at.prompt()
        at.enter(f"ags --agent {stage.agent} --name second --continue")
        at.wait("Greetings from the script", visible=True)
        talk(at, stage, "and what was that", "Welcome back.")
        assert at.done(before).code == 0, at.visible()
    later = [each.body.decode(errors="replace") for each in stage.server.requests[sent:]]
    both = [body for body in later if "and what was that" in body]
    assert any("say the magic word" in body for body in both)
    assert [stage.record(name).state for name in ("first", "second")] == ["done", "done"]
    stage.check_key_stayed_outside()
