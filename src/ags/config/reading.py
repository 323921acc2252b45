"""From what TOML holds to what we mean: small readers, each error with its file, line and key."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from ags.config import values
from ags.config.lines import KeyPath, line_of
from ags.config.values import NONE, shown
from ags.errors import AgsError, ConfigError
from ags.frozen import frozen

T = TypeVar("T")

_TYPE_NAMES = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a table"),
)


@frozen
class Place:
    """Where in which file a value was found."""

    file: Path
    text: str
    home: Path
    path: KeyPath = ()

    def below(self, step: str | int) -> Place:
        return replace(self, path=(*self.path, step))

    def error(self, cause: str, hint: str = "") -> ConfigError:
        line = line_of(self.text, self.path)
        return ConfigError(self.file, line, _spelled(self.path), cause, hint)

    def wrong_type(self, wanted: str, value: object, hint: str = "") -> ConfigError:
        # In this order, since true is also an int.
        found = next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "a date")
        return self.error(f"must be {wanted}, not {found}", hint)


def _spelled(path: KeyPath) -> str:
    """`tool[0].env.GOPATH`"""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_key_name(step)}" for step in path)
    return "".join(steps).removeprefix(".")


def _key_name(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key) else shown(key)


Reader = Callable[[Any, Place], Any]


def text(parse: Callable[[str], object]) -> Reader:
    def read(value: object, place: Place) -> object:
        if not isinstance(value, str):
            raise place.wrong_type("text in quotes", value)
        if values.control_character(value):
            raise place.error("has a control character")
        return _judged(lambda: parse(value), place)

    return read


def _judged(parse: Callable[[], T], place: Place) -> T:
    try:
        return parse()
    except AgsError as error:
        raise place.error(error.cause, error.hint) from error


def one_of(names: tuple[str, ...]) -> Reader:
    def parse(written: str) -> str:
        if written not in names:
            known = ", ".join(f'"{name}"' for name in names)
            raise AgsError("use it", cause=f"{shown(written)} is unknown", hint=f"known: {known}")
        return written

    return text(parse)


def host_path(value: object, place: Place) -> Path:
    path: Path = text(lambda written: values.parse_path(written, place.home))(value, place)
    return path


def inner_path(value: object, place: Place) -> PurePosixPath:
    return PurePosixPath(host_path(value, place))


def search_folder(value: object, place: Place) -> PurePosixPath:
    folder = inner_path(value, place)
    if ":" in str(folder):
        raise place.error("has a colon, which cannot be in a folder on PATH")
    return folder


def switch(value: object, place: Place) -> bool:
    if not isinstance(value, bool):
        raise place.wrong_type("true or false", value)
    return value


def count_up_to(most: int) -> Reader:
    def read(value: object, place: Place) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise place.wrong_type("a whole number", value, 'or "none"')
        return _judged(lambda: values.checked_count(value, most), place)

    return read


def processors(value: object, place: Place) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise place.wrong_type("a number", value, 'or "none"')
    return _judged(lambda: values.checked_cpus(value), place)


def or_none(read: Reader) -> Reader:
    return lambda value, place: None if value == NONE else read(value, place)


def each(read: Reader) -> Reader:
    def read_all(value: object, place: Place) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise place.wrong_type("a list", value)
        return tuple(read(item, place.below(index)) for index, item in enumerate(value))

    return read_all


def variables(name: Reader, value: Reader) -> Reader:
    """A table of free keys: environment variables and what they are set to."""

    def read(found: object, place: Place) -> tuple[tuple[Any, Any], ...]:
        if not isinstance(found, dict):
            raise place.wrong_type("a table", found)
        places = {key: place.below(key) for key in found}
        return tuple((name(key, places[key]), value(found[key], places[key])) for key in found)

    return read


def table(cls: type[Any]) -> Reader:
    """A table that has the keys of this dataclass, and no others."""
    keys = {_key(field): field for field in fields(cls) if _annotation(field)}

    def read(value: object, place: Place) -> object:
        if not isinstance(value, dict):
            hint = f"write [{place.path[-1]}], once" if isinstance(value, list) else ""
            raise place.wrong_type("a table", value, hint)
        given = {}
        for key, item in value.items():
            if key not in keys:
                raise place.below(key).error("is unknown", _near_miss(key, tuple(keys)))
            given[keys[key].name] = _annotation(keys[key])[0](item, place.below(key))
        for key, field in keys.items():
            if field.default is MISSING and key not in value:
                raise place.below(key).error("is missing")
        return cls(**given)

    return read


def tables(read: Reader) -> Reader:
    """`[[name]]`, any number of times."""

    def read_all(value: object, place: Place) -> object:
        if isinstance(value, dict):
            header = ".".join(step for step in place.path if isinstance(step, str))
            raise place.wrong_type("a list of tables", value, f"write [[{header}]]")
        return each(read)(value, place)

    return read_all


def _annotation(field: Field[Any]) -> tuple[Any, ...]:
    """`Annotated[type, reader, key]` without the type; the key is there where the names differ."""
    return getattr(field.type, "__metadata__", ())


def _key(field: Field[Any]) -> str:
    return str((*_annotation(field), field.name)[1])


def _near_miss(key: str, known: tuple[str, ...]) -> str:
    import difflib  # only a mistake pays for it

    if near := difflib.get_close_matches(key.lower(), known, n=1):
        return f"did you mean `{near[0]}`?"
    return f"known here: {', '.join(known)}"
