"""Clients: whose work a run is, and where what is kept of each of them lies. They never meet.

Without a client it is the person's own work. That is called `default`, and has no name inside.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ags.config import trust
from ags.config.load import FILE_NAME as SETTINGS_FILE
from ags.config.load import settings_folder
from ags.errors import AgsError, Unfit
from ags.frozen import frozen
from ags.places import Place
from ags.secrets import Store, store

OWN = "default"
NAME = r"[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?"
DATA = "AGENT_SANDBOX_DATA"
HOMES, SECRETS, LOGINS = "homes", "secrets", "logins"
SETTINGS = "clients"
"""Beside the person's own settings, a folder for each."""
POLICY_FILE = "policy.yaml"


def checked_name(name: str) -> str:
    """Names become folders, so they are plain. Empty for the person's own work."""
    if not re.fullmatch(NAME, name):
        raise Unfit(
            "use this name for a client",
            subject=ascii(name)[:60],
            cause="it is not a name for a client",
            hint="up to 48 of a-z, 0-9 and -, a letter or digit at both ends: acme",
        )
    return "" if name == OWN else name


def data(ags_home: Path, environ: Mapping[str, str]) -> Path:
    """What homes are kept below: $AGENT_SANDBOX_DATA, or the state folder."""
    given = environ.get(DATA)
    if not given:
        return ags_home
    if not Path(given).is_absolute():
        raise AgsError(
            "find the folder for clients",
            subject=given,
            cause=f"{DATA} is not an absolute path",
            hint=f"set {DATA} to a folder of yours, from the root on, or unset it",
        )
    return Path(given)


def homes(ags_home: Path, client: str, environ: Mapping[str, str]) -> Path:
    """With a folder for each agent."""
    return data(ags_home, environ) / HOMES / (_plain(client) or OWN)


def secrets(ags_home: Path, client: str) -> Path:
    # Beside the person's own, which are files with a dot in their names: a client has none.
    return ags_home / SECRETS / _plain(client)


def logins(ags_home: Path, client: str) -> Path:
    return ags_home / LOGINS / _plain(client)


def settings(environ: Mapping[str, str], home: Path, client: str) -> Path:
    return settings_folder(environ, home) / SETTINGS / _plain(client)


def settings_file(environ: Mapping[str, str], home: Path, client: str) -> Path | None:
    """The client's own settings, which take the place of the person's. None: there are none."""
    if not client:
        return None
    file = settings(environ, home, client) / SETTINGS_FILE
    # A link that leads nowhere is a file that cannot be read, not one that nobody wrote.
    return file if os.path.lexists(file) else None


def policy_file(environ: Mapping[str, str], home: Path, client: str) -> Path | None:
    """The client's own policy, on top of the person's; whether or not it is there."""
    return settings(environ, home, client) / POLICY_FILE if client else None


def _plain(client: str) -> str:
    """Once more, where it becomes a path: a record may have been edited by hand."""
    return checked_name(client) if client else ""


def check_apart(ags_home: Path, environ: Mapping[str, str], folders: Iterable[Path]) -> None:
    """Refuse a folder that a run would see, and that shows it the homes of all clients."""
    kept = data(ags_home, environ)
    if kept == ags_home:
        return  # which no sandbox may be handed anyway
    place = Place(str(kept))
    for folder in folders:
        chain = _identities(Path(os.path.realpath(folder)))
        name = os.path.realpath(folder)
        if place.is_in(name, chain[0]) or place.holds(name, set(chain)):
            cause = f"it is, contains or lies in {kept}, which has the homes of all clients"
            hint = f"choose another folder, or another {DATA}"
            raise AgsError("show this to a run", subject=folder, cause=cause, hint=hint)


def _identities(path: Path) -> list[tuple[int, int] | None]:
    """Of the folder and of those above it but the root, by whatever name."""
    return [_identity(each) for each in (path, *path.parents) if str(each) != "/"] or [None]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


@frozen
class Kept:
    """All that is kept of one client, but for the records of its runs."""

    name: str
    homes: tuple[Path, ...] = ()
    """One for each agent."""
    secrets: Path | None = None
    logins: Path | None = None
    settings: tuple[Path, ...] = ()
    """Its settings and its policy."""
    approved: tuple[Path, ...] = ()
    """Projects whose own settings for agents were approved for this client."""

    def __bool__(self) -> bool:
        return any((self.homes, self.secrets, self.logins, self.settings, self.approved))


class Cabinet:
    """What is kept of clients, for whoever lists or removes them."""

    def __init__(self, ags_home: Path, environ: Mapping[str, str], home: Path) -> None:
        self._ags_home, self._environ, self._home = ags_home, environ, home

    def names(self, of_runs: Iterable[str] = ()) -> tuple[str, ...]:
        """Every client of which there is anything, `of_runs` included."""
        folders = (
            data(self._ags_home, self._environ) / HOMES,
            self._ags_home / SECRETS,
            self._ags_home / LOGINS,
            settings_folder(self._environ, self._home) / SETTINGS,
        )
        found = {name for folder in folders for name in _folders(folder)}
        return tuple(sorted((found | self._approved().keys() | set(of_runs)) - {"", OWN}))

    def kept(self, name: str, agents: Iterable[str]) -> Kept:
        homes_ = homes(self._ags_home, name, self._environ)
        own = settings(self._environ, self._home, name)
        return Kept(
            name,
            homes=tuple(homes_ / each for each in agents if os.path.lexists(homes_ / each)),
            secrets=_there(secrets(self._ags_home, name)),
            logins=_there(logins(self._ags_home, name)),
            settings=tuple(
                own / each for each in (SETTINGS_FILE, POLICY_FILE) if os.path.lexists(own / each)
            ),
            approved=self._approved().get(name, ()),
        )

    def store(self, name: str) -> Store:
        return store(secrets(self._ags_home, name), self._environ, name)

    async def remove(self, kept: Kept) -> tuple[Path, ...]:
        """All of it. Returns folders that stay, with something in them that is not ours."""
        name = checked_name(kept.name)
        if not name:
            raise AgsError("remove the client", subject=kept.name, cause="it is you")
        # First: once the folder is gone, nobody knows what the keyring has.
        for secret, _ in self.store(name).list():
            await self.store(name).remove(secret)
        for project in kept.approved:
            trust.forget(self._ags_home, name, project)
        whole = (*kept.homes, *(each for each in (kept.secrets, kept.logins) if each))
        for place in whole:
            _remove_folder(place)
        for file in kept.settings:
            file.unlink(missing_ok=True)
        emptied = (
            homes(self._ags_home, name, self._environ),
            settings(self._environ, self._home, name),
        )
        return tuple(folder for folder in emptied if not _is_gone_if_empty(folder))

    def _approved(self) -> dict[str, tuple[Path, ...]]:
        try:
            written = json.loads((self._ags_home / trust.FILE).read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            path, cause = self._ags_home / trust.FILE, f"it cannot be read: {error}"
            raise AgsError("see what you approved", subject=path, cause=cause) from error
        found: dict[str, tuple[Path, ...]] = {}
        for key in written:
            name, _, project = key.partition(":")
            if re.fullmatch(NAME, name):
                found[name] = (*found.get(name, ()), Path(project))
        return found


def _folders(place: Path) -> Iterator[str]:
    """Names of clients that have a folder there."""
    try:
        entries = sorted(os.listdir(place))
    except OSError:
        return
    for name in entries:
        if re.fullmatch(NAME, name) and (place / name).is_dir():
            yield name


def _there(path: Path) -> Path | None:
    return path if os.path.lexists(path) else None


def _remove_folder(place: Path) -> None:
    try:
        shutil.rmtree(place)  # which does not follow a link, not even at the top
    except FileNotFoundError:
        return
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        hint = "see what it is, and remove it yourself"
        raise AgsError("remove what a client has", subject=place, cause=cause, hint=hint) from error


def _is_gone_if_empty(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
