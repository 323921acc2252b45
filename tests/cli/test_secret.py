"""`ags secret`: kept, listed and removed, and never shown."""

from __future__ import annotations

import json
import stat
import subprocess
import sys

import pytest

from ags.cli import main
from tests.cli.desk import Desk, Said, is_harmless, on_terminal

SCRIPT = "import sys; from ags.cli import main; main.VERBS['secret'] = ''; sys.exit(main.main())"
CANARY = "sk-canary-4f9d2c"


@pytest.fixture(autouse=True)
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.VERBS, "secret", "")
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)


def piped(desk: Desk, data: bytes, *arguments: str) -> Said:
    command = (sys.executable, "-c", SCRIPT, "secret", *arguments)
    done = subprocess.run(command, env=desk.environment(), input=data, capture_output=True)
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert CANARY not in said.out + said.err and "Traceback" not in said.err
    return said


def test_a_piped_value_is_kept_in_a_private_file(desk: Desk) -> None:
    said = piped(desk, f"{CANARY}\n".encode(), "set", "company-api")
    assert (said.code, said.out) == (0, "kept company-api in a file that only you can read\n")
    kept = desk.state / "secrets/company-api.file"
    assert kept.read_text() == CANARY and stat.S_IMODE(kept.stat().st_mode) == 0o600
    # The first verb of all makes the state folder, too.
    assert {stat.S_IMODE(each.stat().st_mode) for each in (kept.parent, desk.state)} == {0o700}


def test_at_a_terminal_the_value_is_asked_for_and_not_shown(desk: Desk) -> None:
    command = (sys.executable, "-c", SCRIPT, "secret", "set", "k")
    code, screen = on_terminal(command, desk.environment(), {"value of k: ": f"{CANARY}\r"})
    assert code == 0 and CANARY not in screen and is_harmless(screen)
    assert (desk.state / "secrets/k.file").read_text() == CANARY


def test_names_are_listed_and_values_are_not(desk: Desk) -> None:
    assert "no secrets yet" in desk.ags("secret", "list").out
    piped(desk, CANARY.encode(), "set", "b")
    piped(desk, CANARY.encode(), "set", "aaa")
    where = "a file that only you can read"
    assert desk.ags("secret", "list").out == f"aaa  {where}\nb    {where}\n"
    said = desk.ags("secret", "list", "--json").out
    assert [each["name"] for each in json.loads(said)] == ["aaa", "b"]


def test_a_removed_one_is_gone(desk: Desk) -> None:
    piped(desk, CANARY.encode(), "set", "k")
    assert desk.ags("secret", "remove", "k").out == "removed k\n"
    assert "no secrets yet" in desk.ags("secret", "list").out
    assert "there is no secret of this name" in desk.refused("secret", "remove", "k")


def test_setting_it_again_replaces_it(desk: Desk) -> None:
    piped(desk, b"first-value", "set", "k")
    piped(desk, CANARY.encode(), "set", "k")
    assert (desk.state / "secrets/k.file").read_text() == CANARY


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"two\nlines", f"{CANARY}\xff".encode("latin-1"), b"x" * (1 << 19)]
)
def test_what_is_not_one_line_of_text_is_refused_and_not_quoted(desk: Desk, data: bytes) -> None:
    said = piped(desk, data, "set", "k")
    assert said.code == 1 and "\n  why: " in said.err
    assert not (desk.state / "secrets/k.file").exists()


@pytest.mark.parametrize("name", ["../k", "-k", "", "a b", "k\x1b[2J", "k" * 65])
def test_a_name_that_is_none_is_refused_before_a_value_is_asked_for(desk: Desk, name: str) -> None:
    said = desk.ags("secret", "set", "--", name)
    assert said.code == 1 and is_harmless(said.err)
    assert not desk.state.exists()


@pytest.mark.parametrize("verb", ["set", "list", "remove"])
def test_each_has_help_with_an_example(desk: Desk, verb: str) -> None:
    said = desk.ags("secret", verb, "--help")
    assert said.code == 0 and f"\n    ags secret {verb}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
