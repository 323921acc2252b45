"""That what is timed is work that came back whole."""

from __future__ import annotations

import asyncio

import pytest

from ags.errors import AgsError
from bench import collect
from bench.collect import OURS, PEER, compare, mark
from bench.measure import Series
from bench.workshop import workshop
from bench.workspace import Site, make_project


def test_both_sides_have_a_figure() -> None:
    figures = compare(100, rounds=1)
    assert figures[OURS].median > 0 and figures[PEER].median > 0


def test_the_mark_is_a_ratio_and_some_milliseconds() -> None:
    owed = mark(Series((100.0,)))
    assert owed.holds(300 / 100)
    assert not owed.holds(301 / 100)


def test_work_that_did_not_come_back_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "change", lambda folder, number: None)
    with workshop() as shop, asyncio.Runner() as runner:
        make_project(shop.workspace, 100)
        finished = runner.run(collect._finished(Site(shop)))
        with pytest.raises(AgsError, match="0 files"):
            runner.run(finished.collect())
