"""What a person means otherwise a moment later: a run that is kept, a form that is filled again,
files that have changed since."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.shop import HOLDS, Shop, eventually
from tests.web.past import happened
from tests.web.visiting import Visitor

HELD = """
const { setTimeout, clearTimeout } = window, held = new Map();
window.setTimeout = (run, wait, ...rest) => {
  if (!(wait >= 5000 && wait <= 10000)) return setTimeout(run, wait, ...rest);
  held.set(-1 - held.size, () => run(...rest));
  return -held.size;
};
const taken = (id) => { const run = held.get(id); held.set(id, () => {}); return run; };
window.clearTimeout = (id) => held.has(id) ? taken(id) : clearTimeout(id);
window.decide = () => { for (const id of [...held.keys()]) taken(id)(); };
"""
"""The time for a change of mind lasts as long as a slow machine takes: until a test ends it."""
REFUSED = re.compile(r"status of 409 \(Conflict\)")


@pytest.fixture
def page(visitor: Visitor) -> Page:
    made = visitor.open()
    made.add_init_script(HELD)
    made.reload()
    return made


def at(page: Page, name: str) -> None:
    page.goto(f"{page.url.partition('/run')[0].rstrip('/')}/run/{name}")
    expect(page.get_by_role("button", name="Delete")).to_be_enabled()


def toast(page: Page, text: str) -> Locator:
    return page.locator(".toast", has_text=text)


def delete(page: Page, name: str) -> None:
    page.keyboard.press("D")
    expect(toast(page, f"{name} will be deleted")).to_be_visible()


def is_there(shop: Shop, name: str) -> bool:
    return shop.server.call("GET", f"/runs/{name}").status == 200


def test_a_run_that_is_kept_or_told_more_is_not_deleted(page: Page, shop: Shop) -> None:
    name = shop.done(name="told")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    at(page, name)
    delete(page, name)
    page.get_by_role("button", name="Keep it").click()
    expect(toast(page, "will be deleted")).to_have_count(0)
    delete(page, name)
    page.get_by_label("Tell told what to do next").fill("echo more >> a.txt")
    page.keyboard.press("Control+Enter")
    expect(toast(page, "will be deleted")).to_have_count(0)
    page.evaluate("decide()")
    shop.until(name, lambda run: run["turn"] == 1 and run["ended"] is not None)
    expect(page.locator(".run-title .state")).to_have_text("done")
    assert "POST" in sent and "DELETE" not in sent


def test_whoever_reviews_what_is_deleted_is_taken_to_the_board(page: Page, shop: Shop) -> None:
    happened(shop, "reviewed")
    at(page, "reviewed")
    delete(page, "reviewed")
    page.keyboard.press("v")
    expect(page.locator(".diff-row.added")).not_to_have_count(0)
    page.evaluate("decide()")
    expect(toast(page, "reviewed is deleted")).to_be_visible()
    expect(page).to_have_url(re.compile(r"//[^/]*/$"))
    assert not is_there(shop, "reviewed")


def test_who_insists_is_asked_only_where_that_helps(
    page: Page, visitor: Visitor, shop: Shop
) -> None:
    visitor.expects(REFUSED)
    happened(shop, "nowhere-else")
    shop.project.ask("branch", "-D", "agent--nowhere-else")
    at(page, "nowhere-else")
    delete(page, "nowhere-else")
    page.evaluate("decide()")
    dialog = page.get_by_role("dialog", name="Cannot let go of its work")
    # It comes by itself, maybe just when Enter is pressed for something else.
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Delete anyway").click()
    expect(toast(page, "nowhere-else is deleted")).to_be_visible()
    assert not is_there(shop, "nowhere-else")

    name = shop.done(name="busy")
    at(page, name)
    delete(page, name)
    shop.told("POST", f"/runs/{name}/tell", {"text": HOLDS})
    eventually(lambda: "at work" in shop.log(name))
    page.evaluate("decide()")
    expect(page.locator(".toast.error")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert is_there(shop, name)


def test_who_stopped_it_is_said_once(visitor: Visitor, shop: Shop) -> None:
    why = {"stopped_by": "stopped by you"}
    happened(shop, "halted", [("status", {"state": "stopped", **why})], state="stopped", **why)
    page = visitor.open("/run/halted")
    expect(page.get_by_text("It was stopped by you", exact=True)).to_be_visible()
    expect(page.locator(".item-status .state")).to_have_text("stopped by you")
    expect(page.locator(".run-title .state")).to_have_attribute("title", "stopped by you")


def test_what_was_chosen_for_one_run_is_not_for_the_next(visitor: Visitor, shop: Shop) -> None:
    shop.told("POST", "/projects", {"url": str(shop.project.folder), "link": True}, 201)
    eventually(lambda: [each["state"] for each in shop.get("/projects")["items"]] == ["ready"])
    once = {"Allow these hosts as well": "one.example", "Memory": "1G", "Begin at": "main"}
    page = visitor.open("/new")
    expect(page.get_by_label("Project", exact=True)).to_have_value(re.compile("^project-"))
    page.get_by_label("Agent", exact=True).select_option("shell")
    page.get_by_label("Model").fill("small")
    page.get_by_text("Advanced").click()
    for label, text in once.items():
        page.get_by_label(label).fill(text)
    page.get_by_label("Goal").fill("true")
    page.get_by_label("Name", exact=True).fill("first")
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile("/run/first$"))
    assert shop.get("/runs/first")["goal"] == "true"
    page.keyboard.press("n")
    expect(page.get_by_label("Goal")).to_have_value("")
    expect(page.get_by_label("Project", exact=True)).to_have_value(re.compile("^project-"))
    expect(page.get_by_label("Agent", exact=True)).to_have_value("shell")
    expect(page.get_by_label("Model")).to_have_value("small")
    for label in once:
        expect(page.get_by_label(label)).to_have_value("")


def test_a_form_that_was_cleared_can_be_had_back(visitor: Visitor) -> None:
    page = visitor.open("/new")
    goal, name = page.get_by_label("Goal"), page.get_by_label("Name", exact=True)
    goal.fill("half a th")
    name.fill("mine")
    page.get_by_role("button", name="Clear").click()
    expect(goal).to_have_value("")
    expect(name).to_have_value("")
    toast(page, "cleared").get_by_role("button", name="Undo").click()
    expect(goal).to_have_value("half a th")
    expect(name).to_have_value("mine")
    page.reload()
    expect(goal).to_have_value("half a th")
    expect(name).to_have_value("mine")


def test_files_of_a_run_at_work_are_read_again(visitor: Visitor, shop: Shop) -> None:
    with shop.working(name="writes") as name:
        page = visitor.open(f"/run/{name}/files")
        expect(page.get_by_role("button", name="a.txt")).to_be_visible()
        made = shop.workspace(name) / "made.txt"
        made.write_text("early\n")
        page.keyboard.press("r")
        page.get_by_role("button", name="made.txt").click()
        expect(page.get_by_text("early", exact=True)).to_be_visible()
        made.write_text("early\nand late\n")
        page.get_by_role("button", name="Read again").click()
        expect(page.get_by_text("and late", exact=True)).to_be_visible()
        expect(page.locator(".files-file .tab-bar")).to_contain_text("15 B")
