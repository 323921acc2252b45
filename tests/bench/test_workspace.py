"""That every contender makes the same workspace, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench import workspace
from bench.measure import finish
from bench.workshop import workshop
from bench.workspace import CLONE, MOVED, OURS, READY, WORKTREE, compare, make_project


def test_a_project_has_as_many_files_as_it_says(tmp_path: Path) -> None:
    make_project(tmp_path, 120)
    assert len(finish(("git", "ls-files"), cwd=tmp_path).splitlines()) == 120
    assert finish(("git", "status", "--porcelain"), cwd=tmp_path) == b""
    changed = finish(("git", "diff", "--name-only", "HEAD~"), cwd=tmp_path).splitlines()
    assert len(changed) == workspace.CHANGED


def test_every_contender_has_a_figure() -> None:
    figures = compare(100, rounds=1)
    assert {OURS, READY, MOVED, WORKTREE, CLONE} <= figures.keys()
    assert all(figure.median > 0 for figure in figures.values())


def test_what_is_kept_ready_is_what_is_taken() -> None:
    with workshop() as shop, asyncio.Runner() as runner:
        make_project(shop.workspace, 100)
        site = workspace.Site(shop)
        runner.run(workspace._kept_ready(site, "HEAD~"))
        assert list((site.state / "spares").glob("*/*-*")) == []
        assert list(site.worktrees.iterdir()) == []


def test_the_largest_is_held_against_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "QUICK_ROUNDS", {100: 1, 200: 1})
    *_, last = workspace.rows(quick=True)
    assert last.case == "200 files, kept ready"
    assert last.peer is not None and last.peer.name == "100 files, kept ready"
    assert last.mark is workspace.FLAT
