"""Frozen values that cost next to nothing to define.

`@dataclass(frozen=True)` writes and compiles half a dozen methods for each class; for all of ours
together that takes longer than bwrap to build a sandbox. Values share these methods instead. They
are dataclasses in all else: `replace`, `fields` and `match` work.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """A class whose annotated names are all it holds, given once."""
    for name, method in _METHODS.items():
        setattr(cls, name, method)
    return dataclasses.dataclass(init=False, repr=False, eq=False)(cls)


def _init(self: Any, *given: object, **named: object) -> None:
    names = self.__match_args__
    if len(given) == len(names) and not named:
        self.__dict__.update(zip(names, given, strict=True))
        return
    if len(given) > len(names):
        raise TypeError(f"{type(self).__name__} takes {len(names)} values, not {len(given)}")
    values = dict(zip(names, given, strict=False))
    for name in names[len(given) :]:
        try:
            values[name] = named.pop(name) if name in named else getattr(type(self), name)
        except AttributeError:
            raise TypeError(f"{type(self).__name__} lacks {name}") from None
    if named:
        raise TypeError(f"{type(self).__name__} has no {', '.join(named)}, or was given it twice")
    self.__dict__.update(values)


def _values(self: Any) -> tuple[object, ...]:
    held = self.__dict__
    return tuple([held[name] for name in self.__match_args__])


def _repr(self: Any) -> str:
    pairs = zip(self.__match_args__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{n}={v!r}' for n, v in pairs)})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _refuse(self: Any, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {name} of a {type(self).__name__}")


_METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": lambda self: hash(_values(self)),
    "__setattr__": _refuse,
    "__delattr__": _refuse,
}
