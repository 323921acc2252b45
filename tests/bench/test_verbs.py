"""What is loaded for a verb."""

from __future__ import annotations

from pathlib import Path

from bench.verbs import imported, server_parts


def test_parts_of_the_server_are_told_from_others() -> None:
    loaded = ("click", "pydantic.main", "pydantic_free", "uvicorn")
    assert server_parts(loaded) == ("pydantic.main", "uvicorn")


def test_the_modules_are_those_of_the_real_verb(tmp_path: Path) -> None:
    assert "ags.cli.doctor" in imported(("doctor", "--help"), tmp_path)
    assert "ags.cli.doctor" not in imported(("--version",), tmp_path)
