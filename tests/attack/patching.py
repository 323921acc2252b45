"""How something is taken out: by pytest's own patch in a test, for good in a process of its own."""

from __future__ import annotations

from typing import Any, Protocol


class Patch(Protocol):
    def setattr(self, owner: object, name: str, value: object, /, raising: bool = True) -> None: ...

    def setitem(self, of: dict[str, Any], name: str, value: object, /) -> None: ...


class ForGood:
    """For a process that would take longer to load pytest than for all that it does."""

    def setattr(self, owner: object, name: str, value: object, /, raising: bool = True) -> None:
        assert hasattr(owner, name) or not raising, f"{owner!r} has no {name!r}"
        setattr(owner, name, value)

    def setitem(self, of: dict[str, Any], name: str, value: object, /) -> None:
        of[name] = value
