"""What programs would destroy, by their names and words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ags.hooks import code, gitguard
from ags.hooks.deletes import below, places, why_not_delete
from ags.hooks.expand import UNKNOWN, is_known, is_open
from ags.hooks.model import Ground
from ags.hooks.outputs import found_below
from ags.hooks.patch import patched
from ags.hooks.program import Program, has, operands
from ags.hooks.sensitive import is_disk, why_not_touch

Rule = Callable[[Program, Ground], str]

_NOT_SEEN = "it cannot be seen what it deletes: write the paths out"
_DISK_TOOLS = re.compile(
    r"mkfs(\..+)?|mke2fs|mkswap|mkdosfs|wipefs|s?fdisk|cfdisk|[cs]?gdisk|parted|blkdiscard|shred"
    r"|wipe|srm|[lpv]g?v?remove|lvremove|vgremove|pvremove|badblocks|nvme|hdparm|sg_format"
)
_DESTROYERS = {
    "zfs": ("destroy",),
    "zpool": ("destroy", "labelclear"),
    "cryptsetup": ("luksFormat", "erase", "luksErase"),
    "mdadm": ("--zero-superblock",),
    "btrfs": ("delete",),
    "gh": ("delete", "DELETE"),
    "glab": ("delete",),
    "diskutil": ("eraseDisk", "eraseVolume"),
}
_WRITERS = {
    "tee", "cp", "mv", "ln", "install", "sed", "dd", "rm", "truncate", "chmod", "chown", "touch",
    "rsync", "ed", "ex", "vi", "vim", "nano", "sponge", "patch", "unlink", "link", "curl", "wget",
}  # fmt: skip
_SAYERS = {"echo", "printf", "true", ":", "[", "test", "export", "cd", "which", "type", "ls"}
_SEEKERS = {"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "jq"}
_RM_FLAGS = re.compile(r"-[rRfvidI]*[rR][rRfvidI]*|--recursive")


def judge(program: Program, ground: Ground) -> str:
    """Why it must not be started; empty if nothing is known against it."""
    return _destroys(program, ground) or _touches(program, ground) or code.judge(program, ground)


def judge_redirect(operator: str, target: str, program: Program, ground: Ground) -> str:
    if operator in ("<&", ">&") and (target.isdigit() or target == "-"):
        return ""
    writes = ">" in operator
    return why_not_touch(target, program.cwds, ground, writes=writes)


def _destroys(program: Program, ground: Ground) -> str:
    name = program.name
    if not is_known(name):
        return _any_rule(program, ground)
    if name in _RULES:
        return _RULES[name](program, ground)
    if _DISK_TOOLS.fullmatch(name) and operands(program.words):
        return f"{name} destroys data for good"
    if any(word in _DESTROYERS.get(name, ()) for word in program.words):
        return f"{name} would delete more than this workspace"
    return ""


def _any_rule(program: Program, ground: Ground) -> str:
    """Nobody knows which program it is: it must be harmless as every one."""
    rules = [_dd, gitguard.judge, _find]
    if any(_RM_FLAGS.fullmatch(word) for word in program.words):
        rules.append(_rm)
    return next((why for rule in rules if (why := rule(program, ground))), "")


def _rm(program: Program, ground: Ground) -> str:
    words = program.words
    if has(words, "", "no-preserve-root"):
        return "it would delete the whole system"
    is_open_ended = any(is_open(word) for word in words)
    if not has(words, "rR", "recursive") and not is_open_ended:
        return ""
    if is_open_ended:
        return _NOT_SEEN
    return _each(operands(words), program, ground)


def _each(paths: tuple[str, ...], program: Program, ground: Ground) -> str:
    reasons = (why_not_delete(path, program.cwds, ground) for path in paths)
    return next((why for why in reasons if why), "")


def _always_recursive(program: Program, ground: Ground) -> str:
    return _each(operands(program.words), program, ground)


def _find(program: Program, ground: Ground) -> str:
    if "-delete" not in program.words:
        return ""
    if any(is_open(word) for word in program.words):
        return _NOT_SEEN
    return _each(found_below(list(program.words)), program, ground)


def _dd(program: Program, ground: Ground) -> str:
    for word in program.words:
        if word.startswith("of=") and (is_disk(word[3:]) or word[3:].startswith(UNKNOWN)):
            return "dd would overwrite a disk"
    return ""


def _modes(program: Program, ground: Ground) -> str:
    if not has(program.words, "R", "recursive"):
        return ""
    allowed = (ground.workspace, ground.home, *ground.scratch, *ground.writable)
    for path in operands(program.words)[1:] or operands(program.words):
        for place in places(path, program.cwds):
            if place is None:
                return "it cannot be seen what it changes: write the path out"
            if place == ground.home or not any(below(place, folder) for folder in allowed):
                return f"{place} is outside the workspace"
    return ""


def _mv(program: Program, ground: Ground) -> str:
    for path in operands(program.words)[:-1]:
        for place in places(path, program.cwds):
            if place is not None and below(ground.workspace, place):
                return "it moves the workspace away"
    return ""


def _rsync(program: Program, ground: Ground) -> str:
    if not any(word.startswith("--del") for word in program.words):
        return ""
    to = operands(program.words)[-1:]
    return _each(tuple(f"{path}/old" for path in to if ":" not in path), program, ground)


def _history(program: Program, _: Ground) -> str:
    return f"{program.name} rewrites the history" if program.words else ""


def _copies(program: Program, ground: Ground) -> str:
    disks = (word for word in program.words if is_disk(word))
    return next((f"{disk} is a disk" for disk in disks), "")


def _apply_patch(program: Program, ground: Ground) -> str:
    text = "\n".join((*program.words, program.feed.text or ""))
    return next(
        (
            why
            for path in patched(text)
            if (why := why_not_touch(path, program.cwds, ground, writes=True))
        ),
        "",
    )


_RULES: dict[str, Rule] = {
    "rm": _rm,
    "grm": _rm,
    "rimraf": _always_recursive,
    "del-cli": _always_recursive,
    "trash": _always_recursive,
    "find": _find,
    "gfind": _find,
    "dd": _dd,
    "gdd": _dd,
    "chmod": _modes,
    "chown": _modes,
    "chgrp": _modes,
    "setfacl": _modes,
    "mv": _mv,
    "rsync": _rsync,
    "git": gitguard.judge,
    "git-filter-repo": _history,
    "git-filter-branch": _history,
    "bfg": _history,
    "cp": _copies,
    "tee": _copies,
    "apply_patch": _apply_patch,
    "applypatch": _apply_patch,
}


def _touches(program: Program, ground: Ground) -> str:
    if program.name in _SAYERS:
        return ""
    writes = program.name in _WRITERS
    for word in _paths(program):
        if why := why_not_touch(word, program.cwds, ground, writes=writes):
            return why
    return ""


def _paths(program: Program) -> Iterator[str]:
    """Words that may be paths, also behind a `=` or an `@`."""
    skip = program.name in _SEEKERS and not has(program.words, "ef", "regexp", "file")
    for word in program.words:
        if skip and not word.startswith("-"):
            skip = False  # what is sought, not where
            continue
        yield word
        for separator in ("=", "@", ":"):
            if separator in word:
                yield word.partition(separator)[2]
        if word.startswith("-") and len(word) > 2 and "/" in word:
            yield word[2:]
