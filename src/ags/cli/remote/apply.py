"""`ags --server URL apply`."""

from __future__ import annotations

import sys

from ags import runs
from ags.cli import apply as local
from ags.cli.remote import values
from ags.cli.remote.verb import There, like
from ags.client.shapes import How
from ags.paint import paint_for
from ags.runs import Pushed


@like(local.command)
def command(
    there: There,
    name: str,
    into: str | None,
    squash: bool,
    patch: bool,
    push: str | None,
    yes: bool,
) -> int:
    local.check(into, push, squash=squash, patch=patch)
    how: How = "squash" if squash else "patch" if patch else "merge"
    found = values.review(there.client.run(name), there.client.diff(name))
    if not local.may_go_on(found, paint_for(sys.stdout, there.invocation.environ), yes=yes):
        print("nothing was changed")
        return 1
    expected = found.diff.new
    if push is not None:
        remote, into = local.remote_branch(push)
        there.client.apply(name, how="push", into=into, expected=expected, remote=remote)
        print(local.pushed(Pushed(remote, into, expected, runs.now())))
        return 0
    done = there.client.apply(name, how=how, into=into, expected=expected)
    print(local.told(found, values.applied(done)))
    return 0
