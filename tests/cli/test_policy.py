"""`ags policy`: what holds, how it is changed, and what runs tried."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ags import runs
from ags.cli import main
from ags.control.server import Control, Verb
from ags.egress.audit import Chain, Line
from ags.errors import AgsError
from ags.runs import Held, Run
from tests.cli.desk import HOSTILE, Desk, is_harmless, on_terminal
from tests.own_network import own_network
from tests.runs.examples import create

SCRIPT = "import sys; from ags.cli import main; main.VERBS['policy'] = ''; sys.exit(main.main())"
"""As `python -m ags.cli.main`, with the verb under test for sure."""

ALLOWED = Line(1e9, "api.example", 443, "tls", "GET", "/v1", True, "allowed", "api.example", "user",
               "203.0.113.7", 2048, 5 << 20, 0.5)  # fmt: skip
REFUSED = Line(1e9, "evil.example", 443, "tls", None, None, False, "not-listed", "", "")


@pytest.fixture(autouse=True)
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.VERBS, "policy", "")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def file_of(desk: Desk) -> Path:
    return desk.home / ".config/ags/policy.yaml"


def write(desk: Desk, text: str) -> Path:
    file_of(desk).parent.mkdir(parents=True, exist_ok=True)
    file_of(desk).write_text(text)
    return file_of(desk)


def logged(desk: Desk, *lines: Line, name: str = "fix-login") -> tuple[Run, Path]:
    """A run that has ended, with a log of its decisions as a supervisor leaves it."""
    chain = Chain()
    content = b"".join(chain.append(line) for line in lines)
    run = desk.record(name, egress_count=chain.count, egress_last=chain.last)
    path = runs.directory(desk.state, run.id) / "egress.jsonl"
    path.write_bytes(content)
    return run, path


def test_show_tells_each_rule_with_its_layer(desk: Desk) -> None:
    write(desk, 'domains: [api.example]\ndeny: ["*.ads.example"]\nask: true\n')
    said = desk.ags("policy", "show", "--agent", "claude")
    assert (said.code, said.err) == (0, "")
    built_in, user = said.out.split("\nuser  ")
    assert built_in.startswith("built-in\n")
    assert "  allow  claude: api.anthropic.com:443" in built_in
    assert user.splitlines()[1:] == [
        "  deny   *.ads.example",
        "  allow  api.example",
        "  ask    yes",
    ]


def test_show_without_a_file_says_that_there_is_none(desk: Desk) -> None:
    said = desk.ags("policy", "show")
    assert "github: github.com" in said.out and "is not there" in said.out
    assert "anthropic" not in said.out
    assert not file_of(desk).exists()


def test_show_as_json_has_every_part_of_a_rule(desk: Desk) -> None:
    write(desk, "domains: [{host: db.example, ports: [5432]}]\nupstreams: {a.example: 10.0.0.1}\n")
    found = json.loads(desk.ags("policy", "show", "--json").out)
    assert [layer["name"] for layer in found["layers"]] == ["built-in", "user", "run"]
    assert found["ports"] == [80, 443, 5432] and found["agent"] is None
    (rule,) = found["layers"][1]["allow"]
    assert (rule["host"], rule["ports"], rule["protocol"]) == ("db.example", [5432], None)
    assert found["layers"][1]["upstreams"][0]["address"] == "10.0.0.1"


def test_an_agent_that_is_none_and_a_file_with_a_mistake_are_refused(desk: Desk) -> None:
    assert "one of: claude" in desk.refused("policy", "show", "--agent", "../claude")
    write(desk, "domains:\n  - a.example\n  - '*.com'\n")
    for arguments in (("show",), ("reload",), ("add", "b.example")):
        said = desk.refused("policy", *arguments)
        assert "policy.yaml:3" in said and said.startswith("ags: cannot read the policy")
    checked = desk.ags("policy", "check", "https://a.example")
    assert checked.code == 2 and "policy.yaml:3" in checked.err


def test_add_and_remove_change_the_file_and_with_it_the_answer(desk: Desk) -> None:
    assert desk.ags("policy", "check", "https://api.example/").code == 1
    assert desk.ags("policy", "add", "api.example").out == f"changed {file_of(desk)}\n"
    assert desk.ags("policy", "check", "https://api.example/").code == 0
    assert "it allows them already" in desk.ags("policy", "add", "api.example").out
    assert desk.ags("policy", "remove", "api.example").code == 0
    assert desk.ags("policy", "check", "https://api.example/").code == 1


def test_comments_stay_and_several_are_added_at_once_or_none(desk: Desk) -> None:
    file = write(desk, "# mine\ndomains:\n  - a.example # why\n")
    desk.refused("policy", "add", "b.example", "*.com")
    assert file.read_text() == "# mine\ndomains:\n  - a.example # why\n"
    desk.ags("policy", "add", "b.example", "vscode")
    kept = "# mine\ndomains:\n  - a.example # why\n  - b.example\n"
    assert file.read_text() == f"{kept}services:\n  - vscode\n"


def test_add_tells_when_a_denial_still_holds(desk: Desk) -> None:
    write(desk, "deny: [b.example]\n")
    assert "still denied by `b.example` (user)" in desk.ags("policy", "add", "b.example").err
    assert desk.ags("policy", "add", "c.example").err == ""


def test_a_package_tool_is_filled_from_the_persons_settings(desk: Desk) -> None:
    (desk.home / ".npmrc").write_text("registry=https://packages.example/\n")
    desk.ags("policy", "add", "npm")
    with own_network():  # its index is asked where it keeps its files
        shown = desk.ags("policy", "show").out
        refused = desk.ags("policy", "check", "https://files.example/")
    assert "  allow  npm: packages.example:443 tls GET,HEAD\n" in shown
    assert refused.code == 1 and "the index of npm named no further host" in refused.err


def test_a_clients_own_file_holds_for_its_runs_alone(desk: Desk) -> None:
    write(desk, "domains: [api.example, ads.example]\n")
    own = desk.home / ".config/ags/clients/acme/policy.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("domains: [acme.example]\ndeny: [ads.example]\n")
    said = desk.ags("policy", "show", "--client", "acme").out
    assert f"\nclient  {own}\n  deny   ads.example\n  allow  acme.example\n" in said
    assert f"\nuser  {file_of(desk)}\n" in said and "acme" not in desk.ags("policy", "show").out
    found = json.loads(desk.ags("policy", "show", "--client", "acme", "--json").out)
    assert (found["client"], found["client_file"]) == ("acme", str(own))
    for host, plain, client in (("acme", 1, 0), ("ads", 0, 1), ("api", 0, 0)):
        url = f"https://{host}.example/"
        assert desk.ags("policy", "check", url).code == plain
        assert desk.ags("policy", "check", "--client", "acme", url).code == client
    assert "no rules of beta's: " in desk.ags("policy", "show", "--client", "beta").out
    assert desk.ags("policy", "check", "--client", "../acme", "https://api.example/").code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("https://api.example/v1/x?token=1",), 0, "allowed: a rule allows it by `api.example"),
        (("https://api.example/v2",), 1, "no rule for this host has this path"),
        (("--method", "POST", "https://api.example/v1/x"), 1, "this method"),
        (("https://API.Example.:443/v1/x",), 0, "allowed"),
        (("http://api.example/v1/x",), 1, "refused"),
        (("db.example:5432",), 0, "allowed"),
        (("postgres://db.example:5432/x",), 0, "allowed"),
        (("db.example",), 1, "this port"),
        (("https://no.example",), 1, "no rule names this host"),
        (("--agent", "claude", "https://api.anthropic.com/v1/messages"), 0, "(built-in)"),
        (("https://api.anthropic.com/v1/messages",), 1, "no rule names this host"),
        (("https://2130706433/",), 1, "an address is reached only if"),
    ],
)
def test_check_says_what_would_happen_and_by_which_rule(
    desk: Desk, arguments: tuple[str, ...], code: int, says: str
) -> None:
    rule = "{host: api.example, ports: [443], methods: [GET], paths: [/v1/*]}"
    write(desk, f"domains:\n  - {rule}\n  - {{host: db.example, ports: [5432]}}\n")
    said = desk.ags("policy", "check", *arguments)
    assert (said.code, said.err) == (code, "")
    assert says in said.out.splitlines()[0]


@pytest.mark.parametrize(
    "url", ["https://u:p@a.example/", "https://", "a b", "https://a.example:x/", "redis://a.example",
            "https://a\tb.example", "https://[::1", "https://a..example", HOSTILE]
)  # fmt: skip
def test_what_is_no_url_is_refused(desk: Desk, url: str) -> None:
    said = desk.ags("policy", "check", url)
    assert (said.code, said.out) == (2, "") and "\n  why: " in said.err
    assert is_harmless(said.err)


def test_what_is_no_method_is_refused(desk: Desk) -> None:
    assert desk.ags("policy", "check", "--method", "GE T", "https://github.com/").code == 2
    assert desk.ags("policy", "check", "--method", "HEAD", "https://github.com/").code == 0


def test_who_adds_an_address_of_a_page_is_told_what_was_meant(desk: Desk) -> None:
    said = desk.refused("policy", "add", "https://u:p@api.example:8443/v1?x")
    assert "`ags policy add api.example:8443`" in said and "p@" not in said.split("\n", 1)[1]


@pytest.mark.parametrize("word", ["dns.example:53", "proxy.example:3128"])
def test_a_port_of_the_fence_itself_is_refused_before_any_run_is(desk: Desk, word: str) -> None:
    assert "the fence itself" in desk.refused("policy", "add", word)
    host, _, port = word.partition(":")
    write(desk, f"domains:\n  - {{host: {host}, ports: [443, {port}]}}\n")
    assert "policy.yaml:2" in desk.refused("policy", "show")
    write(desk, f"domains: [{host}]\ndeny:\n  - {{host: {host}, ports: [{port}]}}\n")
    assert desk.ags("policy", "show").code == 0


@pytest.mark.parametrize("kind", ["folder", "link to nowhere", "open to all", "binary", "huge"])
def test_a_file_that_cannot_be_read_is_told_with_a_way_on(desk: Desk, kind: str) -> None:
    file = write(desk, "domains: [a.example]\n")
    if kind == "open to all":
        file.chmod(0o666)
    elif kind == "binary":
        file.write_bytes(b"\x00\xff\x7fELF")
    elif kind == "huge":
        file.write_text("#" * (3 << 20))
    else:
        file.unlink()
        file.mkdir() if kind == "folder" else file.symlink_to("/nowhere/at/all")
    for arguments in (("show",), ("add", "b.example"), ("remove", "a.example"), ("reload",)):
        said = desk.refused("policy", *arguments)
        assert said.startswith("ags: cannot read the policy") and "--config" not in said
        assert kind == "binary" or "\n  try: " in said
    project = ("--project", str(desk.project.folder))
    refused = desk.ags("start", "-a", "shell", *project, "try", "true")
    assert refused.code == 1 and "cannot read the policy" in refused.err
    assert list(desk.state.glob("runs/*")) == []


def test_the_log_shows_what_was_decided(desk: Desk) -> None:
    logged(desk, ALLOWED, REFUSED)
    for arguments in (("fix-login",), ()):
        first, second = desk.ags("policy", "log", *arguments).out.splitlines()
        assert "allowed  GET api.example:443/v1  `api.example` (user); up 2.0K, down 5.0M" in first
        assert "refused  tls evil.example:443  no rule names this host" in second
    only = desk.ags("policy", "log", "--denied", "fix-login").out
    assert "evil.example" in only and "api.example" not in only


def test_the_log_as_json_is_as_it_was_kept(desk: Desk) -> None:
    _, path = logged(desk, ALLOWED, REFUSED)
    said = desk.ags("policy", "log", "--json", "fix-login").out
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [json.loads(line) for line in said.splitlines()] == kept


def test_a_log_that_holds_anything_is_harmless(desk: Desk) -> None:
    _, path = logged(desk, replace(REFUSED, host=HOSTILE, rule=HOSTILE))
    odd = {"host": HOSTILE, "port": [1], "time": 1e300, "allowed": 1, "reason": HOSTILE, "sent": -1}
    path.write_text(f"{path.read_text()}{json.dumps(odd)}\n[1]\nno json\n{{\n")
    for arguments in ((), ("--json",), ("--denied",)):
        said = desk.ags("policy", "log", *arguments, "fix-login")
        assert said.code == 0 and is_harmless(said.out)


def test_without_a_run_or_a_log_there_is_nothing_to_show(desk: Desk) -> None:
    assert "there are no runs yet" in desk.refused("policy", "log")
    desk.record()
    said = desk.ags("policy", "log")
    assert said.out == "" and "asked for nothing" in said.err
    assert desk.ags("policy", "log", "-f", "fix-login").out == ""
    assert "whole, 0 lines" in desk.ags("policy", "log", "--verify", "fix-login").out


def test_a_whole_log_is_proved_and_a_changed_or_cut_one_found_out(desk: Desk) -> None:
    _, path = logged(desk, ALLOWED, REFUSED, ALLOWED)
    content = path.read_bytes()
    said = desk.ags("policy", "log", "--verify", "fix-login")
    assert (said.code, said.out) == (0, "fix-login: whole, 3 lines\n")
    lines = content.splitlines(keepends=True)
    for changed, bad in (
        (content.replace(b"evil", b"good"), 2),
        (b"".join(lines[:2]), 3),
        (b"".join((lines[0], lines[2])), 2),
        (content + lines[2], 4),
        (b"", 1),
    ):
        path.write_bytes(changed)
        said = desk.ags("policy", "log", "--verify", "fix-login")
        assert said.code == 1 and f"not whole: line {bad}:" in said.out


def test_a_sealed_line_more_is_an_addition_once_the_run_has_ended(desk: Desk) -> None:
    chain = Chain()
    first, second = chain.append(ALLOWED), chain.append(REFUSED)
    noted = Chain()
    noted.append(ALLOWED)
    with create(desk.state, state="running", egress_count=1, egress_last=noted.last) as held:
        (held.run_dir / "egress.jsonl").write_bytes(first + second)
        assert desk.ags("policy", "log", "--verify", "fix-login").code == 0
    said = desk.ags("policy", "log", "--verify", "fix-login")
    assert said.code == 1 and "line 2: was added" in said.out


def test_following_shows_what_comes_until_the_run_has_ended(desk: Desk) -> None:
    held, chain = create(desk.state, state="running"), Chain()
    path = held.run_dir / "egress.jsonl"
    path.write_bytes(chain.append(ALLOWED))
    command = (sys.executable, "-c", SCRIPT, "policy", "log", "-f", "fix-login")
    with subprocess.Popen(
        command, env=desk.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "api.example" in process.stdout.readline()
        line = chain.append(REFUSED)
        with path.open("ab") as log:
            log.write(line[:50])
            log.flush()
            log.write(line[50:])
        assert "evil.example" in process.stdout.readline()
        held.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_learn_proposes_and_writes_only_when_told(desk: Desk) -> None:
    file = write(desk, "# mine\ndomains:\n  - api.example\n")
    logged(desk, ALLOWED, REFUSED, replace(REFUSED, host="10.0.0.5", reason="address"))
    said = desk.ags("policy", "learn", "fix-login")
    assert "+  - {host: evil.example, ports: [443]}" in said.out.splitlines()
    assert "left out: 10.0.0.5:443" in said.err and "nothing was written" in said.err
    assert file.read_text() == "# mine\ndomains:\n  - api.example\n"
    assert desk.ags("policy", "learn", "--yes", "fix-login").code == 0
    assert file.read_text().endswith("  - api.example\n  - {host: evil.example, ports: [443]}\n")
    assert desk.ags("policy", "check", "https://evil.example/").code == 0
    assert "nothing to learn" in desk.ags("policy", "learn", "--yes", "fix-login").out


@pytest.mark.parametrize(("key", "written"), [("y\r", True), ("\r", False)])
def test_at_a_terminal_learn_asks(desk: Desk, key: str, written: bool) -> None:
    logged(desk, REFUSED)
    command = (sys.executable, "-c", SCRIPT, "policy", "learn", "fix-login")
    code, screen = on_terminal(command, desk.environment(), {"write it?": key})
    assert code == 0 and is_harmless(screen)
    assert file_of(desk).exists() is written


class Answering(threading.Thread):
    """A run at work whose control socket knows `reload` and `grant`."""

    def __init__(self, held: Held, refuses: bool = False) -> None:
        super().__init__(daemon=True)
        self._held, self._refuses = held, refuses
        self._up, self._down = threading.Event(), threading.Event()
        self.asked = 0
        self.granted: list[tuple[object, object]] = []

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        control = await Control.open(self._held.run_dir, self._verbs())
        self._up.set()
        await asyncio.to_thread(self._down.wait)
        await control.close()

    def _verbs(self) -> dict[str, Verb]:
        return {"reload": self._reload, "grant": self._grant}

    async def _grant(self, request: Mapping[str, object]) -> Mapping[str, object]:
        self.granted.append((request["rule"], request["seconds"]))
        return {}

    async def _reload(self, request: Mapping[str, object]) -> Mapping[str, object]:
        self.asked += 1
        if self._refuses:
            raise AgsError("reload the policy", cause="line 3 is wrong")
        return {}

    def __enter__(self) -> Answering:
        self.start()
        assert self._up.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._down.set()
        self.join(30)
        self._held.close()


def test_reload_reaches_the_run_that_is_named_or_all(desk: Desk) -> None:
    desk.record("ended")
    assert desk.ags("policy", "reload").out == "no run is at work\n"
    for words in (("reload", "ended"), ("grant", "ended", "a.example")):
        told = desk.refused("policy", *words)
        assert "reach the run (ended)" in told and "it is not at work: it is done" in told
    first = Answering(create(desk.state, "first", state="running"))
    with first, Answering(create(desk.state, "second", state="running"), refuses=True) as second:
        assert desk.ags("policy", "reload", "first").out == "reloaded first\n"
        assert (first.asked, second.asked) == (1, 0)
        said = desk.ags("policy", "reload")
        assert (said.code, said.out) == (1, "reloaded first\n")
        assert "why: line 3 is wrong" in said.err and (first.asked, second.asked) == (2, 1)
        assert "until `ags policy reload`" in desk.ags("policy", "add", "a.example").err
        write(desk, "domain: []\n")
        desk.refused("policy", "reload")
        assert (first.asked, second.asked) == (2, 1)


def test_grant_is_for_one_run_at_work_and_writes_nothing_down(desk: Desk) -> None:
    desk.record("ended")
    with Answering(create(desk.state, "first", state="running")) as first:
        said = desk.ags("policy", "grant", "first", "a.example", "db.example:5432", "--for", "30m")
        assert said.out == (
            "allowed for 30 min in first: a.example\n"
            "allowed for 30 min in first: {host: db.example, ports: [5432]}\n"
        )
        assert desk.ags("policy", "grant", "first", "*.b.example").code == 0
        for bad in (
            "first https://a.example/",
            "first npm",
            "first a.example --for 0",
            "ended a.b",
        ):
            desk.refused("policy", "grant", *bad.split())
    assert first.granted == [
        ("a.example", 1800.0),
        ("{host: db.example, ports: [5432]}", 1800.0),
        ('"*.b.example"', 3600.0),
    ]
    assert not file_of(desk).exists()


def test_a_clients_rules_are_in_its_own_file(desk: Desk) -> None:
    assert desk.ags("policy", "add", "--client", "acme", "a.example").code == 0
    assert not file_of(desk).exists()
    assert desk.ags("policy", "check", "--client", "acme", "https://a.example/").code == 0
    assert desk.ags("policy", "check", "https://a.example/").code == 1
    assert desk.ags("policy", "remove", "--client", "acme", "a.example").code == 0
    assert desk.ags("policy", "check", "--client", "acme", "https://a.example/").code == 1


@pytest.mark.parametrize(
    "verb", ["show", "add", "remove", "check", "log", "learn", "grant", "reload"]
)
def test_each_has_help_with_an_example(desk: Desk, verb: str) -> None:
    said = desk.ags("policy", verb, "--help")
    assert said.code == 0 and f"\n    ags policy {verb}" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
