"""What a command would print, where that can be known without running it."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from ags.hooks.expand import HIDDEN, SPREAD, WILD, as_text, fields, joined
from ags.hooks.program import Program
from ags.hooks.quoting import ansi_c
from ags.hooks.state import Feed
from ags.hooks.syntax import Command, Group, Node, Pipeline, Script, Substitution

if TYPE_CHECKING:
    from ags.hooks.walk import Expansion

_DECODERS = {
    "base64", "base32", "basenc", "xxd", "openssl", "uudecode", "gunzip", "zcat", "gzip", "bzip2",
    "bunzip2", "xz", "zstd", "rev", "od", "python", "python3", "perl", "ruby", "node", "php",
}  # fmt: skip
_CHANGERS = {"tr", "sed", "awk", "gawk", "cut", "paste", "fold"}
_SIEVES = {"grep", "egrep", "head", "tail", "sort", "uniq", "tee", "tac"}
_FIND_OPTIONS = ("-H", "-L", "-P")


def printed(substitution: Substitution, scope: Expansion) -> str | None:
    """The text that takes the place of a substitution."""
    feed = _script(substitution.script, scope)
    if feed.hidden:
        return HIDDEN
    return None if feed.text is None else feed.text.rstrip("\n")


def piped(node: Node, feed: Feed, scope: Expansion) -> Feed:
    """What comes out of a part of a pipeline into which `feed` goes."""
    match node:
        case Command():
            return _command(node, feed, scope)
        case Pipeline(parts):
            for part in parts:
                feed = piped(part, feed, scope)
            return feed
        case Group(script):
            return _script(script, scope, feed)
        case _:
            return Feed()


def _script(script: Script, scope: Expansion, feed: Feed = Feed()) -> Feed:  # noqa: B008
    found = [piped(step.node, feed, scope) for step in script]
    if any(each.hidden for each in found):
        return Feed(hidden=True)
    if len(found) == 1:
        return found[0]
    if not any(each.text for each in found):
        return Feed()
    return Feed("".join(f"{SPREAD}\n" if each.text is None else each.text for each in found))


def _command(node: Command, feed: Feed, scope: Expansion) -> Feed:
    words = [field for word in node.words for field in fields(word, scope)]
    if not words:
        return Feed("")
    for redirect in node.redirects:
        if redirect.operator in ("<<", "<<-", "<<<"):
            text = joined(redirect.target.word, scope)
            feed = Feed(text)
    while words[0] in ("command", "builtin", "sudo", "\\command") and len(words) > 1:
        if words[1].startswith("-"):
            break
        words = words[1:]
    return _output(posixpath.basename(words[0]), words[1:], feed, scope)


def _output(name: str, words: list[str], feed: Feed, scope: Expansion) -> Feed:
    if name in ("echo", "printf"):
        return _said(name, words)
    if name in _DECODERS:
        return Feed(hidden=True)
    if name in _CHANGERS:
        return Feed(roots=feed.roots, hidden=feed.hidden or feed.text is not None)
    if name in _SIEVES:
        return Feed(roots=feed.roots, hidden=feed.hidden)
    if name == "cat" and not [word for word in words if word != "-"]:
        return feed
    if name == "find":
        return Feed(roots=found_below(words))
    if name == "git" and words[:1] == ["ls-files"]:
        return Feed(roots=(f"{WILD}.listed",))
    value = _value(name, words, scope)
    return Feed() if value is None else Feed(value)


def said(program: Program) -> Feed:
    """What a simple command prints, by its words and what it reads."""
    name, words = posixpath.basename(program.name), list(program.words)
    if name in ("echo", "printf"):
        return _said(name, words)
    return program.feed if name == "tee" or (name == "cat" and not words) else Feed()


def _said(name: str, words: list[str]) -> Feed:
    if any(HIDDEN in word for word in words):
        return Feed(hidden=True)
    if name == "printf":
        format_, *rest = words or [""]
        for value in rest:
            format_ = format_.replace("%s", value.replace("%", "%%"), 1)
        return Feed(ansi_c(as_text(format_)).replace("%%", "%"))
    while words and words[0].startswith("-") and not words[0].strip("-neE"):
        words = words[1:]
    text = as_text(" ".join(words))
    return Feed(ansi_c(text) + "\n" if "\\" in text else text + "\n")


def found_below(words: list[str]) -> tuple[str, ...]:
    """What `find` starts from; a filter keeps it from being everything there."""
    roots = []
    for word in words:
        if word in _FIND_OPTIONS:
            continue
        if word.startswith(("-", "(", "!")):
            break
        roots.append(word)
    filters = {"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-empty",
               "-size", "-mtime", "-mmin", "-newer", "-atime", "-ctime", "-amin", "-cmin",
               "-perm", "-user", "-links", "-lname", "-xtype", "-inum"}  # fmt: skip
    last = f"/{WILD}.found" if filters & set(words) else ""
    sought = {posixpath.basename(word.rstrip("/*")) for word in words}
    if ".git" in sought and not {"-prune", "-not", "!"} & set(words):
        last = "/.git"
    return tuple(f"{root}{last}" for root in roots or ["."])


def _value(name: str, words: list[str], scope: Expansion) -> str | None:
    """Of programs that print one path."""
    operands = [word for word in words if not word.startswith("-")]
    cwds = scope.state.cwds
    if name == "pwd" and len(cwds) == 1:
        return next(iter(cwds))
    if name == "mktemp" and not operands and not any(w.startswith(("-p", "--t")) for w in words):
        return "/tmp/tmp.made"
    if name == "git" and words == ["rev-parse", "--show-toplevel"] and _within(cwds, scope):
        return scope.ground.workspace
    if name in ("which", "command", "type") and len(operands) == 1:
        return operands[0]
    if name in ("realpath", "readlink", "dirname") and len(operands) == 1:
        path = operands[0]
        return posixpath.dirname(path) or "." if name == "dirname" else path
    return None


def _within(cwds: frozenset[str | None], scope: Expansion) -> bool:
    workspace = scope.ground.workspace
    return all(cwd is not None and f"{cwd}/".startswith(f"{workspace}/") for cwd in cwds)
