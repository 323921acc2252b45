"""Many runs ask at once: a line each, out of the way, and no answer goes astray."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.shop import Shop, eventually
from tests.server.test_asks import policy_of
from tests.web.visiting import DESK, PHONE, Visitor

HOLDS = "echo at work; {} wait; sleep 900"
GUARD = 1000
"""Milliseconds after which a press is taken for one that is meant."""
# Three real ones would be as far apart as the machine is slow, and so might be meant.
AT_ONCE = """async () => {
    const press = { key: "0", bubbles: true, cancelable: true };
    const lines = () => document.querySelectorAll(".ask").length;
    const before = lines(), { now } = Date, at = Date.now();
    Date.now = () => at;
    for (let n = 0; n < 3; n++) {
        document.body.dispatchEvent(new KeyboardEvent("keydown", press));
        while (lines() === before) await new Promise(requestAnimationFrame);
    }
    Date.now = now;
}"""


@pytest.fixture(scope="module")
def asking(shop: Shop) -> Shop:
    """Nine asks of six runs."""
    wanted = {"many": ("one", "two", "three", "four")} | {f"few-{n}": ("one",) for n in range(5)}
    for name, hosts in wanted.items():
        calls = " ".join(f"curl -s -m 900 http://{host}.example/ &" for host in hosts)
        shop.start(HOLDS.format(calls), name=name, ask=True)
    eventually(lambda: len(shop.get("/asks")["items"]) == 9)
    return shop


def lines(page: Page) -> Locator:
    return page.locator(".ask")


def opened(visitor: Visitor, size: tuple[int, int] = DESK) -> Page:
    page = visitor.open(size=size)
    expect(lines(page)).to_have_count(9)
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


def test_asks_of_one_run_stand_together(visitor: Visitor, asking: Shop) -> None:
    page = opened(visitor)
    names = [each.get_attribute("aria-label") for each in lines(page).all()]
    at = names.index("many asks")
    assert names[at : at + 4] == ["many asks"] * 4
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
    eventually(lambda: len(asking.get("/asks")["items"]) == 8)
    assert second.bounding_box() == where and lines(page).count() == 9
    expect(lines(page).first.get_by_role("button", name="Deny")).to_be_disabled()
    page.mouse.move(5, 5)
    expect(lines(page)).to_have_count(8)


def test_two_presses_at_once_are_one_answer(visitor: Visitor, asking: Shop) -> None:
    before = len(asking.get("/asks")["items"])
    page = visitor.open()
    expect(lines(page)).to_have_count(before)
    page.wait_for_timeout(GUARD)
    page.evaluate(AT_ONCE)
    expect(lines(page)).to_have_count(before - 1)
    page.wait_for_timeout(GUARD)
    assert len(asking.get("/asks")["items"]) == before - 1


def test_an_ask_that_is_out_of_sight_is_first_shown(visitor: Visitor, asking: Shop) -> None:
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
    always = lines(page).filter(has_text=host).first.get_by_role("button", name="Always")
    expect(always).to_be_enabled()
    page.wait_for_timeout(GUARD)
    always.click()
    eventually(lambda: policy.exists() and host in policy.read_text())
    expect(page.locator(".toast", has_text="added to the policy").last).to_contain_text(host)
