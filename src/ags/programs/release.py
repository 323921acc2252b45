"""Which version of a package to install. All of it is pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from ags.errors import AgsError
from ags.frozen import frozen

VERSION = r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(?:[-+][0-9A-Za-z.+-]{1,64})?"
WHAT = "choose a version"


@frozen
class Document:
    """What a registry says of a package: when each version was published, and what is latest."""

    package: str
    published: Mapping[str, datetime | None]
    """None where the registry does not say."""
    tags: Mapping[str, str]


@frozen
class Release:
    """One version, and what has to be known of it."""

    version: str
    published: datetime | None
    before: datetime | None
    """What it depends on must have been published before this; None: at any time."""
    note: str = ""
    """What the person should hear of the choice."""


def read(package: str, told: object) -> Document:
    """From the JSON of `npm view`: it comes from elsewhere, so only what is well-formed counts."""
    found = told if isinstance(told, dict) else {}
    times, tags = (_strings(found.get(name)) for name in ("time", "dist-tags"))
    listed = found.get("versions")
    names = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    known = [name for name in names if isinstance(name, str) and re.fullmatch(VERSION, name)]
    return Document(
        package,
        {name: _moment(times.get(name, "")) for name in known},
        {tag: version for tag, version in tags.items() if version in known},
    )


def _strings(found: object) -> dict[str, str]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}


def _moment(written: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def choose(document: Document, wanted: str, age: float | None, now: datetime) -> Release:
    """The one that is asked for; else the newest up to `latest` that has been out for `age`."""
    cut = None if age is None else now - timedelta(seconds=age)
    if wanted:
        return _asked_for(document, wanted, cut, now)
    latest = document.tags.get("latest")
    if latest is None:
        raise _refused(document, "the registry names no latest version", "choose one by --version")
    if _is_out(document, latest, cut):
        return Release(latest, document.published[latest], cut)
    known = [name for name in document.published if _is_plain(name)]
    fitting = [name for name in known if _order(name) <= _order(latest)]
    old = [name for name in fitting if _is_out(document, name, cut)]
    if not old:
        cause = f"no version is known to have been out for {_span(age or 0)}"
        hint = f"`--version {latest}` takes the latest; [update] minimum_release_age is the rule"
        raise _refused(document, cause, hint)
    found = max(old, key=_order)
    return Release(found, document.published[found], cut, _youth(document, latest, now))


def _asked_for(document: Document, wanted: str, cut: datetime | None, now: datetime) -> Release:
    version = document.tags.get(wanted, wanted)
    if not re.fullmatch(VERSION, version):
        raise _refused(document, f"{wanted!r} is not a version like 1.2.3", "")
    if version not in document.published:
        newest = document.tags.get("latest")
        hint = f"the latest is {newest}" if newest else ""
        raise _refused(document, f"there is no version {version}", hint)
    at = document.published[version]
    if _is_out(document, version, cut):
        return Release(version, at, cut)
    # What it depends on is often as new: its parts for this machine are published with it.
    return Release(version, at, None, f"{_youth(document, version, now)}; taken as asked for")


def _is_out(document: Document, version: str, cut: datetime | None) -> bool:
    at = document.published[version]
    return cut is None or (at is not None and at <= cut)


def _youth(document: Document, version: str, now: datetime) -> str:
    at = document.published[version]
    if at is None:
        return f"the registry does not say since when {version} is out"
    return f"{version} has been out for {_span((now - at).total_seconds())} only"


def _is_plain(version: str) -> bool:
    return re.fullmatch(r"[0-9.]+", version) is not None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.split(r"[-+]", version)[0].split("."))


def _span(given: float) -> str:
    seconds = max(0, int(given))
    for unit, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            count = seconds // unit
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{seconds} s"


def _refused(document: Document, cause: str, hint: str) -> AgsError:
    return AgsError(WHAT, subject=document.package, cause=cause, hint=hint)
