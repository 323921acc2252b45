"""A long diff is shown from its beginning before all of it is there: what is seen and done
meanwhile stays as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.server.shop import Shop
from tests.web.past import happened
from tests.web.visiting import Visitor

FILES, EACH = 12, 300
LAST = f"part{FILES - 1:02d}/module.py"
WHOLE = re.compile(r"/diff\?whitespace=show$")
REFUSED = re.compile("status of 500 .*/diff")


@pytest.fixture(scope="module", autouse=True)
def _long(shop: Shop) -> None:
    files = {
        f"part{number:02d}/module.py": "".join(f"value_{line} = {number}\n" for line in range(EACH))
        for number in range(FILES)
    }
    happened(shop, "long", files={**files, "part00/Makefile": "all:\n", "zone/Makefile": "all:\n"})


@dataclass
class Held:
    """The answers with all of a diff, or to something else, until they are let go."""

    page: Page
    what: re.Pattern[str] = WHOLE
    held: list[Route] = field(default_factory=list)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.page.route(self.what, lambda route: self._came(route))

    def _came(self, route: Route) -> None:
        if self.is_over:
            route.continue_()
        else:
            self.held.append(route)

    def let_go(self) -> None:
        self.is_over = True
        for route in self.held:
            route.continue_()

    def refuse(self) -> None:
        self.is_over = True
        for route in self.held:
            problem = '{"title": "Cannot look", "detail": "the disk is full"}'
            route.fulfill(status=500, body=problem, content_type="application/problem+json")


def opened(visitor: Visitor) -> tuple[Page, Held]:
    """With nothing but the beginning."""
    page = visitor.open("/")
    held = Held(page)
    page.goto(f"{visitor.server.url}/run/long/review")
    expect(line(page, "value_0 = 0")).to_be_visible()
    expect(page.get_by_role("navigation", name="Changed files")).to_contain_text(
        "Reading the other files"
    )
    return page, held


def line(page: Page, text: str) -> Locator:
    return page.locator(".diff-row.added").filter(has_text=re.compile(f"{text}$"))


def is_complete(page: Page) -> None:
    expect(page.get_by_text(f"/{FILES + 2} viewed")).to_be_visible()


def rows(page: Page) -> int:
    return int(page.get_by_role("region", name="Changes").get_attribute("data-rows") or 0)


def comment(page: Page, text: str) -> None:
    page.keyboard.press("c")
    page.keyboard.type(text)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article").filter(has_text=text)).to_be_visible()


def test_what_comes_later_moves_nothing(visitor: Visitor) -> None:
    page, held = opened(visitor)
    assert rows(page) < FILES * EACH / 2
    expect(page.locator(".review-head .sum")).to_contain_text(f"{FILES + 2} files")
    diff = page.get_by_role("region", name="Changes")
    expect(diff.get_by_text("Look at this:")).to_be_visible()  # its risk is known already
    diff.evaluate("box => { box.scrollTop = 1234; }")
    seen = line(page, "value_70 = 0")
    before = seen.bounding_box()
    held.let_go()
    is_complete(page)
    assert rows(page) > FILES * EACH
    assert seen.bounding_box() == before and before is not None
    tree = page.get_by_role("navigation", name="Changed files")
    expect(tree.get_by_text("Look at first: 2 files")).to_be_visible()
    page.keyboard.press("End")
    diff.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    expect(diff.get_by_text("zone/").first).to_be_visible()


def test_what_is_written_meanwhile_goes_on(visitor: Visitor) -> None:
    page, held = opened(visitor)
    for key in ("j", "j"):
        page.keyboard.press(key)
    comment(page, "kept")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "c"):
        page.keyboard.press(key)
    page.keyboard.type("half a th")
    field = page.get_by_label("Comment on line")
    expect(field).to_have_value("half a th")
    page.keyboard.press("ArrowLeft")
    held.let_go()
    is_complete(page)
    page.keyboard.type("-")
    expect(field).to_have_value("half a t-h")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article", name="Comment on part00/module.py")).to_have_count(2)
    expect(page.get_by_text("outdated")).to_have_count(0)


def test_what_belongs_to_files_that_are_not_there_yet_is_kept(visitor: Visitor) -> None:
    page, held = opened(visitor)
    held.let_go()
    is_complete(page)
    page.get_by_label("Filter files").fill(LAST)
    page.keyboard.press("Enter")
    expect(line(page, f"value_0 = {FILES - 1}")).to_be_visible()
    page.keyboard.press("j")
    comment(page, "far away")
    page.keyboard.press("x")
    expect(page.get_by_text(f"1/{FILES + 2} viewed")).to_be_visible()

    held = Held(page)
    page.reload()
    expect(line(page, "value_0 = 0")).to_be_visible()
    page.keyboard.press("l")
    listed = page.get_by_role("dialog", name="Comments")
    expect(listed.get_by_text("far away")).to_be_visible()
    expect(listed.get_by_text("outdated")).to_have_count(0)
    listed.get_by_role("button", name="Close").last.click()
    page.locator(".file-head").first.get_by_role("checkbox").check()

    held.let_go()
    expect(page.get_by_text(f"2/{FILES + 2} viewed")).to_be_visible()
    page.keyboard.press("l")
    expect(listed.get_by_text("far away")).to_be_visible()
    expect(listed.get_by_text("outdated")).to_have_count(0)


def test_an_end_that_cannot_be_read_is_no_end(visitor: Visitor) -> None:
    page, held = opened(visitor)
    visitor.expects(REFUSED)
    held.refuse()
    expect(page.get_by_text("the disk is full")).to_be_visible()
    diff = page.get_by_role("region", name="Changes")
    for place in (diff, page.get_by_role("navigation", name="Changed files")):
        expect(place).to_contain_text("The other files could not be read")
    page.keyboard.press("a")  # all that would be applied is looked at, not what is shown
    expect(page.get_by_role("dialog")).to_contain_text("zone/Makefile")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    is_complete(page)
    expect(page.get_by_text("could not be read")).to_have_count(0)


def test_a_diff_that_is_not_long_is_asked_for_once(visitor: Visitor, shop: Shop) -> None:
    happened(shop, "short", files={"only.txt": "one\n"})
    page = visitor.open("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{visitor.server.url}/run/short/review")
    expect(page.get_by_text("0/1 viewed")).to_be_visible()
    assert sum("/diff?" in url for url in asked) == 1


def test_what_was_asked_for_ahead_is_not_asked_for_again(visitor: Visitor) -> None:
    """Before the review's own parts are there; and the next time, it is what there is then."""
    page = visitor.open("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{visitor.server.url}/run/long/review")
    expect(page.locator(".diff .as-line").first).to_be_visible()
    first = [url for url in asked if "beginning=" in url]
    assert len(first) == 1
    page.get_by_role("link", name="AGS, all runs").click()
    page.go_back()
    expect(page.locator(".diff .as-line").first).to_be_visible()
    assert len([url for url in asked if "beginning=" in url]) == 2


def test_a_review_that_was_left_before_its_answer_goes_no_further(visitor: Visitor) -> None:
    page = visitor.open("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    first = Held(page, re.compile("beginning="))
    page.goto(f"{visitor.server.url}/run/long/review", wait_until="commit")
    expect(page.get_by_text("Reading what changed")).to_be_visible()
    page.get_by_role("link", name="AGS, all runs").click()
    expect(page.get_by_role("row").filter(has_text="long")).to_be_visible()
    with page.expect_response(re.compile("beginning=")) as answer:
        first.let_go()
    answer.value.finished()
    page.go_back()
    is_complete(page)
    assert len([url for url in asked if WHOLE.search(url)]) == 1


def test_what_was_asked_for_a_view_that_was_left_is_asked_for_anew(visitor: Visitor) -> None:
    page = visitor.open("/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    part = Held(page, re.compile(r"/review/rows\.js$"))
    page.goto(f"{visitor.server.url}/run/long/review", wait_until="commit")
    page.get_by_role("link", name="AGS, all runs").click()
    part.let_go()
    page.go_back()
    expect(page.locator(".diff .as-line").first).to_be_visible()
    assert len([url for url in asked if "beginning=" in url]) == 2
