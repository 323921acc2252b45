"""What was refused is allowed beside its line, by one press, and taken back by another."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from ags import runs
from ags.egress.audit import Chain, Line
from tests.server.shop import Shop
from tests.server.test_asks import policy_of
from tests.web.past import happened
from tests.web.visiting import STAYS, Visitor

RULE = "- {host: packages.example, ports: [443]}"
MINE = "# mine\ndeny:\n  - telemetry.example\n"


def refused(host: str, reason: str) -> Line:
    return Line(1.0, host, 443, "tls", None, None, False, reason, "", "")


LINES = (
    refused("packages.example", "not-listed"),
    refused("telemetry.example", "denied"),
    refused("packages.example", "not-listed"),
    refused("other.example", "ask-timeout"),
)


@pytest.fixture(scope="module", autouse=True)
def _tried(shop: Shop) -> None:
    run = happened(shop, "tried")
    chain = Chain()
    log = runs.directory(shop.server.ags_home, run.id) / "egress.jsonl"
    log.write_bytes(b"".join(chain.append(line) for line in LINES))


@pytest.fixture
def page(visitor: Visitor, shop: Shop) -> Page:
    policy_of(shop).parent.mkdir(parents=True, exist_ok=True)
    policy_of(shop).write_text(MINE)
    made = visitor.open()
    made.add_init_script(STAYS)
    made.goto(f"{made.url}run/tried/network")
    expect(made.locator(".request")).to_have_count(4)
    return made


def test_one_press_adds_a_rule_and_another_takes_it_back(page: Page, shop: Shop) -> None:
    allow = page.get_by_role("button", name="Always allow packages.example")
    expect(allow).to_have_count(2)
    allow.first.click()
    expect(page.get_by_text("packages.example is allowed from now on")).to_be_visible()
    assert policy_of(shop).read_text() == f"{MINE}domains:\n  {RULE}\n"
    # Both lines are of the one rule.
    undo = page.get_by_role("button", name="Undo allowing packages.example")
    expect(undo).to_have_count(2)
    undo.last.click()
    expect(page.get_by_text("Taken back")).to_be_visible()
    expect(allow).to_have_count(2)
    assert RULE not in policy_of(shop).read_text()


def test_the_first_of_two_is_taken_back_as_well(page: Page, shop: Shop) -> None:
    page.get_by_role("button", name="Always allow packages.example").first.click()
    expect(page.get_by_role("button", name="Undo allowing")).to_have_count(2)
    page.get_by_role("button", name="Always allow other.example").click()
    expect(page.get_by_role("button", name="Undo allowing")).to_have_count(3)
    page.locator(".toast", has_text="packages.example is").get_by_role(
        "button", name="Undo"
    ).click()
    expect(page.get_by_text("Taken back")).to_be_visible()
    text = policy_of(shop).read_text()
    assert "other.example" in text and "packages.example" not in text


def test_in_a_run_at_work_one_press_allows_it_for_an_hour(visitor: Visitor, shop: Shop) -> None:
    policy_of(shop).write_text(MINE)
    with shop.working("echo at work; curl -s -m 60 http://new.example/; sleep 300", name="tries"):
        page = visitor.open("/run/tries/network")
        page.get_by_role("button", name=re.compile("Allow for an hour .*new.example")).click()
        expect(page.get_by_text("new.example is allowed for an hour")).to_be_visible()
        assert "allowed for 1 h: {host: new.example, ports: [80]}" in shop.log("tries")
    assert policy_of(shop).read_text() == MINE


def test_no_line_slips_under_the_pointer(visitor: Visitor, shop: Shop) -> None:
    """The agent decides what is refused next, and when."""
    policy_of(shop).write_text(MINE)
    with shop.working("echo at work; sleep 600", name="busy"):
        chain = Chain()
        log = runs.find(shop.server.ags_home, "busy") / "egress.jsonl"

        def tried(*hosts: str) -> None:
            with log.open("ab") as file:
                lines = (chain.append(refused(host, "not-listed")) for host in hosts)
                file.write(b"".join(lines))

        tried(*(f"good-{number}.example" for number in range(60)))
        page = visitor.open("/run/busy/network")
        meant = page.get_by_role("button", name="Always allow good-59.example")
        expect(meant).to_be_visible()
        meant.hover()
        where = meant.bounding_box()
        assert where is not None
        place = where["x"] + where["width"] / 2, where["y"] + where["height"] / 2
        tried("evil.example")
        expect(page.get_by_text("61 requests")).to_be_visible()
        page.wait_for_timeout(1000)  # sooner, a press would not be taken for meant
        page.mouse.click(*place)
        expect(page.get_by_text("is allowed from now on")).to_be_visible()
    text = policy_of(shop).read_text()
    assert "good-59.example" in text and "evil.example" not in text


def test_what_somebody_denied_has_no_such_button(page: Page) -> None:
    line = page.locator(".request", has_text="telemetry.example")
    expect(line.get_by_text("a rule denies it")).to_be_visible()
    expect(line.get_by_role("button")).to_have_count(0)


def test_a_policy_that_changed_meanwhile_is_left_alone(
    page: Page, visitor: Visitor, shop: Shop
) -> None:
    visitor.expects(re.compile(r"status of 409 \(Conflict\)"))
    page.get_by_role("button", name="Always allow other.example").click()
    expect(page.get_by_role("button", name="Undo allowing")).to_have_count(1)
    changed = f"{policy_of(shop).read_text()}# by hand\n"
    policy_of(shop).write_text(changed)
    page.get_by_role("button", name="Undo allowing").click()
    expect(page.get_by_text("the file has changed since it was read")).to_be_visible()
    assert policy_of(shop).read_text() == changed
