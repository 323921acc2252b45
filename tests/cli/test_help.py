"""Every verb tells what it does and shows how it is called."""

from __future__ import annotations

import pytest

from tests.cli.desk import Desk

VERBS = (
    "list", "show", "logs", "diff", "apply", "undo", "stop", "restart", "rm", "cleanup",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_help_with_an_example(desk: Desk, verb: str) -> None:
    said = desk.ags(verb, "--help")
    assert said.code == 0 and said.err == ""
    assert said.out.startswith(f"Usage: ags {verb} ") and f"\n    ags {verb}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert not desk.state.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_listed_in_the_help_of_all(desk: Desk, verb: str) -> None:
    assert any(line.startswith(f"  {verb} ") for line in desk.ags("--help").out.splitlines())


def test_exec_tells_its_own_exit_codes(desk: Desk) -> None:
    told = " ".join(desk.ags("exec", "--help").out.split())
    for code in (124, 125, desk.ags("exec", "--no-such-flag").code):
        assert f"; {code} " in told
    assert desk.ags("exec", "--memory", "lots", "true").code == 125


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"list", "cleanup"}))
def test_without_a_name_it_is_misused(desk: Desk, verb: str) -> None:
    said = desk.ags(verb)
    assert said.code == 2 and "NAME" in said.err
