"""Pictures of every view, for the README: `python -m tests.web.screenshots [FOLDER]`."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

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


def chosen_file(page: Page) -> None:
    for name in ("shop/", "totals.py"):
        page.get_by_role("button", name=name).or_(page.get_by_role("link", name=name)).first.click()
    sees("ROUND_HALF_EVEN")(page)


def side_by_side(page: Page) -> None:
    sees("line_total")(page)
    page.keyboard.press("u")
    page.locator(".tree").get_by_text("totals.py", exact=True).click()


def looked_around(page: Page) -> None:
    page.get_by_role("button", name="Open a shell in its sandbox").click()
    expect(page.locator(".xterm-rows")).to_contain_text("$")
    page.keyboard.type(
        "PS1='payments$ '; clear; git log --oneline; ls; test -e ~/.ssh || echo no keys\n"
    )
    expect(page.locator(".xterm-rows")).to_contain_text(re.compile("shop.*no keys"))


def listed_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


BOARD = tuple(sees(cost) for cost in ("$0.27", "$0.35", "$0.41", "$0.62"))
PICTURES: dict[str, tuple[str, tuple[Step, ...]]] = {
    "board": ("/", BOARD),
    "keys": ("/", (*BOARD, listed_keys)),
    "new": ("/new", (filled,)),
    "run": ("/run/rounding", (opened_edit,)),
    "network": ("/run/dark-theme/network", (sees("telemetry.example"),)),
    "files": ("/run/rounding/files", (chosen_file,)),
    "log": ("/run/rounding/log", (sees("14 passed"),)),
    "review": ("/run/rounding/review", (sees("line_total"), commented)),
    "side": ("/run/rounding/review", (side_by_side,)),
    "apply": ("/run/rounding/review", (applying,)),
    "compare": ("/compare?group=quicker", (sees("An index on the name"), sees("quicker-2.md"))),
    "policy": ("/settings/policy", (typed_policy,)),
    "agents": ("/settings/agents", (sees("opencode"),)),
}
ON_PHONE = ("board", "run")
ASKING: dict[str, tuple[str, tuple[Step, ...]]] = {
    "asks": ("/", (*BOARD, asked)),
    "terminal": ("/run/exchange-rates/terminal", (asked, looked_around)),
}
FIRST: dict[str, tuple[str, tuple[Step, ...]]] = {
    "login": ("/", (sees("Log in"),)),
    "empty": ("/", (sees("Add a project"),)),
}


def taken(visitor: Visitor, name: str, scheme: str, size: tuple[int, int], folder: Path) -> None:
    path, steps = (FIRST | PICTURES | ASKING)[name]
    page = visitor.open(path, size=size, scheme=scheme, is_mobile=size == PHONE)
    for step in steps:
        step(page)
    expect(page.locator("main .spinner")).to_have_count(0)
    small = "-phone" if size == PHONE else ""
    page.screenshot(path=folder / f"{name}{small}-{scheme}.png", animations="disabled")
    page.context.close()


def at_first(browser: Browser, place: Path, folder: Path) -> None:
    """A server that nobody has used yet, before and after the log-in."""
    with opened(place) as shop:
        for session, name in ((None, "login"), (logged_in(browser, shop.server), "empty")):
            with visiting(browser, shop.server, session) as visitor:
                for scheme in SCHEMES:
                    taken(visitor, name, scheme, DESK, folder)


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ags-pictures-")))
        browser = stack.enter_context(chromium())
        at_first(browser, place / "new", folder)
        shop = stack.enter_context(opened(place / "used"))
        stack.enter_context(scenery(shop))
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
            taken(visitor, "terminal", scheme, DESK, folder)


if __name__ == "__main__":
    main(*(Path(word) for word in sys.argv[1:2]))
