"""Pictures of every view, for the README: `python -m tests.web.screenshots [FOLDER]`."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.people import ROOT
from tests.server.shop import opened
from tests.web.scenery import COMMENTS, asks, scenery
from tests.web.visiting import DESK, PHONE, Visitor, chromium, logged_in, visiting

FOLDER = ROOT / "docs" / "screenshots"
SCHEMES = ("dark", "light")
Step = Callable[[Page], None]


def sees(text: str) -> Step:
    return lambda page: expect(page.locator("main").get_by_text(text).first).to_be_visible()


def filled(page: Page) -> None:
    page.get_by_label("Goal").fill(
        "Customers in Switzerland see prices that end in .03.\n\nRound cash totals to 0.05 there,"
        " as the coins demand. Card payments stay exact. Show it with tests."
    )
    page.get_by_label("Project").select_option("shop")
    page.get_by_label("Agent", exact=True).select_option("claude")
    sees("Always: claude")(page)


def opened_edit(page: Page) -> None:
    sees("All 14 tests pass")(page)
    page.get_by_role("button", name="Edit shop/totals.py").click()


def commented(page: Page) -> None:
    for code, text in COMMENTS:
        row = page.locator(".diff-row.added", has_text=code)
        row.scroll_into_view_if_needed()
        row.locator(".numbers").click()
        page.get_by_label("Comment on line").fill(text)
        page.get_by_role("button", name="Keep comment").click()
    page.locator(".diff").evaluate("each => { each.scrollTop = 0; }")


def applying(page: Page) -> None:
    sees("line_total")(page)
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()


def typed_policy(page: Page) -> None:
    page.get_by_role("textbox").last.fill(
        "services:\n  - npm\n  - github: {access: readwrite, repos: [shop/website]}\n"
        "domains:\n  - rates.example\n  - {host: '*.cdn.example', methods: [GET]}\n"
        "deny:\n  - telemetry.example\nask: true\n"
    )
    expect(page.get_by_text("*.cdn.example").last).to_be_visible()


def asked(page: Page) -> None:
    expect(page.get_by_role("article", name="exchange-rates asks")).to_be_visible()


def listed_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


BOARD = tuple(sees(cost) for cost in ("$0.27", "$0.35", "$0.41", "$0.62"))
PICTURES: dict[str, tuple[str, tuple[Step, ...]]] = {
    "board": ("/", BOARD),
    "keys": ("/", (*BOARD, listed_keys)),
    "new": ("/new", (filled,)),
    "run": ("/run/rounding", (opened_edit,)),
    "network": ("/run/rounding/network", (sees("telemetry.example"),)),
    "review": ("/run/rounding/review", (sees("line_total"), commented)),
    "apply": ("/run/rounding/review", (applying,)),
    "compare": ("/compare?group=quicker", (sees("An index on the name"), sees("quicker-2.md"))),
    "policy": ("/settings/policy", (typed_policy,)),
    "agents": ("/settings/agents", (sees("opencode"),)),
}
ON_PHONE = ("board", "run")
ASKING: dict[str, tuple[str, tuple[Step, ...]]] = {
    "asks": ("/", (*BOARD, asked)),
}


def taken(visitor: Visitor, name: str, scheme: str, size: tuple[int, int], folder: Path) -> None:
    path, steps = (PICTURES | ASKING)[name]
    page = visitor.open(path, size=size, scheme=scheme, is_mobile=size == PHONE)
    for step in steps:
        step(page)
    expect(page.locator("main .spinner")).to_have_count(0)
    small = "-phone" if size == PHONE else ""
    page.screenshot(path=folder / f"{name}{small}-{scheme}.png", animations="disabled")
    page.context.close()


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="ags-pictures-"))
        shop = stack.enter_context(opened(Path(place)))
        stack.enter_context(scenery(shop))
        browser = stack.enter_context(chromium())
        session = logged_in(browser, shop.server)
        visitor = stack.enter_context(visiting(browser, shop.server, session))
        for scheme in SCHEMES:
            for name in PICTURES:
                taken(visitor, name, scheme, DESK, folder)
            for name in ON_PHONE:
                taken(visitor, name, scheme, PHONE, folder)
        asks(shop)
        for scheme in SCHEMES:
            for size in (DESK, PHONE):
                taken(visitor, "asks", scheme, size, folder)


if __name__ == "__main__":
    main(*(Path(word) for word in sys.argv[1:2]))
