"""`ags apply`: a run's work, onto a branch of the person's."""

from __future__ import annotations

import asyncio
import sys

import click

from ags import review
from ags.cli import risks
from ags.cli.invocation import Invocation, engine_of
from ags.cli.question import agreed
from ags.errors import AgsError
from ags.paint import Paint, paint_for
from ags.review import Review
from ags.runs import Applied, Pushed
from ags.text import one_line
from ags.workspace.apply import HEADS, How

MOST_NAMED = 20
"""Things to look at that are listed of each sort; `ags diff` has them all."""


@click.command(short_help="Bring a run's work onto a branch of yours.")
@click.option(
    "--into", metavar="BRANCH", help="Onto this branch. [default: the one that is checked out]"
)
@click.option("--squash", is_flag=True, help="As one commit.")
@click.option("--patch", is_flag=True, help="Only into your files and index; nothing is committed.")
@click.option(
    "--push",
    metavar="[REMOTE/]BRANCH",
    help="Onto this branch of a remote, with your own credentials; yours stay as they are.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask, whatever there is to look at.")
@click.argument("name")
@click.pass_obj
def command(
    invocation: Invocation,
    name: str,
    into: str | None,
    squash: bool,
    patch: bool,
    push: str | None,
    yes: bool,
) -> int:
    """Bring the work of the run NAME onto a branch of yours.

    \b
      ags apply fix-login
      ags apply --squash --into develop fix-login
      ags apply --patch fix-login
      ags apply --push origin/fix-login fix-login

    The branch moves forward if it can, else a merge is made. If both sides changed the same
    places, or your files have changes in the way, nothing happens and you are told.

    Files that your machine would run or obey later, and what looks like a secret, are listed first,
    and you are asked. Where nobody can be asked, such work is applied only with --yes.
    """
    check(into, push, squash=squash, patch=patch)
    how: How = "squash" if squash else "patch" if patch else "merge"
    with engine_of(invocation) as engine:
        found = asyncio.run(review.review(engine, name))
        if not may_go_on(found, paint_for(sys.stdout, invocation.environ), yes=yes):
            print("nothing was changed")
            return 1
        expected = found.diff.new
        if push is not None:
            remote, branch = remote_branch(push)
            sent = review.push(engine, name, remote=remote, branch=branch, expected=expected)
            print(pushed(asyncio.run(sent)))
            return 0
        done = asyncio.run(review.apply(engine, name, into=into, how=how, expected=expected))
        print(told(found, done))
    return 0


def check(into: str | None, push: str | None, *, squash: bool, patch: bool) -> None:
    if squash + patch + (push is not None) > 1:
        raise click.UsageError("--squash, --patch and --push exclude each other")
    if push is not None and into is not None:
        raise click.UsageError("--push names the branch already")


def may_go_on(found: Review, paint: Paint, *, yes: bool) -> bool:
    if not found.risks or any(each.undone is None for each in found.run.applied):
        return True
    print("\n".join(risks.rendered(found.risks, paint, MOST_NAMED)), flush=True)
    return yes or _agreed(found)


def _agreed(found: Review) -> bool:
    name = found.run.name
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        count = len(found.risks)
        raise AgsError(
            "apply",
            subject=name,
            cause=f"{count} {'thing' if count == 1 else 'things'} in it should be looked at first,"
            " and there is no terminal to ask on",
            hint=f"`ags diff {name}` shows them; `ags apply --yes {name}` applies it all the same",
        )
    return agreed("apply?")


def remote_branch(given: str) -> tuple[str, str]:
    """What `--push` names: a branch of origin, if it does not say whose."""
    remote, slash, branch = given.partition("/")
    return (remote, branch) if slash else ("origin", given)


def pushed(done: Pushed) -> str:
    return f"pushed {done.commit[:12]} to {one_line(done.branch)} of {one_line(done.remote)}"


def told(found: Review, done: Applied | None) -> str:
    """What happened, and the way back."""
    name, size = found.run.name, found.diff.stat()
    if done is None:
        return f"nothing to apply: all of {name} is there already"
    target = one_line(done.target.removeprefix(HEADS))
    at = (done.after or "")[:12]
    happened = {
        "fast-forward": f"{target} moved forward to {at}",
        "merge": f"merged into {target} as {at}",
        "squash": f"one commit on {target}: {at}",
        "patch": "in your files and index, not committed",
    }[done.how]
    return f"applied {name}: {happened}\n{size}\n`ags undo {name}` takes it back"
