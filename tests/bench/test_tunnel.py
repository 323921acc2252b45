"""That bytes and tunnels are counted at their end, and who is missing is named."""

from __future__ import annotations

import shutil

import pytest

from bench import intercept, tunnel
from bench.measure import Missing, Series


def test_every_way_is_measured_beside_its_peers() -> None:
    found = list(tunnel.rows(quick=True))
    assert [row.case for row in found[::2]] == [
        *(tunnel.DOWN, tunnel.UP, tunnel.NEW, tunnel.NEW_TLS),
        "memory for an open one",
    ]
    for row in found:
        assert isinstance(row.ours, Series) and row.ours.median >= 0
        assert row.peer is not None
        there = row.peer.name == tunnel.DIRECT or shutil.which("tinyproxy")
        assert isinstance(row.peer.figure, Series if there else Missing)


def test_an_intercepted_host_is_measured_beside_an_unseen_one() -> None:
    found = list(intercept.rows(quick=True))
    assert [row.case for row in found[::3]] == list(intercept.UNITS)
    for row in found:
        assert isinstance(row.ours, Series) and row.ours.median > 0
        assert row.peer is not None
        there = row.peer.name != intercept.PEER or shutil.which("mitmdump")
        assert isinstance(row.peer.figure, Series if there else Missing)
    assert any(row.note.startswith("adds ") for row in found)


@pytest.mark.parametrize(("ratio", "met"), [(0.74, False), (0.75, True)])
def test_a_mark_is_a_floor(ratio: float, met: bool) -> None:
    assert tunnel.at_least(0.75, "≥ 75 %").holds(ratio) is met
