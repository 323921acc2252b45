"""Whether an answer has the shape that its type says: a server may be of another version, or no
server of ours at all."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from typing import Any, NotRequired, TypeAlias, TypeVar

T = TypeVar("T")
Hint: TypeAlias = Any
Check: TypeAlias = Callable[[object, str], None]
LATEST = 1e11
"""Of times: the C library takes them only so far."""
LARGEST = 1 << 60


def fit(value: object, shape: type[T]) -> T:
    """The value itself; ValueError says where it is another. What is more than asked for may be."""
    _check(typing.cast(Hint, shape))(value, "")
    return typing.cast(T, value)


@functools.cache
def _check(shape: Hint) -> Check:
    origin: object = typing.get_origin(shape)
    if shape is Any or shape is object:
        return lambda value, where: None
    if typing.is_typeddict(shape):
        return _object(shape)
    if origin is list:
        return _list(typing.get_args(shape)[0])
    if origin is dict:
        return _mapping(typing.get_args(shape)[1])
    if origin is typing.Literal:
        return _choice(typing.get_args(shape))
    if origin in (typing.Union, types.UnionType):
        return _optional(*(each for each in typing.get_args(shape) if each is not types.NoneType))
    return _scalar(shape)


def _object(shape: Hint) -> Check:
    # Not by its __required_keys__: those of annotations that are text are not always right.
    hints = typing.get_type_hints(shape, include_extras=True)
    needed = {name for name, hint in hints.items() if typing.get_origin(hint) is not NotRequired}
    checks = {name: _check(hint) for name, hint in typing.get_type_hints(shape).items()}

    def check(value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, "an object")
        for name, each in checks.items():
            if name in value:
                each(value[name], f"{where}.{name}")
            elif name in needed:
                raise ValueError(f"{where}.{name}".lstrip(".") + " is missing")

    return check


def _list(item: Hint) -> Check:
    each = _check(item)

    def check(value: object, where: str) -> None:
        if not isinstance(value, list):
            raise _wrong(where, "a list")
        for at, found in enumerate(value):
            each(found, f"{where}[{at}]")

    return check


def _mapping(item: Hint) -> Check:
    each = _check(item)

    def check(value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, "an object")
        for name, found in value.items():
            each(found, f"{where}.{name[:40]}")

    return check


def _choice(allowed: tuple[object, ...]) -> Check:
    def check(value: object, where: str) -> None:
        if not isinstance(value, str) or value not in allowed:
            raise _wrong(where, f"one of {', '.join(map(str, allowed))}")

    return check


def _optional(shape: Hint) -> Check:
    each = _check(shape)
    return lambda value, where: None if value is None else each(value, where)


def _scalar(kind: type) -> Check:
    allowed = (int, float) if kind is float else (kind,)
    most = LATEST if kind is float else LARGEST

    def check(value: object, where: str) -> None:
        fits = type(value) in allowed
        # Not finite, it is not less either.
        if not fits or (isinstance(value, int | float) and not abs(value) < most):
            raise _wrong(where, f"a {kind.__name__}")

    return check


def _wrong(where: str, wanted: str) -> ValueError:
    return ValueError(f"{where.lstrip('.') or 'it'} is not {wanted}")
