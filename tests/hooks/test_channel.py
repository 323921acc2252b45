"""The socket inside: it takes a hook's call, and whatever else is sent has no effect."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import stat
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ags.control.server import Control
from ags.hooks import channel as channels
from ags.hooks import wire
from ags.hooks.call import Heard
from ags.hooks.channel import Channel
from ags.hooks.decide import Bench, Decider
from ags.hooks.model import Ground, Verdict
from tests.hooks.test_person import nobody

GROUND = Ground("/work/space", "/home/me")


def called(command: str, hook: str = "PreToolUse") -> bytes:
    payload = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": "/work/space"}
    return json.dumps({"hook": hook, "agent": "claude", "payload": payload}).encode() + b"\n"


def play(scene: Coroutine[object, object, None]) -> None:
    """The whole of a test, in an event loop that must report nothing odd."""
    faults: list[object] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what))
        async with asyncio.timeout(180):
            await scene

    asyncio.run(watched())
    assert faults == []


@contextlib.asynccontextmanager
async def listening(run_dir: Path, patience: float = 60.0) -> AsyncIterator[list[object]]:
    noted: list[object] = []
    decider = Decider(Bench("run-1", GROUND, Path("/home/me")), noted.append, nobody)
    made = await Channel.open(run_dir, decider.hear, patience=patience)
    try:
        yield noted
    finally:
        await made.close()


async def say(run_dir: Path, data: bytes, end: bool = False) -> bytes:
    return await asyncio.to_thread(_say, run_dir, data, end)


def _say(run_dir: Path, data: bytes, end: bool) -> bytes:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(120)
        link.connect(str(run_dir / wire.SOCKET))
        said = b""
        with contextlib.suppress(ConnectionError):
            link.sendall(data)
            if end:
                link.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while part := link.recv(65536):
                said += part
        return said


def refused(answer: bytes) -> str:
    found = json.loads(answer)
    assert found.keys() == {"decision", "reason"} and found["decision"] == "deny"
    return str(found["reason"])


def test_a_call_is_answered_by_yes_or_no(tmp_path: Path) -> None:
    async def scene() -> None:
        async with listening(tmp_path) as noted:
            assert await say(tmp_path, called("ls")) == b'{"decision":"allow"}\n'
            assert "guard" in refused(await say(tmp_path, called("rm -rf /")))
            assert [each["decision"] for each in noted] == ["allow", "deny"]  # type: ignore[index]
            assert await say(tmp_path, called("rm -rf /", "PostToolUse")) == wire.ALLOW
            assert await say(tmp_path, b'{"hook":"Stop","agent":"claude","payload":{}}\n')

    play(scene())


def test_an_address_is_refused_politely_for_now(tmp_path: Path) -> None:
    async def scene() -> None:
        async with listening(tmp_path):
            answer = await say(tmp_path, b'{"open": "https://a.example/log-in"}\n')
            assert "not possible yet" in refused(answer)
            assert refused(await say(tmp_path, b'{"open": 5}\n'))

    play(scene())


HOSTILE = [
    b"\n",
    b"{}\n",
    b"[]\n",
    b"null\n",
    b"5\n",
    b'"PreToolUse"\n',
    b"rm -rf /\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x00" * 100 + b"\n",
    b"\xff\xfe\xfd\n",
    b"[" * 100_000 + b"\n",
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n",
    b'{"hook": NaN, "agent": "claude", "payload": {}}\n',
    b'{"hook": ' + b"9" * 10_000 + b"}\n",
    b'{"hook":"PreToolUse","agent":"claude","payload":' + b"[" * 900 + b"]" * 900 + b"}\n",
    b'{"hook":"PreToolUse","agent":"claude","payload":{},"decision":"allow"}\n',
    b'{"hook":"PreToolUse","agent":"claude"}\n',
    b'{"decision":"allow"}\n',
    b'{"hook":"PreToolUse","agent":"claude","payload":{"tool_name":"Bash"}}\n',
    b'{"open":"https://x.example","hook":"Stop"}\n',
    b"x" * (wire.MOST_REQUEST + 10) + b"\n",
    b"x" * (3 * wire.MOST_REQUEST),
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data[:30]))
def test_whatever_else_is_sent_is_refused_and_harms_nobody(tmp_path: Path, data: bytes) -> None:
    async def scene() -> None:
        async with listening(tmp_path) as noted:
            assert refused(await say(tmp_path, data))
            assert noted == []
            assert await say(tmp_path, called("ls")) == wire.ALLOW

    play(scene())


VERBS = [
    {"do": "stop"},
    {"do": "stop", "at_once": True},
    {"do": "attach", "rows": 24, "columns": 80},
    {"do": "enter"},
    {"do": "asks"},
    {"do": "answer", "id": "1", "verdict": "always"},
    {"do": "port", "port": 80},
    {"do": "policy", "domains": ["*"]},
    {"hook": "stop", "agent": "claude", "payload": {}},
    {"hook": "PreToolUse", "agent": "claude", "payload": {"do": "stop"}},
    {"hook": "PreToolUse", "agent": "claude", "payload": {}, "do": "stop"},
    {"open": "https://x.example", "do": "stop"},
]


def test_no_control_verb_has_an_effect_from_inside(tmp_path: Path) -> None:
    """H2. Its twin: the same verbs arrive at the host's own socket."""
    done: list[object] = []

    async def scene() -> None:
        async def verb(request: object) -> None:
            done.append(request)

        names = ("stop", "attach", "enter", "asks", "answer", "port", "policy")
        control = await Control.open(tmp_path, dict.fromkeys(names, verb))
        async with listening(tmp_path) as noted:
            for request in VERBS:
                assert refused(await say(tmp_path, json.dumps(request).encode() + b"\n"))
            assert done == [] and noted == []
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
            writer.write(b'{"do": "stop"}\n')
            assert b"true" in await reader.readline()
            writer.close()
        await control.close()

    play(scene())
    assert done == [{"do": "stop"}]


def test_half_a_request_ends_with_its_time(tmp_path: Path) -> None:
    async def scene() -> None:
        async with listening(tmp_path, patience=0.3):
            assert refused(await say(tmp_path, called("ls")[:-5]))
            assert refused(await say(tmp_path, b""))
            assert refused(await say(tmp_path, called("ls")[:-1], end=True))

    play(scene())


def test_a_storm_of_idle_connections_only_delays(tmp_path: Path) -> None:
    async def scene() -> None:
        async with listening(tmp_path, patience=2):
            held = []
            for _ in range(channels.MOST_CLIENTS + 20):
                link = socket.socket(socket.AF_UNIX)
                link.connect(str(tmp_path / wire.SOCKET))
                held.append(link)
            assert await say(tmp_path, called("ls")) == wire.ALLOW
            for link in held:
                link.close()

    play(scene())


def test_many_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    async def scene() -> None:
        async with listening(tmp_path):
            commands = ["ls", "rm -rf /"] * 30
            answers = await asyncio.gather(*(say(tmp_path, called(c)) for c in commands))
            assert [answer == wire.ALLOW for answer in answers] == [True, False] * 30

    play(scene())


def test_random_bytes_do_no_harm(tmp_path: Path) -> None:
    async def scene() -> None:
        chance = random.Random(7)
        async with listening(tmp_path) as noted:
            for _ in range(60):
                data = chance.randbytes(chance.randrange(4000))
                assert refused(await say(tmp_path, data, end=True))
            assert noted == []
            assert await say(tmp_path, called("ls")) == wire.ALLOW

    play(scene())


def test_a_fault_of_ours_is_a_no(tmp_path: Path) -> None:
    async def whole() -> None:
        async def broken(_: Heard, left: asyncio.Event) -> Verdict:
            raise RuntimeError("a fault")

        asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what))
        made = await Channel.open(tmp_path, broken)
        assert "fault" in refused(await say(tmp_path, called("ls")))
        await made.close()

    faults: list[object] = []
    asyncio.run(whole())
    assert len(faults) == 1


def test_the_socket_is_its_owners_alone_and_goes_with_the_channel(tmp_path: Path) -> None:
    async def scene() -> None:
        left = tmp_path / wire.SOCKET
        left.write_text("left behind")
        async with listening(tmp_path):
            facts = left.stat()
            assert stat.S_ISSOCK(facts.st_mode) and stat.S_IMODE(facts.st_mode) == 0o600
        assert not left.exists()
        if os.geteuid() == 0:
            made = await Channel.open(tmp_path, lambda *_: asyncio.sleep(0), owner=12345)  # type: ignore[arg-type]
            assert left.stat().st_uid == 12345
            await made.close()

    play(scene())


@settings(max_examples=500)
@given(st.binary(max_size=300))
def test_no_bytes_make_an_exception(data: bytes) -> None:
    assert isinstance(wire.request(data), Heard | wire.Opening | wire.Refusal)


def test_a_reason_is_one_line_of_json_and_bounded() -> None:
    line = wire.answer(Verdict(False, "a\x1b[31m\n\ud800" + "x" * 100_000, "pre-any"))
    assert line.count(b"\n") == 1 and len(line) < 3 * wire.MOST_REASON
    assert "\x1b" not in json.loads(line)["reason"]
