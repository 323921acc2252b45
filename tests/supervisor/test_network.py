"""Runs behind the fence, on the fake internet: the whole way from the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.egress.audit import verify
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.people import ROOT
from tests.workspace.repositories import Checkout, checkout

__all__ = ["internet", "the_internet"]


class Person:
    """At a terminal in their project, on a machine whose network is the fake one."""

    def __init__(self, internet: Internet, project: Checkout, place: Path) -> None:
        self.project = project
        self.state = place / "state"
        self._internet = internet
        self._environ = {
            "HOME": str(place / "home"),
            "AGS_HOME": str(self.state),
            "SSL_CERT_FILE": str(internet.ca_file),
            "PYTHONPATH": str(ROOT / "src"),
        }

    def ags(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "ags.cli.main", *arguments)
        return self._internet.run(command, cwd=self.project.folder, env=self._environ)

    def run_dir(self, name: str) -> Path:
        return (self.state / "names" / name).resolve()


@pytest.fixture
def person(internet: Internet) -> Iterator[Person]:
    place = Path(tempfile.mkdtemp(prefix="ags-network-", dir="/tmp"))
    (place / "home").mkdir()
    project = checkout(place / "project")
    project.write("file", "one\n")
    project.commit("first")
    try:
        yield Person(internet, project, place)
    finally:
        shutil.rmtree(place)


def test_a_run_reaches_what_is_allowed_and_nothing_else(internet: Internet, person: Person) -> None:
    api = internet.origin("api.one.example", tls=True)
    other = internet.origin("other.one.example", tls=True)
    script = "curl -sS -m 20 https://api.one.example/; curl -sS -m 20 https://other.one.example/"
    ran = person.ags("start", "try", "-a", "shell", "--allow", "api.one.example", script)
    assert ran.returncode == 0, ran.stderr
    assert "hello from api.one.example" in ran.stdout
    assert "ags_policy_refusal" in ran.stdout and "ags policy add" in ran.stdout
    assert "── network: other.one.example refused (not-listed)" in ran.stdout
    assert len(api.requests) == 1 and other.requests == [] and other.visits == []
    assert {query.name for query in internet.queries} == {"api.one.example"}


def test_every_decision_is_a_line_that_cannot_be_cut_off_unseen(
    internet: Internet, person: Person
) -> None:
    internet.origin("api.two.example", tls=True)
    script = "for n in 1 2 3; do curl -sS -m 20 https://api.two.example/?secret=$n; done"
    person.ags("start", "try", "-a", "shell", "--allow", "api.two.example", script)
    log = person.run_dir("try") / "egress.jsonl"
    record = json.loads((person.run_dir("try") / "run.json").read_text())
    told = (record["egress_count"], record["egress_last"])
    assert told[0] == 3 and "secret" not in log.read_text()
    assert verify(log, *told).whole
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    assert not verify(log, *told).whole


def test_a_sealed_run_asks_nobody(internet: Internet, person: Person) -> None:
    api = internet.origin("api.three.example", tls=True)
    script = "curl -sS -m 20 https://api.three.example/ && touch reached"
    ran = person.ags("start", "sealed", "-a", "shell", "--no-network", script)
    assert ran.returncode != 0 and api.requests == [] and internet.queries == []
    open_ = person.ags("start", "open", "-a", "shell", "--allow", "api.three.example", script)
    assert open_.returncode == 0 and len(api.requests) == 1


def test_a_command_reaches_only_what_it_was_given(internet: Internet, person: Person) -> None:
    api = internet.origin("api.four.example")
    reach = ("curl", "-sS", "-m", "20", "http://api.four.example/")
    assert person.ags("exec", "--", *reach).returncode != 0
    assert api.requests == [] and internet.queries == []
    ran = person.ags("exec", "--allow", "api.four.example", "--", *reach)
    assert ran.returncode == 0 and "hello from" in ran.stdout
    refused = person.ags("exec", "--allow", "elsewhere.example", "--", *reach)
    assert "refused: api.four.example:80" in refused.stderr and len(api.requests) == 1


def test_a_policy_that_cannot_be_read_starts_nothing(internet: Internet, person: Person) -> None:
    policy = person.state.parent / "policy.yaml"
    policy.write_text("domains: [api.five.example]\nunknown: true\n")
    ran = person.ags("start", "try", "-a", "shell", "--policy", str(policy), "touch ran")
    assert ran.returncode != 0 and "unknown" in ran.stdout + ran.stderr
    assert not (person.state / "worktrees/try/ran").exists()
    policy.write_text("domains: [api.five.example]\n")
    ran = person.ags("restart", "try")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_fence_that_does_not_hold_lets_nothing_run(
    internet: Internet, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M3: the routes are missing, as if the kernel had lost them."""
    broken = person.state.parent / "sitecustomize.py"
    broken.write_text(
        "import sys\n"
        "if sys.argv and sys.argv[0] == '-m' or 'ags' in ' '.join(sys.orig_argv):\n"
        "    from ags.egress import policy\n"
        "    decide = policy.decide\n"
        "    from ags.egress import server\n"
        "    server.decide = lambda *given: type(decide(*given))(True, 'broken', '', '')\n"
    )
    script = f"import sys; sys.path.insert(0, {str(person.state.parent)!r}); import sitecustomize\n"
    script += "from ags.cli.main import main; sys.exit(main(sys.argv[1:]))"
    argv = (sys.executable, "-c", script, "exec", "--allow", "a.example", "--", "touch", "ran")
    env = {"HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(ROOT / "src")}
    ran = internet.run(argv, cwd=person.project.folder, env=env | {"AGS_HOME": str(person.state)})
    assert ran.returncode == 125 and "raise the network fence" in ran.stderr, ran.stderr
    assert not (person.project.folder / "ran").exists()
    sound = person.ags("exec", "--allow", "a.example", "--", "touch", "ran")
    assert sound.returncode == 0 and (person.project.folder / "ran").exists()
