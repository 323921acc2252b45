"""What a server refuses, in its own words; and what keeps us from hearing them."""

from __future__ import annotations

import json

from ags.errors import AgsError, Missing, Unfit

PROBLEM = "application/problem+json"
SORTS: dict[int, type[AgsError]] = {404: Missing, 422: Unfit}


class Refused(AgsError):
    """The server does not do it."""

    def __init__(
        self,
        what: str,
        *,
        status: int,
        subject: object = None,
        cause: str = "",
        hint: str = "",
        files: tuple[str, ...] = (),
        is_for_now: bool = False,
    ) -> None:
        super().__init__(what, subject=subject, cause=cause, hint=hint)
        self.status = status
        self.is_for_now = is_for_now
        """Whether it says to ask again."""
        self.files = files
        """In which of them two sides changed the same."""


class Broken(AgsError):
    """No answer came, or only part of one: the request may have been done, or not."""


class Unreached(Broken):
    """No connection was made, so nothing was asked for."""


def refusal(status: int, media: str, body: bytes, *, is_for_now: bool = False) -> AgsError:
    """What the server says when it says no."""
    said = _problem(body) if media == PROBLEM else {}
    title = _text(said, "title")
    if not title:
        return Refused(
            "use the server",
            cause=f"it answered {status}, and not as a server of AGS does",
            hint="look at the address",
            status=status,
        )
    what = title.removeprefix("Cannot ").removeprefix("cannot ")
    subject, cause, hint = (_text(said, name) for name in ("subject", "detail", "hint"))
    if status in SORTS:
        return SORTS[status](what, subject=subject or None, cause=cause or _faults(said), hint=hint)
    files = said.get("files")
    listed = tuple(map(str, files)) if isinstance(files, list) else ()
    return Refused(
        what,
        status=status,
        subject=subject or None,
        cause=cause,
        hint=hint,
        files=listed,
        is_for_now=is_for_now,
    )


def _faults(said: dict[str, object]) -> str:
    """What is wrong with the values of a request, one by one."""
    found = said.get("errors")
    listed = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return "; ".join(f"{_text(each, 'where')}: {_text(each, 'what')}" for each in listed)


def _problem(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(said: dict[str, object], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""
