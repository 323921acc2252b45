"""Going through a script the way a shell would, and having every program judged that it starts.

Both sides of a choice are walked, loops more than once, and what differs afterwards is unknown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from ags.hooks import builtins, code, outputs, wrappers
from ags.hooks.deletes import places
from ags.hooks.expand import HIDDEN, SPREAD, UNKNOWN, as_text, fields, is_known, joined, unmarked
from ags.hooks.model import Ground
from ags.hooks.program import Inline, Program
from ags.hooks.shell import parse
from ags.hooks.state import Feed, State
from ags.hooks.syntax import (
    Assignment,
    Branches,
    Command,
    For,
    Function,
    Group,
    Node,
    Parameter,
    Pipeline,
    Redirect,
    Repeat,
    Script,
    Step,
    Substitution,
    Test,
    Word,
)
from ags.hooks.words import Unreadable

MOST_STEPS = 2000
DEEPEST = 24

Judge = Callable[[Program], str]
"""Why a program may not be started; empty if it may."""
JudgeFile = Callable[[str, str, Program], str]

_RUN_BY_OTHERS = re.compile(r"(?:.*_)?(?:COMMAND|EDITOR|PAGER|ASKPASS|BROWSER|SHELL_CMD)")
_LEAVING = ("exit", "return", "break", "continue")


class Denied(Exception):
    """Why it must not run."""


class Walker:
    """For one script. `judge` sees each program with the words it would get."""

    def __init__(self, ground: Ground, judge: Judge, judge_file: JudgeFile) -> None:
        self.ground = ground
        self.functions: dict[str, Script] = {}
        self.files: dict[str, str] = {}
        """What `<(...)` would give to read, by the name it is given."""
        self._judge = judge
        self._judge_file = judge_file
        self._uncalled: dict[str, State] = {}
        self._steps = 0
        self._depth = 0

    def run(self, text: str, cwd: str) -> None:
        """Raises Denied, or Unreadable if it cannot tell."""
        values: dict[str, tuple[str, ...]] = {
            "HOME": (self.ground.home,),
            "TMPDIR": ("/tmp",),
            "IFS": (" \t\n",),
        }
        start = State(frozenset((cwd,)), values)
        self.script(parse(unmarked(text)), start)
        while self._uncalled:
            name, state = self._uncalled.popitem()
            self.script(self.functions[name], state)

    def text(self, text: str, state: State) -> None:
        """A script within the script."""
        if HIDDEN in text:
            raise Denied("what it would run is decoded first, so it cannot be judged")
        self._count(1 + len(text) // 1000)
        # What was one word outside may be any number of them, once it is read as a script.
        self.script(parse(as_text(text).replace(UNKNOWN, SPREAD), self._depth), state)

    def script(self, script: Script, state: State) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise Unreadable("it is nested too deeply")
        chain: list[Step] = []
        for step in script:
            chain.append(step)
            if step.then not in ("&&", "||"):
                self._chain(chain, state)
                chain = []
        if chain:
            self._chain(chain, state)
        self._depth -= 1

    def _chain(self, chain: list[Step], state: State) -> None:
        """Steps that run or not by how those before ended."""
        if chain[-1].then == "&":
            state = state.copy()
        ends = state.strict and len(chain) == 1
        start = frozenset[str | None]() if ends else state.cwds
        skipped: list[State] = []
        for number, step in enumerate(chain):
            if number and chain[number - 1].then == "||":
                other = state.copy()
                other.become([state, *skipped])
                other.cwds |= start
                self.node(step.node, other)
                if _leaves(step.node):
                    skipped, start = [], frozenset()
                else:
                    skipped.append(other)
            else:
                skipped += [state.copy()] if number else []
                self.node(step.node, state)
        state.become([state, *skipped])
        if state.cwds != start:
            state.cwds |= start

    def node(self, node: Node, state: State) -> None:
        self._count(1)
        match node:
            case Command():
                self._command(node, state)
            case Pipeline(parts):
                self._pipeline(parts, state)
            case Group(script, subshell, redirects):
                inner = state.copy()
                self._redirect(redirects, inner, Program("", (), state.cwds))
                self.script(script, inner)
                if not subshell:
                    inner.feed = state.feed
                    state.become([inner])
            case Branches(scripts):
                state.become([self._apart(script, state) for script in scripts])
            case Repeat(script):
                once = self._apart(script, state)
                state.become([state, once, self._apart(script, once)])
            case For():
                self._for(node, state)
            case Function(name, script):
                self.functions[name] = script
                self._uncalled[name] = state
            case Test(words):
                for word in words:
                    joined(word, Expansion(self, state))

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise Unreadable("it is too long")

    def _apart(self, script: Script, state: State) -> State:
        made = state.copy()
        self.script(script, made)
        return made

    def _pipeline(self, parts: tuple[Node, ...], state: State) -> None:
        feed = state.feed
        for part in parts:
            inner = state.copy()
            inner.feed = feed
            self.node(part, inner)
            feed = outputs.piped(part, feed, Expansion(self, inner, quiet=True))

    def _for(self, node: For, state: State) -> None:
        scope = Expansion(self, state)
        before = state.copy()
        for item in [field for word in node.words for field in fields(word, scope)]:
            state.assign(node.name, (item.replace(SPREAD, UNKNOWN),))
            self.script(node.script, state)
        state.become([before, state])

    def _command(self, node: Command, state: State) -> None:
        scope = Expansion(self, state)
        assigned = [(a, self._assigned(a.words, a.array, scope)) for a in node.assignments]
        words = [field for word in node.words for field in fields(word, scope)]
        inner = state.copy()
        for redirect in node.redirects:
            if redirect.operator.startswith("<<"):
                self._redirect((redirect,), inner, Program("", (), state.cwds))
        named = Program(words[0] if words else "", tuple(words[1:]), state.cwds, inner.feed)
        self._redirect(node.redirects, inner, named)
        for assignment, value in assigned:
            if words and _RUN_BY_OTHERS.fullmatch(assignment.name):
                self.text(" ".join(value), state.copy())
            elif not words or self._keeps_assignments(words[0]):
                self._assign(assignment, value, state)
        if words:
            feed, state.feed = state.feed, inner.feed
            self.start(words, state)
            state.feed = feed
            for assignment, _ in assigned:
                state.forget(assignment.name)

    def _keeps_assignments(self, name: str) -> bool:
        """Whether those before it may hold for what it runs, and, in some shells, afterwards."""
        return name in self.functions or name in builtins.SPECIAL

    def _assign(self, assignment: Assignment, value: tuple[str, ...], state: State) -> None:
        name = assignment.name
        if assignment.adds and name not in state.values:
            return
        old = state.values[name] if assignment.adds else ()
        if assignment.element:
            state.forget(name)
        else:
            state.assign(name, (*old, *value) if assignment.array else ("".join((*old, *value)),))

    def _assigned(self, words: tuple[Word, ...], array: bool, scope: Expansion) -> tuple[str, ...]:
        if array:
            return tuple(field for word in words for field in fields(word, scope))
        return tuple(joined(word, scope) for word in words)

    def _redirect(self, redirects: Iterable[Redirect], state: State, program: Program) -> None:
        scope = Expansion(self, state)
        for redirect in redirects:
            text = joined(redirect.target.word, scope)
            if redirect.operator in ("<<", "<<-", "<<<"):
                state.feed = Feed(text, hidden=HIDDEN in text)
            elif redirect.operator in ("<", "<>"):
                given = self.files.get(text)
                state.feed = Feed(given, hidden=given == HIDDEN)
            if not redirect.operator.startswith("<<"):
                self._refuse(self._judge_file(redirect.operator, text, program))
            if ">" in redirect.operator:
                self._written(text, program)

    def _written(self, path: str, program: Program) -> None:
        """Kept, as far as it is known, should the same script run it later."""
        said = outputs.said(program)
        if said.text is not None:
            for place in places(path, program.cwds):
                if place is not None:
                    self.files[place] = said.text

    def start(self, words: list[str], state: State) -> None:
        """One program with its arguments; whatever it starts in turn is started here too."""
        self._count(1 + len(words) // 8)
        self._depth += 1
        if self._depth > DEEPEST:
            raise Unreadable("it is nested too deeply")
        if HIDDEN in words[0]:
            raise Denied("what it would run is decoded first, so it cannot be judged")
        if words[0] == SPREAD and len(words) > 1:  # it may be no word at all
            other = state.copy()
            self.start(words[1:], other)
            state.become([state, other])
        name = posixpath.basename(words[0])
        program = Program(name, tuple(words[1:]), state.cwds, state.feed)
        if name == "tee":
            for path in program.words:
                self._written(path, program)
        if name in self.functions:
            self._call(name, program, state)
        elif name in builtins.BUILTINS:
            builtins.BUILTINS[name](self, program, state)
        if name in wrappers.SHELLS or (self.files and "/" in words[0]):
            builtins.run_file(
                self, replace(program, words=(words[0], *program.words)), state.copy()
            )
        for inner in (*wrappers.started(program), *code.nested(program)):
            if isinstance(inner, str):
                self.text(inner, state.copy())
            elif isinstance(inner, Inline):
                within = state.copy()
                within.arguments = inner.arguments
                self.text(inner.text, within)
            elif inner.words:
                within = state.copy()
                within.cwds = inner.cwds if inner.cwds is not None else within.cwds
                self.start(list(inner.words), within)
        self._refuse(self._judge(program))
        self._depth -= 1

    def _call(self, name: str, program: Program, state: State) -> None:
        self._uncalled.pop(name, None)
        outer, state.arguments = state.arguments, program.words
        self.script(self.functions[name], state)
        state.arguments = outer

    def _refuse(self, reason: str) -> None:
        if reason:
            raise Denied(reason)


class Expansion:
    """What names stand for at one place of the script."""

    def __init__(self, walker: Walker, state: State, *, quiet: bool = False) -> None:
        self.home = "".join(state.values.get("HOME", (UNKNOWN,)))
        self.ground = walker.ground
        self.state = state
        self._walker = walker
        self._quiet = quiet
        """What substitutions run has been judged already."""

    @property
    def separators(self) -> str | None:
        found = self.state.values.get("IFS")
        known = found is not None and all(map(is_known, found))
        return "".join((" \t\n", *found)) if known and found else None

    def value(self, parameter: Parameter) -> tuple[str, ...] | None:
        name, operation = parameter.name, parameter.operation
        if operation not in ("", "[@]", "[*]") or _changes(parameter):
            return None
        if name in ("@", "*"):
            return self.state.arguments
        if name.isdigit():
            arguments = self.state.arguments
            at = int(name) - 1
            return None if arguments is None or at < 0 else arguments[at : at + 1] or ("",)
        if name == "PWD" and len(self.state.cwds) == 1:
            (cwd,) = self.state.cwds
            return None if cwd is None else (cwd,)
        found = self.state.values.get(name)
        if found is None or operation:
            return found
        return None if parameter.word is not None and not "".join(found[:1]) else found[:1]

    def output(self, substitution: Substitution) -> str | None:
        if substitution.sum:
            return None
        if not self._quiet:
            self._walker.script(substitution.script, self.state.copy())
        text = outputs.printed(substitution, self)
        if not substitution.file:
            return text
        files = self._walker.files
        name = f"/dev/fd/{100 + len(files)}"
        if text is not None:
            files[name] = text
        return name


def _changes(parameter: Parameter) -> bool:
    """Whether what follows the name may make another value of one that is known."""
    first = parameter.word[0] if parameter.word else None
    text = getattr(first, "text", "")
    return first is not None and not re.match(r":?[-=?]", text)


def _leaves(node: Node) -> bool:
    if isinstance(node, Group):
        return any(_leaves(step.node) for step in node.script)
    if not isinstance(node, Command) or not node.words:
        return False
    return getattr(node.words[0][0], "text", "") in _LEAVING
