"""Many runs ask at once: a line each, out of the way, and no answer goes astray."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.logins import stand_in
from tests.server.shop import Shop, eventually
from tests.server.test_asks import policy_of
from tests.web.visiting import DESK, PHONE, Visitor

HOLDS = "echo at work; {} wait; sleep 900"
ASKS = "while curl -s -m 900 http://{}.example/ | grep -q 'no answer in time'; do :; done &"
"""Until somebody answers, however long all tests of this file take."""
MANY = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
ALL = len(MANY) + 5
GUARD = 1000
"""Milliseconds after which a press is taken for one that is meant."""
# Three real ones would be as far apart as the machine is slow, and so might be meant.
AT_ONCE = """async () => {
    const press = { key: "0", bubbles: true, cancelable: true };
    const lines = () => document.querySelectorAll(".ask").length;
    const pressed = () => document.body.dispatchEvent(new KeyboardEvent("keydown", press));
    const before = lines(), { now } = Date, at = Date.now();
    Date.now = () => at;
    pressed();
    for (let n = 0; n < 100 && lines() === before; n++) await new Promise(requestAnimationFrame);
    pressed();
    pressed();
    Date.now = now;
}"""
SHOWN = "each => each.scrollIntoView({ block: 'nearest' })"
CUT = "each => { each.parentElement.scrollTop = each.offsetTop + 3; }"
"""Of its edge, not of its text."""
STOPPED = "const at = Date.now(); window.goesOn = Date.now; Date.now = () => at;"
CANNOT = """
window.Notification = class {
  static permission = "granted";
  constructor() { throw new TypeError("Illegal constructor"); }
};
Object.defineProperty(document, "hidden", { get: () => true });
localStorage.setItem("ags.pref.notify", "true");
"""
"""As a phone's browser does it, for somebody who looks elsewhere."""


@pytest.fixture(scope="module")
def asking(shop: Shop) -> Shop:
    """Many asks of six runs."""
    wanted = {"many": MANY} | {f"few-{n}": ("one",) for n in range(5)}
    for name, hosts in wanted.items():
        calls = " ".join(ASKS.format(host) for host in hosts)
        shop.start(HOLDS.format(calls), name=name, ask=True)
    eventually(lambda: len(shop.get("/asks")["items"]) == ALL)
    return shop


def lines(page: Page) -> Locator:
    return page.locator(".ask")


def opened(visitor: Visitor, size: tuple[int, int] = DESK) -> Page:
    page = visitor.open(size=size)
    expect(lines(page)).to_have_count(ALL)
    page.wait_for_timeout(GUARD)
    return page


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_all_that_is_asked_takes_a_third_of_the_window_at_most(
    visitor: Visitor, asking: Shop, size: tuple[int, int]
) -> None:
    page = opened(visitor, size)
    box = page.get_by_role("region", name="What runs ask").bounding_box()
    assert box is not None and box["height"] <= size[1] / 3 + 1
    last = lines(page).last.get_by_role("button", name="Deny")
    last.scroll_into_view_if_needed()
    last.click(trial=True)


def test_asks_of_one_run_stand_together_and_who_began_first_is_first(
    visitor: Visitor, asking: Shop
) -> None:
    page = opened(visitor)
    names = [each.get_attribute("aria-label") for each in lines(page).all()]
    assert names == ["many asks"] * len(MANY) + [f"few-{n} asks" for n in range(5)]
    box = lines(page).first.bounding_box()
    assert box is not None and box["height"] < 40


def test_nothing_moves_under_the_pointer_and_what_is_over_is_not_answered(
    visitor: Visitor, asking: Shop
) -> None:
    page = opened(visitor)
    second = lines(page).nth(1).get_by_role("button", name="Deny")
    where = second.bounding_box()
    second.hover()
    page.keyboard.press("0")
    expect(page.locator(".ask.over")).to_have_count(1)
    eventually(lambda: len(asking.get("/asks")["items"]) == ALL - 1)
    assert second.bounding_box() == where and lines(page).count() == ALL
    expect(lines(page).first.get_by_role("button", name="Deny")).to_be_disabled()
    page.mouse.move(5, 5)
    expect(lines(page)).to_have_count(ALL - 1)


def test_two_presses_at_once_are_one_answer(visitor: Visitor, asking: Shop) -> None:
    before = len(asking.get("/asks")["items"])
    page = visitor.open()
    expect(lines(page)).to_have_count(before)
    page.wait_for_timeout(GUARD)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.evaluate(AT_ONCE)
    expect(lines(page)).to_have_count(before - 1)
    eventually(lambda: len(asking.get("/asks")["items"]) == before - 1)
    assert sent.count("POST") == 1


def test_a_key_that_is_held_down_is_one_answer(visitor: Visitor, asking: Shop) -> None:
    before = len(asking.get("/asks")["items"])
    page = visitor.open()
    expect(lines(page)).to_have_count(before)
    page.wait_for_timeout(GUARD)
    page.keyboard.down("0")
    expect(lines(page)).to_have_count(before - 1)
    page.wait_for_timeout(GUARD)
    page.keyboard.down("0")
    page.wait_for_timeout(GUARD)
    expect(lines(page)).to_have_count(before - 1)
    page.keyboard.up("0")
    page.keyboard.press("0")
    expect(lines(page)).to_have_count(before - 2)
    eventually(lambda: len(asking.get("/asks")["items"]) == before - 2)


def test_beside_what_a_run_did_an_answer_goes_only_to_what_was_there(
    visitor: Visitor, asking: Shop
) -> None:
    page = visitor.open("/run/many/network")
    waiting = page.locator(".network-ask")
    expect(waiting.first).to_be_visible()
    page.get_by_role("button", name="Hide").click()
    page.wait_for_timeout(GUARD)
    before, first = waiting.count(), waiting.first.get_by_role("button", name="Deny")
    box = first.bounding_box()
    assert box is not None
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))
    page.evaluate(STOPPED)
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(*place)
    expect(waiting).to_have_count(before - 1)
    page.mouse.click(*place)
    expect(first).to_be_enabled()
    page.evaluate("Date.now = goesOn")
    page.wait_for_timeout(GUARD)
    page.mouse.click(*place)
    expect(waiting).to_have_count(before - 2)
    assert len([each for each in sent if each.method == "POST"]) == 2


def test_a_browser_that_cannot_notify_shows_what_is_asked(visitor: Visitor, asking: Shop) -> None:
    page = visitor.open()
    page.add_init_script(CANNOT)
    page.reload()
    expect(page.get_by_text("This browser cannot notify you")).to_be_visible()
    expect(lines(page).first).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="few-1")).to_be_visible()
    expect(page.get_by_role("button", name="Notify off")).to_be_visible()


def test_an_ask_is_answered_when_all_its_text_is_in_sight(visitor: Visitor, asking: Shop) -> None:
    page = visitor.open(size=(1280, 420))
    expect(page.locator(".ask.front")).to_be_visible()
    page.wait_for_timeout(GUARD)
    before = len(asking.get("/asks")["items"])
    lines(page).first.hover()
    page.locator(".ask-lines").evaluate("each => { each.scrollTop = each.scrollHeight; }")
    expect(page.locator(".ask.front")).not_to_be_in_viewport()
    page.keyboard.press("0")
    expect(page.locator(".ask.front")).to_be_in_viewport(ratio=1)
    assert len(asking.get("/asks")["items"]) == before
    page.locator(".ask.front").evaluate(CUT)
    page.wait_for_timeout(GUARD)
    page.keyboard.press("0")
    eventually(lambda: len(asking.get("/asks")["items"]) == before - 1)


def test_the_key_that_hides_them_shows_them_again(visitor: Visitor, asking: Shop) -> None:
    page = visitor.open()
    expect(lines(page).first).to_be_visible()
    page.keyboard.press("9")
    expect(lines(page)).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("asks waiting"))).to_be_visible()
    page.keyboard.press("9")
    expect(lines(page).first).to_be_visible()


def test_what_is_allowed_for_good_is_in_the_policy_that_is_shown(
    visitor: Visitor, asking: Shop
) -> None:
    page = visitor.open("/settings/policy")
    field = page.get_by_label("Policy, as YAML")
    allowed_for_good(page, asking)
    expect(field).to_have_value(policy_of(asking).read_text())
    mine = f"{field.input_value()}# mine\n"
    field.fill(mine)
    field.blur()
    allowed_for_good(page, asking)
    expect(page.get_by_role("status").filter(has_text="not saved")).to_be_visible()
    expect(field).to_have_value(mine)
    page.get_by_role("button", name="Discard").click()
    expect(field).to_have_value(policy_of(asking).read_text())


def allowed_for_good(page: Page, asking: Shop) -> None:
    """A host that the policy does not name yet."""
    policy = policy_of(asking)
    before = policy.read_text() if policy.exists() else ""
    hosts = (ask["host"] for ask in asking.get("/asks")["items"])
    host = next(each for each in hosts if each not in before)
    line = lines(page).filter(has_text=host).first
    always = line.get_by_role("button", name="Always")
    expect(always).to_be_enabled()
    # Which one is first is chance, and a press on one that is cut off only shows it.
    line.evaluate(SHOWN)
    page.wait_for_timeout(GUARD)
    always.click()
    expect(page.locator(".toast", has_text="added to the policy").last).to_contain_text(host)
    assert host in policy.read_text()


HOOK = """#!/bin/sh
echo '{"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "sure?"}}'
"""
CALLS = """#!/bin/sh
say() { printf '{"tool_name": "Bash", "tool_input": {"command": "%s"}, "cwd": "."}' "$1"; }
forward='/usr/bin/python3 -I -S /ags/hooks/forward.py /ags/inside.sock'
may() { say "$1" | $forward claude PreToolUse; }
may 'make deploy' && touch deployed.txt
may 'make undeploy' || touch refused.txt
may "echo $(printf '\\\\n%.0s' $(seq 60)) the end" && touch read.txt
"""
"""An agent that uses three tools, and knows nothing of a model."""


def test_what_a_hook_leaves_to_the_person_is_answered_in_the_page(
    visitor: Visitor, asking: Shop
) -> None:
    hook = policy_of(asking).parent / "hooks/pre-bash"
    hook.parent.mkdir(parents=True)
    hook.write_text(HOOK)
    hook.chmod(0o700)
    stand_in.give(asking.server.ags_home, CALLS)
    name = asking.start("deploy it", name="deploys", agent="claude")
    page = visitor.open(f"/run/{name}")
    answers = {"make deploy": "Once", "make undeploy": "Deny"}
    for command, answer in answers.items():
        line = lines(page).filter(has_text=f"Bash: {command}")
        expect(line.get_by_role("button")).to_have_count(2)
        line.evaluate(SHOWN)
        page.wait_for_timeout(GUARD)
        line.get_by_role("button", name=answer).click()
        page.mouse.move(5, 5)
        expect(line).to_have_count(0)
    check_that_it_is_read_to_its_end(page)
    asking.until(name, lambda run: run["ended"] is not None)
    left = {each["path"] for each in asking.get(f"/runs/{name}/diff")["files"]}
    assert left == {"deployed.txt", "refused.txt", "read.txt"}
    activity = page.locator(".item").filter(has_text="Asks")
    expect(
        activity.filter(has_text="Bash: make deploy (pre-bash: sure?): allowed once")
    ).to_be_visible()
    expect(activity.filter(has_text="Bash: make undeploy")).to_contain_text("denied")
    expect(page.get_by_role("link", name="Network", exact=True)).to_be_visible()


def check_that_it_is_read_to_its_end(page: Page) -> None:
    line = lines(page).filter(has_text="the end")
    once = line.get_by_role("button", name="Once")
    for _ in range(2):
        page.wait_for_timeout(GUARD)
        once.click()
        expect(once).to_be_enabled()
    seen = page.locator(".ask-lines").evaluate("each => each.scrollTop")
    assert seen > 0
    page.locator(".ask-lines").evaluate("each => { each.scrollTop = each.scrollHeight; }")
    once.click()
    page.mouse.move(5, 5)
    expect(line).to_have_count(0)
