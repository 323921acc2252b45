"""The person's own hooks: executables in their settings, run outside, with JSON to read.

They follow Claude Code's convention, so that a hook written for that works here for every agent.
Whatever is neither a clear yes nor a question to the person is a no.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ags import proc
from ags.errors import AgsError
from ags.frozen import frozen
from ags.hooks.call import Heard
from ags.hooks.model import Moment, ToolCall, Verdict
from ags.model import KIB
from ags.text import plain

NAMES = ("pre-any", "pre-bash", "pre-writes", "post-writes", "post-stop")
PATIENCE = 15.0
"""Seconds for one hook. What agents grant a hook of theirs must be more than all of it."""
MOST_ANSWER = 64 * KIB
MOST_REASON = 2000
MOST_LINKS = 40

_EVENTS: dict[Moment, str] = {"before": "PreToolUse", "after": "PostToolUse", "stop": "Stop"}
_YES, _ASK = ("allow", "approve"), "ask"
_TOOLS = {"bash": "Bash", "write": "Write", "read": "Read"}


@frozen
class Hook:
    name: str
    path: Path


class Unfit(Exception):
    """Why a file must not be run as a hook."""


def find(folder: Path, writable: Sequence[Path]) -> tuple[Hook, ...]:
    """The hooks that are there. One that must not be run is an error: it was meant to protect.

    `writable`: folders of the host that the run may write to.
    """
    hooks = tuple(Hook(name, folder / name) for name in NAMES if os.path.lexists(folder / name))
    for hook in hooks:
        try:
            check(hook, writable)
        except Unfit as unfit:
            hint = f"see to it that it is yours and nobody else's to write: chmod go-w {hook.path}"
            raise AgsError("use the hook", subject=hook.path, cause=str(unfit), hint=hint) from None
    return hooks


def check(hook: Hook, writable: Sequence[Path]) -> None:
    """Raises Unfit if anybody but its owner could have changed it, or what leads to it."""
    ours = [os.path.realpath(folder) for folder in writable]
    last = ""
    try:
        for last, facts in _way(str(hook.path)):
            _check_step(last, facts, ours)
        facts = os.stat(last)
    except OSError as error:
        raise Unfit((error.strerror or str(error)).lower()) from None
    if not stat.S_ISREG(facts.st_mode):
        raise Unfit("it is no file")
    if not os.access(last, os.X_OK):
        raise Unfit("it is not executable")


def _check_step(path: str, facts: os.stat_result, ours: Sequence[str]) -> None:
    if any(path == folder or path.startswith(f"{folder}/") for folder in ours):
        raise Unfit(f"{path} is where the run can write")
    if facts.st_uid not in (0, os.geteuid()):
        raise Unfit(f"{path} belongs to another user")
    sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
    if not stat.S_ISLNK(facts.st_mode) and facts.st_mode & 0o022 and not sticky:
        raise Unfit(f"others may write to {path}")


def _way(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Everything that is passed on the way to a file: folders, links, and where those lead."""
    here, rest, links = "/", path.strip("/").split("/"), 0
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        at = os.path.join(here, part)
        facts = os.lstat(at)
        yield at, facts
        if not stat.S_ISLNK(facts.st_mode):
            here = at
            continue
        links += 1
        if links > MOST_LINKS:
            raise Unfit("its links lead in circles")
        target = os.readlink(at)
        here = "/" if target.startswith("/") else here
        rest = [*target.split("/"), *rest]


def named(heard: Heard) -> tuple[str, ...]:
    """Which hooks are asked, or told."""
    kind = heard.call.kind
    match heard.moment:
        case "before":
            own = {"bash": ("pre-bash",), "write": ("pre-writes",)}.get(kind, ())
            return ("pre-any", *own)
        case "after":
            return ("post-writes",) if kind == "write" else ()
        case "stop":
            return ("post-stop",)


def told(heard: Heard, run: str) -> bytes:
    """What a hook reads. Names are Claude Code's, whichever agent it is."""
    call = heard.call
    said: dict[str, object] = {
        "session_id": run,
        "hook_event_name": _EVENTS[heard.moment],
        "cwd": call.cwd,
        "run": run,
        "agent": call.agent,
        "agent_session_id": call.session,
    }
    if heard.moment != "stop":
        said |= {
            "tool_name": _tool(call),
            "tool_input": _input(call),
            "agent_tool_name": call.tool,
            "kind": call.kind,
            "paths": call.paths,
        }
    return json.dumps(said).encode() + b"\n"


def _tool(call: ToolCall) -> str:
    return call.tool if call.agent == "claude" else _TOOLS.get(call.kind, call.tool)


def _input(call: ToolCall) -> dict[str, object]:
    given = dict(call.raw or {})
    if call.kind == "bash":
        given["command"] = call.command
    elif call.paths and call.kind in ("write", "read"):
        given.setdefault("file_path", call.paths[0])
    return given


async def ask(
    hook: Hook,
    heard: Heard,
    run: str,
    *,
    home: Path,
    writable: Sequence[Path] = (),
    patience: float = PATIENCE,
) -> Verdict:
    """Run one hook. Never an exception: what goes wrong is a no."""
    try:
        check(hook, writable)
        # Nothing of the agent's is in the arguments or the environment.
        result = await proc.run(
            (str(hook.path),),
            env=_environment(hook, run, home),
            stdin=told(heard, run),
            timeout=patience,
            check=False,
            most=MOST_ANSWER,
        )
    except (Unfit, AgsError, OSError, ValueError) as error:
        cause = error.cause.partition("\n")[0] if isinstance(error, AgsError) else str(error)
        return Verdict(False, f"the hook {hook.name} could not answer: {cause}", hook.name)
    return answered(result, hook.name)


def _environment(hook: Hook, run: str, home: Path) -> Mapping[str, str]:
    return {**proc.MINIMAL_ENVIRONMENT, "HOME": str(home), "AGS_RUN": run, "AGS_HOOK": hook.name}


def answered(result: proc.Result, name: str) -> Verdict:
    if result.code == 2:
        said = _shown(result.stderr.decode(errors="replace"))
        return Verdict(False, said or f"the hook {name} says no", name)
    if result.code != 0:
        return Verdict(False, f"the hook {name} failed with exit code {result.code}", name)
    if not result.stdout.strip():
        return Verdict(True, by=name)
    try:
        return _said(json.loads(result.stdout.decode(), object_pairs_hook=_single), name)
    except (ValueError, RecursionError):
        return Verdict(False, f"the hook {name} gave no answer that can be understood", name)


def _single(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Said twice is not said clearly."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _said(answer: object, name: str) -> Verdict:
    """The hardest of what it says. Raises ValueError for what has no meaning here."""
    if not isinstance(answer, dict):
        raise ValueError("no object")
    specific = answer.get("hookSpecificOutput", {})
    if not isinstance(specific, dict) or "updatedInput" in specific:
        raise ValueError("the input cannot be changed from here")
    decisions = [
        (answer["decision"], answer.get("reason")) if "decision" in answer else None,
        (specific["permissionDecision"], specific.get("permissionDecisionReason"))
        if "permissionDecision" in specific
        else None,
        (False, answer.get("stopReason")) if answer.get("continue", True) is not True else None,
    ]
    against = [each for each in filter(None, decisions) if each[0] not in _YES]
    if not against:
        return Verdict(True, by=name)
    decision, reason = min(against, key=lambda each: each[0] == _ASK)
    said = _shown(reason) if isinstance(reason, str) else ""
    asks = decision == _ASK
    return Verdict(False, said or f"the hook {name} {'asks' if asks else 'says no'}", name, asks)


def _shown(text: str) -> str:
    return plain(text).strip()[:MOST_REASON]
