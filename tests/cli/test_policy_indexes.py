"""`ags policy show` and `check` know where a package index keeps its files, as runs do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.egress.clients import shop
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.supervisor.test_network import Person, person

__all__ = ["internet", "person", "the_internet"]
INDEX, FILES = "index.nine.example", "files.nine.example"


@pytest.fixture
def asked(internet: Internet, person: Person) -> Iterator[Path]:
    """An index of the person's settings, whose files are elsewhere; and what it was asked."""
    home = Path(person.environ["HOME"])
    page = person.state.parent / "site/simple/pip/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="https://{FILES}/pip.whl">pip</a>')
    settings = home / ".pip/pip.conf"
    settings.parent.mkdir()
    settings.write_text(f"[global]\nindex-url = https://{INDEX}/simple\n")
    (home / ".config/ags").mkdir(parents=True)
    with shop.opened(internet, INDEX, person.state.parent / "site") as log:
        yield log


def policy(person: Person, text: str) -> None:
    file = Path(person.environ["HOME"]) / ".config/ags/policy.yaml"
    file.write_text(text)
    file.chmod(0o600)


def test_a_host_of_files_is_shown_and_may_be_read_where_the_tool_is_open(
    person: Person, asked: Path
) -> None:
    check = ("policy", "check", f"https://{FILES}/pip.whl")
    policy(person, f"domains: [{INDEX}]\n")
    assert person.ags(*check).returncode == 1 and asked.read_text() == ""
    policy(person, "services: [pip]\n")
    shown = person.ags("policy", "show").stdout
    assert f"  allow  pip: {FILES}:443 tls GET,HEAD  its index keeps files there\n" in shown
    assert f"  allow  pip: {INDEX}:443 tls GET,HEAD\n" in shown
    allowed = person.ags(*check)
    assert allowed.returncode == 0 and "allowed: " in allowed.stdout, allowed.stderr
    assert person.ags(*check, "--method", "PUT").returncode == 1
    assert person.ags("policy", "check", "https://other.nine.example/").returncode == 1


def test_what_was_learnt_is_marked_for_programs_too(person: Person, asked: Path) -> None:
    policy(person, "services: [pip]\n")
    found = json.loads(person.ags("policy", "show", "--json").stdout)
    (user,) = (layer for layer in found["layers"] if layer["name"] == "user")
    assert {rule["host"]: rule["learnt"] for rule in user["allow"]} == {INDEX: False, FILES: True}


def test_nobody_is_asked_about_what_a_rule_allows_or_denies(person: Person, asked: Path) -> None:
    policy(person, f"services: [pip]\ndeny: [{FILES}]\n")
    assert person.ags("policy", "check", f"https://{INDEX}/simple/").returncode == 0
    assert person.ags("policy", "check", f"https://{FILES}/pip.whl").returncode == 1
    assert asked.read_text() == ""
