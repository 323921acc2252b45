"""That lines are counted where they arrive."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags.events import Caps, Writer
from bench import log
from bench.log import FOLLOWED, WRITTEN, Log, at_least
from bench.measure import Missing, Series


def test_there_is_a_figure_for_writing_and_following_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "QUICK_LINES", 500)
    written, followed, lost = log.rows(quick=True)
    assert (written.case, followed.case) == (WRITTEN, FOLLOWED)
    for row in (written, followed):
        assert isinstance(row.ours, Series) and row.ours.median > 0
        assert row.peer is not None and isinstance(row.peer.figure, Series)
    assert lost.ours == Series((0,)) and lost.met


def test_a_line_that_was_not_kept_counts_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "Writer", lambda path: Writer(path, Caps(size=10_000)))
    lost: list[int] = []
    asyncio.run(Log(tmp_path, 500).written(lost))
    assert 0 < lost[0] < 500


def test_the_mark_is_for_our_own_figure() -> None:
    owed = at_least(50, Series((200.0,)))
    assert owed.holds(50 / 200) and not owed.holds(49 / 200)
    assert at_least(50, Missing("not installed")).text == "≥ 50 lines/s"
