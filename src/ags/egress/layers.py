"""From where policy is written to the policy of one run: built-in, the person's file, flags."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ags import proc
from ags.config.load import settings_folder
from ags.egress import registries
from ags.egress.load import FILE_NAME, built_in, from_flags, load
from ags.egress.policy import Layer, Policy, Rule, fill, merge
from ags.egress.registries import QUESTIONS

QUESTION_TIMEOUT = 20.0

Hosts = Mapping[str, tuple[Rule, ...]]
"""What a package tool uses, by the tool's name."""


def policy_file(environ: Mapping[str, str], home: Path) -> Path:
    """The person's own."""
    return settings_folder(environ, home) / FILE_NAME


def layers(
    agent: str,
    user_file: Path,
    run_file: Path | None,
    allow: Sequence[str],
    environ: Mapping[str, str],
    home: Path,
    *,
    ask: bool | None = None,
    secrets: Iterable[tuple[str, int]] = (),
    defaults: Hosts | None = None,
) -> Policy:
    """What holds for a run of this agent. A file that cannot be read is an error, not a gap.

    Without a file of the person's, the built-in layer stands alone. One that is named for this run
    (`--policy`) takes its place, and must be there. `defaults` are the hosts of package tools for
    which the person has no settings, by `tool_defaults`.
    """
    found = (
        built_in(agent),
        *_from_file(user_file, run_file, home),
        replace(from_flags(allow), ask=ask),
    )
    return merge([_filled(layer, environ, home, defaults or {}) for layer in found], secrets)


def _from_file(user_file: Path, run_file: Path | None, home: Path) -> tuple[Layer, ...]:
    if run_file is not None:
        return (load(run_file, "run", home),)
    # A link that leads nowhere is a file that cannot be read, not one that nobody wrote.
    return (load(user_file, "user", home),) if os.path.lexists(user_file) else ()


def _filled(layer: Layer, environ: Mapping[str, str], home: Path, defaults: Hosts) -> Layer:
    found: dict[str, tuple[Rule, ...]] = {}
    for tool, _ in layer.pending:
        rules = registries.read_settings(tool, home, environ).rules or defaults.get(tool, ())
        if rules:
            found[tool] = rules
    return fill(layer, found)


def pending(policy: Policy) -> tuple[str, ...]:
    """Listed services that no host was found for, so that they open nothing yet."""
    return tuple(name for la in policy.layers for name, access in la.pending if access != "none")


async def tool_defaults(names: Iterable[str], environ: Mapping[str, str]) -> Hosts:
    """What these tools themselves say their default is. They are asked outside; none is dialled."""
    answers = {name: await _answer(name, environ) for name in names if name in QUESTIONS}
    return {name: rules for name, rules in answers.items() if rules}


async def _answer(tool: str, environ: Mapping[str, str]) -> tuple[Rule, ...]:
    program, *arguments = QUESTIONS[tool]
    path = proc.find(program)
    if path is None:
        return ()
    asked = {"PATH": proc.SYSTEM_PATH, "HOME": environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"}
    try:
        # Not in the caller's folder: settings in a workspace are the agent's to write.
        argv = ("/usr/bin/env", "--chdir=/", path, *arguments)
        printed = await proc.run(argv, env=asked, timeout=QUESTION_TIMEOUT)
    except proc.ProcessError:
        return ()
    return registries.answered(tool, printed.text).rules
