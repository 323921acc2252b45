"""Whatever an agent, a repository or a goal says is shown as text: nothing of it runs, becomes part
of the page, or hides."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from ags.runs import Run
from tests.server.shop import Shop, eventually
from tests.web.past import Told, happened
from tests.web.visiting import Visitor
from tests.workspace.repositories import checkout

SCRIPT = "<script>window.owned=1</script>"
IMAGE = "<img src=x onerror='window.owned=1'>"
EVIL = f"{SCRIPT}{IMAGE}<iframe src=//evil.example></iframe><b class=evil>bold</b>"
LEADS = "[here](javascript:window.owned=1) <a href='javascript:window.owned=1'>x</a>"
UNSEEN = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m \u202egnp.exe\u202c \u2066x\u2069 \u200bzero \x00"
    " \U000e0041\u200c end"
)
EMOJI = "\U0001f469\u200d\U0001f4bb"
ALL = f"{EVIL} {LEADS} {UNSEEN} {EMOJI}"
FOLDER = "<img src=x onerror=window.owned=1> \u202etcejorp"
FILE = "<img src=x onerror=window.owned=1>\u202e.py"
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200c\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)

TOLD: tuple[Told, ...] = (
    ("status", {"state": EVIL}),
    (
        "message",
        {"text": f"{ALL}\n\n```{EVIL}\n{ALL}\n```\n\n- {ALL}\n\n# {ALL}\n\n> `{ALL}` **{ALL}**"},
    ),
    ("thinking", {"text": ALL}),
    ("tool_call", {"tool": ALL, "input": {ALL: ALL, "command": ALL}, "id": "t1"}),
    ("tool_result", {"ok": False, "output": ALL, "id": "t1"}),
    (
        "tool_call",
        {
            "tool": "Edit",
            "input": {"file_path": ALL, "old_string": ALL, "new_string": f"{ALL}!"},
            "id": "t2",
        },
    ),
    ("tool_result", {"ok": True, "output": ALL, "id": "t2"}),
    ("output", {"text": ALL, "stream": "stderr"}),
    ("output", {"text": ALL}),
    ("egress", {"allowed": False, "host": EVIL, "port": 443, "path": ALL, "reason": ALL}),
    ("hook", {"tool": ALL, "by": [ALL], "reason": ALL, "decision": "deny"}),
    ("ask", {"id": "a1", "outcome": "asked", "host": EVIL, "port": 443}),
    ("system", {"text": ALL, "subject": ALL, "error": {"cause": ALL, "hint": f"`{ALL}`"}}),
    ("message", {"text": "the end of it", "error": True}),
)
# Every element that only the hostile text could have made.
STRANGE = """() => ({
    owned: window.owned ?? null,
    elements: [...document.querySelectorAll(
        "img, iframe, object, embed, .evil, script:not([src='/app.js']):not([type=importmap]),"
        + " a[href^='javascript:' i], [onerror], [onload], svg script"
    )].map((each) => each.outerHTML.slice(0, 200)),
    titles: document.title,
})"""


@pytest.fixture(scope="module")
def hostile(shop: Shop) -> Run:
    """A run of which everything is meant to harm whoever looks at it."""
    project = checkout(shop.server.home / FOLDER)
    project.write("a.txt", "hello\n")
    project.commit("first")
    shop = Shop(shop.server, project)
    answer = shop.server.call("POST", "/projects", json={"url": str(project.folder), "link": True})
    assert answer.status == 201, answer.text
    return happened(
        shop,
        "hostile",
        TOLD,
        goal=ALL.replace("\x00", ""),
        notes=(ALL,),
        stopped_by=ALL,
        group="hostile",
        files={
            "a.txt": f"{ALL}\n".replace("\x00", ""),
            FILE: f"def f():\n    return '''{EVIL}'''  # \u202e }} if admin {{\n",
            ".github/workflows/ci.yml": f"run: '{EVIL}'\n",
        },
    )


def harmless(page: Page) -> str:
    """All that the page shows, once it is sure that it is only text."""
    found = page.evaluate(STRANGE)
    assert found["owned"] is None and found["elements"] == []
    assert "owned" not in found["titles"]
    text: str = page.evaluate("document.body.innerText")
    return text


VIEWS = {
    "/": "hostile",
    "/run/hostile": "the end of it",
    "/run/hostile/log": "the end of it",
    "/run/hostile/network": "No requests yet",
    "/run/hostile/review": "window.owned",
    "/compare?group=hostile": "What it said",
}


@pytest.mark.parametrize("path", VIEWS)
def test_what_is_hostile_is_text(visitor: Visitor, hostile: Run, path: str) -> None:
    page = visitor.open(path, size=(1280, 4000))
    expect(page.locator("main").get_by_text(VIEWS[path]).first).to_be_visible()
    expect(page.locator("main .spinner")).to_have_count(0)
    text = harmless(page)
    assert "<img src=x onerror=" in text
    assert path.endswith("network") or EMOJI in text
    assert HIDDEN.findall(text) == []


def test_what_is_hostile_and_folded_is_text_when_it_is_opened(
    visitor: Visitor, hostile: Run
) -> None:
    page = visitor.open("/run/hostile", size=(1280, 6000))
    expect(page.get_by_text("the end of it")).to_be_visible()
    folded = page.locator(".item-head[aria-expanded=false]")
    while folded.count():
        folded.first.click()
    text = harmless(page)
    assert text.count(SCRIPT) > 20 and HIDDEN.findall(text) == []


def test_links_of_an_agent_lead_only_where_they_say(visitor: Visitor, shop: Shop) -> None:
    told = "See https://example.com/a?b=1 and [bank](https://evil.example/) and javascript:alert(1)"
    happened(shop, "links", [("message", {"text": told})])
    page = visitor.open("/run/links")
    expect(page.get_by_text("See ")).to_be_visible()
    links = page.locator(".item-message a")
    expect(links).to_have_count(2)
    for link in links.all():
        address = link.get_attribute("href") or ""
        assert address.startswith("https://") and address in link.inner_text()
        assert {"noopener", "noreferrer"} <= set((link.get_attribute("rel") or "").split())


def test_a_project_is_named_in_plain_letters(visitor: Visitor, hostile: Run) -> None:
    page = visitor.open("/new")
    expect(page.get_by_label("Project")).to_contain_text("img-src-x-onerror")
    assert HIDDEN.findall(harmless(page)) == []


def test_files_of_a_workspace_are_text(visitor: Visitor, shop: Shop) -> None:
    goal = f"echo '{EVIL.replace(chr(39), '')}' > index.html; echo at work; exec sleep 600"
    with shop.working(goal, name="files"):
        page = visitor.open("/run/files/files")
        page.get_by_role("button", name="index.html").click()
        expect(page.get_by_text("<img src=x").first).to_be_visible()
        harmless(page)


def test_a_terminal_shows_bytes_and_does_nothing_else(visitor: Visitor, shop: Shop) -> None:
    """A shell beside the run: what is printed there could be anything."""
    with shop.working("echo at work; exec sleep 600", name="terminal"):
        page = visitor.open("/run/terminal/terminal")
        page.get_by_role("button", name="Open a shell").click()
        expect(page.get_by_text("A shell in the sandbox")).to_be_visible()
        screen = page.locator(".xterm-rows")
        expect(screen).to_contain_text(re.compile(r"[$#]"))
        page.keyboard.type("printf '\\033]0;owned\\007\\033]8;;javascript:window.owned=1\\007")
        page.keyboard.type(f"{SCRIPT}\\033]8;;\\007 %s' the-end\n")
        expect(screen).to_contain_text(f"{SCRIPT} the-end")
        screen.get_by_text("owned=1").last.click(modifiers=["Control"], force=True)
        harmless(page)


def test_what_a_hostile_run_asks_is_text(visitor: Visitor, shop: Shop) -> None:
    path = "/<img%20src=x%20onerror=window.owned=1>"
    goal = f"echo at work; curl -g -s -m 600 'http://new.example{path}'; exec sleep 600"
    with shop.working(goal, name="asks", ask=True):
        eventually(lambda: shop.get("/asks")["items"])
        page = visitor.open()
        expect(page.get_by_role("article", name="asks asks")).to_be_visible()
        harmless(page)


def test_such_text_does_run_where_it_is_taken_for_html(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(SCRIPT)
    assert page.evaluate(STRANGE)["owned"] == 1
    page.set_content(f"{IMAGE}<b class=evil></b>")
    page.wait_for_function("window.owned === 1")
    assert len(page.evaluate(STRANGE)["elements"]) == 2
    page.close()


def test_a_script_that_got_into_the_page_would_not_run(visitor: Visitor) -> None:
    """The policy holds even if the page fails: and the browser tells of it."""
    page = visitor.open()
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    visitor.expects(re.compile("forbidden: |violates the following|Content Security Policy"))
    visitor.expects(re.compile("Failed to load resource|off-origin: "))
    page.evaluate(
        """html => { const place = document.createElement("div"); place.innerHTML = html;
        const script = document.createElement("script"); script.textContent = "window.owned = 1";
        document.body.append(place, script); }""",
        EVIL,
    )
    page.wait_for_function("document.querySelector('img[src=x]')?.complete")
    assert page.evaluate("window.owned ?? null") is None


def test_no_run_can_be_named_to_harm(shop: Shop) -> None:
    for name in (SCRIPT, "a/../b", "\u202eabc", "a b", "-x", "A"):
        shop.refused(422, "POST", "/runs", shop.wish(name=name))


JUDGED = """async () => {
    const { exact, oneLine } = await import("/run/text.js");
    const { Log } = await import("/run/events.js");
    const log = new Log();
    for (const [seq, about] of [[1, "make"], [2, "rm -rf ."]]) {
        log.add({ seq, ts: 0, kind: "ask", id: "ybcdf1", outcome: "asked", tool: "Bash", about });
    }
    return {
        cut: oneLine("npm test" + " ".repeat(1300) + "; rm -rf ."),
        coloured: exact("./build\\x1b[m.sh\\u3164"),
        asked: log.items.map((each) => each.fields.about),
    };
}"""


def test_what_is_to_be_judged_hides_nothing(visitor: Visitor) -> None:
    shown = visitor.open().evaluate(JUDGED)
    assert shown["cut"] == "npm test…"
    assert shown["coloured"] == "./build\\x1b[m.sh\\u3164"
    assert shown["asked"] == ["make", "rm -rf ."]
