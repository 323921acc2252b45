"""Which secrets a run has, and where each may go: from the settings, and from the agent's own keys.

Inside, a variable holds a placeholder. The value stays out here, unless the person chose
`deliver = "env"`, which is a weakening that the run carries.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ags import clients, records, secrets
from ags.config.schema import SecretConfig
from ags.egress import inject
from ags.egress.desk import Desk
from ags.egress.inject import Injection, Placeholder
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Weakening
from ags.secrets import FromCommand, FromEnvironment, FromFile, FromStore, Secret, Source

KEY_FILE = "placeholder.key"
KEY_BYTES = 32
FOLDER = clients.SECRETS
"""Below AGS_HOME, what `ags secret` keeps for the person's own runs; `clients.secrets` for all."""


@frozen
class Key:
    """A variable that an agent takes its key from, and how the key travels."""

    variable: str
    host: str
    header: str
    template: str


_ANTHROPIC = Key("ANTHROPIC_API_KEY", "api.anthropic.com", "x-api-key", "{}")
_OPENAI = Key("OPENAI_API_KEY", "api.openai.com", "authorization", "Bearer {}")
_GEMINI = Key("GEMINI_API_KEY", "generativelanguage.googleapis.com", "x-goog-api-key", "{}")

AGENT_KEYS: dict[str, tuple[Key, ...]] = {
    "claude": (
        _ANTHROPIC,
        Key("ANTHROPIC_AUTH_TOKEN", "api.anthropic.com", "authorization", "Bearer {}"),
        Key("CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com", "authorization", "Bearer {}"),
    ),
    "codex": (Key("CODEX_API_KEY", "api.openai.com", "authorization", "Bearer {}"), _OPENAI),
    "gemini": (_GEMINI,),
    "opencode": (_ANTHROPIC, _OPENAI, _GEMINI),
    "pi": (_ANTHROPIC, _OPENAI, _GEMINI),
}


@frozen
class Wiring:
    """The secrets of one run."""

    injections: tuple[Injection, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """Variables inside that hold a placeholder."""
    exposed: tuple[tuple[str, Secret], ...] = ()
    """Variables inside that hold the value itself."""
    weakenings: tuple[Weakening, ...] = ()
    values: tuple[tuple[str, Secret], ...] = ()
    """By the secret's id, for the fence alone."""
    left_out: tuple[str, ...] = ()
    """Secrets of the person's settings that are not this client's."""
    desk: Desk | None = None
    """The agent's log-in, where it is held outside."""

    @property
    def hosts(self) -> frozenset[tuple[str, int]]:
        """Whose TLS the fence has to end: `Policy.secrets`."""
        own = frozenset((each.host, each.port) for each in self.injections)
        return own | (self.desk.hosts if self.desk else frozenset())

    def inside(self) -> dict[str, str]:
        """All that is set inside. With an exposed one in it, it must not be logged or stored."""
        return dict(self.environment) | {name: value.reveal() for name, value in self.exposed}

    def lookup(self, secret_id: str) -> str | None:
        """For the fence, as `inject.Lookup`."""
        found = dict(self.values).get(secret_id)
        return found.reveal() if found else None


async def wire(
    configured: Iterable[SecretConfig],
    agent: str,
    environ: Mapping[str, str],
    ags_home: Path,
    client: str = "",
    *,
    own_settings: bool = False,
    others: Iterable[str] = (),
) -> Wiring:
    """Read every secret this run may need. One that cannot be had is an error.

    What the settings say of a variable goes before what is known of the agent. A client has what
    was kept for it, what is exported, and all of settings that were named for the run or are its
    own (`own_settings`). From the person's, files and commands are not for clients. `others` are
    agents that this one has at hand, with their keys.
    """
    configured = tuple(configured)
    store = secrets.store(clients.secrets(ags_home, client), environ, client)
    kept = frozenset(name for name, _ in store.list())
    shared = bool(client) and not own_settings
    used = [each for each in configured if not shared or _is_for_clients(each, kept)]
    known = tuple(dict.fromkeys(key for name in (agent, *others) for key in keys_of(name)))
    keys = _keys(known, configured, used, kept, environ, client)
    left_out = tuple(each.name for each in configured if each not in used)
    if not used and not keys:
        return Wiring(left_out=left_out)
    found = [(each, await secrets.get(source_of(each), environ, store)) for each in used]
    own = [(_as_config(key), await secrets.get(source, environ, store)) for key, source in keys]
    made = _wired([(each.name, each, value) for each, value in found], own, ags_home, client)
    return replace(made, left_out=left_out)


def _is_for_clients(config: SecretConfig, kept: frozenset[str]) -> bool:
    match source_of(config):
        case FromStore(name):
            return name in kept
        case FromEnvironment():
            return True  # exported for this very call
        case _:
            return False


def keys_of(agent: str) -> tuple[Key, ...]:
    return AGENT_KEYS.get(agent, ())


def _keys(
    known: tuple[Key, ...],
    configured: Iterable[SecretConfig],
    used: Iterable[SecretConfig],
    kept: frozenset[str],
    environ: Mapping[str, str],
    client: str,
) -> list[tuple[Key, Source]]:
    """The agents' own keys that there are, and where each comes from.

    A client's own go before what is exported: its work must not be done in another's name.
    """
    # One that is left out is exported for the host that the settings name, and for no other.
    named, wired = {each.env for each in configured}, {each.env for each in used}
    stored: list[tuple[Key, Source]] = [
        (key, FromStore(key.variable))
        for key in known
        if key.variable in kept and key.variable not in wired
    ]
    exported: list[tuple[Key, Source]] = [
        (key, FromEnvironment(key.variable))
        for key in known
        if environ.get(key.variable) and key.variable not in named
    ]
    first, second = (stored, exported) if client else (exported, stored)
    hosts = {key.host for key, _ in first}
    return [*first, *(each for each in second if each[0].host not in hosts)]


def renewed(old: Wiring, new: Wiring) -> tuple[Wiring, tuple[str, ...]]:
    """The new values for what is inside already, and what they cannot change there.

    Whoever runs inside keeps the placeholders it was given. One whose secret is gone is still known
    and looked for where the secret went, to be refused there with the reason.
    """
    kept = {each.secret_id for each in old.placeholders}
    there = {each.secret_id for each in new.injections}
    gone = tuple(each for each in old.injections if each.secret_id not in there)
    added = tuple(each for each in new.placeholders if each.secret_id not in kept)
    notes = tuple(f"the secret {each.secret_id} is new: for runs from now on" for each in added)
    if [name for name, _ in old.exposed] != [name for name, _ in new.exposed] or any(
        value != dict(old.exposed)[name] for name, value in new.exposed
    ):
        notes += ('secrets with `deliver = "env"` stay as the run was given them',)
    made = replace(
        new,
        injections=(*new.injections, *gone),
        placeholders=(*old.placeholders, *added),
        environment=old.environment,
        exposed=old.exposed,
        weakenings=old.weakenings,
        desk=old.desk,
    )
    return made, notes


def source_of(config: SecretConfig) -> Source:
    """Where its value comes from."""
    if config.from_env is not None:
        return FromEnvironment(config.from_env)
    if config.from_file is not None:
        return FromFile(config.from_file)
    if config.command:
        return FromCommand(config.command)
    return FromStore(config.secret_store or config.name)


def _as_config(key: Key) -> SecretConfig:
    return SecretConfig(
        key.variable, key.variable, host=key.host, header=key.header, template=key.template
    )


def _wired(
    found: list[tuple[str, SecretConfig, Secret]],
    own: list[tuple[SecretConfig, Secret]],
    ags_home: Path,
    client: str,
) -> Wiring:
    # A name has no colon, so an agent's key is never taken for a secret of the settings.
    everything = [*found, *((f"env:{config.name}", config, value) for config, value in own)]
    wired = [each for each in everything if each[1].deliver == "wire"]
    exposed = [each for each in everything if each[1].deliver == "env"]
    key = placeholder_key(ags_home) if wired else b""
    stands = [
        inject.placeholder(name, value.reveal(), client=client, key=key) for name, _, value in wired
    ]
    return Wiring(
        tuple(_injection(name, config) for name, config, _ in wired),
        tuple(stands),
        tuple((each[1].env, stand.text) for each, stand in zip(wired, stands, strict=True)),
        tuple((config.env, value) for _, config, value in exposed),
        tuple(_weakening(config) for _, config, _ in exposed),
        tuple((name, value) for name, _, value in wired),
    )


def _injection(secret_id: str, config: SecretConfig) -> Injection:
    assert config.host is not None  # the settings' reader has seen to it
    return Injection(secret_id, config.host, config.port, "tls", config.header, config.sent_as)


def _weakening(config: SecretConfig) -> Weakening:
    return Weakening("secret inside", f"the value of {config.name} is in {config.env}")


def placeholder_key(ags_home: Path) -> bytes:
    """What placeholders are made with: 32 random bytes, made once."""
    path = ags_home / KEY_FILE
    try:
        if not os.path.lexists(path):
            _make_key(path)
        data, facts = records.read_file(path)
    except OSError as error:
        raise records.write_error("make placeholders for secrets", path, error) from error
    cause = ""
    if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & 0o077:
        cause = "others may use it"
    elif len(data) != KEY_BYTES:
        cause = f"it does not have {KEY_BYTES} bytes"
    if cause:
        hint = f"remove {path}; a new one is made, and all placeholders change"
        raise AgsError("make placeholders for secrets", subject=path, cause=cause, hint=hint)
    return data


def _make_key(path: Path) -> None:
    records.private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600), "wb") as file:
        try:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
            # Of two that make it at once, the first one's stands.
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
