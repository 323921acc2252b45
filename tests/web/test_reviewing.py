"""Somebody reads what a run did and writes about it, maybe in two tabs: nothing that is written is
lost, and nothing is taken over that nobody saw."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.shop import Shop
from tests.web.past import happened
from tests.web.visiting import HOLDS_BACK, STAYS, Visitor

SMALL = {f"f{number}.txt": f"one of {number}\ntwo of {number}\n" for number in range(1, 5)}
LONG = {"long.txt": "".join(f"line {number}\n" for number in range(300))}
REFUSED = re.compile("status of 409")
MESSAGES = """async () => {
    const { message, placed } = await import("/review/comments.js");
    const quoted = ["one = first()", "two = second()"];
    const around = { before: [], after: [], path: "a.py", side: "new", start: 3, end: 4 };
    const comment = { id: "1", quoted, text: "Why?", sent: null, ...around };
    const at = (line) => new Map(quoted.map((text, index) => [line + index, text]));
    const told = (lines) => message([placed(comment, lines)], "");
    return [at(3), at(8), new Map()].map(told);
}"""


@pytest.fixture(scope="module")
def small(shop: Shop) -> str:
    """Four files on one screen, and one behind them that fills many."""
    return happened(shop, "small", files={**SMALL, **LONG}).name


@pytest.fixture
def review(visitor: Visitor, small: str) -> Page:
    page = visitor.open()
    page.add_init_script(STAYS)
    page.goto(f"{page.url}run/{small}/review")
    expect(page.get_by_text("two of 4")).to_be_visible()
    return page


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def number(page: Page, text: str) -> Locator:
    """What is clicked to comment on that line."""
    return page.locator(".diff-row.added", has_text=text).locator(".numbers")


def comment(page: Page, place: str) -> Locator:
    return page.get_by_role("article", name=f"Comment on {place}", exact=True)


def editor(page: Page) -> Locator:
    return page.locator(".comment.writing textarea")


def write(page: Page, text: str, words: str) -> None:
    number(page, text).click()
    expect(editor(page)).to_be_focused()
    page.keyboard.type(words)
    press(page, "Control+Enter")
    expect(editor(page)).to_have_count(0)


def current(page: Page) -> Locator:
    return page.locator(".tree [aria-current=true] .name")


def viewed(page: Page) -> list[str]:
    marked = page.locator(".diff-rows .file-head", has=page.locator(".viewed input:checked"))
    return marked.locator(".path").all_inner_texts()


def test_keys_go_on_from_the_file_that_was_gone_to(review: Page) -> None:
    review.keyboard.down("n")
    review.keyboard.down("n")  # held: this one goes on
    review.keyboard.up("n")
    expect(current(review)).to_have_text("f3.txt")
    press(review, "p", "x")
    expect(review.get_by_label("Viewed: f2.txt").last).to_be_checked()
    assert viewed(review) == ["f2.txt"]
    # What is marked is folded: the next change is in the file behind it.
    press(review, "j", "x")
    expect(review.get_by_label("Viewed: f3.txt").last).to_be_checked()
    assert viewed(review) == ["f2.txt", "f3.txt"]
    review.locator(".tree").get_by_role("button", name="f4.txt").click()
    expect(current(review)).to_have_text("f4.txt")
    press(review, "j", "c")
    expect(editor(review)).to_be_focused()
    review.keyboard.type("Very good")
    press(review, "Control+Enter")
    expect(comment(review, "f4.txt:1")).to_be_visible()
    box = review.get_by_role("region", name="Changes")
    box.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    expect(current(review)).to_have_text("long.txt")
    box.evaluate("box => { box.scrollTop = 0; }")
    expect(current(review)).to_have_text("f1.txt")


def test_what_is_half_written_is_kept_when_another_is_begun(review: Page) -> None:
    number(review, "one of 1").click()
    review.keyboard.type("first thought")
    number(review, "two of 1").click(modifiers=["Shift"])
    expect(review.get_by_label("Comment on lines 1–2")).to_have_value("first thought")
    number(review, "one of 2").click()
    expect(editor(review)).to_have_value("")
    expect(comment(review, "f1.txt:1-2")).to_contain_text("first thought")

    review.keyboard.type("second thought")
    comment(review, "f1.txt:1-2").get_by_role("button", name="Edit").click()
    expect(editor(review)).to_have_value("first thought")
    expect(comment(review, "f2.txt:1")).to_contain_text("second thought")
    editor(review).fill("thought again")
    number(review, "one of 3").click()
    expect(editor(review)).to_have_value("")
    expect(comment(review, "f1.txt:1-2")).to_contain_text("thought again")


def test_what_was_thrown_away_comes_back(review: Page, small: str) -> None:
    undo = review.get_by_role("button", name="Undo")
    number(review, "one of 3").click()
    review.keyboard.type("not so sure")
    review.get_by_role("button", name="Discard").click()
    expect(editor(review)).to_have_count(0)
    undo.click()
    expect(editor(review)).to_have_value("not so sure")
    # While another is being written, it does not take its place.
    review.get_by_role("button", name="Discard").click()
    number(review, "one of 4").click()
    review.keyboard.type("surely")
    undo.click()
    expect(comment(review, "f3.txt:1")).to_contain_text("not so sure")
    expect(editor(review)).to_have_value("surely")
    review.get_by_role("button", name="Keep comment").click()

    comment(review, "f3.txt:1").get_by_role("button", name="Delete").click()
    expect(comment(review, "f3.txt:1")).to_have_count(0)
    # Also from elsewhere, and for good.
    press(review, "Escape")
    expect(review).to_have_url(re.compile(f"/run/{small}$"))
    undo.click()
    review.get_by_role("link", name=re.compile("^Review")).click()
    expect(comment(review, "f3.txt:1")).to_be_visible()
    review.reload()
    expect(comment(review, "f3.txt:1")).to_contain_text("not so sure")
    expect(comment(review, "f4.txt:1")).to_contain_text("surely")


def test_two_tabs_write_the_same_comments_and_send_them_once(visitor: Visitor, shop: Shop) -> None:
    name = shop.done("echo one of 1 > f1.txt", name="twice")
    first = visitor.open(f"/run/{name}")
    first.context.add_init_script(STAYS)
    second = first.context.new_page()
    second.goto(first.url)
    fields = [page.get_by_label("Tell twice what to do next") for page in (first, second)]
    fields[0].fill("echo one of 2 > f2.txt")
    expect(fields[1]).to_have_value("echo one of 2 > f2.txt")
    first.get_by_role("button", name="Send").click()
    for field in fields:
        expect(field).to_have_value("")
    shop.until(name, lambda run: run["turn"] == 1 and run["ended"] is not None)

    for page in (first, second):
        page.goto(f"{shop.server.url}/run/{name}/review")
        expect(page.get_by_text("one of 2")).to_be_visible()
    write(first, "one of 1", "from the first")
    expect(comment(second, "f1.txt:1")).to_contain_text("from the first")
    write(second, "one of 2", "from the second")
    expect(comment(first, "f2.txt:1")).to_contain_text("from the second")
    assert_edits_what_is_not_shown(first)

    press(first, "l")
    overall = first.get_by_label("Anything else for the agent?")
    overall.fill("true")
    first.evaluate(HOLDS_BACK, "/tell")
    first.get_by_role("dialog").get_by_role("button", name="Send to the agent").click()
    first.wait_for_function("!!window.letGo")
    overall.fill("and for later")
    first.evaluate("letGo()")
    expect(first.get_by_text("Sent to the agent")).to_be_visible()
    press(first, "l")
    expect(overall).to_have_value("and for later")
    press(first, "Escape")
    expect(second.get_by_role("button", name=re.compile("^2 comments"))).to_be_visible()
    expect(second.get_by_role("button", name=re.compile("^Send"))).to_have_count(0)
    shop.until(name, lambda run: run["turn"] == 2 and run["ended"] is not None)

    press(second, "l")
    dialog = second.get_by_role("dialog")
    dialog.get_by_role("button", name="Clear those that were sent").click()
    for page in (first, second):
        expect(page.get_by_role("article")).to_have_count(0)
    dialog.get_by_role("button", name="Undo").click()
    expect(comment(first, "f2.txt:1")).to_be_visible()


def assert_edits_what_is_not_shown(page: Page) -> None:
    """The first turn made one of the files, and the second the other."""
    page.get_by_label("Compare with").select_option("Since the end of turn 1")
    expect(page.get_by_text("one of 1")).to_have_count(0)
    press(page, "l")
    listed = comment(page, "f1.txt:1")
    expect(listed).to_contain_text("not in what is shown")
    listed.get_by_role("button", name="Edit").click()
    expect(page).to_have_url(re.compile("/review$"))
    expect(editor(page)).to_be_focused()
    expect(editor(page)).to_have_value("from the first")
    press(page, "Control+Enter")
    expect(comment(page, "f1.txt:1")).not_to_contain_text("not in what is shown")


def test_the_agent_is_told_where_the_lines_are_now(review: Page) -> None:
    here, moved, gone = review.evaluate(MESSAGES)
    said = "\n> one = first()\n> two = second()\nWhy?"
    assert f"\na.py:3-4{said}" in here
    assert f"\na.py:8-9{said}" in moved
    assert f"\na.py:3-4 (these lines are gone){said}" in gone


def test_work_that_nobody_looked_at_is_not_applied(visitor: Visitor, shop: Shop) -> None:
    name = shop.done("echo seen > seen.txt", name="further")
    page = visitor.open(f"/run/{name}/review")
    page.get_by_role("button", name="Ignore white space").click()
    expect(page.get_by_text("seen", exact=True)).to_be_visible()
    # The page hears nothing of the next turn, as it may in the moment of its end.
    known = shop.server.call("GET", f"/runs/{name}").text
    page.route(
        f"**/api/v1/runs/{name}",
        lambda route: route.fulfill(body=known, content_type="application/json"),
    )
    tell(shop, name, "echo unseen > unseen.txt", turn=1)
    before = shop.project.state()
    press(page, "a")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("There is newer work than what you looked at")).to_be_visible()
    expect(dialog.get_by_role("button", name=re.compile("^Apply"))).to_be_disabled()
    press(page, "Control+Enter")
    expect(dialog).to_be_visible()
    assert shop.project.state() == before

    page.unroute(f"**/api/v1/runs/{name}")
    dialog.get_by_role("button", name="Show it").click()
    expect(page.get_by_text("unseen", exact=True)).to_be_visible()
    press(page, "a")
    expect(dialog.get_by_role("button", name=re.compile("^Apply"))).to_be_enabled()
    press(page, "Control+Enter")
    expect(page.get_by_text("main moved forward")).to_be_visible()
    assert (shop.project.folder / "unseen.txt").exists()


def tell(shop: Shop, name: str, text: str, *, turn: int) -> None:
    shop.told("POST", f"/runs/{name}/tell", {"text": text})
    shop.until(name, lambda run: run["turn"] == turn and run["ended"] is not None)


def test_what_is_applied_and_taken_back_elsewhere_is_seen(visitor: Visitor, shop: Shop) -> None:
    name = happened(shop, "elsewhere", files={"other.txt": "other\n"}).name
    page = visitor.open(f"/run/{name}/review")
    apply = page.get_by_role("button", name=re.compile("^Apply"))
    undo = page.get_by_role("button", name="Undo apply")
    expect(apply).to_be_enabled()
    shop.told("POST", f"/runs/{name}/apply", {})
    expect(undo).to_be_visible()
    expect(apply).to_be_disabled()
    shop.told("POST", f"/runs/{name}/undo", {})
    expect(undo).to_have_count(0)
    expect(apply).to_be_enabled()
    shop.told("POST", f"/runs/{name}/apply", {})
    expect(undo).to_be_visible()
    page.evaluate(HOLDS_BACK, "/undo")
    press(page, "U")
    page.wait_for_function("!!window.letGo")
    page.evaluate("first = letGo, letGo = null")
    press(page, "U")  # this one would take back something else
    expect(undo).to_be_disabled()
    assert page.evaluate("letGo === null")
    page.evaluate("first()")
    expect(undo).to_have_count(0)
    assert not (shop.project.folder / "other.txt").exists()


def test_a_conflict_names_its_files_once_and_says_what_can_be_done(
    visitor: Visitor, shop: Shop
) -> None:
    name = happened(shop, "clash", files={"clash.txt": "theirs\n"}, group="clash").name
    shop.project.write("clash.txt", "ours\n")
    shop.project.commit("meanwhile")
    visitor.expects(REFUSED)
    page = visitor.open(f"/run/{name}/review")
    expect(page.get_by_text("theirs")).to_be_visible()
    press(page, "a")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name=re.compile("^Apply"))).to_be_enabled()
    press(page, "Control+Enter")
    expect(dialog.locator(".conflicts")).to_have_text("clash.txt")
    expect(dialog.get_by_text("Start a new run from where the project stands")).to_be_visible()

    page = visitor.open("/compare?group=clash")
    page.get_by_role("button", name="Other ways to apply clash").click()
    expect(page.get_by_role("menuitem").first).to_be_in_viewport(ratio=1)
    height = page.locator(".attempts").evaluate("each => each.scrollHeight - each.clientHeight")
    assert height <= 0
    press(page, "Escape")
    page.get_by_role("button", name="Apply", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Apply", exact=True).click()
    toast = page.locator(".toast.error")
    expect(toast).to_contain_text("clash.txt")
    assert toast.inner_text().count("clash.txt") == 1
