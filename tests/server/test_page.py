"""The page's own files, and the addresses within it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from ags.server.page import FOLDER, IMPORT_MAP, Page
from tests.server.conftest import Answer, Server

VIEWS = (
    "/",
    "/login",
    "/new",
    "/compare",
    "/settings",
    "/settings/policy",
    "/settings/doctor",
    "/run/fix-login",
    "/run/fix-login/terminal",
    "/run/fix-login/review",
)
NOWHERE = (
    "/run",
    "/run/",
    "/run/Fix",
    "/run/-x",
    "/run/a/b",
    "/run/a/review/",
    "/run/" + "a" * 49,
    "/settings/",
    "/settings/passwords",
    "/new/",
    "/vendor",
    "/vendor/vendor.lock",
    "/vendor/preact/LICENSE",
    "/page.py",
)
PRELOAD = re.compile(rb'<link rel="modulepreload" href="([^"]+)">\n')


def page(server: Server, path: str) -> Answer:
    return server.send("GET", path, {})


def directives(answer: Answer) -> dict[str, str]:
    told = answer.headers["Content-Security-Policy"]
    return dict(each.strip().split(" ", 1) for each in told.split(";"))


@pytest.mark.parametrize("path", VIEWS)
def test_every_address_within_the_page_is_answered_with_the_page(shared: Server, path: str) -> None:
    answer = page(shared, path)
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/html")
    assert re.sub(PRELOAD, b"", answer.body) == (FOLDER / "index.html").read_bytes()


def parts(server: Server, path: str) -> list[str]:
    return [found.decode() for found in PRELOAD.findall(page(server, path).body)]


@pytest.mark.parametrize(
    ("path", "own", "other"),
    [
        ("/", "/board/rows.js", "/review/rows.js"),
        ("/run/fix/review", "/review/words.js", "/run/feed.js"),
        ("/run/fix/network", "/run/feed.js", "/board/rows.js"),
    ],
)
def test_the_page_names_all_that_its_view_begins_with(
    shared: Server, path: str, own: str, other: str
) -> None:
    """Parts of parts as well, those of others too; not what another view is made of."""
    named = parts(shared, path)
    assert {own, "/app.js", "/store.js", "/vendor/signals-core/signals-core.module.js"} < {*named}
    assert other not in named and len(named) == len(set(named))
    for each in named:
        assert page(shared, each).status == 200


@pytest.mark.parametrize("path", NOWHERE)
def test_an_address_that_is_none_of_the_page_needs_a_token_as_all_else(
    shared: Server, path: str
) -> None:
    assert page(shared, path).status == 401
    assert shared.call("GET", "/" + path).status == 404


def test_the_page_allows_its_import_map_and_no_other_script_in_it(shared: Server) -> None:
    answer = page(shared, "/")
    found = IMPORT_MAP.search(answer.body)
    assert found is not None
    digest = base64.b64encode(hashlib.sha256(found[1]).digest()).decode()
    assert directives(answer)["script-src"] == f"'self' 'sha256-{digest}'"
    scripts = re.findall(rb"<script\b([^>]*)>", answer.body)
    assert scripts == [b' type="importmap"', b' type="module" src="/app.js"']
    assert not re.search(rb"\son[a-z]+\s*=|javascript:", answer.body)


def test_there_is_one_policy_and_it_is_strict(shared: Server) -> None:
    for path in ("/", "/app.js", "/style.css", "/run/fix-login"):
        told = directives(page(shared, path))
        assert "," not in page(shared, path).headers["Content-Security-Policy"]
        assert told["default-src"] == "'none'" and told["connect-src"] == "'self'"
        assert told["frame-ancestors"] == told["base-uri"] == told["form-action"] == "'none'"
        assert told["frame-src"] == "http://127.0.0.1:* http://localhost:*"
        assert "unsafe" not in told["script-src"]


def test_a_page_that_was_not_changed_is_not_sent_again(shared: Server) -> None:
    first = page(shared, "/new")
    again = shared.send("GET", "/new", {"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]


def test_modules_are_sent_as_what_a_browser_takes_for_modules(shared: Server) -> None:
    for path in ("/app.js", "/vendor/preact/preact.mjs", "/views/board.js"):
        assert page(shared, path).headers["Content-Type"].startswith("text/javascript")


def test_whoever_works_on_the_page_sees_each_change(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    at_work, usual = Page(tmp_path, dev=True), Page(tmp_path)
    (tmp_path / "new.js").write_text("// @ts-check\n")
    assert at_work.has("/new.js") and not usual.has("/new.js")
    (tmp_path / "new.js").unlink()
    assert not at_work.has("/new.js")
