"""Runs that are over, as a supervisor leaves them: for views of what is hard to make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
from playwright.sync_api import Page, expect

from ags.runs import Run
from tests.cli.desk import Desk
from tests.server.shop import Shop, eventually

Told = tuple[str, Mapping[str, object]]


def past(shop: Shop) -> Desk:
    """The same person at the command line, of which only the files are used here."""
    nobody_prints = cast(pytest.CaptureFixture[str], None)
    return Desk(shop.server.home, shop.server.ags_home, shop.project, nobody_prints)


def happened(shop: Shop, name: str, told: Iterable[Told] = (), **changes: Any) -> Run:
    """One with its work on a branch and these events."""
    desk = past(shop)
    run = desk.finished(name, **changes)
    desk.log(run, *told)
    return run


EVENTS: tuple[Told, ...] = (
    ("status", {"state": "running"}),
    ("thinking", {"text": "The greeting is in one place.\nI read it first."}),
    (
        "message",
        {"text": "I look at `a.txt` first:\n\n- read it\n- **change** it\n\n```\nhello\n```"},
    ),
    ("tool_call", {"tool": "Read", "input": {"file_path": "a.txt"}, "id": "t1"}),
    ("tool_result", {"ok": True, "output": "hello", "id": "t1"}),
    (
        "tool_call",
        {
            "tool": "Edit",
            "input": {"file_path": "a.txt", "old_string": "hello", "new_string": "hello\nworld"},
            "id": "t2",
        },
    ),
    ("tool_result", {"ok": True, "output": "changed", "id": "t2"}),
    ("tool_call", {"tool": "Bash", "input": {"command": "make test"}, "id": "t3"}),
    ("egress", {"allowed": False, "host": "new.example", "port": 443, "reason": "not-listed"}),
    ("tool_result", {"ok": False, "output": "make: no rule", "id": "t3"}),
    ("output", {"text": "Warning: something on stderr", "stream": "stderr"}),
    ("usage", {"input": 12034, "output": 2331, "cached": 9000, "cost_usd": 0.1234}),
    ("message", {"text": "Done. Both words are there."}),
    ("status", {"state": "done", "exit_code": 0}),
)
"""A bit of everything."""
WORK = {
    "a.txt": "hello\nworld\n",
    "src/deep/b.py": "def deep(depth: int) -> str:\n    return 'deep' * depth  # and so on\n",
    ".github/workflows/ci.yml": "on: push\njobs: {}\n",
}
HELD = "echo at work; while ! [ -e go ]; do curl -s -m 600 http://new.example/; sleep 0.1; done"
"""It asks again when nobody answered in time, which all tests of a file may take longer than."""


def furnish(shop: Shop) -> None:
    """Something for every view to show: what is done, what is at work, and what asks."""
    shop.told("POST", "/projects", {"url": str(shop.project.folder)}, 201)
    happened(shop, "done-well", EVENTS, files=WORK)
    for number in (1, 2):
        happened(shop, f"try-{number}", EVENTS, group="try", goal="Make it quick")
    past(shop).record("went-wrong", state="failed", notes=("the disk is full",), exit_code=1)
    shop.at_work(HELD, name="asks", ask=True)
    eventually(lambda: shop.get("/asks")["items"])


VIEWS = {
    "/": "done-well",
    "/?q=nobody": "No run matches",
    "/new": "New run",
    "/run/done-well": "Both words are there.",
    "/run/went-wrong": "the disk is full",
    "/run/done-well/terminal": "It is not at work",
    "/run/asks/terminal": "Open a shell",
    "/run/asks/network": "new.example",
    "/run/asks/files": "a.txt",
    "/run/done-well/log": "Both words are there.",
    "/run/asks/preview": "port",
    "/run/done-well/review": "Apply",
    "/run/nobody": "There is no such run",
    "/compare?group=try": "What it said",
    "/settings/policy": "What it opens",
    "/settings/secrets": "No secrets yet",
    "/settings/clients": "No clients yet",
    "/settings/agents": "opencode",
    "/settings/doctor": "bubblewrap",
    "/nowhere-at-all": "There is no such page",
}
"""Every view that there is, and words that it shows once it is all there."""


def show(page: Page, path: str) -> None:
    """Go there as a link does, so that the page is loaded once."""
    page.evaluate(
        "path => { history.pushState(null, '', path); dispatchEvent(new Event('popstate')); }", path
    )
    expect(page.locator("main").get_by_text(VIEWS[path]).first).to_be_visible()
    expect(page.locator("main .spinner")).to_have_count(0)
