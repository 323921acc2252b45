"""Programs that start another: which, and with what words.

Where an option's value and the program's name cannot be told apart, both readings are given.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from ags.hooks.expand import HIDDEN, UNKNOWN, WILD, is_open
from ags.hooks.outputs import found_below
from ags.hooks.program import Inline, Inner, Program, has, operands

Started = Iterator[Inner | Inline | str]
"""A program with its words, or the text of a script."""

# Words of their own before the program's name, options apart.
PREFIXES = {
    "sudo": 0, "doas": 0, "env": 0, "nice": 0, "ionice": 0, "nohup": 0, "setsid": 0, "timeout": 1,
    "stdbuf": 0, "time": 0, "command": 0, "builtin": 0, "exec": 0, "chroot": 1, "unshare": 0,
    "nsenter": 0, "strace": 0, "ltrace": 0, "flock": 1, "busybox": 0, "toybox": 0, "npx": 0,
    "bunx": 0, "uvx": 0, "chrt": 1, "taskset": 1, "numactl": 0, "unbuffer": 0, "rlwrap": 0,
    "xvfb-run": 0, "faketime": 1, "setpriv": 0, "fakeroot": 0, "entr": 0, "parallel": 0,
    "watch": 0, "catchsegv": 0, "dbus-run-session": 0, "systemd-run": 0, "firejail": 0,
    "proot": 0, "runuser": 0, "pkexec": 0, "gosu": 1, "su-exec": 1, "coproc": 0, "noglob": 0,
    "nocorrect": 0, "gtimeout": 1, "winpty": 0, "setarch": 1, "linux64": 0, "prlimit": 0,
    "cgexec": 0, "trickle": 0, "torsocks": 0, "proxychains": 0, "rtk": 0, "bwrap": 0,
}  # fmt: skip
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash", "busybox-sh")
_SAYERS = {
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "man", "which", "type",
    "whereis", "whatis", "help", "info", "tldr", "git", "sed", "awk", "gawk", "cat", "ls", "apt",
    "apt-get", "dpkg", "dnf", "apk", "pip", "pip3", "npm", "yarn", "pnpm", "brew", "cargo", "gem",
    "touch", "mkdir", "cp", "mv", "ln", "test", "[", "for", "case", "read", "export", "declare",
    "local", "rm", "rmdir", "chmod", "chown", "hash", "complete", "logger", "jq", "gh", "find",
    "xargs", "alias", "unalias", "trap", "eval", "set", "head", "tail", "wc", "sort", "diff",
    "stat", "file", "tee", "cmp", "unlink", "trash", "command", "true", "false", ":",
}  # fmt: skip
_VERBS = {"rm", "rimraf", "shred", "dd", "mkfs", "wipefs"}


def started(program: Program) -> Started:
    name = program.name
    if name in SHELLS:
        yield from _shell(program)
    elif name in _SPECIAL:
        yield from _SPECIAL[name](program)
    if name in PREFIXES:
        if not (name == "command" and has(program.words[:1], "vV")):
            yield from _after(program.words, PREFIXES[name], _cwds(program))
    elif name not in _SAYERS and name not in SHELLS:
        yield from _mentioned(program)


def _after(words: tuple[str, ...], more: int, cwds: frozenset[str | None] | None) -> Started:
    met = 0
    for at, word in enumerate(words):
        if word.startswith("-") and len(word) > 1:
            more += 1
        elif "=" not in word or "/" in word.partition("=")[0]:
            met += 1
            yield Inner(words[at:], cwds)
            if met > more and not is_open(word):
                return


def _cwds(program: Program) -> frozenset[str | None] | None:
    moved = has(program.words, "CD", "chdir", "working-directory", "root")
    moves = program.name in ("env", "sudo", "chroot", "systemd-run", "setpriv", "bwrap", "proot")
    return frozenset((None,)) if moves and (moved or program.name == "chroot") else None


def _mentioned(program: Program) -> Started:
    """A program that nobody here knows may well run what its words say."""
    for at, word in enumerate(program.words):
        if posixpath.basename(word) in _VERBS:
            yield Inner(program.words[at:])


def _shell(program: Program) -> Started:
    words = program.words
    rest = list(words)
    inline = False
    while rest and (rest[0].startswith(("-", "+")) or (is_open(rest[0]) and not inline)):
        option = rest.pop(0)
        inline |= not option.startswith("--") and "c" in option[1:]
        inline |= is_open(option) or option.startswith("--c")
        if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            rest = rest[1:]
    if inline:
        # A later option may come between; what is no script does no harm to read.
        yield from (Inline(text, tuple(rest[2:])) for text in rest[:1])
    elif not rest or has(tuple(words), "s"):
        if program.feed.hidden:
            yield HIDDEN
        elif program.feed.text is not None:
            yield program.feed.text


def _xargs(program: Program) -> Started:
    feed = program.feed
    given: tuple[str, ...] = (HIDDEN,) if feed.hidden else (UNKNOWN,)
    if feed.text is not None:
        given = tuple(feed.text.split())
    elif feed.roots:
        given = feed.roots
    for inner in _after(program.words, 0, None):
        assert isinstance(inner, Inner)
        place = _placeholder(program.words)
        if place and any(place in word for word in inner.words):
            for each in given or ("",):
                yield Inner(tuple(word.replace(place, each) for word in inner.words))
        else:
            yield Inner((*inner.words, *given))


def _placeholder(words: tuple[str, ...]) -> str:
    for at, word in enumerate(words):
        if word in ("-I", "--replace"):
            return words[at + 1] if word == "-I" and at + 1 < len(words) else "{}"
        if word.startswith(("-I", "-i", "--replace=")):
            return word.removeprefix("--replace=").removeprefix("-I").removeprefix("-i") or "{}"
    return ""


def _find(program: Program) -> Started:
    words = program.words
    for at, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            ends = (i for i in range(at + 1, len(words)) if words[i] in (";", "+"))
            inner = words[at + 1 : next(ends, len(words))]
            for root in found_below(list(words)):
                yield Inner(tuple(each.replace("{}", root) for each in inner))


def _fd(program: Program) -> Started:
    words = program.words
    for at, word in enumerate(words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            inner = words[at + 1 :]
            yield Inner((*(each.replace("{}", f"{WILD}.found") for each in inner), f"{WILD}.found"))


def _option_text(*names: str) -> Callable[[Program], Started]:
    """Of programs that take a script as the value of an option."""

    def found(program: Program) -> Started:
        for at, word in enumerate(program.words):
            if word in names:
                yield from program.words[at + 1 : at + 2]
            for name in names:
                if name.startswith("--") and word.startswith(f"{name}="):
                    yield word.partition("=")[2]
                elif not name.startswith("--") and word.startswith(name) and word != name:
                    yield word[2:]

    return found


def _ssh(program: Program) -> Started:
    """Elsewhere, so in a folder that nobody knows."""
    yield from _after(program.words, 1, frozenset((None,)))
    yield " ".join(operands(program.words)[1:])


def _joined(program: Program) -> Started:
    yield " ".join(operands(program.words))


def _git(program: Program) -> Started:
    from ags.hooks.gitguard import nested

    yield from nested(program)


_SPECIAL: dict[str, Callable[[Program], Started]] = {
    "xargs": _xargs,
    "gxargs": _xargs,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "env": _option_text("-S", "--split-string"),
    "su": _option_text("-c", "--command"),
    "runuser": _option_text("-c", "--command"),
    "script": _option_text("-c", "--command"),
    "flock": _option_text("-c", "--command"),
    "nix-shell": _option_text("--run", "--command"),
    "ssh": _ssh,
    "watch": _joined,
    "parallel": _xargs,
    "git": _git,
}
