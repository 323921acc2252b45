"""The words of a refusal are true for each reason."""

from __future__ import annotations

import pytest

from ags.egress import edit, policy
from ags.egress.asks import DENIED, EXPIRED, FULL, USED
from ags.egress.model import Decision, Request
from ags.egress.policy import Layer, decide, merge
from ags.egress.reasons import again, remedy

WANTED = Request("api.example", 443, "tls", "GET", "/")


def told(reason: str, request: Request = WANTED) -> str:
    return again(reason) + " " + remedy(request, Decision(False, reason, "", ""))


@pytest.mark.parametrize("reason", [EXPIRED, FULL, USED])
def test_who_may_try_again_is_not_told_that_it_is_no_use(reason: str) -> None:
    assert "will not help" not in told(reason) and "ags allow" in told(reason)


@pytest.mark.parametrize(
    "reason", sorted({*policy._MEANINGS, "placeholder"} - {EXPIRED, FULL, USED})
)
def test_all_others_are_told_that_trying_again_is_no_use(reason: str) -> None:
    assert "will not help" in told(reason)


@pytest.mark.parametrize("reason", [DENIED, "denied", "narrowed", "name", "protocol"])
def test_nobody_is_told_to_add_what_adding_does_not_open(reason: str) -> None:
    assert "policy add" not in told(reason)


@pytest.mark.parametrize(
    "request_",
    [
        WANTED,
        Request("api.example", 80, "http"),
        Request("db.example", 5432, "raw"),
        Request("9.9.9.9", 443, "tls"),
        Request("2c0f::1", 22, "raw"),
    ],
)
def test_the_command_that_is_named_opens_what_was_refused(request_: Request) -> None:
    decision = decide(merge([Layer("user")]), request_)
    word = remedy(request_, decision).split("`")[1].removeprefix("ags policy add ")
    rule = edit.entry(word)
    assert not isinstance(rule, str)
    assert decide(merge([Layer("user", allow=(rule,))]), request_).allowed
