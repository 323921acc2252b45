"""A run's events for a person to read, as they come. Nothing an agent says is obeyed here (W6)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ags.egress import reasons
from ags.events import Event
from ags.paint import SIDEWAYS, Paint, changes, cut
from ags.text import one_line, plain

MOST_RESULT, MOST_THOUGHT = 6, 4
"""Lines of a tool's answer, and of a thought, that are shown."""
WIDEST = 300
"""Characters of one line of these."""
# Programs that think they are at a terminal. To see the bare words is all that is wanted of them.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*[mK]")
# What a tool is about, as the agents name it in their calls.
_ABOUT = ("command", "cmd", "file_path", "path", "filePath", "pattern", "query", "url")
OUTCOMES = {
    "once": "allowed once",
    "for": "allowed for a time",
    "always": "allowed always",
    "deny": "denied",
    "time-out": "nobody answered in time",
    "reload": "the policy has changed",
    "gone": "not wanted any more",
}
"""What can become of an ask."""
OVER = {"done": "green", "failed": "red", "stopped": "yellow", "interrupted": "yellow"}


class Stream:
    """Turns events into lines. It remembers the last one, for spacing and for progress bars."""

    def __init__(self, paint: Paint | None = None, width: int = SIDEWAYS) -> None:
        self._paint = paint or Paint()
        self._width = max(width, 40)
        self._last = ""
        self._held: str | None = None
        self._kinds: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
            "message": self._message,
            "thinking": self._thinking,
            "tool_call": self._tool_call,
            "tool_result": self._tool_result,
            "status": self._status,
            "system": self._system,
            "ask": self._ask,
            "egress": self._egress,
            "hook": self._hook,
            "usage": self._usage,
        }

    def render(self, event: Event) -> list[str]:
        """The lines to print, without their ends; none for what the next one prints over."""
        if event.kind == "output":
            lines = self._output(event.fields)
        else:
            render = self._kinds.get(event.kind)
            found = render(event.fields) if render else self._other(event)
            lines = [*self.finish(), *self._space(event.kind), *found]
        self._last = event.kind
        return lines

    def finish(self) -> list[str]:
        """What was held back, when nothing more will come."""
        held, self._held = self._held, None
        return [] if held is None else [held]

    def _space(self, kind: str) -> list[str]:
        talk = ("message", "thinking")
        apart = self._last and (kind in talk or (kind == "tool_call" and self._last in talk))
        return [""] if apart else []

    def _output(self, fields: Mapping[str, Any]) -> list[str]:
        text = _words(fields.get("text"))
        styles = ("yellow",) if fields.get("stream") == "stderr" else ()
        lines = [self._paint(line, *styles) for line in text.split("\n")]
        if not text and self._held is not None:  # nothing was printed over it
            lines = []
        elif text:
            self._held = None
        if fields.get("end") == "\r" and lines:
            self._held = lines.pop()
            return lines
        return [*self.finish(), *lines]

    def _message(self, fields: Mapping[str, Any]) -> Iterator[str]:
        yield from _words(fields.get("text")).strip("\n").split("\n")

    def _thinking(self, fields: Mapping[str, Any]) -> Iterator[str]:
        for line in _shortened(_words(fields.get("text")), MOST_THOUGHT):
            yield self._paint(line, "dim")

    def _tool_call(self, fields: Mapping[str, Any]) -> Iterator[str]:
        tool = cut(one_line(_words(fields.get("tool")).strip() or "tool"), 40)
        about = one_line(" ".join(_about(fields.get("input")).split()))
        room = min(WIDEST, self._width - len(tool) - 4)
        yield f"{self._paint('●', 'cyan')} {self._paint(tool, 'bold')}  {cut(about, room)}".rstrip()

    def _tool_result(self, fields: Mapping[str, Any]) -> Iterator[str]:
        failed = fields.get("ok") is False
        said = _words(fields.get("output", fields.get("text")))
        first, *others = _shortened(said, MOST_RESULT) or ["(nothing)"]
        style = "red" if failed else "dim"
        yield self._paint(f"  {'✗' if failed else '└'} {first}", style)
        for line in others:
            yield self._paint(f"    {line}", style)

    def _status(self, fields: Mapping[str, Any]) -> Iterator[str]:
        state = one_line(_words(fields.get("state")))
        parts = [state]
        if isinstance(code := fields.get("exit_code"), int) and code:
            parts.append(f"exit code {code}")
        if why := fields.get("stopped_by"):
            parts.append(one_line(_words(why)))
        yield self._paint(f"── {', '.join(parts)}", OVER.get(state, "dim"))

    def _system(self, fields: Mapping[str, Any]) -> Iterator[str]:
        text = one_line(_words(fields.get("text")))
        subject = f" ({one_line(_words(fields['subject']))})" if fields.get("subject") else ""
        if told := fields.get("told"):
            yield from (self._paint(f"> {line}", "bold") for line in _words(told).split("\n"))
            return
        error = fields.get("error")
        if isinstance(error, Mapping):
            yield self._paint(f"── {text}{subject}", "red")
            for label, key in (("why", "cause"), ("try", "hint")):
                if error.get(key):
                    inner = _words(error[key]).replace("\n", "\n        ")
                    yield from f"   {label}: {inner}".split("\n")
            return
        sizes = [fields.get(name) for name in ("files", "insertions", "deletions")]
        size = f": {changes(*sizes)}" if all(type(each) is int for each in sizes) else ""  # type: ignore[arg-type]
        branch = f", on {one_line(_words(fields['branch']))}" if fields.get("branch") else ""
        yield self._paint(f"── {text}{subject}{size}{branch}", "dim")

    def _egress(self, fields: Mapping[str, Any]) -> Iterator[str]:
        host, reason = (one_line(_words(fields.get(key))) for key in ("host", "reason"))
        port = f":{fields['port']}" if fields.get("port") not in (None, 443) else ""
        what = " ".join(one_line(_words(fields.get(key))) for key in ("method", "path")).strip()
        told = f"── network: {host}{port}{f' {what}' if what else ''} refused ({reason})"
        yield self._paint(cut(told, WIDEST), "yellow")
        if hint := reasons.hint(reason):
            yield f"   why: {hint}"

    def _hook(self, fields: Mapping[str, Any]) -> Iterator[str]:
        """What is allowed shows as the call itself."""
        if not fields.get("by"):
            return
        told, tool = _words(fields.get("reason")), one_line(_words(fields.get("tool")))
        who = one_line(_words(fields["by"][0] if isinstance(fields["by"], list) else "a hook"))
        verb = "refused" if fields.get("decision") == "deny" else "disliked"
        yield self._paint(cut(f"── {tool} {verb} by {who}: {one_line(told)}", WIDEST), "yellow")

    def _usage(self, fields: Mapping[str, Any]) -> Iterator[str]:
        counted = [
            f"{fields[key]} {key}"
            for key in ("input", "output")
            if type(fields.get(key)) is int and fields[key]
        ]
        cost = fields.get("cost_usd")
        if isinstance(cost, int | float) and cost:
            counted.append(f"${cost:.4f}")
        if counted:
            yield self._paint(f"── tokens: {', '.join(counted)}", "dim")

    def _ask(self, fields: Mapping[str, Any]) -> Iterator[str]:
        """The question with the way to answer it, and later what became of it."""
        outcome, name = fields.get("outcome"), one_line(_words(fields.get("id")))
        if outcome == "asked":
            answers = f"`ags allow {name}`, `ags deny {name}`"
            asked = f"── asks for {cut(wanted(fields), WIDEST)}: {cut(answers, WIDEST)}"
            yield self._paint(asked, "yellow", "bold")
        elif outcome in OUTCOMES:
            yield self._paint(cut(f"── {wanted(fields)}: {OUTCOMES[outcome]}", WIDEST), "dim")
        else:
            yield self._paint(f"── asks: {_brief(fields)}", "yellow", "bold")

    def _other(self, event: Event) -> Iterator[str]:
        """What a newer version may have written."""
        yield self._paint(f"── {one_line(event.kind)}: {_brief(event.fields)}", "dim")


def wanted(fields: Mapping[str, Any]) -> str:
    """What is asked for: an address, or a tool's call with what the hook says to it."""
    if "tool" in fields:
        # As it is, with colours too: what is left out here would run all the same.
        told = "{tool}: {about} ({by}: {reason})".format_map(defaultdict(str, fields))
        return one_line(told)
    scheme = {"tls": "https", "http": "http"}.get(str(fields.get("scheme")), "tcp")
    method = f"{fields['method']} " if fields.get("method") else ""
    path = fields.get("path") or ""
    return one_line(f"{method}{scheme}://{fields.get('host')}:{fields.get('port')}{path}")


def _words(value: object) -> str:
    """An agent may put anything where text is expected."""
    if value is None:
        return ""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    # Most lines are harmless, and there may be a million of them.
    return value if value.isprintable() else plain(_COLOURS.sub("", value))


def _shortened(text: str, most: int) -> list[str]:
    lines = [cut(line, WIDEST) for line in text.strip("\n").split("\n")] if text.strip() else []
    left = len(lines) - most
    return lines if left <= 1 else [*lines[:most], f"… {left} more lines"]


def _about(given: object) -> str:
    if not isinstance(given, Mapping):
        return _words(given)
    for name in _ABOUT:
        if isinstance(given.get(name), str):
            return _words(given[name])
    return _words(dict(given)) if given else ""


def _brief(fields: Mapping[str, Any]) -> str:
    if isinstance(text := fields.get("text"), str):
        return cut(one_line(_words(text)), WIDEST)
    pairs = (f"{one_line(name)} {one_line(_words(value))}" for name, value in fields.items())
    return cut(", ".join(pairs), WIDEST)


def lines(events: Iterable[Event]) -> Iterator[str]:
    """All of them without colour, as a file would have it."""
    stream = Stream()
    for event in events:
        yield from stream.render(event)
    yield from stream.finish()
