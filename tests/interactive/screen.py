"""A terminal with somebody at it: a tmux server of its own, keys typed into it, its screen read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.interactive.watching import eventually
from tests.people import Person

# The number of the command and the exit code of the one before: so a new prompt tells it is new.
PROMPT = r"-\#-$?> "


@dataclass(frozen=True, slots=True)
class Done:
    """A command typed at a prompt, once the next prompt is there."""

    code: int
    output: str


class Screen:
    """At its terminal runs a shell whose prompt begins with `out`; `ags` is on its PATH."""

    def __init__(self, person: Person, socket: Path) -> None:
        self.person = person
        self._socket = socket

    def tmux(self, *arguments: str, input: str | None = None) -> str:
        command = ("tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments)
        done = self.person.run_as(command, input=input)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, C-c, Escape."""
        self.tmux("send-keys", "--", *keys)

    def enter(self, line: str) -> None:
        self.tmux("send-keys", "-l", "--", line, ";", "send-keys", "Enter")

    def text(self) -> str:
        """All lines since the start, as they were before they were wrapped."""
        lines = self.tmux("capture-pane", "-p", "-J", "-S", "-").splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def visible(self) -> str:
        """Only what is on the screen now."""
        return self.tmux("capture-pane", "-p").rstrip()

    def wait(self, pattern: str, *, visible: bool = False) -> re.Match[str]:
        """Until this is somewhere on the screen; `^` and `$` are the ends of a line."""
        look = self.visible if visible else self.text
        return eventually(lambda: re.search(pattern, look(), re.MULTILINE), pattern, self.visible)

    def prompt(self, name: str = "out", after: int = 0) -> re.Match[str]:
        """Until the last line is a prompt of this shell, and a later one than that."""
        pattern = rf"{name}-(?P<number>\d+)-(?P<code>\d+)>\Z"

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.text(), re.MULTILINE)
            return found if found and int(found["number"]) > after else None

        return eventually(look, f"a prompt of {name} after number {after}", self.visible)

    def run(self, command: str, name: str = "out") -> Done:
        """Type a command at the prompt and wait for the next prompt."""
        before = self.prompt(name)
        self.enter(command)
        return self.done(before, name)

    def done(self, before: re.Match[str], name: str = "out") -> Done:
        """The command that was typed at the prompt `before`."""
        after = self.prompt(name, int(before["number"]))
        output = after.string[before.end() : after.start()]
        return Done(int(after["code"]), output.partition("\n")[2].strip("\n"))

    def sandbox(self, flags: str = "", name: str = "in") -> None:
        """Start a shell in a sandbox, and wait for its prompt, which begins with `name`."""
        self.prompt()
        self.enter(f"ags exec {flags} -e {shlex.quote(f'PS1={name}{PROMPT}')} -- bash --norc")
        self.prompt(name)


@contextmanager
def screen(
    person: Person, cwd: Path, socket: Path, *, columns: int = 100, rows: int = 30
) -> Iterator[Screen]:
    """The terminal is there as long as the context is."""
    made = Screen(person, socket)
    path = f"{person.checkout / 'bin'}:{person.environment['PATH']}"
    shell = ("env", f"PATH={path}", f"PS1=out{PROMPT}", "bash", "--norc", "--noprofile")
    made.tmux(
        "set", "-g", "history-limit", "100000", ";",
        "set", "-g", "default-terminal", "screen-256color", ";",
        "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd), "--", *shell,
    )  # fmt: skip
    try:
        made.prompt()
        yield made
    finally:
        with suppress(AssertionError):  # a test may have closed it
            made.tmux("kill-server")
