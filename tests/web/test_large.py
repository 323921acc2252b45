"""A log of twenty thousand lines and a diff of forty thousand: as quick to use as small ones."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.shop import Shop
from tests.web.past import happened
from tests.web.visiting import Visitor

LINES, FILES, EACH = 20_000, 40, 1000
MOST_ELEMENTS = 4000
"""In the document at once: what is out of sight is not there."""
MOST_STALL = 15_000
"""Milliseconds for which the page may be deaf: more than a busy machine is by itself."""
STALLS = """() => {
    window.stalls = [];
    const watch = (list) => window.stalls.push(...list.getEntries().map((each) => each.duration));
    new PerformanceObserver(watch).observe({ type: "longtask", buffered: true });
}"""


@pytest.fixture(scope="module", autouse=True)
def _large(shop: Shop) -> None:
    said = [("output", {"text": f"line {number} of many"}) for number in range(1, LINES + 1)]
    files = {
        f"pkg/part{number:02d}/module.py": "".join(
            f"def function_{line}(value: int) -> int:  # {number}\n" for line in range(EACH)
        )
        for number in range(FILES)
    }
    read = ("tool_call", {"tool": "Read", "input": {"file_path": "a.txt"}, "id": "1"})
    happened(shop, "large", [*said, read], files=files)


def usable(page: Page) -> None:
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert max(page.evaluate("window.stalls"), default=0) < MOST_STALL


def scrolled(box: Locator, to: str) -> None:
    box.evaluate(f"box => {{ box.scrollTop = {to}; }}")


def test_a_long_activity_stays_usable(visitor: Visitor) -> None:
    page = visitor.open("/run/large")
    page.evaluate(STALLS)
    box = page.get_by_role("region", name="Activity")
    expect(box.get_by_text(f"line {LINES} of many", exact=True)).to_be_visible()
    expect(box.locator(".item-head")).to_have_count(1)
    box.focus()
    page.keyboard.press("Home")
    expect(box.get_by_text("line 1 of many", exact=True)).to_be_visible()
    scrolled(box, "box.scrollHeight / 2")
    expect(box.get_by_text("line 1 of many", exact=True)).to_have_count(0)
    page.get_by_role("button", name="To the end").click()
    expect(box.get_by_text(f"line {LINES} of many", exact=True)).to_be_visible()
    # What is drawn before the browser tells of a scroll does not undo it.
    box.evaluate("box => { box.scrollTop = 0; box.querySelector('.item-head').click(); }")
    expect(box.get_by_text("line 1 of many", exact=True)).to_be_visible()
    usable(page)


def test_a_long_log_stays_usable(visitor: Visitor) -> None:
    page = visitor.open("/run/large/log")
    page.evaluate(STALLS)
    box = page.locator(".rows-box")
    expect(box).to_be_visible()
    scrolled(box, "box.scrollHeight")
    expect(box.get_by_text(f"line {LINES} of many")).to_be_visible()
    scrolled(box, "0")
    expect(box.get_by_text("line 1 of many", exact=True)).to_be_visible()
    usable(page)


def test_a_large_diff_stays_usable(visitor: Visitor) -> None:
    page = visitor.open("/run/large/review")
    page.evaluate(STALLS)
    diff = page.get_by_role("region", name="Changes")
    expect(diff.locator(".diff-row.added").first).to_be_visible()
    expect(page.get_by_text(f"0/{FILES} viewed")).to_be_visible()
    assert int(diff.get_attribute("data-rows") or 0) > FILES * EACH
    scrolled(diff, "box.scrollHeight")
    expect(diff.get_by_text(f"function_{EACH - 1}").first).to_be_visible()
    scrolled(diff, "box.scrollHeight / 2")
    usable(page)

    page.keyboard.press("j")
    page.keyboard.press("c")
    page.keyboard.type("slow?")  # at once: no letter may be lost, or taken for a key of the page
    field = page.get_by_label("Comment on line")
    expect(field).to_have_value("slow?")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article", name="Comment on pkg/")).to_be_visible()
    page.keyboard.press("u")
    expect(page.locator(".diff.split")).to_be_visible()
    usable(page)
