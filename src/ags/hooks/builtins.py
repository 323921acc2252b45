"""What a shell does itself, and what that changes for the rest of a script."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ags.hooks.deletes import places
from ags.hooks.expand import HIDDEN, is_known
from ags.hooks.program import Program, has, operands
from ags.hooks.state import State
from ags.hooks.words import Unreadable

if TYPE_CHECKING:
    from ags.hooks.walk import Walker

_STANDARD_INPUT = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
SPECIAL = (
    ":",
    ".",
    "source",
    "eval",
    "exec",
    "export",
    "readonly",
    "set",
    "trap",
    "unset",
    "command",
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _cd(walker: Walker, program: Program, state: State) -> None:
    to = operands(program.words)
    if not to and program.name == "cd":
        state.cwds = frozenset((walker.ground.home,))
    elif len(to) != 1 or not is_known(to[0]) or to[0] == "-":
        state.cwds = frozenset((None,))
    else:
        state.cwds = frozenset(_beneath(cwd, to[0]) for cwd in state.cwds)


def _beneath(cwd: str | None, path: str) -> str | None:
    if path.startswith("/"):
        return posixpath.normpath(path)
    return None if cwd is None else posixpath.normpath(posixpath.join(cwd, path))


def _popd(_: Walker, __: Program, state: State) -> None:
    state.cwds = frozenset((None,))


def _declare(_: Walker, program: Program, state: State) -> None:
    if has(program.words, "n") and program.name != "export":
        raise Unreadable("a name stands for another name")
    for word in program.words:
        name, equals, value = word.partition("=")
        if _NAME.fullmatch(name.removesuffix("+")):
            if equals and not name.endswith("+"):
                state.assign(name, (value,))
            elif equals:
                state.forget(name.removesuffix("+"))


def _read(_: Walker, program: Program, state: State) -> None:
    """Names get values that cannot be known. Options' values are taken for names, to no harm."""
    for word in program.words:
        state.forget(word)
    if not all(map(is_known, program.words)):
        state.values.clear()
    state.forget("REPLY")
    state.forget("MAPFILE")


def _printf(_: Walker, program: Program, state: State) -> None:
    if program.words[:1] == ("-v",):
        state.forget("".join(program.words[1:2]))


def _let(_: Walker, program: Program, state: State) -> None:
    for word in program.words:
        for name in _NAME.findall(word):
            state.forget(name)


def _eval(walker: Walker, program: Program, state: State) -> None:
    walker.text(" ".join(program.words), state)


def _trap(walker: Walker, program: Program, state: State) -> None:
    for word in operands(program.words)[:1]:
        walker.text(word, state.copy())


def _alias(walker: Walker, program: Program, state: State) -> None:
    for word in program.words:
        name, equals, value = word.partition("=")
        if equals:
            walker.text(value, state.copy())
            walker.functions.pop(name, None)


def _set(_: Walker, program: Program, state: State) -> None:
    words = program.words
    if "--" in words or (words and not words[0].startswith(("-", "+"))):
        state.arguments = words[words.index("--") + 1 :] if "--" in words else words
    if any(re.fullmatch(r"-[a-z]*e[a-z]*", word) for word in words) or "errexit" in words:
        state.strict = True
    if any(word.startswith("+") for word in words):
        state.strict = False


def _shift(_: Walker, __: Program, state: State) -> None:
    state.arguments = None


def run_file(walker: Walker, program: Program, state: State) -> None:
    """Files whose text is known, because this very script has made them."""
    for word in program.words:
        for place in places(word, program.cwds):
            if place in walker.files:
                walker.text(walker.files[place], state)
        if word in _STANDARD_INPUT:
            walker.text(HIDDEN if program.feed.hidden else program.feed.text or "", state)


BUILTINS: dict[str, Callable[[Walker, Program, State], None]] = {
    "cd": _cd,
    "pushd": _cd,
    "popd": _popd,
    "export": _declare,
    "declare": _declare,
    "local": _declare,
    "readonly": _declare,
    "typeset": _declare,
    "read": _read,
    "mapfile": _read,
    "readarray": _read,
    "getopts": _read,
    "unset": _read,
    "printf": _printf,
    "let": _let,
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "set": _set,
    "shift": _shift,
    "source": run_file,
    ".": run_file,
}
