"""Frozen dataclasses as JSON files: read strictly, replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any, TypeAlias, TypeVar

from ags.errors import AgsError

T = TypeVar("T")
Hint: TypeAlias = Any
"""What an annotation says: a class, `X | None`, `tuple[X, ...]` or a Literal."""
Reader: TypeAlias = Callable[[object, str], object]
"""Takes what JSON has and the place it is at, for the error."""

MOST = 8 << 20
"""No record of ours comes near this; a file beyond it is something else."""


def encode(value: object) -> bytes:
    """ASCII only: paths and goals may hold bytes that are no text, and come back as they were."""
    return json.dumps(_plain(value), indent=1, allow_nan=False).encode("ascii") + b"\n"


def decode(kind: type[T], data: bytes) -> T:
    """The value that `encode` wrote; ValueError says where it is not one."""
    try:
        made = _reader(typing.cast(Hint, kind))(json.loads(data, parse_constant=_no_number), "")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return typing.cast(T, made)


def read_file(path: Path) -> tuple[bytes, os.stat_result]:
    """What is in it, and the facts of the very file that was read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        data = file.read(MOST + 1)
        if len(data) > MOST:
            raise ValueError(f"it is larger than {MOST >> 20} MiB")
        return data, os.fstat(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Readers see the old content or the new, after a crash too. One writer at a time, please."""
    new = path.with_name(f"{path.name}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise write_error("write", path, error) from error


def private_folder(folder: Path) -> None:
    """Nobody else's to look into, and the same with those that have to be made above it: `mkdir`
    gives its mode to the last one only."""
    if not folder.parent.exists():
        private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def sync_directory(path: Path) -> None:
    """A rename is on the disk once the folder it happened in is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_error(what: str, path: Path, error: OSError) -> AgsError:
    cause = (error.strerror or str(error)).lower()
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = (
        "make room on that disk, then try again; nothing was lost"
        if full
        else "see that it can be written, then try again"
    )
    return AgsError(what, subject=path, cause=cause, hint=hint)


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, PurePath) else value


@functools.cache
def _reader(kind: Hint) -> Reader:
    """How JSON becomes a value of that type: worked out once, as a thousand runs may be read."""
    origin: object = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _optional(*(each for each in typing.get_args(kind) if each is not types.NoneType))
    if origin is typing.Literal:
        return _choice(typing.get_args(kind))
    if origin is tuple:
        return _sequence(typing.get_args(kind)[0])
    if is_dataclass(kind):
        return _record(kind)
    if issubclass(kind, PurePath):
        return lambda value, where: kind(_reader(str)(value, where))
    return _scalar(kind)


def _optional(kind: Hint) -> Reader:
    read = _reader(kind)
    return lambda value, where: None if value is None else read(value, where)


def _choice(allowed: tuple[object, ...]) -> Reader:
    def read(value: object, where: str) -> object:
        if value not in allowed:
            raise _wrong(where, value, "one of " + ", ".join(map(str, allowed)))
        return value

    return read


def _sequence(kind: Hint) -> Reader:
    each = _reader(kind)

    def read(value: object, where: str) -> object:
        if not isinstance(value, list):
            raise _wrong(where, value, "a list")
        return tuple(each(element, f"{where}[{n}]") for n, element in enumerate(value))

    return read


def _record(kind: Hint) -> Reader:
    readers = {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}
    optional = {e.name for e in fields(kind) if not e.default is e.default_factory is MISSING}

    def read(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        if unknown := value.keys() - readers.keys():
            raise ValueError(f"{_joined(where, min(unknown))} is not known")
        if missing := readers.keys() - value.keys() - optional:
            raise ValueError(f"{_joined(where, min(missing))} is missing")
        return kind(**{n: readers[n](each, _joined(where, n)) for n, each in value.items()})

    return read


def _scalar(kind: type) -> Reader:
    def read(value: object, where: str) -> object:
        if type(value) is kind:  # not isinstance: True is no number here
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _wrong(where, value, f"of type {kind.__name__}")

    return read


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _wrong(where: str, value: object, expected: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"{where or 'it'} is {shown[:60]}, not {expected}")


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")
