"""Everything by keys: no mouse is touched from the board to what is applied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.logins import stand_in
from tests.server.shop import Shop, eventually
from tests.web.past import happened
from tests.web.visiting import Visitor

VIEWS = ("/", "/new", "/run/older", "/run/older/review", "/settings/policy")


@pytest.fixture(scope="module", autouse=True)
def _older(shop: Shop) -> None:
    """The form begins as the last run did: with the agent shell."""
    happened(shop, "older")
    url = {"url": str(shop.project.folder), "link": True}
    shop.server.call("POST", "/projects", json=url)
    eventually(lambda: [each["state"] for each in shop.get("/projects")["items"]] == ["ready"])


# A link may stand for its whole row, and a frame for the field in it.
FOCUS = """() => {
    const at = document.activeElement;
    if (!at || at === document.body) return null;
    const marked = ({ outlineStyle, outlineWidth }) =>
        outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
    const around = [at, at.parentElement].map((each) => getComputedStyle(each));
    around.push(getComputedStyle(at, "::after"));
    const box = at.getBoundingClientRect();
    const inside = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0
        && box.left < innerWidth;
    return { what: at.outerHTML.slice(0, 200), visible: inside && around.some(marked) };
}"""


# As a link does: what the page knows of all runs, it knows still.
GOES = "path => { history.pushState(null, '', path); dispatchEvent(new Event('popstate')); }"


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_from_the_board_to_what_is_applied(visitor: Visitor, shop: Shop) -> None:
    page = visitor.open()
    expect(page.get_by_role("link", name="make the log-in work")).to_be_visible()
    press(page, "n")
    expect(page.get_by_label("Goal")).to_be_focused()
    page.keyboard.type("echo by keys >> a.txt")
    expect(page.get_by_role("button", name="Start")).to_be_enabled()
    press(page, "Control+Enter")
    expect(page).to_have_url(re.compile("/run/echo-by-keys"))
    expect(page.locator(".run-title .state")).to_have_text("done")

    press(page, "Escape")
    expect(page.get_by_role("row").filter(has_text="echo by keys")).to_be_visible()
    press(page, "j")
    expect(page.get_by_role("link", name="echo by keys >> a.txt")).to_be_focused()
    press(page, "Enter")
    expect(page.locator(".run-title .state")).to_have_text("done")
    press(page, "v")
    expect(page.locator(".diff-row.added")).to_have_text(re.compile("by keys"))

    press(page, "j", "c")
    expect(page.get_by_label(re.compile("^Comment on line"))).to_be_focused()
    page.keyboard.type("Very good")
    press(page, "Control+Enter")
    expect(page.get_by_role("article", name="Comment on a.txt:2")).to_be_visible()

    before = shop.project.ask("rev-parse", "main")
    press(page, "a")
    expect(page.get_by_role("dialog").get_by_role("radio", name="Merge")).to_be_focused()
    press(page, "ArrowDown", "Control+Enter")
    expect(page.get_by_text("Applied to main (squash)")).to_be_visible()
    assert shop.project.ask("rev-parse", "main^") == before
    assert (shop.project.folder / "a.txt").read_text() == "hello\nby keys\n"


def opened(visitor: Visitor, path: str) -> Page:
    """Loaded, and with the focus nowhere."""
    page = visitor.open(path)
    expect(page.locator("main h1")).not_to_have_count(0)
    page.evaluate("document.activeElement.blur()")
    return page


@pytest.mark.parametrize("path", VIEWS)
def test_the_question_mark_lists_all_keys(visitor: Visitor, path: str) -> None:
    page = opened(visitor, path)
    press(page, "?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_text("Show all keys")).to_be_visible()
    expect(keys.get_by_text("Go to the settings")).to_be_visible()
    # One that means something else here is listed for that alone.
    listed = keys.locator("section", has_not_text="While typing").locator("dd .keys")
    texts = listed.all_inner_texts()
    assert len(texts) == len(set(texts)) > 7
    expect(keys.get_by_text("New run", exact=True).and_(keys.locator("dt"))).to_have_count(
        0 if path.endswith("/review") else 1
    )
    press(page, "Escape")
    expect(keys).to_have_count(0)


@pytest.mark.parametrize("path", VIEWS)
def test_whoever_goes_by_tab_sees_where_they_are(visitor: Visitor, path: str) -> None:
    page = opened(visitor, path)
    seen = []
    for _ in range(25):
        press(page, "Tab")
        seen.append(page.evaluate(FOCUS))
    assert [each for each in seen if each and not each["visible"]] == []
    assert len({each["what"] for each in seen if each}) > 5


def test_what_is_typed_into_a_field_is_no_key(visitor: Visitor) -> None:
    page = opened(visitor, "/")
    press(page, "/")
    expect(page.get_by_label("Search runs")).to_be_focused()
    page.keyboard.type("n?gs")
    expect(page).to_have_url(re.compile(r"\?q=n%3Fgs$"))
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("No run matches")).to_be_visible()


FIELDS = {
    "/new": "Goal",
    "/run/older/network": "Filter by host",
    "/settings/policy": "Policy, as YAML",
    "/": "Search runs",
}


@pytest.mark.parametrize("path", FIELDS)
def test_escape_leaves_a_field_with_what_is_typed_and_keys_work_again(
    visitor: Visitor, path: str
) -> None:
    page = opened(visitor, path)
    field = page.get_by_label(re.compile(FIELDS[path], re.IGNORECASE)).first
    field.click()
    page.keyboard.type("n?")
    press(page, "Escape")
    expect(field).not_to_be_focused()
    expect(field).to_have_value("n?")
    press(page, "?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_text("Leave the field")).to_be_visible()
    press(page, "Escape")
    expect(keys).to_have_count(0)


def test_escape_in_a_dialog_is_the_dialogs(visitor: Visitor) -> None:
    page = opened(visitor, "/run/older/review")
    expect(page.locator(".diff-row.added")).not_to_have_count(0)
    press(page, "a")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("radio", name="Merge")).to_be_focused()
    press(page, "Escape")
    expect(dialog).to_have_count(0)
    expect(page).to_have_url(re.compile("/review$"))


def test_a_dialog_that_closes_gives_the_focus_back(visitor: Visitor) -> None:
    page = opened(visitor, "/run/older")
    restart, dialog = page.get_by_role("button", name="Restart"), page.get_by_role("dialog")

    def ask() -> None:
        press(page, "Enter")
        expect(dialog.get_by_role("button", name="Restart")).to_be_focused()

    restart.focus()
    ask()
    press(page, "Escape")
    expect(dialog).to_have_count(0)
    expect(restart).to_be_focused()
    ask()
    page.mouse.click(5, 5)
    expect(dialog).to_have_count(0)
    expect(restart).to_be_focused()
    ask()
    dialog.get_by_role("button", name="Cancel").click()
    expect(restart).to_be_focused()


def test_the_bar_can_be_skipped(visitor: Visitor) -> None:
    page = opened(visitor, "/run/older/review")
    expect(page.locator(".diff-row.added")).not_to_have_count(0)
    press(page, "Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    press(page, "Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator(".diff-row.added")).not_to_have_count(0)
    press(page, "Tab")
    expect(page.locator("main :focus")).to_have_count(1)


def test_runs_are_gone_through_one_after_the_other(visitor: Visitor, shop: Shop) -> None:
    happened(shop, "newer")
    page = opened(visitor, "/")
    # One after the other as the board has them, which may hear of it a little later.
    expect(page.get_by_role("row").filter(has_text="newer")).to_be_visible()
    page.evaluate(GOES, "/run/newer/log")
    expect(page.locator(".run-title h1")).to_have_text("newer")
    press(page, "J")
    expect(page).not_to_have_url(re.compile("/run/newer"))
    expect(page).to_have_url(re.compile("/log$"))
    expect(page.locator(".run-title h1")).not_to_have_text("newer")
    press(page, "K")
    expect(page).to_have_url(re.compile("/run/newer/log$"))


def test_the_projects_there_are_can_be_chosen_at_once(visitor: Visitor) -> None:
    page = visitor.open("/new")
    project = page.get_by_label("Project", exact=True)
    expect(project.locator("option", has_text="project")).not_to_have_count(0)
    expect(page.get_by_label("Address")).to_have_count(0)


SHOWN = {
    "": ("Hello",),
    "none": ("http://a.b/?c=d", "https://"),
    "https://a.b": ("(https://a.b).", "thanks"),
    "https://a.b/?c=d": ("https://a.b/?c=d", "https://e.f"),
    "https://a.example/?b=%2F&c=d": ("see https://a.exampl", "e/?b=%2F&c=d", "yours"),
    "https://a.example/": ("https://a.example/", "thanks"),
}
"""What stands on a screen of 20 columns, by what is meant: what fills a row goes on below it."""
FOUND = """async (all) => {
    const { addressIn } = await import("/addresses.js");
    return all.map((rows) => addressIn(rows.map((text) => ({ text, isMore: false })), 20));
}"""


def test_the_address_that_a_program_shows_is_found_as_it_meant_it(visitor: Visitor) -> None:
    found = visitor.open("/settings/agents").evaluate(FOUND, list(SHOWN.values()))
    assert found == [address if "://" in address else "" for address in SHOWN]


def test_an_agent_is_logged_in(visitor: Visitor, shop: Shop, tmp_path: Path) -> None:
    stand_in.give(shop.server.ags_home)
    with stand_in.maker(tmp_path, shop.server.home) as vendor:
        page = visitor.open("/settings/agents")
        codex = page.get_by_role("region", name="codex")
        expect(codex.get_by_role("button", name="Install")).to_be_visible()
        expect(codex.get_by_role("button", name="Log in")).to_have_count(0)
        card = page.get_by_role("region", name="claude")
        card.get_by_role("button", name="Log in to claude").focus()
        press(page, "Enter")
        screen = card.locator(".xterm-rows")
        expect(screen).to_contain_text("Paste code here")
        address = card.get_by_role("link", name="Open claude.ai")
        expect(address).to_have_attribute("href", stand_in.ADDRESS)
        expect(address).to_have_attribute("rel", "noopener noreferrer")
        page.keyboard.type(f"{stand_in.WRONG}\n")
        expect(card.get_by_text("it has ended, exit code 1")).to_be_visible()
        expect(screen).to_contain_text("That code is no good")

        press(page, "Control+Shift+.", "Escape")
        expect(screen).to_have_count(0)
        expect(card.get_by_role("button", name="Log in to claude")).to_be_focused()
        press(page, "Enter")
        expect(screen).to_contain_text("Paste code here")
        page.keyboard.type("the-code\n")
        expect(page.get_by_text("claude is logged in")).to_be_visible()
        expect(card).to_contain_text("kept by ags: anthropic")
        expect(screen).to_have_count(0)
        expect(card.get_by_role("button", name="Log in again to claude")).to_be_focused()
        assert [each["code"] for each in vendor.asked] == ["the-code"]
