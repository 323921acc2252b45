"""Figures, ratios and marks."""

from __future__ import annotations

import pytest

from ags.errors import AgsError
from bench.measure import (
    FASTER,
    Mark,
    Missing,
    Once,
    Peer,
    Row,
    Series,
    at_most,
    finish,
    interleaved,
)

TWO, FOUR = Series((1.0, 2.0, 9.0)), Series((4.0, 4.0, 5.0))


def row(ours: Series | Missing, theirs: Series | Missing, mark: Mark | None = None) -> Row:
    return Row("bench", "case", ours, peer=Peer("peer", theirs), mark=mark)


def test_the_ratio_is_our_median_over_the_peers() -> None:
    assert row(TWO, FOUR).ratio == 0.5
    assert row(FOUR, TWO).ratio == 2


def test_the_spread_is_where_half_of_the_values_lie() -> None:
    assert Series((1.0, 2.0, 3.0, 4.0, 100.0)).spread == (2.0, 4.0)
    assert Series((7.0,)).spread == (7.0, 7.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "met"), [(TWO, FOUR, True), (FOUR, FOUR, True), (FOUR, TWO, False)]
)
def test_a_mark_is_met_up_to_its_ratio(ours: Series, theirs: Series, met: bool) -> None:
    assert row(ours, theirs, at_most(1, "≤ 1 ×")).met is met


@pytest.mark.parametrize(
    ("ours", "theirs", "met"), [(TWO, FOUR, True), (FOUR, FOUR, False), (FOUR, TWO, False)]
)
def test_as_fast_is_not_faster(ours: Series, theirs: Series, met: bool) -> None:
    assert row(ours, theirs, FASTER).met is met


@pytest.mark.parametrize("there", ["ours", "theirs"])
def test_with_one_side_missing_nothing_is_claimed(there: str) -> None:
    missing = Missing("not installed")
    found = row(TWO, missing, FASTER) if there == "ours" else row(missing, TWO, FASTER)
    assert found.ratio is None
    assert found.met is None


def test_without_a_peer_the_mark_is_for_our_own_figure() -> None:
    none = Mark("none", lambda count: count == 0)
    assert Row("b", "c", Series((0,)), mark=none).met is True
    assert Row("b", "c", Series((3,)), mark=none).met is False
    assert Row("b", "c", Series((3,))).met is None


def test_a_peer_that_takes_no_time_at_all_gives_no_ratio() -> None:
    assert row(TWO, Series((0.0,)), FASTER).met is None


def test_contenders_take_turns_at_being_first_and_the_first_round_does_not_count() -> None:
    calls: list[str] = []

    def contender(name: str) -> Once:
        def once() -> float:
            calls.append(name)
            return float(len(calls))

        return once

    figures = interleaved({"a": contender("a"), "b": contender("b")}, rounds=2)
    assert "".join(calls) == "ba" + "ab" + "ba"
    assert figures == {"a": Series((3.0, 6.0)), "b": Series((4.0, 5.0))}


def test_a_command_that_fails_is_an_error_and_no_figure() -> None:
    assert finish(("sh", "-c", "echo fine")) == b"fine\n"
    with pytest.raises(AgsError, match="no such luck"):
        finish(("sh", "-c", "echo no such luck >&2; exit 3"))
    with pytest.raises(AgsError, match="No such file"):
        finish(("/nowhere/at/all",))
