"""What a person means otherwise a moment later: a run that is kept, a form that is filled again,
files that have changed since."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.server.shop import HOLDS, Shop, eventually
from tests.web.past import happened
from tests.web.visiting import HOLDS_BACK, Visitor

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
KEPT = "id => Object.keys(localStorage).filter((name) => name.endsWith(`.${id}`))"
FULL = """() => {
    for (let size = 1 << 24; size; size >>= 1) {
        try { localStorage.setItem(`full ${size}`, "x".repeat(size)); } catch { /* half of it */ }
    }
}"""
OFTEN = """const { setInterval } = window;
window.setInterval = (run, wait) => setInterval(run, wait / 50);"""
PORTS = {"items": [{"port": 5173, "host_port": 9, "url": "http://127.0.0.1:9/"}]}


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
    field = page.get_by_label("Tell told what to do next")
    field.fill("echo more >> a.txt")
    page.evaluate(HOLDS_BACK, "/tell")
    page.get_by_role("button", name="Send").click()  # also below a toast
    expect(toast(page, "will be deleted")).to_have_count(0)
    page.wait_for_function("!!window.letGo")
    field.fill("and then")
    page.evaluate("letGo()")
    page.evaluate("decide()")
    shop.until(name, lambda run: run["turn"] == 1 and run["ended"] is not None)
    expect(page.locator(".run-facts")).to_contain_text("Turn")
    expect(page.locator(".run-title .state")).to_have_text("done")
    expect(field).to_have_value("and then")
    assert "POST" in sent and "DELETE" not in sent


def test_whoever_reviews_what_is_deleted_is_taken_to_the_board(page: Page, shop: Shop) -> None:
    gone, other = happened(shop, "reviewed"), happened(shop, "other")
    for run in (gone, other):
        page.evaluate("id => localStorage.setItem(`ags.draft.viewed.${id}`, '{}')", run.id)
    at(page, "reviewed")
    delete(page, "reviewed")
    page.keyboard.press("v")
    expect(page.locator(".diff-row.added")).not_to_have_count(0)
    page.evaluate("decide()")
    expect(toast(page, "reviewed is deleted")).to_be_visible()
    expect(page).to_have_url(re.compile(r"//[^/]*/$"))
    assert not is_there(shop, "reviewed")
    page.wait_for_function(f"id => !({KEPT})(id).length", arg=gone.id)
    assert page.evaluate(KEPT, other.id) == [f"ags.draft.viewed.{other.id}"]


def test_what_cannot_be_kept_is_said_once_and_not_lost(page: Page) -> None:
    page.goto(f"{page.url}new")
    field = page.get_by_label("Goal")
    expect(field).to_be_focused()
    page.evaluate(FULL)
    field.press_sequentially("a long story")
    expect(toast(page, "no room to keep what you write")).to_have_count(1)
    expect(field).to_have_value("a long story")
    # Another tab that keeps something is no reason to forget it.
    page.evaluate("dispatchEvent(new StorageEvent('storage', { key: 'other' }))")
    expect(field).to_have_value("a long story")
    page.evaluate("localStorage.removeItem('full 1'); localStorage.removeItem('full 1024')")
    field.press_sequentially(".")
    page.reload()
    expect(field).to_have_value("a long story.")


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
    page.keyboard.press("v")
    expect(page.locator(".diff-row.added")).not_to_have_count(0)
    shop.told("POST", f"/runs/{name}/tell", {"text": HOLDS})
    eventually(lambda: "at work" in shop.log(name))
    expect(page.get_by_text("The agent is at work (running)")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="Activity")).to_be_visible()
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
    page.get_by_label("Memory").fill("2G")
    page.get_by_label("Memory").fill("")
    expect(page.get_by_label("Memory")).to_be_visible()  # whoever is in it stays there
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

    page.get_by_label("Goal").fill("true")
    page.route("**/api/v1/runs", lambda route: route.fulfill(json={"items": [{"name": "first"}]}))
    page.evaluate(HOLDS_BACK, "/runs")
    page.get_by_role("button", name="Start").click()
    page.wait_for_function("!!window.letGo")
    page.get_by_label("Goal").fill("of the next")
    page.evaluate("letGo()")
    expect(page).to_have_url(re.compile("/run/first$"))
    page.keyboard.press("n")
    expect(page.get_by_label("Goal")).to_have_value("of the next")


def test_to_insist_on_removing_a_project_takes_more_than_another_enter(
    page: Page, visitor: Visitor
) -> None:
    visitor.expects(REFUSED)
    sent: list[str] = []

    def refuse(route: Route) -> None:
        sent.append(route.request.url.partition("?")[2])
        problem = {"title": "Cannot remove it", "detail": "it has work that is nowhere else"}
        route.fulfill(status=409, json=problem)

    page.route("**/projects/project-*", refuse)
    dialog = page.get_by_role("dialog")

    def ask() -> None:
        page.get_by_role("button", name="Actions for").click()
        page.get_by_role("menuitem", name="Remove").click()
        expect(dialog.get_by_role("button", name="Remove")).to_be_focused()
        page.keyboard.press("Enter")
        expect(dialog.get_by_text("nowhere else").first).to_be_visible()
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()

    ask()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    assert sent == [""]
    ask()
    dialog.get_by_role("button", name="Remove anyway").click()
    expect(dialog).to_have_count(0)
    assert sent == ["", "", "force=true"]


def test_what_is_wrong_with_the_reach_is_said(visitor: Visitor) -> None:
    visitor.expects(re.compile("status of 422"))
    page = visitor.open("/new")
    side = page.get_by_label("What it will reach")
    page.get_by_text("Advanced").click()
    hosts = page.get_by_label("Allow these hosts as well")
    hosts.fill("no host!")
    expect(side.get_by_role("alert")).to_be_visible()
    hosts.fill("one.example")
    expect(side.get_by_role("alert")).to_have_count(0)
    expect(side).to_contain_text("one.example")


def test_a_form_that_was_cleared_can_be_had_back(page: Page) -> None:
    page.goto(f"{page.url}new")
    goal, name = page.get_by_label("Goal"), page.get_by_label("Name", exact=True)
    goal.fill("half a th")
    name.fill("mine")
    page.get_by_role("button", name="Clear").click()
    expect(goal).to_have_value("")
    expect(name).to_have_value("")
    toast(page, "cleared").get_by_role("button", name="Undo").click()
    expect(goal).to_have_value("half a th")
    expect(name).to_have_value("mine")
    # Any other site may lead here.
    page.goto(f"{page.url}?goal=evil&agent=gemini")
    expect(goal).to_have_value("half a th")
    expect(name).to_have_value("mine")
    expect(page.get_by_label("Agent", exact=True)).not_to_have_value("gemini")


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

        visitor.expects(re.compile("off-origin: http://127.0.0.1:9/|ERR_|status of 500"))
        answers = iter([{"json": PORTS}])
        page.route("**/ports", lambda route: route.fulfill(**next(answers, {"status": 500})))
        page.add_init_script(OFTEN)
        with page.expect_response(lambda answer: answer.status == 500):
            page.goto(f"{shop.server.url}/run/{name}/preview")
            page.get_by_role("button", name="Port 5173").click()
        expect(page.locator("iframe.preview")).to_be_visible()
