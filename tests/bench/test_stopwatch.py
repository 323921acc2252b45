"""The program that tells when it began."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ags.errors import AgsError
from bench import stopwatch
from bench.measure import finish


def test_it_began_after_it_was_started_and_before_it_ended(tmp_path: Path) -> None:
    program = stopwatch.write(tmp_path)
    before = time.monotonic_ns()
    began = stopwatch.reading(finish((program,)))
    assert before < began < time.monotonic_ns()


def test_an_answer_that_is_none_is_refused() -> None:
    assert stopwatch.reading(bytes(16)) == 0
    with pytest.raises(AgsError, match="instead of 16"):
        stopwatch.reading(b"")


def test_a_machine_without_code_is_refused() -> None:
    assert stopwatch.program("aarch64").startswith(b"\x7fELF")
    with pytest.raises(AgsError, match="vax"):
        stopwatch.program("vax")
