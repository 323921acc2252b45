"""Runs behind the fence, on the fake internet: the whole way from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from ags import asking, runs
from ags.egress.audit import verify
from ags.shelf import Shelf
from tests.attack.egress.whole import CLI
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.people import ROOT
from tests.workspace.repositories import Checkout, checkout

__all__ = ["internet", "the_internet"]
T = TypeVar("T")


class Person:
    """At a terminal in their project, on a machine whose network is the fake one."""

    def __init__(self, internet: Internet, project: Checkout, place: Path) -> None:
        self.project = project
        self.state = place / "state"
        self.internet = internet
        self.environ = {
            "HOME": str(place / "home"),
            "AGS_HOME": str(self.state),
            "SSL_CERT_FILE": str(internet.ca_file),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        }

    def ags(self, *arguments: str, fault: str = "") -> subprocess.CompletedProcess[str]:
        """With a fault that `whole_cli.py` knows, the supervisor has it too."""
        program = (str(CLI), fault, "--") if fault else ("-m", "ags.cli.main")
        command = (sys.executable, *program, *arguments)
        return self.internet.run(command, cwd=self.project.folder, env=self.environ)

    def trusts(self, roots: Path | None) -> None:
        """The CAs in this file; without one, the system's."""
        self.environ.pop("SSL_CERT_FILE", None)
        self.environ |= {"SSL_CERT_FILE": str(roots)} if roots else {}

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
        made = Person(internet, project, place)
        yield made
        wait_for(lambda: None if any(map(runs.is_alive, made.state.glob("runs/*"))) else True)
    finally:
        shutil.rmtree(place)


def test_a_run_reaches_what_is_allowed_and_nothing_else(internet: Internet, person: Person) -> None:
    api = internet.origin("api.one.example", tls=True)
    other = internet.origin("other.one.example", tls=True)
    script = "curl -sS -m 90 https://api.one.example/; curl -sS -m 90 https://other.one.example/"
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
    script = "for n in 1 2 3; do curl -sS -m 90 https://api.two.example/?secret=$n; done"
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
    script = "curl -sS -m 90 https://api.three.example/ && touch reached"
    ran = person.ags("start", "sealed", "-a", "shell", "--no-network", script)
    assert ran.returncode != 0 and api.requests == [] and internet.queries == []
    open_ = person.ags("start", "open", "-a", "shell", "--allow", "api.three.example", script)
    assert open_.returncode == 0 and len(api.requests) == 1


def test_a_command_reaches_only_what_it_was_given(internet: Internet, person: Person) -> None:
    api = internet.origin("api.four.example")
    reach = ("curl", "-sS", "-m", "90", "http://api.four.example/")
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
    ran = person.ags("start", "try", "-a", "shell", "--policy", str(policy), "true")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    policy.write_text("unknown: true\n")
    assert person.ags("restart", "try").returncode != 0


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


def wait_for(look: Callable[[], T | None]) -> T:
    until = time.monotonic() + 120
    while (found := look()) is None:
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.1)
    return found


def asked(person: Person) -> str | None:
    """Without a process for each look."""
    found = asyncio.run(asking.asked(Shelf(person.state)))
    return found[0].id if found else None


def test_a_refused_request_waits_for_the_persons_word(internet: Internet, person: Person) -> None:
    api = internet.origin("api.six.example", tls=True)
    script = "curl -sS -m 300 https://api.six.example/a; curl -sS -m 300 https://api.six.example/b"
    person.ags("start", "try", "-a", "shell", "--detach", "--ask", script)
    first = wait_for(lambda: asked(person))
    assert [each["id"] for each in json.loads(person.ags("asks", "--json").stdout)] == [first]
    assert api.visits == [] and internet.queries == []
    assert person.ags("allow", first, "--once").returncode == 0
    second = wait_for(lambda: asked(person))
    assert second != first and len(api.requests) == 1
    assert person.ags("deny", second).returncode == 0
    wait_for(lambda: None if runs.is_alive(person.run_dir("try")) else True)
    assert person.ags("list", "--json").stdout.count('"done"') == 1
    logs = person.ags("logs", "try").stdout
    assert "hello from api.six.example" in logs and "ags_policy_refusal" in logs
    assert len(api.requests) == 1


def test_a_server_inside_is_opened_from_outside(internet: Internet, person: Person) -> None:
    script = "mkdir www; echo inside > www/page; cd www; exec python3 -m http.server 5173"
    person.ags("start", "try", "-a", "shell", "--detach", "--publish", "5173", script)
    get = ("curl", "-sS", "http://127.0.0.1:5173/page")
    found = wait_for(lambda: internet.run(get).stdout or None)
    assert found == "inside\n"
    for elsewhere in ("11.0.0.2", "[2c0f::2]", "[::1]"):  # the machine's, as others know it
        assert internet.run(("curl", "-sSm", "5", f"http://{elsewhere}:5173/page")).returncode != 0
    url = person.ags("port", "try", "5173", "--host-port", "0").stdout.strip()
    assert url.startswith("http://127.0.0.1:5173")
    person.ags("stop", "--now", "try")
    assert internet.run(get).returncode != 0


def test_a_policy_is_read_anew_while_a_run_works(internet: Internet, person: Person) -> None:
    api = internet.origin("api.seven.example", port=8080)
    policy = person.state.parent / "policy.yaml"
    policy.write_text("domains: [other.example]\n")
    script = "until curl -sSf -m 60 http://api.seven.example:8080/; do sleep 0.2; done"
    person.ags("start", "try", "-a", "shell", "--detach", "--policy", str(policy), script)
    wait_for(lambda: (person.run_dir("try") / "control.sock").exists() or None)
    policy.write_text("domains: [{host: api.seven.example, ports: [8080], protocol: http}\n")
    assert person.ags("policy", "reload").returncode != 0
    assert api.requests == []
    policy.write_text("domains: [{host: api.seven.example, ports: [8080], protocol: http}]\n")
    assert person.ags("policy", "reload").returncode == 0
    wait_for(lambda: api.requests or None)


CANARY = "sk-live-4f8a0c1d9b7e6a5f4e3d2c1b0a998877"


def test_a_secret_goes_on_the_wire_and_is_nowhere_else(internet: Internet, person: Person) -> None:
    api = internet.origin("api.eight.example", tls=True)
    other = internet.origin("other.eight.example", tls=True)
    settings = person.state.parent / "home/.config/ags/config.toml"
    settings.parent.mkdir(parents=True)
    kept = person.state.parent / "key"
    kept.write_text(CANARY)
    kept.chmod(0o600)
    settings.write_text(
        f"""
[[secret]]
name = "api"
from_file = "{kept}"
env = "API_KEY"
host = "api.eight.example"
header = "X-Api-Key"
"""
    )
    script = """
        echo "inside: $API_KEY"
        curl -sS -m 90 -H "X-Api-Key: $API_KEY" https://api.eight.example/headers
        curl -sS -m 90 -H "X-Api-Key: $API_KEY" https://other.eight.example/
        curl -sS -m 90 -H "X-Other: $API_KEY" https://api.eight.example/
        env > environment; cat /proc/*/environ > all 2>/dev/null
    """
    allow = ("--allow", "api.eight.example", "--allow", "other.eight.example")
    ran = person.ags("start", "try", "-a", "shell", *allow, script)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (seen,) = api.requests
    assert dict(seen.headers)["X-Api-Key"] == CANARY
    assert CANARY not in str(other.visits)
    assert CANARY not in ran.stdout + ran.stderr and "inside: sk-" in ran.stdout
    for file in person.state.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes(), file
    assert CANARY not in person.project.ask("log", "-p", "--all")
