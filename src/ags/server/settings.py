"""Policy, secrets and clients as the page's settings show them. Nothing here is asked of a network,
and no value of a secret is read."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ags import clients, secrets
from ags.agents import AGENTS
from ags.clients import Cabinet
from ags.config.load import load as load_settings
from ags.config.schema import SecretConfig
from ags.control import client as control
from ags.egress import edit, layers
from ags.egress.load import from_flags, parse
from ags.egress.model import Request
from ags.egress.policy import Layer, Policy, Rule, decide
from ags.egress.wiring import AGENT_KEYS
from ags.engine import Engine
from ags.errors import AgsError, ConfigError, Unfit
from ags.frozen import frozen
from ags.runs import FINAL, NEXT, directory
from ags.server.state import State
from ags.store import Filter

PATIENCE = 20.0
"""Seconds for a run to take up a new policy."""
AT_ONCE = 8
ANY_NAME = "ags-any-name"
"""Stands for all the names below a `*.`, where one is needed to judge by."""
KEPT = {"keyring": "your keyring", "file": "a file that only you can read"}


class Stale(AgsError):
    """Somebody else wrote to the file."""


@frozen
class Mistake:
    """Why a policy cannot be read."""

    line: int | None
    what: str
    hint: str


@frozen
class Moved:
    """What became of runs at work when their policy changed."""

    reloaded: tuple[str, ...]
    unmoved: tuple[tuple[str, str], ...]
    """Names, and why."""
    notes: tuple[str, ...]


# The policy's file


def policy_file(state: State, client: str) -> Path:
    own = clients.policy_file(state.environ, state.home, client)
    return own or layers.policy_file(state.environ, state.home)


def policy_text(state: State, client: str) -> dict[str, Any]:
    file = policy_file(state, client)
    return _shown(file, client, edit.current(file))


def _shown(file: Path, client: str, text: str) -> dict[str, Any]:
    return {
        "client": client,
        "file": str(file),
        "there": os.path.lexists(file),
        "text": text,
        "revision": revision(text),
    }


def revision(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def checked(state: State, client: str, text: str) -> Layer | Mistake:
    """What this text would mean. It is read no further than its first mistake."""
    name = "client" if client else "user"
    try:
        return parse(text, policy_file(state, client), name, state.home)
    except ConfigError as error:
        return Mistake(error.line, error.cause, error.hint)


async def save(state: State, client: str, text: str, seen: str) -> tuple[dict[str, Any], bool]:
    """In place of what was seen, or not at all; and whether that is a change."""
    return await change(state, client, lambda _: text, seen)


async def change(
    state: State, client: str, made: Callable[[str], str], seen: str | None
) -> tuple[dict[str, Any], bool]:
    """What is made of the text, if that is still the one that was seen; None: whichever it is."""
    file = policy_file(state, client)

    def unless_stale(before: str) -> str:
        if seen is not None and revision(before) != seen:
            cause = "the file has changed since it was read"
            hint = "look at it as it is now, and change that"
            raise Stale("save the policy", subject=file, cause=cause, hint=hint)
        return made(before)

    before, after = await edit.rewrite(file, unless_stale)
    return _shown(file, client, after), before != after


async def brought(state: State, client: str, *, changed: bool) -> dict[str, Any]:
    """What became of runs at work, which hold to a policy that changed from now on."""
    moved = await _moved(state.engine(), client) if changed else Moved((), (), ())
    unmoved = [{"run": run, "cause": cause} for run, cause in moved.unmoved]
    return {"reloaded": moved.reloaded, "unmoved": unmoved, "notes": moved.notes}


async def _moved(engine: Engine, client: str) -> Moved:
    """Bring the policy as it is now to runs at work: the client's, or all for the person's own."""
    going = tuple(state for state in NEXT if state not in FINAL)
    found = engine.listing(Filter(states=going, client=client or None)).runs
    gate = asyncio.Semaphore(AT_ONCE)
    told = await asyncio.gather(*(_reload(engine, each.id, gate) for each in found))
    pairs = list(zip((each.name for each in found), told, strict=True))
    return Moved(
        tuple(name for name, said in pairs if not isinstance(said, AgsError)),
        tuple((name, said.cause) for name, said in pairs if isinstance(said, AgsError)),
        tuple(
            dict.fromkeys(n for _, said in pairs if not isinstance(said, AgsError) for n in said)
        ),
    )


async def _reload(engine: Engine, id_: str, gate: asyncio.Semaphore) -> AgsError | list[str]:
    async with gate:
        try:
            run_dir = directory(engine.ags_home, id_)
            answer = await control.ask(run_dir, "reload", patience=PATIENCE)
        except AgsError as error:
            return error
    notes = answer.get("notes")
    return [str(note) for note in notes] if isinstance(notes, list) else []


# What a run would reach


def reach(state: State, agent: str, client: str, allow: Sequence[str]) -> dict[str, Any]:
    """As a run of this agent would be judged. Package tools are not asked for their defaults."""
    policy = layers.layers(
        agent,
        user_file=layers.policy_file(state.environ, state.home),
        run_file=None,
        client_file=clients.policy_file(state.environ, state.home, client),
        allow=_domains(allow),
        environ=state.environ,
        home=state.home,
    )
    return {
        "agent": agent,
        "client": client,
        "network": True,
        "ask": policy.ask,
        "rules": [_rule(rule, layer.name) for layer, rule in _open(policy)],
        "deny": [_rule(rule, layer.name) for layer in policy.layers for rule in layer.deny],
        "pending": sorted(set(layers.pending(policy))),
        "host_services": sorted({p for layer in policy.layers for p in layer.host_services}),
    }


def meaning(layer: Layer) -> dict[str, Any]:
    """What one file says, by itself."""
    return {
        "rules": [_rule(rule, layer.name) for rule in layer.allow],
        "deny": [_rule(rule, layer.name) for rule in layer.deny],
        "ask": layer.ask,
        "pending": [name for name, access in layer.pending if access != "none"],
        "upstreams": [
            {"host": each.host, "address": each.address, "port": each.port}
            for each in layer.upstreams
        ],
        "host_services": list(layer.host_services),
    }


def _domains(allow: Sequence[str]) -> Sequence[str]:
    for domain in allow:
        try:
            from_flags((domain,))
        except AgsError as error:
            subject = ascii(domain)[:60]
            raise Unfit(
                "allow this", subject=subject, cause=error.cause, hint=error.hint
            ) from error
    return allow


def _open(policy: Policy) -> Iterator[tuple[Layer, Rule]]:
    """Rules with the ports that no layer denies."""
    for layer in policy.layers:
        for rule in layer.allow:
            ports = tuple(port for port in rule.ports if not _is_denied(policy, rule, port))
            if ports:
                yield layer, replace(rule, ports=ports)


def _is_denied(policy: Policy, rule: Rule, port: int) -> bool:
    host = rule.host.replace("*", ANY_NAME)
    return decide(policy, Request(host, port, rule.scheme(port))).reason == "denied"


def _rule(rule: Rule, layer: str) -> dict[str, Any]:
    return {
        "host": rule.host,
        "ports": list(rule.ports),
        "methods": list(rule.methods),
        "paths": list(rule.paths),
        "layer": layer,
        "service": rule.service,
    }


# Secrets


def secrets_of(state: State, client: str) -> list[dict[str, Any]]:
    """Those of the settings, then those that are kept and that no setting names."""
    file = clients.settings_file(state.environ, state.home, client)
    configured = load_settings(file, state.environ, state.home).secrets
    folder = clients.secrets(state.ags_home, client)
    kept = dict(secrets.store(folder, state.environ, client).list())
    named = [_configured(each, kept) for each in configured]
    used = {each.secret_store for each in configured}
    return [*named, *(_kept(name, kept[name]) for name in kept if name not in used)]


def _configured(one: SecretConfig, kept: dict[str, secrets.Kept]) -> dict[str, Any]:
    return {
        "name": one.name,
        "env": one.env,
        "hosts": [f"{one.host}:{one.port}" if one.port != 443 else one.host] if one.host else [],
        "where": _source(one, kept),
        "kept": kept.get(one.secret_store or ""),
        "weakened": one.deliver == "env",
    }


def _source(one: SecretConfig, kept: dict[str, secrets.Kept]) -> str:
    if one.from_env is not None:
        return f"the variable {one.from_env}"
    if one.from_file is not None:
        return f"the file {one.from_file}"
    if one.command:
        return f"what {one.command[0]} prints"  # its arguments may be nobody's business
    found = kept.get(one.secret_store or "")
    return KEPT[found] if found else f"nothing yet: `ags secret set {one.secret_store}`"


def _kept(name: str, kept: secrets.Kept) -> dict[str, Any]:
    """An agent's own key goes to its maker without a setting."""
    hosts = {key.host for keys in AGENT_KEYS.values() for key in keys if key.variable == name}
    env = name if hosts else None
    told = {"name": name, "env": env, "hosts": sorted(hosts), "where": KEPT[kept]}
    return {**told, "kept": kept, "weakened": False}


# Clients


def clients_of(state: State) -> list[dict[str, Any]]:
    cabinet = Cabinet(state.ags_home, state.environ, state.home)
    found = state.engine().listing().runs
    runs = Counter(each.client for each in found)
    working = Counter(each.client for each in found if each.state not in FINAL)
    return [
        {**_client(cabinet, name), "runs": runs[name], "working": working[name]}
        for name in cabinet.names(runs)
    ]


def _client(cabinet: Cabinet, name: str) -> dict[str, Any]:
    kept = cabinet.kept(name, AGENTS)
    return {
        "name": name,
        "homes": [home.name for home in kept.homes],
        "secrets": [secret for secret, _ in cabinet.store(name).list()],
        "logins": kept.logins is not None,
        "policy": any(file.name == clients.POLICY_FILE for file in kept.settings),
        "settings": _strings(kept.settings),
        "approved": _strings(kept.approved),
    }


def _strings(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]
