"""From where policy is written to the policy of one run: built-in, the person's file, the
client's, flags."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ags.config.load import settings_folder
from ags.egress import registries, tools
from ags.egress.load import FILE_NAME, built_in, from_flags, load
from ags.egress.policy import Layer, Policy, fill, merge
from ags.egress.registries import QUESTIONS, Found
from ags.errors import ConfigError
from ags.frozen import frozen

Hosts = Mapping[str, Found]
"""What a package tool uses, by the tool's name."""


@frozen
class Whole:
    """A policy with nothing left to be found out, and the indexes that package tools use in it."""

    policy: Policy
    indexes: Mapping[str, tuple[str, ...]]


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
    client_file: Path | None = None,
    ask: bool | None = None,
    secrets: Iterable[tuple[str, int]] = (),
    defaults: Hosts | None = None,
    others: Sequence[str] = (),
) -> Policy:
    """What holds for a run of this agent. A file that cannot be read is an error, not a gap.

    Without a file of the person's, the built-in layer stands alone. One that is named for this run
    (`--policy`) takes its place, and must be there. The client's is on top of either, so that what
    it denies holds in all of the client's runs. `defaults` are the hosts of package tools for
    which the person has no settings, by `tools.tool_defaults`. `others` are agents that this one
    has at hand.
    """
    found = (
        built_in(agent, *others),
        *_from_file(user_file, run_file, home),
        *_from_client(client_file, home),
        replace(from_flags(allow), ask=ask),
    )
    return merge([_filled(layer, environ, home, defaults or {}) for layer in found], secrets)


def _from_file(user_file: Path, run_file: Path | None, home: Path) -> tuple[Layer, ...]:
    if run_file is not None:
        return (load(run_file, "run", home),)
    # A link that leads nowhere is a file that cannot be read, not one that nobody wrote.
    return (load(user_file, "user", home),) if os.path.lexists(user_file) else ()


def _from_client(file: Path | None, home: Path) -> tuple[Layer, ...]:
    return (load(file, "client", home),) if file is not None and os.path.lexists(file) else ()


async def whole(
    agent: str,
    user_file: Path,
    run_file: Path | None,
    allow: Sequence[str],
    environ: Mapping[str, str],
    home: Path,
    *,
    apart: Sequence[Path],
    written: Sequence[Path] = (),
    client_file: Path | None = None,
    ask: bool | None = None,
    secrets: Iterable[tuple[str, int]] = (),
    others: Sequence[str] = (),
) -> Whole:
    """As `layers`, with package tools asked for their defaults where they have to be.

    Nothing below the folders `apart`, where agents write, is run for that, and no file is read
    below those that are `written` by this very run.
    """
    for file in (run_file or user_file, client_file):
        if file is not None:
            _refuse_written(file, written, home)

    def made(defaults: Hosts) -> Policy:
        given = (agent, user_file, run_file, allow, environ, home)
        return layers(
            *given,
            client_file=client_file,
            ask=ask,
            secrets=secrets,
            defaults=defaults,
            others=others,
        )

    policy, defaults = made({}), {}
    if missing := pending(policy):
        defaults = await tools.tool_defaults(missing, environ, home, apart)
        policy = made(defaults)
    opened = {rule.service for layer in policy.layers for rule in layer.allow} & QUESTIONS.keys()
    found = {tool: _found(tool, environ, home, defaults).addresses for tool in sorted(opened)}
    return Whole(policy, found)


def _refuse_written(file: Path, folders: Sequence[Path], home: Path) -> None:
    """By whatever links it is reached. A reload would take up what the agent wrote.

    That a run cannot write to the whole home is seen to elsewhere.
    """
    real = Path(os.path.realpath(file))
    for folder in (Path(os.path.realpath(folder)) for folder in folders):
        if folder in real.parents and folder not in (home, *home.parents):
            hint = "keep it outside of the folders that a run can write to"
            error = ConfigError(file, None, "", f"it lies in {folder}, where the run writes", hint)
            error.what = "read the policy"
            raise error


def _filled(layer: Layer, environ: Mapping[str, str], home: Path, defaults: Hosts) -> Layer:
    found = {tool: _found(tool, environ, home, defaults).rules for tool, _ in layer.pending}
    return fill(layer, {tool: rules for tool, rules in found.items() if rules})


def _found(tool: str, environ: Mapping[str, str], home: Path, defaults: Hosts) -> Found:
    own = registries.read_settings(tool, home, environ)
    return own if own.rules else defaults.get(tool, Found())


def pending(policy: Policy) -> tuple[str, ...]:
    """Listed services that no host was found for, so that they open nothing yet."""
    return tuple(name for la in policy.layers for name, access in la.pending if access != "none")
