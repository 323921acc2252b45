"""That inside is inside, outside is outside, and work that fails is no figure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ags.errors import AgsError
from bench import inside
from bench.inside import Work, compare
from bench.measure import Missing, Series

HOST = f'[ "$(readlink /proc/self/ns/net)" {{}} "{os.readlink("/proc/self/ns/net")}" ]'


def test_work_that_succeeds_has_a_figure_for_both_sides() -> None:
    row = compare(Work("nothing", "sh", ":"), "/bin/sh", rounds=1)
    assert isinstance(row.ours, Series)
    assert row.peer is not None and isinstance(row.peer.figure, Series)
    assert row.ratio == row.ours.median / row.peer.figure.median


@pytest.mark.parametrize("where", ["=", "!="])
def test_one_side_is_in_the_hosts_network_namespace_and_the_other_is_not(where: str) -> None:
    with pytest.raises(AgsError, match="error"):
        compare(Work("look", "sh", HOST.format(where)), "/bin/sh", rounds=1)


def test_both_sides_work_on_the_same_files() -> None:
    def prepare(folder: Path) -> None:
        (folder / "given").write_text("here")

    script = '[ "$(cat given)" = here ] && echo done >made'
    compare(Work("files", "sh", script, prepare), "/bin/sh", rounds=1)
    with pytest.raises(AgsError):
        compare(Work("files", "sh", script), "/bin/sh", rounds=1)


def test_work_whose_program_is_not_there_is_named_as_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inside, "WORKS", (Work("fly", "no-such-program", ":"),))
    (row,) = inside.rows(quick=True)
    assert row.ours == Missing("no-such-program is not installed")
    assert row.met is None
