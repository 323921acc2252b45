"""An agent is logged in from the page: over a real socket, in a real sandbox, by a stand-in."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from ags.server.auth import Keys
from tests.logins import stand_in
from tests.real.vendor import Vendor
from tests.server.conftest import Server, serving
from tests.server.listening import eventually, listening
from tests.server.screen import Screen, play, terminal
from tests.server.test_stream import metrics

PROMPT = rb"Paste code here > "
CODE = "the-code-that-nobody-else-may-see"
GIVEN_UP = "the log-in was given up"
ROOM = "0123456789ab"
# In the place of the command line, and with little time to end.
DEAF = f"""
import ags.server.login, ags.server.machine
ags.server.login.ORDER = 0.2
ags.server.machine.VERB = ("/bin/sh", "-c", '''
trap "" HUP TERM INT
mkdir -p $AGS_HOME/auth/{ROOM}
echo deaf to all but a kill
while :; do sleep 1; done
''')
"""


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Vendor]]:
    place = tmp_path_factory.mktemp("served")
    with serving(place) as server, stand_in.maker(place, server.home) as vendor:
        stand_in.give(server.ags_home)
        yield server, vendor


@pytest.fixture
def server(equipped: tuple[Server, Vendor]) -> Iterator[Server]:
    """After each test nothing is left there."""
    yield equipped[0]
    check_nothing_is_left(equipped[0])


@pytest.fixture
def vendor(equipped: tuple[Server, Vendor]) -> Vendor:
    return equipped[1]


def logging_in(
    server: Server, name: str = "claude", query: str = "", **given: Any
) -> AbstractAsyncContextManager[Screen]:
    return terminal(server, f"/settings/agents/{name}/login{query}", **given)


def rooms(server: Server) -> list[str]:
    return [place.name for place in server.ags_home.glob("auth/*")]


def at_work(server: Server, rooms: list[str]) -> list[str]:
    """Command lines of `ags auth` of this very home, and of what is in a sandbox on such rooms."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            mounts = (entry / "mountinfo").read_text()
            ours = b"\0auth\0" in words and str(server.ags_home).encode() in environ
            if ours or any(f"/auth/{room}" in mounts for room in rooms):
                found.append(words.decode())
    return found


def check_nothing_is_left(server: Server, seen: list[str] | None = None) -> None:
    eventually("no folder is left", lambda: not rooms(server))
    eventually("no process is left", lambda: not at_work(server, seen or []))


def facts(server: Server) -> Any:
    items = server.call("GET", "/settings/agents").json()["items"]
    return next(each for each in items if each["name"] == "claude")


def test_an_agent_is_logged_in_and_everybody_is_told(server: Server, vendor: Vendor) -> None:
    assert facts(server)["login"] == ""
    seen: list[str] = []

    async def scene() -> None:
        async with logging_in(server, query="?rows=33&columns=101") as screen:
            assert screen.socket.subprotocol == "ags.v1"
            await screen.shows(PROMPT)
            seen.extend(rooms(server))
            await screen.types(f"{stand_in.SIZE}\r")
            await screen.shows(rb"size=33 101=")
            await screen.resizes(44, 122)
            while True:
                await screen.shows(PROMPT)
                await screen.types(f"{stand_in.SIZE}\r")
                if (await screen.shows(rb"size=(\d+ \d+)="))[1] == b"44 122":
                    break
            await screen.types(f"{CODE}\r")
            await screen.shows(rb"Logged in")
            await screen.shows(rb"claude: kept by ags: anthropic")
            assert await screen.last_words() == {"ended": 0, "reason": ""}
            assert await screen.closing() == (1000, "")

    with listening(server, "/stream") as board:
        board.next()
        play(scene())
        told = board.until(lambda each: each.event == "agent" and each.json()["login"]).json()
    assert "kept by ags: anthropic" in told["login"] and told == facts(server)
    assert [each["code"] for each in vendor.asked] == [CODE]
    assert len(seen) == 1 and server.threads() == 1
    check_nothing_is_left(server, seen)
    check_nothing_was_written(server, vendor)


def check_nothing_was_written(server: Server, vendor: Vendor) -> None:
    """Of what was typed, and of tokens, nowhere but in the log-in that is kept."""
    (kept,) = (server.ags_home / "logins").rglob("claude.json")
    secrets = [CODE, "Paste code", *vendor.secrets()]
    assert any(secret in kept.read_text() for secret in vendor.secrets())
    logged = server.log.read_text()
    assert '"log-in ended"' in logged and "/settings/agents/claude/login" in logged
    files = [path for path in server.ags_home.rglob("*") if path.is_file() and path != kept]
    for path in (server.log, *files):
        if "agents" not in path.relative_to(server.log.parent).parts:
            text = path.read_bytes().decode(errors="replace")
            assert not [secret for secret in secrets if secret in text], path


def test_one_that_fails_says_so_and_leaves_nothing(server: Server) -> None:
    async def scene() -> None:
        async with logging_in(server, query="?client=acme") as screen:
            await screen.shows(PROMPT)
            await screen.types(f"{stand_in.WRONG}\r")
            await screen.shows(rb"no good[\s\S]*left no log-in behind")
            assert (await screen.last_words())["ended"] == 1

    play(scene())
    assert not (server.ags_home / "clients/acme").exists()


@pytest.mark.parametrize(
    ("name", "query", "code", "word"),
    [
        ("codex", "", 4409, "codex is not installed yet: install it first"),
        ("shell", "", 4409, "needs no log-in"),
        ("nobody", "", 4404, "no agent by that name"),
        ("--forget", "", 4404, "no agent by that name"),
        ("claude", "?client=..", 4422, "not a name for a client"),
        ("claude", "?client=--forget", 4422, "not a name for a client"),
    ],
)
def test_what_cannot_be_logged_in_is_refused(
    server: Server, name: str, query: str, code: int, word: str
) -> None:
    async def scene() -> None:
        async with logging_in(server, name, query) as screen:
            found, reason = await screen.closing()
            assert found == code and word in reason and screen.seen == b""

    play(scene())
    assert at_work(server, []) == []


@pytest.mark.parametrize("query", ["rows=abc", "columns=", "client="])
def test_what_cannot_be_read_starts_nothing(server: Server, query: str) -> None:
    async def scene() -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with logging_in(server, query=f"?{query}"):
                pass
        assert refused.value.response.status_code == 422

    play(scene())
    assert at_work(server, []) == []


def test_one_log_in_at_a_time_for_each_agent_and_client(server: Server) -> None:
    async def scene() -> None:
        async with logging_in(server) as one:
            await one.shows(PROMPT)
            async with logging_in(server, query="?client=default") as second:
                code, reason = await second.closing()
                assert code == 4409 and "being logged in already" in reason
            async with logging_in(server, query="?client=acme") as other:
                await other.shows(PROMPT)
        async with logging_in(server) as later:
            await later.shows(PROMPT)

    play(scene())


def test_who_leaves_takes_it_along(server: Server) -> None:
    seen: list[str] = []

    async def scene() -> None:
        async with logging_in(server) as screen:
            await screen.shows(PROMPT)
            seen.extend(rooms(server))
            assert len(seen) == 1 and len(at_work(server, seen)) > 1

    with listening(server, "/stream") as board:
        board.next()
        play(scene())
        board.until(lambda each: each.event == "agent")
    check_nothing_is_left(server, seen)
    eventually("it is not counted any more", lambda: "ags_streams_open 0\n" in metrics(server))


def test_who_leaves_before_it_has_begun_takes_it_along(server: Server) -> None:
    async def scene() -> None:
        for _ in range(3):
            async with logging_in(server):
                pass

    play(scene())
    # The last may not have begun yet.
    eventually("nobody looks", lambda: "ags_streams_open 0\n" in metrics(server))
    check_nothing_is_left(server)


def test_who_logs_out_takes_it_along(server: Server) -> None:
    keys = Keys(server.ags_home)
    session = keys.session_for(keys.new_code())
    assert session

    async def scene() -> None:
        async with logging_in(server, token=session) as screen:
            await screen.shows(PROMPT)
            assert server.call("DELETE", "/session", token=session).status == 204
            assert await screen.closing() == (4401, f"the session was ended; {GIVEN_UP}")

    play(scene())


def test_strangers_start_nothing(server: Server) -> None:
    attempts: list[tuple[int, dict[str, Any]]] = [
        (403, {"origin": "https://evil.example"}),
        (401, {"origin": server.url, "subprotocols": ["ags.v1"]}),
        (401, {"origin": server.url, "token": "wrong"}),
        (421, {"origin": server.url, "called": "evil.example"}),
    ]

    async def scene() -> None:
        for status, given in attempts:
            with pytest.raises(InvalidStatus) as refused:
                async with logging_in(server, **given):
                    pass
            assert refused.value.response.status_code == status, given
        assert at_work(server, []) == []
        async with logging_in(server, origin=server.url) as screen:
            await screen.shows(PROMPT)
            assert at_work(server, [])

    play(scene())


def test_one_that_does_not_end_is_killed_and_what_it_leaves_is_swept(tmp_path: Path) -> None:
    with serving(tmp_path, first=DEAF) as server:
        stand_in.give(server.ags_home)

        async def scene() -> None:
            async with logging_in(server) as screen:
                await screen.shows(rb"deaf to all but a kill")
                assert rooms(server) == [ROOM]

        play(scene())
        check_nothing_is_left(server)
        eventually("it is told", lambda: codes(server) == [128 + 9])

        async def again() -> None:
            async with logging_in(server) as screen:
                await screen.shows(rb"deaf to all but a kill")
                server.process.terminate()
                assert await screen.closing() == (1012, f"the server stops; {GIVEN_UP}")

        play(again())
        assert server.process.wait(60) == 0
        assert rooms(server) == [] and codes(server) == [128 + 9] * 2


def codes(server: Server) -> list[int]:
    lines = server.log.read_text().splitlines()
    return [json.loads(line)["code"] for line in lines if "log-in ended" in line]


def test_a_server_that_stops_takes_it_along(server: Server) -> None:
    """The last test: there is no server afterwards."""
    seen: list[str] = []

    async def scene() -> None:
        async with logging_in(server) as screen:
            await screen.shows(PROMPT)
            seen.extend(rooms(server))
            server.process.terminate()
            assert await screen.closing() == (1012, f"the server stops; {GIVEN_UP}")

    play(scene())
    assert server.process.wait(60) == 0
    assert rooms(server) == []
    check_nothing_is_left(server, seen)
