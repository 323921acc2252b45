"""One-line programs in other languages: what they would delete, read or run, by their strings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from ags.hooks.deletes import why_not_delete
from ags.hooks.expand import is_known
from ags.hooks.model import Ground
from ags.hooks.program import Inner, Program
from ags.hooks.sensitive import why_not_touch
from ags.hooks.shell import parse
from ags.hooks.words import Unreadable

INTERPRETER = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|php|lua|tclsh)[\d.]*|bun|deno|osascript|pwsh"
)
AWKS = ("awk", "gawk", "mawk", "nawk")
_INLINE = re.compile(r"-[A-Za-z]*[ceEpr]|--(?:eval|print|command|execute|run)(?:=.*)?")
_LITERAL = re.compile(
    r"'''(.*?)'''|\"\"\"(.*?)\"\"\"|'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`"
    r"|(?:%x|qx)[\[({]([^\])}]*)[\])}]",
    re.DOTALL,
)
_RUNS = re.compile(r"system|popen|subprocess|exec|spawn|\brun\b|check_|`|%x|\bqx\b|\bsh\b|\bcall\b")
_DELETES = re.compile(
    r"rmtree|rmSync|rmdirSync|rm_rf|rm_r\b|remove_tree|removeSync|\brm\b|emptyDir|rimraf|rmdir_s"
    r"|remove_entry|removedirs|deltree"
)
_AT_HOME = re.compile(r"expanduser|Path\.home|homedir|HOME\b")
_PROGRAM = {"rm", "git", "dd", "shred", "sh", "bash", "find", "sudo", "mkfs", "wipefs", "chmod"}
MOST_LITERALS = 200


def codes(program: Program) -> Iterator[str]:
    """The programs in its words, or the one on its standard input."""
    words = program.words
    if program.name in AWKS:
        yield from words
        return
    if not INTERPRETER.fullmatch(program.name):
        return
    files = [word for word in words if not word.startswith("-")]
    if (not files or "-" in words) and program.feed.text is not None:
        yield program.feed.text
    for at, word in enumerate(words):
        if _INLINE.fullmatch(word):
            yield from words[at + 1 : at + 2]
        if word.startswith("-") and len(word) > 6:
            yield word


def nested(program: Program) -> Iterator[Inner | str]:
    """What they hand to a shell, or start."""
    for code in codes(program):
        if not _RUNS.search(code):
            continue
        literals = _literals(code)
        for at, literal in enumerate(literals):
            if posixpath.basename(literal) in _PROGRAM:
                yield Inner(tuple(literals[at:]))
            elif " " in literal and _is_script(literal):
                yield literal


def judge(program: Program, ground: Ground) -> str:
    for code in codes(program):
        deletes = _DELETES.search(code)
        if deletes and _AT_HOME.search(code):
            return "it deletes in the home, outside the workspace"
        for literal in _literals(code):
            path = ground.home + literal[1:] if literal.startswith("~") else literal
            whole = deletes and (path.startswith(("/", "..")) or path == ".")
            if whole and (why := why_not_delete(path, program.cwds, ground)):
                return why
            at_home = posixpath.join(ground.home, path.lstrip("/"))
            for each in (path, at_home) if path.startswith((".", "/.")) else (path,):
                if why := why_not_touch(each, program.cwds, ground):
                    return why
    return ""


def _literals(code: str) -> list[str]:
    found = []
    for match in _LITERAL.finditer(code):
        found.append(next((text for text in match.groups() if text is not None), ""))
        if len(found) == MOST_LITERALS:
            break
    return [text for text in found if is_known(text)]


def _is_script(text: str) -> bool:
    try:
        parse(text)
    except Unreadable:
        return False
    return True
