"""Short scripts of ours that work on what an agent could have touched: in a sandbox, too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Protocol

from ags.errors import AgsError
from ags.model import KIB, Ending, Limits, Plan
from ags.workspace import git
from ags.workspace.tree import shown

MOST_COMPLAINT = 8 * KIB

# An agent could have set these in the git directory that it had. Nothing worse would come of it
# than work that is not collected, but that is bad enough.
SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "checkout.workers": "0",
    "core.quotePath": "false",
    "advice.addEmbeddedRepo": "false",
}


# For scripts that go on without filters: `without clean process` makes these settings empty.
WITHOUT = r"""
set -f
IFS='
'
without() {
    for setting; do
        for key in $(git config --name-only --get-regexp "^filter\..*\.$setting\$"); do
            export "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=$key" "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT="
            export GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
        done
    done
}
filtered() { git ls-files -z -- ':(top)' ':(top,exclude,attr:!filter)'; }
"""

# `sound DIR` makes a git directory that an agent had usable again: what cannot be read, locks of
# a git that is dead by now, and all that is no file, at which git would wait for ever.
SOUND = r"""
sound() {
    find "$1" -type d ! -perm -700 -exec chmod u+rwx {} \; , \
        -type f ! -perm -400 -exec chmod u+r {} \; , \
        -name '*.lock' -prune -exec rm -rf {} + , \
        \( -xtype p -o -xtype s -o -xtype b -o -xtype c \) -exec rm -f {} +
}
"""


class Runner(Protocol):
    """A backend, as far as it matters here: run a plan to its end on three open descriptors."""

    async def __call__(self, plan: Plan, stdin: int, stdout: int, stderr: int) -> Ending: ...


@dataclass(frozen=True, slots=True)
class Said:
    """How a script ended, and its complaints, harmless to print."""

    code: int
    complaints: str
    stopped_by: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """What to run, and for whom."""

    text: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


async def run(
    runner: Runner,
    plan: Plan,
    script: Script,
    *,
    workspace: PurePosixPath,
    limits: Limits,
    output: int,
    stdin: bytes = b"",
) -> Said:
    """Run a script in the workspace of `plan`, its output into the open file `output`."""
    own = {**git.as_environment(SETTINGS), "LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}
    made = replace(
        plan,
        command=("/bin/sh", "-c", script.text, "ags", *script.arguments),
        cwd=workspace,
        environment=_merged((*plan.environment, *own.items(), *script.environment)),
        limits=limits,
    )
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as complaints:
        given.write(stdin)
        given.seek(0)
        ending = await runner(made, given.fileno(), output, complaints.fileno())
        said = os.pread(complaints.fileno(), MOST_COMPLAINT, 0).decode(errors="replace")
    return Said(ending.code, shown_lines(said), ending.stopped_by)


def _merged(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(dict(pairs).items())


def shown_lines(text: str) -> str:
    return "\n".join(shown(line) for line in text.splitlines()).strip()


def failed(what: str, subject: object, said: Said, hint: str) -> AgsError:
    cause = said.stopped_by or said.complaints or f"git ended with {said.code} and no message"
    return AgsError(what, subject=subject, cause=cause, hint=hint)
