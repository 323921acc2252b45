"""The server is killed while somebody watches and somebody writes; it comes back, and nothing is
missing."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.server.conftest import Server, free_port, serving
from tests.server.shop import HOLDS, PATIENCE, Shop
from tests.web.visiting import UNREACHED, Visitor, logged_in, visiting
from tests.workspace.repositories import Checkout, checkout

EACH = 40
COUNTS = (
    "echo at work; n=0; for word in killed go; do"
    f' for _ in $(seq {EACH}); do n=$((n+1)); echo "line $n"; sleep 0.1; done;'
    " until [ -e $word ]; do sleep 0.05; done; done; echo all is said"
)
"""So many lines before the server is killed, and as many after, however long that takes."""
HALF = "Make the totals right, and then"
VIEWS = {
    "/new": "codex",
    "/run/told/files": "a.txt",
    "/run/told/log": "the work is stored",
    "/run/told/review": "world",
    "/settings/agents": "codex",
    "/settings/policy": "There is no such file yet",
}
"""What each shows once it has been told."""
GO = """path => {
    history.pushState(null, "", path);
    dispatchEvent(new PopStateEvent("popstate"));
}"""
TALL = (1280, 6000)
"""So that all rows of the log are in the document, of which else only those in sight are."""


@dataclass
class Place:
    """Where servers come and go."""

    folder: Path
    project: Checkout
    server: Server

    @property
    def shop(self) -> Shop:
        return Shop(self.server, self.project)

    def rest(self) -> None:
        """Whatever became of the servers: what runs is stopped, as a test that fails leaves it."""
        for run in json.loads(self.server.ags("list", "--json").stdout):
            if run["ended"] is None:
                self.server.ags("stop", "--now", run["name"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    # One of the ports that nobody else is given: it is to be had again.
    with serving(tmp_path, port=free_port()) as server:
        (server.home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
        project = checkout(server.home / "project")
        project.write("a.txt", "hello\n")
        project.commit("first")
        made = Place(tmp_path, project, server)
        try:
            yield made
        finally:
            made.rest()


@pytest.fixture
def visitor(browser: Browser, place: Place) -> Iterator[Visitor]:
    session = logged_in(browser, place.server)
    with visiting(browser, place.server, session) as made:
        yield made


def test_a_server_that_is_killed_and_comes_back_loses_nothing(
    visitor: Visitor, place: Place
) -> None:
    name = place.shop.at_work(COUNTS, name="counts")
    workspace = place.shop.workspace(name)
    watched, written = visitor.open(f"/run/{name}", size=TALL), visitor.open("/new")
    expect(watched.get_by_text("line 5", exact=True)).to_be_visible()
    written.get_by_label("Goal").fill(HALF)
    visitor.expects(UNREACHED)

    place.server.end(signal.SIGKILL)
    (workspace / "killed").touch()
    for page in (watched, written):
        expect(connection(page)).to_have_text("reconnecting")
    expect(watched.get_by_text("Reconnecting to the server. The run goes on")).to_be_visible()
    said = lines(watched)

    with serving(place.folder, port=place.server.port) as place.server:
        for page in (watched, written):
            expect(connection(page)).to_have_text("live")
        # Further than it was: what was said meanwhile has come as well.
        expect(watched.get_by_text(f"line {2 * EACH}", exact=True)).to_be_visible()
        (workspace / "go").touch()
        expect(watched.get_by_text("all is said", exact=True)).to_be_visible()
        expect(watched.get_by_text("Reconnecting to the server")).to_have_count(0)
        told = lines(watched)
        assert told == [f"line {number}" for number in range(1, len(told) + 1)]
        assert len(told) == place.shop.log(name).count("line ") > len(said)

        expect(written.get_by_label("Goal")).to_have_value(HALF)
        written.reload()
        expect(written.get_by_label("Goal")).to_have_value(HALF)
        expect(connection(written)).to_have_text("live")
        expect(watched.locator(".run-title .state")).to_have_text("done")


def connection(page: Page) -> Locator:
    return page.locator(".bar .connection")


def lines(page: Page) -> list[str]:
    found = page.locator(".item-lines > div").all_inner_texts()
    return [text for text in found if text.startswith("line ")]


def test_what_is_sent_while_there_is_no_server_is_not_lost(visitor: Visitor, place: Place) -> None:
    name = place.shop.done(name="told")
    page = visitor.open(f"/run/{name}")
    field = page.get_by_label("Tell told what to do next")
    field.fill("echo more >> a.txt")
    visitor.expects(UNREACHED)
    place.server.end(signal.SIGKILL)
    expect(connection(page)).to_have_text("reconnecting")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("Cannot reach the server")).to_be_visible()
    expect(field).to_have_value("echo more >> a.txt")
    with serving(place.folder, port=place.server.port) as place.server:
        expect(connection(page)).to_have_text("live")
        page.get_by_role("button", name="Send").click()
        expect(field).to_have_value("")
        place.shop.until(name, lambda run: run["turn"] == 1 and run["ended"] is not None)
        assert (place.shop.workspace(name) / "a.txt").read_text() == "hello\nworld\nmore\n"


def test_parts_of_the_page_that_are_wanted_while_there_is_no_server_come_with_it(
    visitor: Visitor, place: Place
) -> None:
    name = place.shop.at_work(f"{HOLDS}; curl -s -m 900 http://one.example/", name="asks", ask=True)
    workspace = place.shop.workspace(name)
    board, run = visitor.open(), visitor.open(f"/run/{name}/terminal")
    held: list[Route] = []
    board.route("**/asks.js", lambda route: held.append(route), times=1)
    board.reload()
    eventually_in(board, lambda: held)
    expect(connection(board)).to_have_text("live")
    shell = run.get_by_role("button", name="Open a shell in its sandbox")
    expect(shell).to_be_visible()
    visitor.expects(UNREACHED)

    place.server.end(signal.SIGKILL)
    held[0].continue_()
    for page in (board, run):
        expect(connection(page)).to_have_text("reconnecting")
    board.get_by_role("link", name="New run").first.click()
    shell.click()
    expect(board.get_by_label("Goal")).to_have_count(0)
    expect(run.locator(".xterm")).to_have_count(0)

    with serving(place.folder, port=place.server.port) as place.server:
        expect(board.get_by_label("Goal")).to_be_visible()
        expect(run.locator(".xterm")).to_be_visible()
        (workspace / "go").touch()
        expect(board.locator(".ask")).to_have_count(1)
        place.shop.told("POST", f"/runs/{name}/stop", {"now": True})
        place.shop.until(name, lambda run: run["ended"] is not None)


def test_a_view_that_is_opened_while_there_is_no_server_is_shown_when_it_is_back(
    visitor: Visitor, place: Place
) -> None:
    place.shop.done(name="told")
    pages = {path: visitor.open() for path in VIEWS}
    for page in pages.values():
        expect(connection(page)).to_have_text("live")
    watched = visitor.open("/run/told")
    ends = watched.locator(".item-status", has_text="done")
    expect(ends).to_have_count(1)
    visitor.expects(UNREACHED)
    place.server.end(signal.SIGKILL)
    again = place.server.ags("restart", "told")
    assert again.returncode == 0, again.stderr
    for path, page in pages.items():
        expect(connection(page)).to_have_text("reconnecting")
        page.evaluate(GO, path)
    for page in pages.values():
        expect(page.locator("main").get_by_text("The server does not answer").first).to_be_visible()
    with serving(place.folder, port=place.server.port) as place.server:
        for path, page in pages.items():
            expect(page.locator("main")).to_contain_text(VIEWS[path])
            expect(page.locator("main").get_by_text("not answer")).to_have_count(0)
        expect(ends).to_have_count(2)


def eventually_in(page: Page, found: Callable[[], object]) -> None:
    """While it waits, what the page asks for is passed on."""
    until = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < until
        page.wait_for_timeout(50)
