"""A whole day at the page: a project, a run, its work judged, sent back, taken over and taken back.
All of it is real: server, sandbox, repository; and what is done is judged there."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.people import ROOT
from tests.server.shop import Shop, eventually
from tests.server.test_asks import Origin, policy_of
from tests.web.visiting import Visitor, link, visiting
from tests.workspace.repositories import Checkout, checkout

ASKS = "echo at work; curl -s -m 600 http://new.example/rates; echo; echo it is over"
WAITS = """
import os, time
while not os.path.exists("go"): time.sleep(0.05)
"""
"""The agent tries what it changed, and so is at work until somebody has seen it there."""
COMMENTS = ("Say it without the f-string", "Test the empty name as well")


@pytest.fixture(scope="module")
def example(shop: Shop) -> Checkout:
    made = checkout(shop.server.home / "greetings")
    shutil.copytree(ROOT / "example", made.folder, dirs_exist_ok=True)
    made.write("greet.py", (made.folder / "greet.py").read_text() + WAITS)
    made.write(".gitignore", (made.folder / ".gitignore").read_text() + "go\n")
    made.commit("the example")
    return made


@pytest.fixture(scope="module")
def origin(shop: Shop) -> Iterator[Origin]:
    with contextlib.closing(Origin()) as made:
        policy = policy_of(shop)
        policy.parent.mkdir(parents=True)
        where = f"{{address: 127.0.0.1, port: {made.port}}}"
        policy.write_text(f"upstreams:\n  new.example: {where}\n")
        yield made


@pytest.fixture
def stranger(browser: Browser, shop: Shop) -> Iterator[Visitor]:
    """Somebody who is not logged in yet."""
    with visiting(browser, shop.server, None) as made:
        yield made


def test_the_whole_story(stranger: Visitor, shop: Shop, example: Checkout, origin: Origin) -> None:
    page = stranger.open(link(shop.server))
    add_project(page, example)
    start(page, "Greet people by their name", agent="demo", name="greet")
    watch_it_work(page, shop)
    answer_what_another_asks(page, origin)
    comment_on_two_lines(page)
    send_and_see_the_second_turn(page)
    repository = Checkout(Path(shop.get("/runs/greet")["project"]), example.environment)
    before = repository.ask("rev-parse", "main")
    apply(page)
    assert "# Whoever it is" in repository.ask("show", "main:greet.py")
    undo(page)
    assert repository.ask("rev-parse", "main") == before == example.ask("rev-parse", "main")


def add_project(page: Page, example: Checkout) -> None:
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    page.get_by_label("Address").fill(str(example.folder))
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page).to_have_url(re.compile(r"/new\?project=project-"))


def start(page: Page, goal: str, *, agent: str, name: str, ask: bool = False) -> None:
    expect(page.get_by_label("Project")).to_have_value(re.compile("^project-"))
    page.get_by_label("Goal").fill(goal)
    page.get_by_label("Agent", exact=True).select_option(agent)
    page.get_by_label("Name", exact=True).fill(name)
    if ask:
        page.get_by_text("Advanced").click()
        page.get_by_label("When it wants more").select_option("Ask me")
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile(f"/run/{name}$"))


def watch_it_work(page: Page, shop: Shop) -> None:
    activity = page.get_by_role("region", name="Activity")
    expect(activity.get_by_text("First I read the code.")).to_be_visible()
    # It is told while it happens, not at the end.
    expect(state(page)).to_have_text("running")
    (shop.workspace("greet") / "go").touch()
    expect(activity.get_by_text("The change is on a branch of its own.")).to_be_visible()
    expect(state(page)).to_have_text("done")
    tool = activity.get_by_role("button", name="edit greet.py")
    tool.click()
    expect(activity.get_by_text("greet() uses the name")).to_be_visible()
    page.get_by_role("link", name="Network").click()
    refused = page.get_by_role("region", name="Requests").get_by_text("collector.example")
    expect(refused.first).to_be_visible()


def state(page: Page) -> Locator:
    return page.locator(".run-title .state")


def answer_what_another_asks(page: Page, origin: Origin) -> None:
    page.keyboard.press("n")
    start(page, ASKS, agent="shell", name="asks", ask=True)
    # Wherever the person is.
    eventually(lambda: is_board(page))
    card = page.get_by_role("article", name="asks asks")
    expect(card.get_by_text("http://new.example", exact=True)).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\(1\)"))
    assert origin.seen == []
    eventually(lambda: answered(page, card))
    expect(page.get_by_text("Allowed once")).to_be_visible()
    eventually(lambda: origin.seen == ["/rates"])
    page.get_by_role("row").filter(has_text="rates").get_by_role("link").click()
    expect(page.get_by_text("it is over", exact=True)).to_be_visible()


def is_board(page: Page) -> bool:
    """The second key is of the first only if it comes soon."""
    page.keyboard.press("g")
    page.keyboard.press("b")
    return urlsplit(page.url).path == "/"


def answered(page: Page, card: Locator) -> bool:
    """Too early a press is taken for one that was meant for something else."""
    page.keyboard.press("1")
    return card.count() == 0


def comment_on_two_lines(page: Page) -> None:
    page.get_by_role("link", name="AGS, all runs").click()
    page.get_by_role("row").filter(has_text="Greet people").get_by_role("link").click()
    page.get_by_role("link", name=re.compile("^Review")).click()
    for code, text in zip(('return f"Hello', "def test_the_name"), COMMENTS, strict=True):
        row = page.locator(".diff-row", has_text=code)
        row.locator(".numbers").click()
        page.get_by_label(re.compile("^Comment on line")).fill(text)
        page.get_by_role("button", name="Keep comment").click()
        expect(page.get_by_role("article", name="Comment on").filter(has_text=text)).to_be_visible()


def send_and_see_the_second_turn(page: Page) -> None:
    page.get_by_role("button", name="Send 2 comments").click()
    page.get_by_role("button", name="Send to the agent").click()
    page.get_by_role("button", name="Show it").click()
    added = page.locator(".diff-row.added")
    expect(added.filter(has_text="# Whoever it is")).to_be_visible()
    expect(added.filter(has_text="def test_the_name")).to_be_visible()
    for text in COMMENTS:
        expect(page.get_by_role("article", name="Comment on").filter(has_text=text)).to_be_visible()
    page.get_by_label("Compare with").select_option("Since the end of turn 1")
    expect(added.filter(has_text="# Whoever it is")).to_be_visible()
    expect(added.filter(has_text="def test_the_name")).to_have_count(0)
    page.get_by_label("Compare with").select_option("All of its work")
    expect(added.filter(has_text="def test_the_name")).to_be_visible()


def apply(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Apply")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("radio", name="Merge")).to_be_checked()
    dialog.get_by_role("button", name=re.compile("^Apply")).click()
    expect(page.get_by_text("main moved forward")).to_be_visible()
    expect(dialog).to_have_count(0)


def undo(page: Page) -> None:
    page.get_by_role("button", name="Undo apply").click()
    expect(page.get_by_text("Taken back from main")).to_be_visible()
    expect(page.get_by_role("button", name="Undo apply")).to_have_count(0)
