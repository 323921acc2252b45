"""Chromium at a real server's page, watched: whatever it complains about, or asks of anybody else,
fails the test."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    StorageState,
    WebError,
    WebSocket,
    expect,
    sync_playwright,
)

from tests.server.conftest import Server

PROGRAM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",  # it looks at our own page only, and refuses to start as root with one
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever it would like to look up, nothing leaves.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)
PATIENCE = 60_000
DESK, PHONE = (1280, 800), (390, 844)
# What a policy forbids does not always reach the console.
TELLS = """addEventListener("securitypolicyviolation", (event) =>
    console.error(`forbidden: ${event.violatedDirective} ${event.blockedURI}`));"""
STAYS = """const { setTimeout } = window;
window.setTimeout = (run, wait, ...rest) => wait >= 5000 ? 0 : setTimeout(run, wait, ...rest);"""
"""What can be undone can be for as long as a slow machine takes."""
HOLDS_BACK = """path => {
    const { fetch } = window;
    window.fetch = async (url, ...rest) => {
        if (url.endsWith(path)) await new Promise((done) => { window.letGo = done; });
        return fetch(url, ...rest);
    };
}"""
"""A request that is on its way until `letGo`."""
UNREACHED = re.compile("Failed to load resource: net::ERR_")
MISSING = re.compile(r"status of 404 \(Not Found\) at .*/runs/nobody$")


@dataclass
class Watch:
    """All that a good page does not do."""

    origin: str
    found: list[str] = field(default_factory=list)
    expected: list[re.Pattern[str]] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        context.add_init_script(TELLS)
        context.on("console", self._said)
        context.on("weberror", self._failed)
        context.on("dialog", self._asked)
        context.on("request", self._requested)
        context.on("page", self._watch_sockets)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"{message.type}: {message.text} at {message.location['url']}")

    def _failed(self, error: WebError) -> None:
        self._note(f"not caught: {error.error}")

    def _asked(self, dialog: Dialog) -> None:
        self._note(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Request) -> None:
        self._judge(request.url)

    def _watch_sockets(self, page: Page) -> None:
        page.on("websocket", self._connected)

    def _connected(self, socket: WebSocket) -> None:
        self._judge(socket.url.replace("ws://", "http://", 1))

    def _judge(self, url: str) -> None:
        # A worker, and what the person saves, are made of what is here already.
        if not url.startswith((f"{self.origin}/", f"blob:{self.origin}/")):
            self._note(f"off-origin: {url}")

    def _note(self, text: str) -> None:
        if not any(pattern.search(text) for pattern in self.expected):
            self.found.append(text)


@dataclass
class Visitor:
    """A person with a browser. Each page they open is in a window that knows nothing of the others,
    but is logged in."""

    browser: Browser
    server: Server
    session: StorageState | None
    watch: Watch
    windows: list[BrowserContext] = field(default_factory=list)

    def open(
        self,
        path: str = "/",
        size: tuple[int, int] = DESK,
        scheme: str = "dark",
        **options: Any,
    ) -> Page:
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            storage_state=self.session,
            reduced_motion="reduce",
            **options,
        )
        context.set_default_timeout(PATIENCE)
        self.windows.append(context)
        self.watch.over(context)
        page = context.new_page()
        page.goto(path if "://" in path else f"{self.server.url}{path}")
        return page

    def expects(self, complaint: re.Pattern[str]) -> None:
        """What the browser itself says of an answer that the page knows how to take."""
        self.watch.expected.append(complaint)


def link(server: Server) -> str:
    """The real one, as the person gets it."""
    said = server.ags("up", "--link")
    assert said.returncode == 0, said.stderr
    return said.stdout.strip()


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def visiting(browser: Browser, server: Server, session: StorageState | None) -> Iterator[Visitor]:
    """Closed and judged at the end."""
    visitor = Visitor(browser, server, session, Watch(server.url))
    try:
        yield visitor
    finally:
        for window in visitor.windows:
            window.close()
    assert not visitor.watch.found, "\n".join(visitor.watch.found)


def logged_in(browser: Browser, server: Server) -> StorageState:
    with visiting(browser, server, None) as visitor:
        page = visitor.open(link(server))
        expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
        return page.context.storage_state()
