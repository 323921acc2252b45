"""What a server says, as the values that are shown here; so both look the same.

Names and commits of runs here are plain, and printed as they are. A server could send anything.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_type_hints

from ags import records
from ags.asking import Asked
from ags.cli.risks import HEADINGS
from ags.client import shapes
from ags.errors import AgsError
from ags.events import Event
from ags.model import Limits, Weakening
from ags.review import Review
from ags.runs import Applied, Moment, Order, Pushed, Result, Run
from ags.store import Summary
from ags.text import decode, one_line
from ags.workspace.diff import Diff, FileChange, Hunk, Line
from ags.workspace.risky import Risk, Sort

ELSEWHERE = "elsewhere"
"""The boot of moments that another machine's clock tells."""


def moment(wall: float) -> Moment:
    return Moment(wall, wall, ELSEWHERE)


def _word(text: str | None) -> str | None:
    return None if text is None else one_line(text)


def _moment(wall: float | None) -> Moment | None:
    return None if wall is None else moment(wall)


def summary(row: shapes.Row) -> Summary:
    return Summary(
        id=one_line(row["id"]),
        name=one_line(row["name"]),
        agent=one_line(row["agent"]),
        goal=row["goal"],
        mode=row["mode"],
        project=Path(row["project"]),
        branch=_word(row["branch"]),
        state=row["state"],
        asking=row["asking"],
        created=moment(row["created"]),
        started=_moment(row["started"]),
        ended=_moment(row["ended"]),
        exit_code=row["exit_code"],
        stopped_by=_word(row["stopped_by"]),
        weakenings=tuple(map(one_line, row["weakenings"])),
        files=row["files"],
        insertions=row["insertions"],
        deletions=row["deletions"],
        applied=row["applied"],
        client=one_line(row["client"]),
        group=one_line(row["group"]),
    )


def run(found: shapes.Run) -> Run:
    """As far as a server tells of it."""
    return Run(
        id=one_line(found["id"]),
        name=one_line(found["name"]),
        agent=one_line(found["agent"]),
        goal=found["goal"],
        mode=found["mode"],
        project=Path(found["project"]),
        created=moment(found["created"]),
        group=one_line(found["group"]),
        order=_order(found),
        workspace=None if found["workspace"] is None else Path(found["workspace"]),
        base=_word(found["base"]),
        branch=_word(found["branch"]),
        state=found["state"],
        asking=found["asking"],
        started=_moment(found["started"]),
        ended=_moment(found["ended"]),
        exit_code=found["exit_code"],
        stopped_by=_word(found["stopped_by"]),
        limits=_limits(found["limits"]),
        limited_by=_word(found["limited_by"]),
        weakenings=tuple(
            Weakening(one_line(each["name"]), one_line(each["text"]))
            for each in found["weakenings"]
        ),
        notes=tuple(found["notes"]),
        result=_result(found["result"]),
        applied=tuple(_applied(each) for each in found["applied"]),
        pushed=tuple(_pushed(each) for each in found["pushed"]),
        session=one_line(found["session"]),
        turn=found["turn"],
        said=found["said"],
        answer=found["answer"],
    )


def record(found: shapes.Run) -> dict[str, object]:
    """As `ags show --json` has it; what the server does not tell is left out, not made up."""
    made = json.loads(records.encode(run(found)))
    order, limits = _told(made["order"], shapes.Run), _told(made["limits"], shapes.Limits)
    return {**_told(made, shapes.Run), "order": order, "limits": limits}


def _told(made: Mapping[str, object], shape: type) -> dict[str, object]:
    names = get_type_hints(shape)
    return {name: each for name, each in made.items() if name in names}


def _order(found: shapes.Run) -> Order:
    return Order(
        terminal=found["terminal"],
        network=found["network"],
        allow=tuple(found["allow"]),
        ask=found["ask"],
        publish=tuple(found["publish"]),
        client=one_line(found["client"]),
        model=found["model"],
    )


def _limits(held: shapes.Limits) -> Limits:
    return Limits(
        memory=held["memory"],
        cpus=held["cpus"],
        pids=held["pids"],
        timeout=held["timeout"],
        file_size=None,
        open_files=None,
        disk_free=None,
        memory_free=None,
    )


def _result(found: shapes.Result | None) -> Result | None:
    if found is None:
        return None
    return Result(
        one_line(found["commit"]), found["files"], found["insertions"], found["deletions"]
    )


def _applied(found: shapes.Applied) -> Applied:
    return Applied(
        how=cast(Any, found["how"]),
        target=one_line(found["target"]),
        before=_word(found["before"]),
        after=_word(found["after"]),
        at=moment(found["at"]),
        source=_word(found["source"]),
        undone=_moment(found["undone"]),
    )


def _pushed(found: shapes.Pushed) -> Pushed:
    remote, branch, commit = map(one_line, (found["remote"], found["branch"], found["commit"]))
    return Pushed(remote, branch, commit, moment(found["at"]))


def applied(done: shapes.Done) -> Applied | None:
    """What an apply or undo did; None if there was nothing to do."""
    if done["outcome"] == "nothing":
        return None
    return Applied(
        how=cast(Any, done["outcome"]),
        target=one_line(done["target"] or ""),
        before=_word(done["before"]),
        after=_word(done["after"]),
        at=moment(0),
        source=_word(done["source"]),
    )


def review(found: shapes.Run, diff: shapes.Diff) -> Review:
    sorts: dict[str, Sort] = {sort: sort for sort in HEADINGS}
    risks = (
        # One of a sort that is not known here is shown too, with the worst.
        Risk(each["path"], sorts.get(each["sort"], "runs"), each["reason"], each["line"])
        for each in diff["risks"]
    )
    files = tuple(_change(each) for each in diff["files"])
    return Review(
        run(found), Diff(one_line(diff["old"]), one_line(diff["new"]), files), tuple(risks)
    )


def _change(file: shapes.FileChange) -> FileChange:
    return FileChange(
        path=_name(file["path"], file["path_base64"]) or "",
        kind=file["kind"],
        old_path=_name(file["old_path"], file["old_path_base64"]),
        old_mode=_mode(file["old_mode"]),
        new_mode=_mode(file["new_mode"]),
        old_id=file["old_id"],
        new_id=file["new_id"],
        old_size=file["old_size"],
        new_size=file["new_size"],
        binary=file["binary"],
        additions=file["additions"],
        deletions=file["deletions"],
        hunks=tuple(_hunk(each) for each in file["hunks"]),
        left_out=one_line(file["left_out"]),
    )


def _hunk(hunk: shapes.Hunk) -> Hunk:
    return Hunk(
        hunk["old_start"],
        hunk["old_lines"],
        hunk["new_start"],
        hunk["new_lines"],
        hunk["heading"],
        tuple(Line(each["kind"], each["text"], each["no_newline"]) for each in hunk["lines"]),
    )


def _name(text: str | None, exact: str | None) -> str | None:
    try:
        return text if exact is None else decode(base64.b64decode(exact, validate=True))
    except ValueError as error:
        raise _odd("a name") from error


def _mode(text: str) -> int:
    try:
        return int(text, 8) & 0o177777
    except ValueError as error:
        raise _odd("a mode") from error


def _odd(what: str) -> AgsError:
    return AgsError("read the diff", cause=f"the server sent {what} that is none")


def event(found: shapes.Event) -> Event:
    fields = {name: each for name, each in found.items() if name not in ("seq", "ts", "kind")}
    return Event(found["seq"], found["ts"], cast(Any, found["kind"]), fields)


def asked(found: shapes.Ask) -> Asked:
    fields = {name: each for name, each in found.items() if name != "run"}
    return Asked(one_line(found["run"]), Path(), fields)
