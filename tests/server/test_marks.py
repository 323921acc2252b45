"""Reading on in a log of decisions, where the last look ended."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ags.egress import trail
from ags.server import marks
from ags.server.marks import EVERY, Marks


def written(log: Path, first: int, last: int) -> None:
    with log.open("a") as file:
        file.writelines(json.dumps({"host": f"h{n}.example"}) + "\n" for n in range(first, last))


def told(kept: Marks, log: Path, after: int) -> list[tuple[int, Any]]:
    async def read() -> list[tuple[int, Any]]:
        return [(number, line["host"]) async for number, line in kept.lines(log, after)]

    return asyncio.run(read())


def expected(first: int, last: int) -> list[tuple[int, str]]:
    return [(number, f"h{number}.example") for number in range(first, last)]


def test_who_reads_on_does_not_begin_at_the_start(tmp_path: Path) -> None:
    log, kept = tmp_path / trail.LOG, Marks()
    assert told(kept, log, 0) == []
    most = 3 * EVERY
    written(log, 1, most)
    assert told(kept, log, 0) == expected(1, most)
    # Whoever looked at the start again would count less.
    with log.open("r+b") as file:
        file.write(b" " * log.read_bytes().index(b"\n"))
    written(log, most, most + 10)
    assert told(kept, log, most - 1) == expected(most, most + 10)
    assert told(kept, log, EVERY) == expected(EVERY + 1, most + 10)
    assert told(Marks(), log, most)[-1] == (most + 8, f"h{most + 9}.example")


def test_each_line_has_the_same_number_wherever_one_begins(tmp_path: Path) -> None:
    log, kept = tmp_path / trail.LOG, Marks()
    written(log, 1, EVERY)
    with log.open("a") as file:
        file.write("no line\n" + '"x"\n' + "{" * (3 * trail.LONGEST) + '{"host": "no.example"}\n')
    written(log, EVERY, 2 * EVERY + 1)
    with log.open("a") as file:
        file.write('{"host": "half')
    for _ in range(2):
        for after in (0, 1, EVERY - 1, EVERY, EVERY + 1, 2 * EVERY, 9 * EVERY):
            assert told(kept, log, after) == expected(after + 1, 2 * EVERY + 1)


def test_a_log_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    log, kept = tmp_path / trail.LOG, Marks()
    written(log, 1, 2 * EVERY)
    told(kept, log, 0)
    log.write_text("")
    written(log, 1, 3)
    assert told(kept, log, 0) == expected(1, 3) and told(kept, log, 1) == expected(2, 3)


def test_marks_of_a_few_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "KEPT", 2)
    kept = Marks()
    for name in "abc":
        written(tmp_path / name, 1, EVERY + 2)
        assert told(kept, tmp_path / name, EVERY) == expected(EVERY + 1, EVERY + 2)
    assert list(kept._ends) == [tmp_path / "b", tmp_path / "c"]
