"""What fails every test of the page if it happens: each of it is noticed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.server.shop import eventually
from tests.web.visiting import MISSING, Visitor

HAPPENS = {
    "error: told": "console.error('told')",
    "warning: told": "console.warn('told')",
    "not caught: ": "setTimeout(() => { throw new Error('nobody takes it'); })",
    "a dialog: hello": "setTimeout(() => alert('hello'))",
    "off-origin: http://elsewhere.example/": "location.href = 'http://elsewhere.example/'",
    "error: forbidden: connect-src": "fetch('http://elsewhere.example/').catch(() => null)",
    "error: forbidden: img-src": "new Image().src = 'http://elsewhere.example/a.png'",
    "error: forbidden: script-src": (
        "document.body.append(Object.assign(document.createElement('script'),"
        " { textContent: '1' }))"
    ),
    "status of 401": "fetch('/api/v1/runs/nobody')",
}

TOKEN = "{ Authorization: `Bearer ${localStorage.getItem('ags.token')}` }"


def page_of(visitor: Visitor) -> Page:
    page = visitor.open()
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    assert visitor.watch.found == []
    return page


def heard(page: Page, visitor: Visitor) -> list[str]:
    """What came so far: it comes while somebody waits for the browser."""
    page.wait_for_timeout(20)
    return visitor.watch.found


def forgive(visitor: Visitor) -> None:
    """What was seen, and what of it comes later."""
    visitor.expects(re.compile(""))
    visitor.watch.found.clear()


@pytest.mark.parametrize("noted", HAPPENS)
def test_it_is_noticed(visitor: Visitor, noted: str) -> None:
    page = page_of(visitor)
    page.evaluate(f"() => {{ {HAPPENS[noted]}; }}")
    eventually(lambda: any(noted in each for each in heard(page, visitor)))
    forgive(visitor)


def test_what_is_expected_is_not(visitor: Visitor) -> None:
    page = page_of(visitor)
    visitor.expects(MISSING)
    page.evaluate(f"fetch('/api/v1/runs/nobody', {{ headers: {TOKEN} }})")
    page.evaluate("console.error('told')")
    eventually(lambda: heard(page, visitor))
    assert [each.partition(" at")[0] for each in visitor.watch.found] == ["error: told"]
    forgive(visitor)
