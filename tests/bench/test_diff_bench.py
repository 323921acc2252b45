"""That the long diff is as long as it says, and that a browser's frames are what is counted."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from ags import review
from ags.engine import Engine
from bench import diff
from bench.diff import NAME, Seen, make_run, told
from bench.measure import Missing, Series
from bench.workshop import workshop

CASES = (
    "first rows",
    "of which the server's answer",
    "all rows",
    "longest frame while scrolling",
    "a frame while scrolling",
    "frames without rows",
)


def test_the_run_changed_as_many_lines_as_it_says() -> None:
    with workshop() as shop:
        made = make_run(shop, 3)
        state = Path(shop.environ["AGS_HOME"])
        found = asyncio.run(review.review(Engine(os.environ, Path.home(), state), NAME)).diff
        stat = found.stat()
        assert (stat.files, stat.additions + stat.deletions) == (3, 3 * diff.LINES)
        assert made.result is not None and made.result.commit == found.new
        assert not stat.left_out


def test_a_browser_shows_it_and_scrolls_through_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "QUICK_FILES", 6)
    found = {row.case: row for row in diff.rows(quick=True)}
    assert tuple(found) == CASES
    for row in found.values():
        assert isinstance(row.ours, Series)
    shown, answer, whole = (found[case].ours for case in CASES[:3])
    assert isinstance(shown, Series) and isinstance(answer, Series) and isinstance(whole, Series)
    assert whole.median > shown.median > answer.median > 0
    assert found["frames without rows"].met


def test_a_stall_and_an_empty_frame_are_told() -> None:
    smooth = Seen(900, 500, 950, (16, 17, 16), 0)
    stalled = Seen(1900, 500, 1950, (16, 400, 16), 2)
    assert all(row.met is not False for row in told([smooth], ""))
    late, _, _, longest, _, empty = told([stalled], "")
    assert late.met is False and longest.met is False and empty.met is False


@pytest.mark.parametrize("missing", ["playwright", "Chromium"])
def test_without_a_browser_it_is_missing(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    if missing == "playwright":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    else:
        monkeypatch.setattr(shutil, "which", lambda name: None)
    found = list(diff.rows(quick=True))
    assert found and all(row.met is None for row in found)
    for row in found:
        assert isinstance(row.ours, Missing) and missing in row.ours.why
