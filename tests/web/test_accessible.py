"""No view shuts anybody out: axe-core looks at all of them, in the dark and in the light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.server.shop import Shop
from tests.web.packages import axe
from tests.web.past import VIEWS, show
from tests.web.visiting import MISSING, visiting

SERIOUS = ("serious", "critical")
DIALOGS = {
    "the keys": ("/", "?"),
    "restarting": ("/run/done-well", "R"),
    "applying": ("/run/done-well/review", "a"),
    "comments": ("/run/done-well/review", "l"),
}


@pytest.fixture(scope="module")
def page(browser: Browser, furnished: Shop, session: StorageState) -> Iterator[Page]:
    with visiting(browser, furnished.server, session) as visitor:
        visitor.expects(MISSING)
        made = visitor.open()
        # The page's own rules let no foreign script in; the tests' door is beside them.
        made.evaluate(axe())
        made.get_by_role("button", name="Hide").click()
        yield made


def faults(page: Page) -> list[str]:
    found: Any = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{fault['id']}: {node['html'][:200]} {node['failureSummary']}"
        for fault in found["violations"]
        if fault["impact"] in SERIOUS
        for node in fault["nodes"]
    ]


def in_both(page: Page) -> list[str]:
    found = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        found += [f"{scheme}: {fault}" for fault in faults(page)]
    return found


@pytest.mark.parametrize("path", VIEWS)
def test_nobody_is_shut_out_of_a_view(page: Page, path: str) -> None:
    show(page, path)
    assert in_both(page) == []


@pytest.mark.parametrize("name", DIALOGS)
def test_nobody_is_shut_out_of_a_dialog(page: Page, name: str) -> None:
    path, key = DIALOGS[name]
    show(page, path)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert in_both(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_nobody_is_shut_out_of_what_is_asked(page: Page) -> None:
    show(page, "/")
    page.get_by_role("button", name="1 ask waiting").click()
    expect(page.get_by_role("article", name="asks asks")).to_be_visible()
    assert in_both(page) == []


def test_nobody_is_shut_out_of_logging_in(browser: Browser, shop: Shop) -> None:
    with visiting(browser, shop.server, None) as visitor:
        page = visitor.open()
        expect(page.get_by_role("heading", name="Log in to AGS")).to_be_visible()
        page.evaluate(axe())
        assert in_both(page) == []


def test_what_shuts_people_out_would_be_found(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<title>t</title><p style='color:#aaa;background:#fff'>pale</p><input>")
    page.evaluate(axe())
    assert {fault.partition(":")[0] for fault in faults(page)} >= {"color-contrast", "label"}
    page.close()
