"""On a phone: nothing is wider than it, and what matters is within a thumb's reach."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, StorageState, expect

from tests.server.shop import Shop
from tests.web.past import VIEWS, happened, show
from tests.web.visiting import MISSING, PHONE, Visitor, visiting

WIDER = """() => {
    // Not innerWidth: a phone's grows with what is too wide.
    const width = document.documentElement.clientWidth;
    if (document.scrollingElement.scrollWidth <= width) return [];
    return [...document.querySelectorAll("body *")]
        .filter((each) => each.getBoundingClientRect().right > width + 1)
        .map((each) => each.outerHTML.slice(0, 120));
}"""
APART = """list => {
    const box = (of) => document.querySelector(of).getBoundingClientRect();
    return box(list).bottom <= box(".asks").top;
}"""
LEAST = 24
"""Pixels that a finger needs, at the least (WCAG 2.2, 2.5.8)."""


@pytest.fixture(scope="module")
def phone(browser: Browser, furnished: Shop, session: StorageState) -> Iterator[Page]:
    with visiting(browser, furnished.server, session) as visitor:
        visitor.expects(MISSING)
        yield on_phone(visitor, "/")


def on_phone(visitor: Visitor, path: str) -> Page:
    return visitor.open(path, size=PHONE, is_mobile=True, has_touch=True)


@pytest.mark.parametrize("path", VIEWS)
def test_no_view_is_wider_than_the_phone(phone: Page, path: str) -> None:
    show(phone, path)
    assert phone.evaluate("document.documentElement.clientWidth") == PHONE[0]
    assert phone.evaluate(WIDER) == []


def test_what_is_wider_than_the_phone_would_be_found(visitor: Visitor) -> None:
    page = on_phone(visitor, "/new")
    field = page.get_by_label("Goal")
    expect(field).to_be_visible()
    field.evaluate("each => { each.style.minWidth = '600px'; }")
    assert any("<textarea" in each for each in page.evaluate(WIDER))


def within_reach(button: Locator) -> None:
    """In sight, large enough, and nothing lies over it."""
    expect(button).to_be_in_viewport(ratio=1)
    box = button.bounding_box()
    assert box is not None and box["height"] >= LEAST and box["width"] >= LEAST
    button.tap(trial=True)


def test_what_a_run_asks_is_answered_with_a_thumb(phone: Page, furnished: Shop) -> None:
    show(phone, "/")
    card = phone.get_by_role("article", name="asks asks")
    for name in ("once", "an hour", "always", "deny"):
        within_reach(card.get_by_role("button", name=re.compile(name, re.IGNORECASE)))
    # The end of a list is not behind it.
    for path, box in {"/run/done-well": ".rows-box", "/run/done-well/review": ".diff"}.items():
        show(phone, path)
        phone.wait_for_function(APART, arg=box)
    phone.get_by_role("button", name="Hide").tap()
    within_reach(phone.get_by_role("button", name="1 ask waiting"))
    assert len(furnished.get("/asks")["items"]) == 1


def test_from_the_board_to_what_is_applied(visitor: Visitor, furnished: Shop) -> None:
    happened(furnished, "by-thumb", goal="By thumb", files={"thumb.txt": "up\n"})
    page = on_phone(visitor, "/")
    hide_asks(page)
    within_reach(page.get_by_role("link", name=re.compile("^New")))
    page.get_by_role("link", name="By thumb").tap()
    within_reach(page.get_by_role("link", name=re.compile("^Review")))
    page.get_by_role("link", name=re.compile("^Review")).tap()
    expect(page.locator(".diff-row.added")).to_have_text(re.compile("up"))
    page.get_by_role("button", name="Files").tap()
    file = page.get_by_role("navigation", name="Changed files").get_by_role("button")
    within_reach(file)
    file.tap()
    page.get_by_role("button", name=re.compile("^Apply")).tap()
    button = page.get_by_role("dialog").get_by_role("button", name=re.compile("^Apply"))
    within_reach(button)
    button.tap()
    expect(page.get_by_text("main moved forward")).to_be_visible()
    assert (furnished.project.folder / "thumb.txt").read_text() == "up\n"


def hide_asks(page: Page) -> None:
    page.get_by_role("button", name="Hide").tap()


def test_a_run_is_started_on_the_phone(visitor: Visitor, furnished: Shop) -> None:
    page = on_phone(visitor, "/")
    hide_asks(page)
    page.get_by_role("link", name=re.compile("^New")).tap()
    page.get_by_label("Goal").fill("echo from the phone")
    page.get_by_label("Agent", exact=True).select_option("shell")
    start = page.get_by_role("button", name="Start")
    start.scroll_into_view_if_needed()
    within_reach(start)
    start.tap()
    expect(page).to_have_url(re.compile("/run/echo-from-phone"))
    expect(page.locator(".item-lines").get_by_text("from the phone", exact=True)).to_be_visible()
