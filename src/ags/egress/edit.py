"""Changing policy.yaml as a person would: a line here or there, and all else as it was.

PyYAML tells where each value stands, and nothing is written back but what was asked for: comments,
order and quotes stay. What comes out is read again before it takes the old file's place, and has to
mean what the old one meant, but for the change.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ags import records
from ags.egress.document import Node, read_document
from ags.egress.load import parse, text_of
from ags.egress.policy import Layer, Rule
from ags.egress.rules import parse_domain, rules_in
from ags.egress.services import service_names
from ags.errors import AgsError
from ags.frozen import frozen
from ags.runs.lock import flock_in_turn

Entry = Rule | str
"""What a line allows: a domain's rule, or a service by its name."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_-]*(?:\.[a-z0-9_-]+)+", re.ASCII)
_BY_HAND = "change the file by hand; `ags policy show` reads it"

PATIENCE = 10.0
"""Seconds to wait for another who is changing a policy of that folder."""

Span = tuple[int, int]


@frozen
class Listed:
    """A list of the document, by where it stands in the text."""

    key_end: int
    flow: bool
    """In brackets."""
    start: int
    """Of the first dash, or of the bracket."""
    items: tuple[Span, ...]


def entry(word: str) -> Entry:
    """A service's name, or a domain as `--allow` takes it."""
    if word in service_names():
        return word
    if "://" in word:
        host = urlsplit(word).netloc.rpartition("@")[2]
        cause, hint = "it is an address of a page", f"`ags policy add {ascii(host)[1:-1][:80]}`"
        raise AgsError("use this domain", subject=ascii(word)[:60], cause=cause, hint=hint)
    if "." not in word and ":" not in word:
        cause = "it is neither a domain nor a service"
        hint = f"services: {', '.join(service_names())}"
        raise AgsError("use this domain", subject=ascii(word)[:60], cause=cause, hint=hint)
    return parse_domain(word, ascii(word)[:80])


def spelled(rule: Rule) -> str:
    """The rule as one line of `domains:`."""
    pairs = [f"host: {_quoted(rule.host)}"]
    if rule.ports != (443, 80) or rule.protocol:  # with a protocol, other ports are the usual ones
        pairs.append(f"ports: [{', '.join(map(str, rule.ports))}]")
    if rule.protocol:
        pairs.append(f"protocol: {rule.protocol}")
    if rule.methods:
        pairs.append(f"methods: [{', '.join(rule.methods)}]")
    if rule.paths:
        pairs.append(f"paths: [{', '.join(map(_quoted, rule.paths))}]")
    return _quoted(rule.host) if len(pairs) == 1 else f"{{{', '.join(pairs)}}}"


def read_rule(text: str) -> Rule:
    """What `spelled` made of a rule, read again."""
    rules = rules_in(read_document(f"- {text}", "the rule"), denial=False)
    if len(rules) != 1:
        raise AgsError("read the rule", subject=ascii(text)[:80], cause="it is not one rule")
    return rules[0]


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def with_entries(text: str, file: Path, home: Path, entries: Sequence[Entry]) -> str:
    """The text with these allowed too; those that are there already change nothing."""
    for each in entries:
        old = _layer(text, file, home)
        if not _has(old, each):
            key = "services" if isinstance(each, str) else "domains"
            line = each if isinstance(each, str) else spelled(each)
            text = _checked(_inserted(text, file, key, line), file, home, _with(old, each))
    return text


def without(text: str, file: Path, home: Path, entries: Sequence[Entry]) -> str:
    """The text without these. A domain without a port goes with all its rules."""
    for each in entries:
        old = _layer(text, file, home)
        gone = frozenset(rule for rule in old.allow if _meant(rule, each))
        listed = each in old.services if isinstance(each, str) else bool(gone)
        if not listed:
            cause = "the file does not list it"
            hint = "`ags policy show` tells where each rule comes from; `deny:` closes any of them"
            raise AgsError("remove it from the policy", subject=each, cause=cause, hint=hint)
        text = _checked(_deleted(text, file, each), file, home, _without(old, each, gone))
    return text


async def rewrite(file: Path, change: Callable[[str], str]) -> tuple[str, str]:
    """Put what `change` makes of the file in its place, whole or not at all; before and after."""
    async with _locked(file.parent):
        before = current(file)
        after = change(before)
        if after != before:
            _replace(file, after)
    return before, after


def _replace(file: Path, text: str) -> None:
    """Of a link, it is the file that changes."""
    records.replace_file(Path(os.path.realpath(file)), text.encode())


def current(file: Path) -> str:
    """What is in it; nothing if nobody wrote it yet."""
    return text_of(file) if os.path.lexists(file) else ""


@contextlib.asynccontextmanager
async def _locked(folder: Path) -> AsyncIterator[None]:
    """Two that add at once must not lose each other's line."""
    try:
        records.private_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise records.write_error("change the policy", folder, error) from error
    try:
        if not await flock_in_turn(descriptor, PATIENCE):
            cause = f"another ags has been changing it for {PATIENCE:g} s"
            hint = "let that one go on, or end it; then try again"
            raise AgsError("change the policy", subject=folder, cause=cause, hint=hint)
        yield
    finally:
        os.close(descriptor)


def _layer(text: str, file: Path, home: Path) -> Layer:
    """What it means now. Nothing yet is a fine place to begin."""
    if read_document(text, file).value is None:
        return Layer("user")
    return parse(text, file, "user", home)


def _has(layer: Layer, each: Entry) -> bool:
    return each in (layer.services if isinstance(each, str) else layer.allow)


def _meant(rule: Rule, each: Entry) -> bool:
    if isinstance(each, str):
        return rule.service == each
    same = not rule.service and rule.host == each.host
    return same and (each.ports == (443, 80) or rule.ports == each.ports)


Meaning = Callable[[Layer], bool]


def _with(old: Layer, each: Entry) -> Meaning:
    def meant(new: Layer) -> bool:
        kept = {rule for rule in new.allow if not (isinstance(each, str) and rule.service == each)}
        wanted = set(old.allow) if isinstance(each, str) else {*old.allow, each}
        return kept == wanted and _has(new, each) and _rest(new, each) == _rest(old, each)

    return meant


def _without(old: Layer, each: Entry, gone: frozenset[Rule]) -> Meaning:
    def meant(new: Layer) -> bool:
        kept = set(new.allow) == set(old.allow) - gone
        return kept and not _has(new, each) and _rest(new, each) == _rest(old, each)

    return meant


def _rest(layer: Layer, each: Entry) -> Layer:
    services = tuple(name for name in layer.services if name != each)
    pending = tuple(pair for pair in layer.pending if pair[0] != each)
    return replace(layer, allow=(), services=services, pending=pending)


def _checked(text: str, file: Path, home: Path, meant: Meaning) -> str:
    with contextlib.suppress(AgsError):
        if meant(parse(text, file, "user", home)):
            return text
    raise _odd(file)


def _odd(file: Path) -> AgsError:
    cause = "it is written in a way that no single line can be changed in"
    return AgsError("change the policy", subject=file, cause=cause, hint=_BY_HAND)


def _inserted(text: str, file: Path, key: str, line: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    listed = _lists(text, file).get(key)
    if listed is None:
        gap = newline if text and not text.endswith("\n") else ""
        return f"{text}{gap}{key}:{newline}  - {line}{newline}"
    end = listed.items[-1][1] if listed.items else listed.start + 1
    if listed.flow:
        comma = ", " if listed.items else ""
        return f"{text[:end]}{comma}{line}{text[end:]}"
    at, gap = _line_end(text, end), ""
    if text[at - 1] != "\n":
        gap = newline
    indent = " " * (listed.start - _line_start(text, listed.start))
    return f"{text[:at]}{gap}{indent}- {line}{newline}{text[at:]}"


def _deleted(text: str, file: Path, each: Entry) -> str:
    key = "services" if isinstance(each, str) else "domains"
    items = read_document(text, file).mapping()[key].items()
    named = [index for index, item in enumerate(items) if _names(item, each, file)]
    for index in reversed(named):
        listed = _lists(text, file)[key]
        start, end = _whole(text, listed, index)
        text = text[:start] + text[end:]
        if len(listed.items) == 1 and not listed.flow:
            # A key without a value would be an error; an empty list is none.
            text = f"{text[: listed.key_end]}: []{text[listed.key_end + 1 :]}"
    return text


def _names(item: Node, each: Entry, file: Path) -> bool:
    """Whether this item is the service, or a rule for the domain."""
    if not isinstance(each, str):
        (rule,) = rules_in(replace(item, value=[item]), denial=False)
        return _meant(rule, each)
    found = (item.value,) if isinstance(item.value, str) else tuple(item.mapping())
    if each in found and len(found) > 1:
        raise _odd(file)
    return each in found


def _whole(text: str, listed: Listed, index: int) -> Span:
    """The item with what belongs to it: its dash and line, or its comma."""
    start, end = listed.items[index]
    if not listed.flow:
        indent = listed.start - _line_start(text, listed.start)
        after = (
            _line_end(text, listed.items[index - 1][1])
            if index
            else _line_start(text, listed.start)
        )
        dash = re.compile(rf"^ {{{indent}}}-(?=\s)", re.MULTILINE).search(text, after)
        return (dash.start() if dash else after), _line_end(text, end)
    if index + 1 < len(listed.items):
        return start, listed.items[index + 1][0]
    return (listed.items[index - 1][1] if index else start), end


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Behind the line break; a value of several lines may end there already."""
    if text[at - 1 : at] == "\n":
        return at
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _lists(text: str, file: Path) -> dict[str, Listed]:
    """The lists at the top of a document that was read without complaint."""
    import yaml  # type: ignore[import-untyped]

    events = iter(yaml.parse(text, Loader=yaml.SafeLoader))
    root = next((event for event in events if isinstance(event, yaml.MappingStartEvent)), None)
    if root is not None and root.flow_style:
        raise _odd(file)
    found: dict[str, Listed] = {}
    for key in events:
        if not isinstance(key, yaml.ScalarEvent):
            break
        value = next(events)
        items = tuple(_items(value, events))
        if isinstance(value, yaml.SequenceStartEvent):
            flow, start = value.flow_style is True, value.start_mark.index
            found[key.value] = Listed(key.end_mark.index, flow, start, items)
    return found


def _items(event: Any, events: Iterator[Any]) -> Iterator[Span]:  # noqa: ANN401
    """Where each value within this one stands, from its first letter to its last."""
    import yaml

    if isinstance(event, yaml.ScalarEvent):
        return
    for inner in events:
        if isinstance(inner, yaml.CollectionEndEvent):
            return
        yield _span(inner, events)


def _span(event: Any, events: Iterator[Any]) -> Span:  # noqa: ANN401
    """Of a block, up to its last letter: PyYAML's own end is where the next thing begins."""
    import yaml

    start = event.start_mark.index
    if isinstance(event, yaml.ScalarEvent):
        return start, event.end_mark.index
    end = start
    for inner in events:
        if isinstance(inner, yaml.CollectionEndEvent):
            return start, inner.end_mark.index if event.flow_style else end
        end = _span(inner, events)[1]
    return start, end
