"""`ags asks`, `allow`, `deny` and `port`, on runs with a real control socket and real asks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ags import events, runs
from ags.control.server import Control, Verb
from ags.egress import policy
from ags.egress.asks import Asks
from ags.egress.load import load
from ags.egress.model import Decision, Request
from ags.egress.policy import Layer, Rule, merge
from ags.egress.ports import Published
from ags.errors import AgsError
from ags.events import Writer
from ags.hooks.model import ToolCall, Verdict
from ags.runs import Held
from ags.supervisor.asking import Asking
from ags.supervisor.publishing import PortVerbs
from ags.supervisor.requests import HeldRequests, noted
from tests.cli.desk import Desk, is_harmless

T = TypeVar("T")
WEB = Request("new.example", 443, "tls")
POST = Request("api.example", 443, "tls", "POST", "/v1/items")


class AtWork:
    """The part of a supervisor that listens, in a thread of its own."""

    def __init__(self, held: Held, tag: str, ports: Any = None) -> None:
        self.held = held
        self.told: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._log = Writer(held.run_dir / "events.jsonl")
        layer = Layer("user", allow=(Rule("api.example", methods=("GET",)),), ask=True)
        self._policy = merge([layer])
        self.asking = Asking(held, self._log)
        self.asks = Asks(
            lambda: self._policy,
            on_change=lambda change: self.asking.note(noted(change)),
            tag=tag,
        )
        self.asking.add(HeldRequests(self.asks))
        doors = PortVerbs(lambda: ports, self.told.append)
        verbs = self.asking.verbs() | doors.verbs()
        self._control = self._do(Control.open(held.run_dir, verbs))

    def send(self, request: Request) -> Future[Decision]:
        """Held by the time this returns."""
        refused = policy.decide(self._policy, request)
        before = self._waiting()
        sent = asyncio.run_coroutine_threadsafe(self.asks.ask(request, refused), self._loop)
        until = time.monotonic() + 60
        while self._waiting() == before and not sent.done():
            assert time.monotonic() < until
            time.sleep(0.005)
        return sent

    def call(self, command: str) -> Future[Verdict]:
        """A tool's call that a hook asks about; asked by the time this returns."""
        call = ToolCall("claude", "Bash", "bash", command)
        asking = (Verdict(False, "sure?", "pre-bash", asks=True),)
        work = self.asking.questions.ask(call, asking, asyncio.Event())
        before = len(self.asking.questions.pending())
        sent = asyncio.run_coroutine_threadsafe(work, self._loop)
        until = time.monotonic() + 60
        while len(self.asking.questions.pending()) == before:
            assert time.monotonic() < until
            time.sleep(0.005)
        return sent

    def _waiting(self) -> int:
        """Counted where it changes: whatever is counted is in the log and the record, too."""

        async def counted() -> int:
            return sum(each.waiting for each in self.asks.pending())

        return self._do(counted())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def asked(self) -> list[tuple[str, str]]:
        """What the log has of asks."""
        found = events.read(self.held.run_dir / "events.jsonl", 0)
        return [(e.fields["id"], e.fields["outcome"]) for e in found if e.kind == "ask"]

    def close(self) -> None:
        self._do(self._control.close())
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
        self._log.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def at_work(
    desk: Desk, name: str = "fix-login", tag: str = "a", ports: Any = None
) -> Iterator[AtWork]:
    made = desk.record(name, state="running")
    with runs.hold(runs.directory(desk.state, made.id)) as held:
        working = AtWork(held, tag, ports)
        try:
            yield working
        finally:
            working.close()


def policy_file(desk: Desk) -> Path:
    return desk.home / ".config" / "ags" / "policy.yaml"


def test_what_waits_is_shown_with_its_run(desk: Desk) -> None:
    assert desk.ags("asks").out == "no run asks for anything\n"
    with at_work(desk) as run, at_work(desk, "other", "b") as other:
        run.send(WEB)
        other.send(POST)
        lines = desk.ags("asks").out.splitlines()
        assert any("a1  fix-login  https://new.example:443  waits" in line for line in lines)
        shown = "b1  other  POST https://api.example:443/v1/items  waits"
        assert any(shown in line for line in lines)
        listed = json.loads(desk.ags("asks", "--json").out)
        by_run = {each["run"]: each for each in listed}
        assert by_run["fix-login"]["id"] == "a1" and by_run["fix-login"]["waiting"] == 1
        assert (by_run["other"]["method"], by_run["other"]["path"]) == ("POST", "/v1/items")
        assert run.held.run.asking and "running, asks" in desk.ags("list").out


def test_a_run_that_asks_nothing_is_not_shown(desk: Desk) -> None:
    with at_work(desk):
        assert desk.ags("asks").out == "no run asks for anything\n"
        assert json.loads(desk.ags("asks", "--json").out) == []


def test_one_that_does_not_answer_does_not_hide_the_others(desk: Desk) -> None:
    with at_work(desk) as run:
        run.send(WEB)
        silent = desk.record("silent", state="running")
        with runs.hold(runs.directory(desk.state, silent.id)):
            said = desk.ags("asks")
    assert "a1  fix-login" in said.out
    assert "silent does not say what it asks: it is not at work" in said.err


def test_allowed_once_it_goes_and_the_next_one_asks(desk: Desk) -> None:
    with at_work(desk) as run:
        sent = run.send(POST)
        said = desk.ags("allow", "a1")
        assert said.out == "allowed once: fix-login: POST https://api.example:443/v1/items\n"
        assert sent.result(60).allowed
        assert not run.held.run.asking
        assert not run.send(POST).done()
        assert run.asked() == [("a1", "asked"), ("a1", "once"), ("a2", "asked")]


def test_allowed_for_a_time_the_next_one_goes_too(desk: Desk) -> None:
    with at_work(desk) as run:
        sent = run.send(WEB)
        assert "allowed for 1 h: " in desk.ags("allow", "a1", "--for", "1h").out
        assert sent.result(60).allowed and run.send(WEB).result(60).allowed
    assert not policy_file(desk).exists()


def test_allowed_always_it_goes_and_is_in_the_policy(desk: Desk) -> None:
    policy_file(desk).parent.mkdir(parents=True)
    policy_file(desk).write_text("# mine\ndomains:\n- a.example  # why\n")
    with at_work(desk) as run:
        sent = run.send(POST)
        said = desk.ags("allow", "--always", "a1")
        assert said.code == 0 and "ags policy reload" in said.err
        assert sent.result(60).allowed
    assert policy_file(desk).read_text().startswith("# mine\ndomains:\n- a.example  # why\n")
    layer = load(policy_file(desk), "user", desk.home)
    assert layer.allow[1:] == (Rule("api.example", (443,), None, ("POST",), ("/v1/items",)),)


def test_what_cannot_be_written_down_is_not_allowed_either(desk: Desk) -> None:
    policy_file(desk).parent.mkdir(parents=True)
    policy_file(desk).write_text("domains: [\n")
    with at_work(desk) as run:
        sent = run.send(WEB)
        assert "policy.yaml" in desk.refused("allow", "--always", "a1")
        assert not sent.done() and len(run.asks.pending()) == 1
    assert policy_file(desk).read_text() == "domains: [\n"


def test_denied_it_is_refused_and_so_are_those_after_it(desk: Desk) -> None:
    with at_work(desk) as run:
        sent = run.send(WEB)
        said = desk.ags("deny", "a1")
        assert said.out == "denied for the rest of the run: fix-login: https://new.example:443\n"
        assert sent.result(60).reason == "ask-denied"
        assert run.send(WEB).result(60).reason == "ask-denied"
        assert run.asked()[-1] == ("a1", "deny")


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_an_id_that_two_runs_ask_under_needs_a_name(desk: Desk, verb: str) -> None:
    with at_work(desk) as run, at_work(desk, "other") as other:
        mine, theirs = run.send(WEB), other.send(WEB)
        assert "add --run NAME" in desk.refused(verb, "a1")
        assert not mine.done() and not theirs.done()
        assert desk.ags(verb, "a1", "--run", "other").code == 0
        assert theirs.result(60).allowed is (verb == "allow") and not mine.done()


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_an_id_that_nobody_asks_under_is_refused(desk: Desk, verb: str) -> None:
    assert "no run asks this" in desk.refused(verb, "a1")
    with at_work(desk) as run:
        sent = run.send(WEB)
        assert "no run asks this" in desk.refused(verb, "a2")
        assert "there is no run of this name" in desk.refused(verb, "a1", "--run", "nobody")
        assert not sent.done()


def test_answers_that_exclude_each_other_or_mean_nothing_change_nothing(desk: Desk) -> None:
    with at_work(desk) as run:
        sent = run.send(WEB)
        assert desk.ags("allow", "a1", "--once", "--always").code == 2
        assert desk.ags("allow", "a1", "--for", "1h", "--once").code == 2
        assert "is not a time" in desk.refused("allow", "a1", "--for", "soon")
        assert "a grant lasts up to 7 days" in desk.refused("allow", "a1", "--for", "30d")
        assert not sent.done()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"id": 1, "verdict": "once"},
        {"id": "a1"},
        {"id": "a1", "verdict": "maybe"},
        {"id": "a1", "verdict": ["once"]},
        {"id": "a1", "verdict": "for", "seconds": True},
        {"id": "a1", "verdict": "for", "seconds": "60"},
        {"id": "a1", "verdict": "for", "seconds": 60, "uses": 1.5},
        {"id": "a1", "verdict": "for", "seconds": -60},
    ],
    ids=str,
)
def test_an_odd_answer_over_the_socket_is_refused(desk: Desk, fields: dict[str, object]) -> None:
    with at_work(desk) as run:
        sent = run.send(WEB)
        verb: Verb = run.asking.verbs()["answer"]
        with pytest.raises(AgsError):
            asyncio.run(_awaited(verb, fields))
        assert not sent.done()


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_what_a_hook_asks_is_shown_beside_requests_and_answered_for_this_once(
    desk: Desk, verb: str
) -> None:
    with at_work(desk) as run:
        held, sent = run.send(WEB), run.call("make deploy")
        (question,) = run.asking.questions.pending()
        shown = f"{question.id}  fix-login  Bash: make deploy (pre-bash: sure?)  waits"
        assert shown in desk.ags("asks").out
        assert {"a1", question.id} == {
            each["id"] for each in json.loads(desk.ags("asks", "--json").out)
        }
        said = {"allow": "allowed once", "deny": "denied"}[verb]
        told = f"{said}: fix-login: Bash: make deploy (pre-bash: sure?)\n"
        assert desk.ags(verb, question.id).out == told
        assert sent.result(60).allowed is (verb == "allow")
        assert not held.done() and run.held.run.asking
        desk.ags("deny", "a1")
        assert not run.held.run.asking
        outcome = {"allow": "once", "deny": "deny"}[verb]
        expected = [("a1", "asked"), (question.id, "asked"), (question.id, outcome), ("a1", "deny")]
        assert run.asked() == expected
        assert "Bash: make deploy (pre-bash: sure?): " in desk.ags("logs", "fix-login").out


def test_what_a_hook_asks_cannot_be_allowed_for_longer(desk: Desk) -> None:
    with at_work(desk) as run:
        sent = run.call("make deploy")
        (question,) = run.asking.questions.pending()
        for flags in (("--for", "1h"), ("--always",)):
            assert "this one call" in desk.refused("allow", question.id, *flags)
        assert not policy_file(desk).exists() and not sent.done()
        verb = run.asking.verbs()["answer"]
        with pytest.raises(AgsError, match="answer this"):
            asyncio.run(_awaited(verb, {"id": question.id, "verdict": "maybe"}))
        assert desk.ags("allow", question.id).code == 0 and sent.result(60).allowed


async def _awaited(verb: Verb, fields: dict[str, object]) -> object:
    return await verb(fields)


def test_nothing_that_a_run_says_reaches_the_terminal_as_a_command(desk: Desk) -> None:
    hostile = {"id": "a1\x1b[2J", "host": "\x1b]0;owned\x07", "port": "\r", "scheme": "\x9b"}

    async def say(_: object) -> dict[str, object]:
        return {"asks": [hostile, "odd", 3]}

    made = desk.record(state="running")
    run_dir = runs.directory(desk.state, made.id)
    with runs.hold(run_dir) as held:
        working = AtWork(held, "a")
        working._control._verbs = {"asks": say}
        try:
            said = desk.ags("asks")
        finally:
            working.close()
    assert said.code == 0 and "owned" in said.out and is_harmless(said.out)


def test_the_log_keeps_of_a_path_only_what_is_nobodys_data(desk: Desk) -> None:
    with at_work(desk) as run:
        run.send(Request("api.example", 443, "tls", "POST", "/bot/s3cr3t-t0ken"))
        desk.ags("deny", "a1")
        text = (run.held.run_dir / "events.jsonl").read_text()
    assert "/bot/*" in text and "s3cr3t" not in text


class Door:
    """Ports that only note what is asked: the real ones have tests of their own."""

    def __init__(self) -> None:
        self.published: tuple[Published, ...] = ()

    def publish(self, port: int, host_port: int = 0) -> Published:
        if port < 1024:
            raise AgsError("publish the port", subject=port, cause="it is too low")
        made = Published(port, host_port or port)
        self.published += (made,)
        return made


def test_a_port_is_published_and_its_address_told(desk: Desk) -> None:
    with at_work(desk, ports=Door()) as run:
        assert desk.ags("port", "fix-login", "5173").out == "http://127.0.0.1:5173\n"
        said = desk.ags("port", "fix-login", "5174", "--host-port", "8090")
        assert said.out == "http://127.0.0.1:8090\n"
        assert "it is too low" in desk.refused("port", "fix-login", "80")
        assert run.told == [
            "port 5173 of the sandbox is at http://127.0.0.1:5173",
            "port 5174 of the sandbox is at http://127.0.0.1:8090",
        ]


def test_a_run_without_a_network_or_at_its_end_publishes_nothing(desk: Desk) -> None:
    with at_work(desk):
        assert "it has no network" in desk.refused("port", "fix-login", "5173")
    desk.finished("done-already")
    assert "it is not at work: it is done" in desk.refused("port", "done-already", "5173")
    assert desk.ags("port", "fix-login", "http").code == 2
