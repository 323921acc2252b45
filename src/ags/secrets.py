"""Secrets: where they come from and where they are kept. Their values show up nowhere.

A value is held by a `Secret`, which neither prints, compares openly, copies nor serialises it.
Errors of ours are raised without the error that led to them: that one may quote what it read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from ags import proc, records
from ags.errors import AgsError
from ags.frozen import frozen

NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
MOST = 64 << 10
TIMEOUT = 30.0
PROMPT_TIMEOUT = 120.0
"""A keyring may have to ask the person for its password."""

Kept: TypeAlias = Literal["keyring", "file"]


class Secret:
    """A value that only `reveal` gives out."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, theirs = (s._value.encode(errors="surrogatepass") for s in (self, other))
        return hmac.compare_digest(mine, theirs)

    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not copied or stored")


@frozen
class FromEnvironment:
    """A variable of the person's."""

    variable: str


@frozen
class FromFile:
    """A file that nobody else can read."""

    path: Path


@frozen
class FromCommand:
    """What a password manager prints."""

    argv: tuple[str, ...]
    timeout: float = TIMEOUT


@frozen
class FromStore:
    """What `ags secret set` was given."""

    name: str


Source: TypeAlias = FromEnvironment | FromFile | FromCommand | FromStore


def checked_name(name: str) -> str:
    if not re.fullmatch(NAME, name):
        cause = "a name has letters, digits, - and _, starts with a letter, and is at most 64 long"
        raise AgsError("use this name for a secret", subject=ascii(name)[:60], cause=cause)
    return name


async def get(source: Source, environ: Mapping[str, str], store: Store) -> Secret:
    """Read anew each time, so that a changed secret is a changed secret."""
    match source:
        case FromEnvironment(variable):
            return _from_environment(variable, environ)
        case FromFile(path):
            return _from_file(path)
        case FromCommand(argv, timeout):
            return await _from_command(argv, timeout, environ)
        case FromStore(name):
            return await store.get(name)


def _from_environment(variable: str, environ: Mapping[str, str]) -> Secret:
    value = environ.get(variable)
    if not value:
        cause = "the variable is not set" if value is None else "the variable is empty"
        hint = f"set {variable} before you start ags"
        raise AgsError("get the secret", subject=variable, cause=cause, hint=hint)
    return _secret(value, variable)


def _from_file(path: Path) -> Secret:
    try:
        # Non-blocking: a pipe at that place must not keep us waiting for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, (error.strerror or str(error)).lower()) from None
    try:
        _check_private(path, os.fstat(fd))
        with open(fd, "rb", closefd=False) as file:
            content = file.read(4 * MOST + 1)
    finally:
        os.close(fd)
    return _secret(_text(content, path), path)


def _check_private(path: Path, facts: os.stat_result) -> None:
    """Of the very file that was opened, by whatever links it was reached."""
    if not stat.S_ISREG(facts.st_mode):
        raise _unreadable(path, "it is not a file")
    if facts.st_uid not in (0, os.geteuid()):
        raise _unreadable(path, "it belongs to somebody else")
    if facts.st_mode & 0o077:
        mode = stat.S_IMODE(facts.st_mode)
        raise _unreadable(path, f"others may use it (mode {mode:04o})", f"chmod 600 {path}")


def _unreadable(path: Path, cause: str, hint: str = "") -> AgsError:
    return AgsError("get the secret", subject=path, cause=cause, hint=hint)


async def _from_command(
    argv: tuple[str, ...], timeout: float, environ: Mapping[str, str]
) -> Secret:
    if not argv:
        raise AgsError("get the secret", cause="the command is empty")
    program = argv[0] if argv[0].startswith("/") else proc.find(argv[0])
    if program is None:
        cause, hint = "there is no such program", "write its whole path, from the root on"
        raise AgsError("get the secret", subject=argv[0], cause=cause, hint=hint)
    hint = "run the command by hand to see what it says"
    printed = await _output("get the secret", (program, *argv[1:]), argv[0], hint, environ, timeout)
    return _secret(_text(printed, argv[0]), argv[0])


async def _output(
    what: str,
    argv: tuple[str, ...],
    subject: str,
    hint: str,
    environ: Mapping[str, str],
    timeout: float,
    given: bytes = b"",
) -> bytes:
    try:
        found = await proc.run(argv, env=environ, stdin=given, timeout=timeout, most=4 * MOST)
        return found.stdout
    except proc.ProcessError as error:
        cause = _failure(error, timeout)
    # Not within `except`: the error would take the other one along, with all that it quotes.
    raise AgsError(what, subject=subject, cause=cause, hint=hint)


def _failure(error: proc.ProcessError, timeout: float) -> str:
    """Neither its arguments nor what it printed: both may hold the secret."""
    if error.code is not None:
        return f"exit code {error.code}"
    return f"it could not run, printed too much or took more than {timeout:g} s"


def _text(content: bytes, subject: object) -> str:
    # A decoding error would carry the bytes with it.
    text = content.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    if "\ufffd" in text:
        raise AgsError("get the secret", subject=subject, cause="it is not text")
    return text


def _secret(value: str, subject: object) -> Secret:
    """One line of text: anything else would be a second header on the wire."""
    cause = ""
    if not value:
        cause = "it is empty"
    elif len(value) > MOST:
        cause = f"it is longer than {MOST >> 10} KiB"
    elif not value.isprintable():
        cause = "it is not one line of text"
    if cause:
        raise AgsError("get the secret", subject=subject, cause=cause)
    return Secret(value)


class Store:
    """What `ags secret` keeps: in the person's keyring if there is one, else in files of mode 0600.

    For each secret the folder has a file: `NAME.file` with the value, or an empty `NAME.keyring`,
    so that listing needs no keyring to be unlocked. Each client has a folder of its own, which is
    part of the key in the keyring.
    """

    def __init__(
        self, folder: Path, environ: Mapping[str, str], tool: str | None, client: str = ""
    ) -> None:
        self.folder = folder
        self._client = client
        self._environ = environ
        self._tool = tool

    @property
    def keeps_in(self) -> Kept:
        return "keyring" if self._tool else "file"

    async def set(self, name: str, value: str) -> Kept:
        """Store or replace it, and tell where."""
        secret = _secret(value, checked_name(name))
        if self._tool:
            label = ("--label", f"ags: {name}")
            await self._keyring("store", name, label, secret.reveal().encode())
        with self._locked():
            content = b"" if self._tool else secret.reveal().encode()
            records.replace_file(self._path(name, self.keeps_in), content)
            self._path(name, "file" if self._tool else "keyring").unlink(missing_ok=True)
        return self.keeps_in

    async def get(self, name: str) -> Secret:
        if self._where(checked_name(name)) == "file":
            return _from_file(self._path(name, "file"))
        found = await self._keyring("lookup", name)
        return _secret(_text(found, name), name)

    async def remove(self, name: str) -> None:
        if self._where(checked_name(name)) == "keyring":
            await self._keyring("clear", name)
        with self._locked():
            for kept in ("file", "keyring"):
                self._path(name, kept).unlink(missing_ok=True)
            records.sync_directory(self.folder)

    def list(self) -> tuple[tuple[str, Kept], ...]:
        """Names and where they are kept, never values."""
        try:
            found = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return ()
        matches = (re.fullmatch(rf"({NAME})\.(file|keyring)", entry) for entry in found)
        return tuple((m[1], "file" if m[2] == "file" else "keyring") for m in matches if m)

    def _where(self, name: str) -> Kept:
        kept = dict(self.list()).get(name)
        if kept is None:
            cause, whose = "there is no secret of this name", ""
            if self._client:
                cause, whose = f"{self._client} has none of this name", f"--client {self._client} "
            hint = f"`ags secret set {whose}{name}`"
            raise AgsError("find the secret", subject=name, cause=cause, hint=hint)
        return kept

    def _path(self, name: str, kept: Kept) -> Path:
        return self.folder / f"{name}.{kept}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time; nobody waits for the person while holding it."""
        try:
            records.private_folder(self.folder)
            fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise records.write_error("keep the secret", self.folder, error) from error
        try:
            os.fchmod(fd, 0o700)
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    async def _keyring(
        self, verb: str, name: str, options: tuple[str, ...] = (), given: bytes = b""
    ) -> bytes:
        """The value goes in and comes out by pipe: arguments are open to all."""
        if self._tool is None:
            cause, hint = "the keyring cannot be reached from here", "start ags in your session"
            raise AgsError("use the keyring", subject=name, cause=cause, hint=hint)
        attributes = ("service", "ags", "folder", str(self.folder), "name", name)
        argv = (self._tool, verb, *options, *attributes)
        hint = "unlock the keyring, then try again"
        how = (self._environ, PROMPT_TIMEOUT, given)
        return await _output("use the keyring", argv, name, hint, *how)


def store(folder: Path, environ: Mapping[str, str], client: str = "") -> Store:
    """What is kept in this folder. `client` is only told of.

    The keyring needs `secret-tool`, and a session in which somebody can unlock it.
    """
    reachable = bool(environ.get("DBUS_SESSION_BUS_ADDRESS"))
    return Store(folder, environ, proc.find("secret-tool") if reachable else None, client)
