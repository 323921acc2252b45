"""What a run was refused is allowed: for good, by a rule in the policy, which can be taken back; or
for a time, in this run.

The name was chosen by whatever ran inside. The rule is made here, from the run's own log, and is
the one that `ags allow --always` would have added, had somebody been asked.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from ags import clients
from ags.egress import edit, layers, learn
from ags.egress.asks import DENIED, EXPIRED, FULL, USED
from ags.egress.document import read_document
from ags.egress.load import parse
from ags.egress.policy import Policy, Rule, decide
from ags.egress.trail import Record
from ags.errors import AgsError, Missing, Unfit
from ags.runs import Run
from ags.server import settings
from ags.server.state import State

ASKED = (DENIED, EXPIRED, FULL, USED)
INSIDE = ("method", "path")
ELLIPSIS = "/..."
"""With which a log ends a long path; what may be data in it is a star there."""
BY_HAND = "`ags policy show` tells where each rule comes from; the page's Settings has the file"


async def line_of(state: State, log: Path, number: int) -> Record:
    """A line of the log, by the number that `GET /runs/{run}/egress` gives it."""
    async with contextlib.aclosing(state.marks.lines(log, number - 1)) as lines:
        async for _, line in lines:
            return line
    raise Missing("allow this", subject=number, cause="the run's log has no such line")


def rule_for(state: State, run: Run, line: Record) -> Rule | None:
    """The rule that this refusal lacks; None if the policy as it is now would let it go."""
    policy = layers.layers(
        run.agent,
        user_file=layers.policy_file(state.environ, state.home),
        run_file=run.order.policy,
        client_file=clients.policy_file(state.environ, state.home, run.order.client),
        allow=run.order.allow,
        environ=state.environ,
        home=state.home,
    )
    if learn.refused(line) is None:
        raise AgsError("allow this", cause="this line of the run's log is no refusal")
    asked = _asked(policy, line)
    path = str(asked.get("path") or "")
    if "*" in path or path.endswith(ELLIPSIS):
        cause = "its log has the path shortened, and a rule for that would allow more"
        raise AgsError("allow this", subject=line.get("host"), cause=cause, hint=BY_HAND)
    lesson = learn.learn(policy, (asked,))
    for _, why in lesson.left:
        raise AgsError("allow this", subject=line.get("host"), cause=why, hint=BY_HAND)
    return lesson.rules[0] if lesson.rules else None


def _asked(policy: Policy, line: Record) -> Record:
    """As a person would be asked: for the port or, where a rule looks inside, for the request."""
    reason = "not-listed" if line.get("reason") in ASKED else line.get("reason")
    request = learn.refused(line)
    # The run has rules that are not here: of agents at hand, of package tools.
    judged_inside = bool(line.get("rule")) and line.get("reason") != "port"
    if judged_inside or (request is not None and decide(policy, request).reason in INSIDE):
        return {**line, "reason": reason}
    return {**line, "reason": reason, "method": None, "path": None}


async def added(
    state: State, client: str, rules: tuple[Rule, ...], seen: str | None
) -> tuple[dict[str, Any], bool]:
    """The policy's file with these, and whether that is a change."""
    file = settings.policy_file(state, client)
    return await settings.change(
        state, client, lambda text: edit.with_entries(text, file, state.home, rules), seen
    )


async def withdrawn(
    state: State, client: str, spelled: str, seen: str
) -> tuple[dict[str, Any], bool]:
    """Without this very rule. One that stands among others for the same port is left alone."""
    rule = _read(spelled)
    file = settings.policy_file(state, client)

    def without(text: str) -> str:
        alike = [each for each in _rules(text, file, state.home) if _is_alike(each, rule)]
        if alike != [rule]:
            cause = "the file has more rules for it" if rule in alike else "the file has it no more"
            raise AgsError("take the rule back", subject=spelled, cause=cause, hint=BY_HAND)
        return edit.without(text, file, state.home, (rule,))

    return await settings.change(state, client, without, seen)


def _read(spelled: str) -> Rule:
    try:
        return edit.read_rule(spelled)
    except AgsError as error:
        subject = ascii(spelled)[:80]
        raise Unfit("take the rule back", subject=subject, cause=error.cause) from error


def _rules(text: str, file: Path, home: Path) -> tuple[Rule, ...]:
    if read_document(text, file).value is None:
        return ()
    return tuple(rule for rule in parse(text, file, "user", home).allow if not rule.service)


def _is_alike(one: Rule, other: Rule) -> bool:
    """Whether `edit.without` would take the one for the other."""
    return one.host == other.host and other.ports in (one.ports, (443, 80))
