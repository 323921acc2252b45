"""For `ags doctor`: whether a fence can be raised here, and whether policy and secrets are sound.

Nothing is asked that could make a keyring or a password manager ask the person.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path

from ags import proc, secrets
from ags.config import load
from ags.config.schema import SecretConfig
from ags.egress import layers, tools
from ags.egress.wiring import FOLDER, source_of
from ags.errors import AgsError, ConfigError
from ags.frozen import frozen
from ags.kernel import netns
from ags.model import Finding
from ags.secrets import FromCommand, FromStore, Store

SECTION = "network"
TIMEOUT = 20.0


@frozen
class Where:
    """What is looked at, and whose it is."""

    bwrap: str
    environ: Mapping[str, str]
    home: Path
    state: Path
    settings: Path
    """The person's config.toml, or the one they named."""


async def network(where: Where) -> tuple[Finding, ...]:
    return (
        await fence(where.bwrap),
        await asyncio.to_thread(roots, where.environ),
        *await policy(where),
        *await kept(where),
    )


async def fence(bwrap: str) -> Finding:
    """Tried for real: sockets are opened in the network of a sandbox, and let go."""
    if not bwrap:
        return Finding(SECTION, "fence", "unknown", "there is no bwrap to try it with")
    try:
        async with asyncio.timeout(TIMEOUT):
            await _raised(bwrap)
    except (AgsError, OSError, ValueError, KeyError, TimeoutError) as error:
        cause = error.cause if isinstance(error, AgsError) else str(error) or "it takes too long"
        repair = "repair what says FAIL above; until then `--no-network` goes without a network"
        return Finding(SECTION, "fence", "fail", f"cannot be raised: {cause}", repair)
    told = "the network of a sandbox can be joined, and led to us"
    return Finding(SECTION, "fence", "ok", told)


async def _raised(bwrap: str) -> None:
    with contextlib.ExitStack() as held:
        info, told = _pipe(held)
        waits = _pipe(held)[0]
        walls = ("--unshare-user", "--unshare-net", "--die-with-parent", "--ro-bind", "/", "/")
        command = (bwrap, *walls, "--info-fd", "3", "--", "/bin/sh", "-c", "read line")
        child = proc.spawn(command, env={}, descriptors={0: waits.fileno(), 3: told.fileno()})
        told.close()  # so that the end of what bwrap tells is seen
        try:
            init = json.loads(await _told(info))["child-pid"]
            wanted = netns.Wanted(ports=(443,), spares=1)
            (await netns.open_sockets(init, wanted)).close()
        finally:
            child.kill_group()
            await child.wait()


def _pipe(held: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return held.enter_context(FileIO(reading)), held.enter_context(FileIO(writing, "w"))


async def _told(info: FileIO) -> bytes:
    """It comes in pieces."""
    whole = b""
    while True:
        await proc.readable(info.fileno())
        piece = os.read(info.fileno(), 4096)
        if not piece:
            return whole
        whole += piece


def roots(environ: Mapping[str, str]) -> Finding:
    """Whom the fence believes when it ends TLS itself."""
    from ags.egress import tls  # it loads much

    try:
        found = tls.system_roots(environ)
    except AgsError as error:
        text = (
            f"none can be read ({error.cause}): hosts with a secret or a method cannot be reached"
        )
        repair = error.hint or "name a file of them in SSL_CERT_FILE"
        return Finding(SECTION, "trusted CAs", "warn", text, repair)
    return Finding(SECTION, "trusted CAs", "ok", f"{len(found)} of this system's")


async def policy(where: Where) -> tuple[Finding, ...]:
    """Without a sound one no run starts, so a mistake in it is a failure."""
    file = layers.policy_file(where.environ, where.home)
    if not _is_there(file):
        return (Finding(SECTION, "policy", "ok", f"{file} is not there: only what is built in"),)
    apart = tools.written_here(where.state)
    try:
        found = await layers.whole("", file, None, (), where.environ, where.home, apart=apart)
    except ConfigError as error:
        repair = f"{error.hint or 'correct it'}; until then no run starts without `--policy FILE`"
        text = f"{error.subject}: {_unquoted(error.cause)}"
        return (Finding(SECTION, "policy", "fail", text, repair),)
    return (Finding(SECTION, "policy", "ok", str(file)), *_empty(layers.pending(found.policy)))


def _is_there(file: Path) -> bool:
    """A link that leads nowhere is: it cannot be read, which is to be told."""
    return os.path.lexists(file)


def _empty(names: Iterable[str]) -> Iterator[Finding]:
    for name in dict.fromkeys(names):
        text = f"{name} opens nothing: neither your settings of it nor the tool itself name a host"
        repair = f"install {name}, or name its host in its own settings"
        yield Finding(SECTION, "policy", "warn", text, repair)


def _unquoted(cause: str) -> str:
    # A quoted value may be a secret on the wrong line; the verb that reads it shows it, not we.
    return re.sub(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", "…", cause)


async def kept(where: Where) -> tuple[Finding, ...]:
    """Secrets of the settings, by name alone. A file with a mistake is told of elsewhere."""
    configured: tuple[SecretConfig, ...] = ()
    try:
        if _is_there(where.settings):
            text = load.read(where.settings)
            configured = load.parse(text, where.settings, where.home).secrets
    except ConfigError:
        return ()
    store = secrets.store(where.state / FOLDER, where.environ)
    found = [await _trouble(each, where.environ, store) for each in configured]
    if wrong := tuple(each for each in found if each is not None):
        return wrong
    told = f"{len(found)} can be had" if found else "none in your settings"
    return (Finding(SECTION, "secrets", "ok", told),)


async def _trouble(
    config: SecretConfig, environ: Mapping[str, str], store: Store
) -> Finding | None:
    try:
        await _looked_at(config, environ, store)
    except (AgsError, OSError) as error:
        cause = error.cause if isinstance(error, AgsError) else (error.strerror or "").lower()
        repair = getattr(error, "hint", "") or "no run that has it starts until then"
        # A variable may be set in the shell that starts the run, and not in this one.
        text = f"{config.name}: {cause}"
        return Finding(SECTION, "secrets", "warn" if config.from_env else "fail", text, repair)
    return None


async def _looked_at(config: SecretConfig, environ: Mapping[str, str], store: Store) -> None:
    source = source_of(config)
    if isinstance(source, FromCommand):
        program = source.argv[0]
        if not (os.access(program, os.X_OK) if "/" in program else proc.find(program)):
            cause, hint = "there is no such program", "write its whole path, from the root on"
            raise AgsError("get the secret", subject=program, cause=cause, hint=hint)
    elif isinstance(source, FromStore) and dict(store.list()).get(source.name) == "keyring":
        return
    else:
        await secrets.get(source, environ, store)
