"""The guard: our own hook. It reads what an agent wants to do and says no to what destroys.

It is a rail, not the wall: that is the sandbox. A program that an agent writes and runs is not
read, and whoever wants to get around it can; whoever errs is kept from the worst.
"""

from __future__ import annotations

import re

from ags.hooks import rules
from ags.hooks.expand import WILD, unmarked
from ags.hooks.model import ALLOWED, Ground, Kind, ToolCall, Verdict
from ags.hooks.sensitive import why_not_touch
from ags.hooks.walk import Denied, Walker
from ags.hooks.words import Unreadable

NAME = "guard"
DANGEROUS = re.compile(
    r"\b(rm|rimraf|rmtree|shred|dd|mkfs\S*|wipefs|parted|fdisk|blkdiscard|filter-branch"
    r"|filter-repo|reflog|update-ref|worktree|push|prune|clean|unlink|delete|eval|xargs|chmod"
    r"|chown|ssh|gnupg|aws|environ|shadow|credentials)\b|/dev/[shvn]"
)


def judge(call: ToolCall, ground: Ground) -> Verdict:
    """Pure, bounded, and never an exception."""
    try:
        reason = _reason(call, ground)
    except (Unreadable, RecursionError) as error:
        reason = _unreadable(call.command, error)
    return Verdict(False, reason, NAME) if reason else ALLOWED


def _reason(call: ToolCall, ground: Ground) -> str:
    cwd = call.cwd if call.cwd.startswith("/") else ground.workspace
    here: frozenset[str | None] = frozenset((cwd,))
    for path in call.paths:
        at = _inside(path, call.kind, ground)
        if why := why_not_touch(at, here, ground, writes=call.kind == "write"):
            return why
    if not call.command:
        return ""
    walker = Walker(
        ground,
        lambda program: rules.judge(program, ground),
        lambda operator, target, program: rules.judge_redirect(operator, target, program, ground),
    )
    try:
        walker.run(call.command, cwd)
    except Denied as denied:
        return str(denied)
    return ""


def _inside(path: str, kind: Kind, ground: Ground) -> str:
    """Tools know the home by ~, and those that read know wildcards."""
    path = unmarked(path)
    path = ground.home + path[1:] if path == "~" or path.startswith("~/") else path
    return re.sub(r"[*?\[]", WILD, path) if kind == "read" else path


def _unreadable(command: str, error: Exception) -> str:
    found = DANGEROUS.search(command)
    if found is None:
        return ""
    why = str(error) if isinstance(error, Unreadable) else "it is nested too deeply"
    return f"it cannot be read as a shell command ({why}), and it names {found[0]}"
