"""Looking at what a run did, taking it over, and taking that back."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from ags import runs
from ags.engine import Engine
from ags.errors import AgsError, Missing
from ags.frozen import frozen
from ags.runs import Applied, Held, Move, Pushed, Run
from ags.store import Filter
from ags.supervisor import inplace
from ags.supervisor.site import person_home
from ags.workspace import apply as applying
from ags.workspace import diff, git
from ags.workspace import remote as remotes
from ags.workspace.alone import alone
from ags.workspace.diff import Diff
from ags.workspace.git import Repository
from ags.workspace.risky import Risk, risky, wants_content

NOT_COMPARED = "it worked outside a repository, where there is nothing to compare with"


@frozen
class Review:
    """A run's change, and what in it deserves a second look before it is applied."""

    run: Run
    diff: Diff
    risks: tuple[Risk, ...]

    def to_json(self) -> dict[str, object]:
        listed = [
            {"path": each.path, "line": each.line, "sort": each.sort, "reason": each.reason}
            for each in self.risks
        ]
        return {"run": self.run.name, **self.diff.to_json(), "risks": listed}


async def review(
    engine: Engine,
    name: str,
    *,
    since: int | None = None,
    spaces: bool = True,
    beginning: int | None = None,
) -> Review:
    """All that it did, or what it did since the end of a turn.

    With `beginning`, only of the first files, up to so many changed lines: that is soon told.
    """
    run = await engine.gather(name)
    base, commit = _span(run)
    if since is not None:
        base = _after(run, since)
    project = await engine.repository(run)
    made = await diff.diff(project, base, commit, spaces=spaces, beginning=beginning)
    contents = await diff.contents(project, filter(wants_content, made.files))
    # For the name of another file one may be a risk; but of the others not all is known yet.
    risks = risky((*made.files, *made.others), contents)
    here = {path for file in made.files for path in (file.path, file.old_path)}
    return Review(run, made, tuple(risk for risk in risks if risk.path in here))


async def apply(
    engine: Engine,
    name: str,
    *,
    into: str | None = None,
    how: applying.How = "merge",
    expected: str | None = None,
) -> Applied | None:
    """Bring the work onto a branch of the person's; None if all of it is there already.

    `expected` is the commit that the person has looked at.
    """
    await engine.gather(name)
    with await engine.hold(name) as held:
        run = held.run
        base, commit = _span(run)
        _check_expected(run, commit, expected)
        project = await git.find(run.project)
        async with alone(project):
            await _recover(held, project)
            _check_not_applied(held.run, commit)
            _check_nobody_there(engine, run)

            def note(done: applying.Applied) -> None:
                held.save(replace(held.run, moving=Move(_record(done), undoing=False)))

            done = await applying.apply(
                project,
                source=await _source(project, run, commit),
                base=base,
                into=into,
                how=how,
                message=_message(run),
                person=await git.identity(person_home(project, engine.home)),
                about_to=note,
            )
            if done.outcome == "nothing" or held.run.moving is None:
                return None
            return _settled(held, held.run.moving)


async def undo(engine: Engine, name: str) -> Applied:
    """Take the last apply back."""
    with await engine.hold(name) as held:
        _check_nobody_there(engine, held.run)
        project = None if held.run.mode == "inplace" else await git.find(held.run.project)
        async with alone(project) if project is not None else contextlib.nullcontext():
            if project is not None and (undone := await _recover(held, project)):
                return undone
            last = _last_applied(held.run)
            held.save(replace(held.run, moving=Move(last, undoing=True)))
            if project is None:
                engine.notes += await inplace.undo(held.run, held.run_dir, engine.ags_home)
            else:
                await applying.undo(project, _made_with(last))
            return _settled(held, Move(last, undoing=True))


async def push(
    engine: Engine,
    name: str,
    *,
    remote: str = "origin",
    branch: str | None = None,
    expected: str | None = None,
) -> Pushed:
    """Bring the work to a branch of a remote of the project's, with the person's own credentials.

    The branch is new there or moves forward; nothing here takes that back.
    """
    await engine.gather(name)
    with await engine.hold(name) as held:
        run = held.run
        _, commit = _span(run)
        _check_expected(run, commit, expected)
        project = await git.find(run.project)
        url = await remotes.url_of(project, remote)
        person = remotes.Person(engine.environ, person_home(project, engine.home))
        target = branch or run.branch or f"agent--{run.name}"
        await remotes.push(project, url, commit, target, person)
        done = Pushed(remote, target, commit, runs.now())
        held.save(replace(held.run, pushed=(*held.run.pushed, done)))
        return done


def _span(run: Run) -> tuple[str, str]:
    if run.result is None or run.base is None:
        over = NOT_COMPARED if _is_outside(run) else "it ended before it did anything"
        over = over if run.is_final else "it is still at work"
        hint = f"`ags logs {run.name}` tells more"
        raise AgsError("look at its work", subject=run.name, cause=over, hint=hint)
    return run.base, run.result.commit


def _is_outside(run: Run) -> bool:
    known = run.result is not None and run.base is not None
    return run.mode == "inplace" and run.started is not None and not known


def _after(run: Run, turn: int) -> str:
    if not 0 <= turn < len(run.turns):
        cause = f"it has no turn {turn} that is over" if run.turns else "it has had one turn only"
        raise Missing("compare with a turn", subject=run.name, cause=cause)
    return run.turns[turn].commit


def _check_expected(run: Run, commit: str, expected: str | None) -> None:
    if expected is not None and commit != expected:
        raise AgsError(
            "apply",
            subject=run.name,
            cause="there is newer work than what you looked at",
            hint=f"look again: `ags diff {run.name}`",
        )


def _check_not_applied(run: Run, commit: str) -> None:
    """An earlier attempt's work may be: this one is another."""
    if done := [each for each in run.applied if not each.undone and each.source == commit]:
        where = done[-1].target.removeprefix(applying.HEADS)
        raise AgsError(
            "apply",
            subject=run.name,
            cause=f"it was applied to {where} already",
            hint=f"`ags undo {run.name}` takes that back",
        )


def _check_nobody_there(engine: Engine, run: Run) -> None:
    """An agent at work in the folder itself would see its files change under its hands."""
    at_work = Filter(
        states=("queued", "preparing", "running", "collecting"), project=run.project, mode="inplace"
    )
    if busy := engine.listing(at_work).runs:
        raise AgsError(
            "change the project",
            subject=run.project,
            cause=f"{busy[0].name} is at work there",
            hint=f"wait for its end, or `ags stop {busy[0].name}`",
        )


async def _source(project: Repository, run: Run, commit: str) -> str:
    """The branch, for messages to name; the commit itself, if that has moved since."""
    branch = f"refs/heads/{run.branch}"
    at = await git.run(project, "rev-parse", "--verify", "--quiet", branch, check=False)
    return run.branch if run.branch and at.text.strip() == commit else commit


def _message(run: Run) -> str:
    first = run.goal.strip().partition("\n")[0]
    title = first if 0 < len(first) <= 72 else f"Work of {run.name}"
    return f"{title}\n\n{run.goal.strip()}\n" if run.goal.strip() != title else f"{title}\n"


def _last_applied(run: Run) -> Applied:
    if not (done := [each for each in run.applied if each.undone is None]):
        cause = NOT_COMPARED if _is_outside(run) else "it was not applied"
        hint = f"`ags logs {run.name}` tells more" if _is_outside(run) else ""
        raise AgsError("undo", subject=run.name, cause=cause, hint=hint)
    return done[-1]


async def _recover(held: Held, project: Repository) -> Applied | None:
    """Bring an apply or undo that was killed to its end, or back. Returns an undo's end."""
    if (move := held.run.moving) is None:
        return None
    if await applying.recover(project, _made_with(move.record), undoing=move.undoing):
        done = _settled(held, move)
        return done if move.undoing else None
    held.save(replace(held.run, moving=None))
    return None


def _record(done: applying.Applied) -> Applied:
    assert done.outcome != "nothing"
    return Applied(done.outcome, done.ref, done.before, done.after, runs.now(), done.source)


def _made_with(record: Applied) -> applying.Applied:
    assert record.after is not None and record.how != "in place"
    return applying.Applied(record.target, record.before, record.after, "", record.how)


def _settled(held: Held, move: Move) -> Applied:
    """Nothing is under way any more: the record has it."""
    if not move.undoing:
        applied = (*held.run.applied, move.record)
        held.save(replace(held.run, applied=applied, moving=None))
        return move.record
    undone = replace(move.record, undone=runs.now())
    applied = tuple(undone if each == move.record else each for each in held.run.applied)
    held.save(replace(held.run, applied=applied, moving=None))
    return undone
