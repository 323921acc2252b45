"""W2: without a good token nothing is told or done, and a token is nowhere that others look."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import http.client
import os
import socket
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from ags import records
from ags.errors import AgsError
from ags.server import heads, serve
from ags.server.auth import CODE_LIFE, SESSION_LIFE, USE_WRITTEN, Keys, Session, Unsure

from .conftest import Server, serving
from .guarding import Victim, guarded, status_of, whole_of

PATHS = ["/health", "/openapi.json", "/runs", "/projects", "/nothing", "//metrics", "//nothing"]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def logged_in(server: Server) -> str:
    code = Keys(server.ags_home).new_code()
    answer = server.call("POST", "/session", json={"code": code}, token=None)
    assert answer.status == 200
    token = answer.json()["token"]
    assert isinstance(token, str)
    return token


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_an_address_does_not_even_tell_whether_it_is_one(
    shared: Server, path: str
) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {shared.token}"},
        {"Authorization": shared.token},
        {"Cookie": f"token={shared.token}"},
        {"Authorization": f"Bearer {shared.token[:-1]}"},
        {"Authorization": "Bearer " + "x" * 5000},
        {"Authorization": f"Bearer {hashlib.sha256(shared.token.encode()).hexdigest()}"},
    ):
        answer = shared.call("GET", path, headers=headers, token=None)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert shared.call("GET", path).status in (200, 404)


def test_a_token_in_the_address_is_no_token(shared: Server) -> None:
    for name in ("token", "access_token", "authorization"):
        answer = shared.call("GET", f"/health?{name}={shared.token}", token=None)
        assert answer.status == 401


def test_a_code_logs_in_once(shared: Server) -> None:
    code = Keys(shared.ags_home).new_code()
    first = shared.call("POST", "/session", json={"code": code}, token=None)
    second = shared.call("POST", "/session", json={"code": code}, token=None)
    assert (first.status, second.status) == (200, 403)
    session = first.json()["token"]
    assert session != shared.token
    assert shared.call("GET", "/health", token=session).status == 200


def test_of_many_who_bring_a_code_at_once_one_gets_in(shared: Server) -> None:
    code = Keys(shared.ags_home).new_code()
    with ThreadPoolExecutor(8) as pool:
        ask = lambda _: shared.call("POST", "/session", json={"code": code}, token=None).status  # noqa: E731
        statuses = list(pool.map(ask, range(8)))
    assert statuses.count(200) == 1


def test_a_session_can_be_ended_and_the_persons_own_token_cannot(shared: Server) -> None:
    session = logged_in(shared)
    assert shared.call("DELETE", "/session", token=session).status == 204
    assert shared.call("GET", "/health", token=session).status == 401
    refused = shared.call("DELETE", "/session")
    assert refused.status == 409
    assert refused.json()["hint"]
    assert shared.call("GET", "/health").status == 200


def test_wrong_codes_are_all_answered_alike_and_lock_nobody_out(shared: Server) -> None:
    good = Keys(shared.ags_home).new_code()
    ask = lambda n: shared.call("POST", "/session", json={"code": f"wrong-{n}"}, token=None)  # noqa: E731
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(40)))
    assert {(each.status, each.body) for each in answers} == {(403, answers[0].body)}
    assert shared.call("POST", "/session", json={"code": good}, token=None).status == 200


def test_the_persons_token_is_the_one_in_its_file_now(server: Server) -> None:
    file = server.ags_home / "server" / "token"
    old = server.token
    file.rename(file.with_name("token.was"))
    assert server.call("GET", "/health", token=old).status == 401
    assert not file.exists()  # a request makes none
    assert server.ags("up", "--link").returncode == 0
    new = file.read_text().strip()
    assert new != old
    assert server.call("GET", "/health", token=old).status == 401
    assert server.call("GET", "/health", token=new).status == 200
    file.with_name("token.was").rename(file)
    assert server.call("GET", "/health", token=old).status == 200
    assert server.call("GET", "/health", token=new).status == 401
    file.chmod(0o644)
    assert server.call("GET", "/health", token=old).status == 401


def test_sessions_outlive_the_server_and_what_is_taken_away_holds_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        session = logged_in(first)
    with serving(tmp_path) as second:
        assert second.token == first.token
        assert second.call("GET", "/health", token=session).status == 200
        (digest, _), *others = Keys(second.ags_home).sessions()
        assert not others
        Keys(second.ags_home).end(digest)
        assert second.call("GET", "/health", token=session).status == 401


def test_no_token_or_code_is_in_a_log_a_header_or_the_words_of_a_process(server: Server) -> None:
    code = Keys(server.ags_home).new_code()
    session = server.call("POST", "/session", json={"code": code}, token=None).json()["token"]
    answers = [
        server.call("GET", "/health", token=session),
        server.call("GET", f"/health?token={session}"),
        server.call("POST", "/session", json={"code": code}),
        server.call("GET", "/health", headers={"Authorization": f"Bearer {session} x"}),
        server.call("DELETE", "/session"),
        server.call("GET", "//metrics"),
    ]
    assert [each.status for each in answers] == [200, 200, 403, 401, 409, 200]
    words = Path(f"/proc/{server.process.pid}/cmdline").read_bytes().decode()
    server.end()
    printed = server.process.stdout.read().decode() if server.process.stdout else ""
    shown = [words, printed, server.log.read_text()]
    shown += [str(each.headers) + each.text for each in answers]
    for secret in (server.token, session, code):
        assert not [text for text in shown if secret in text]
    assert "/api/v1/health" in server.log.read_text()  # the log was looked at


def test_what_is_kept_is_the_persons_alone_and_holds_no_token_but_their_own(
    server: Server,
) -> None:
    session = logged_in(server)
    for path in (server.ags_home / "server").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        if path.is_file() and path.name != "token":
            assert session not in path.read_text() + path.name
            assert server.token not in path.read_text() + path.name
    assert (server.ags_home / "server" / "token").read_text().strip() == server.token


# Without a token, at the expense of those who have one.


def connected(server: Server, data: bytes = b"") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=90)
    sock.sendall(data)
    return sock


def answered(sock: socket.socket) -> int:
    """The status of one answer, with all of it read."""
    response = http.client.HTTPResponse(sock)
    response.begin()
    response.read()
    return response.status


def test_who_asks_nothing_or_only_half_is_cut_off_without_an_answer(server: Server) -> None:
    ask = f"GET /login HTTP/1.1\r\nHost: {server.host}\r\n".encode()
    began = time.monotonic()
    idle, half, slow = connected(server), connected(server, ask), connected(server, ask)
    later = connected(server, ask + b"\r\n")
    assert answered(later) == 200
    later.sendall(ask)
    stream = connected(server, ask.replace(b"/login", b"/api/v1/stream"))
    stream.sendall(f"Authorization: Bearer {server.token}\r\n\r\n".encode())
    with contextlib.suppress(OSError):
        while time.monotonic() - began < 6 * heads.PATIENCE:
            time.sleep(0.5)
            slow.sendall(b"X-Slow: 1\r\n")
    lasted = time.monotonic() - began
    assert heads.PATIENCE - 2 < lasted < 6 * heads.PATIENCE
    for each in (idle, half, later):
        with contextlib.suppress(ConnectionResetError):
            assert each.recv(1) == b""
    # One that asked in time is open for as long as there is something to tell.
    stream.setblocking(False)
    told = b""
    with contextlib.suppress(BlockingIOError):
        while data := stream.recv(65536):
            told += data
        raise AssertionError("the stream was ended")
    assert b" 200 " in told
    for each in (idle, half, slow, later, stream):
        each.close()


@pytest.mark.parametrize(
    ("kept", "patience", "idle", "slow"),
    ((3600, 3, 4, 0), (3, 3600, 0, 4)),
    ids=("what-is-between", "the-second"),
)
def test_the_time_between_two_questions_is_not_that_of_the_second(
    tmp_path: Path, kept: int, patience: int, idle: int, slow: int
) -> None:
    def asks_twice(server: Server) -> bool:
        ask = f"GET /login HTTP/1.1\r\nHost: {server.host}\r\n".encode()
        cut_off = contextlib.suppress(OSError, http.client.HTTPException)
        with cut_off, contextlib.closing(connected(server, ask + b"\r\n")) as sock:
            assert answered(sock) == 200
            time.sleep(idle)
            sock.sendall(ask)
            time.sleep(slow)
            sock.sendall(b"\r\n")
            assert answered(sock) == 200
            sock.sendall(2 * (ask + b"\r\n"))  # and two at once are two
            return sock.recv(9) == b"HTTP/1.1 "
        return False

    limits = f"serve.KEPT, heads.PATIENCE = {kept}, {patience}"
    with serving(tmp_path, first=f"from ags.server import heads, serve; {limits}") as server:
        # Again, should this process have been held up for longer than it may take.
        assert any(asks_twice(server) for _ in range(3))


def test_strangers_cannot_take_all_places(server: Server) -> None:
    slow = f"POST /api/v1/session HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 9\r\n"
    asked = f"GET /api/v1/stream HTTP/1.1\r\nHost: {server.host}\r\n"
    mine = connected(server, f"{asked}Authorization: Bearer {server.token}\r\n\r\n".encode())
    assert b" 200 " in mine.recv(100)
    began = time.monotonic()
    body = f"{slow}Content-Type: application/json\r\n\r\n"
    upgrade = f"{asked}Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\n"
    for data in ("", slow, body, upgrade):
        with contextlib.ExitStack() as held:
            for n in range(serve.MOST_CONNECTIONS + 5):
                held.enter_context(contextlib.closing(connected(server, data.encode())))
                if n % 50 == 0:  # what is answered came after all of them
                    assert server.call("GET", "/health").status == 200
            for _ in range(5):
                assert server.call("GET", "/health").status == 200
                assert server.call("GET", "//login", token=None).status == 200
    mine.setblocking(False)
    with pytest.raises(BlockingIOError):  # it was there first, and still is
        while mine.recv(65536):
            pass
    mine.close()
    told = [line for line in server.log.read_text().splitlines() if "Too many" in line]
    assert 1 <= len(told) <= 1 + (time.monotonic() - began) // serve.SELDOM


# The keys by themselves, with a clock that can be turned.


def test_a_code_is_good_for_ten_minutes(tmp_path: Path) -> None:
    clock = Clock()
    keys = Keys(tmp_path, clock)
    old, good = keys.new_code(), keys.new_code()
    clock.now += CODE_LIFE - 1
    assert keys.session_for(good)
    clock.now += 2
    assert keys.session_for(old) is None
    assert keys.session_for(old) is None


def test_a_session_ends_after_a_month_without_use(tmp_path: Path) -> None:
    clock = Clock()
    keys = Keys(tmp_path, clock)
    used, left = (keys.session_for(keys.new_code()) for _ in range(2))
    assert used and left
    clock.now += SESSION_LIFE - 1
    assert keys.who(used) == "session"
    clock.now += 2
    assert keys.who(used) == "session"
    assert keys.who(left) is None
    assert len(list(keys.sessions())) == 1


def test_a_use_is_written_once_a_minute_at_most(tmp_path: Path) -> None:
    clock = Clock()
    keys = Keys(tmp_path, clock)
    token = keys.session_for(keys.new_code())
    assert token
    [(digest, _)] = keys.sessions()
    began = clock.now
    clock.now += USE_WRITTEN - 1
    keys.who(token)
    assert dict(keys.sessions())[digest] == Session(began, began)
    clock.now += 2
    keys.who(token)
    assert dict(keys.sessions())[digest] == Session(began, clock.now)


def test_noting_a_use_brings_no_ended_session_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    keys, other = Keys(tmp_path, clock), Keys(tmp_path, clock)
    token = keys.session_for(keys.new_code())
    assert token
    note = keys._note_use

    def too_late(digest: str) -> None:
        other.end(digest)
        note(digest)

    monkeypatch.setattr(keys, "_note_use", too_late)
    clock.now += USE_WRITTEN + 1
    keys.who(token)
    assert keys.who(token) is None
    assert not list((tmp_path / "server" / "sessions").iterdir())


def test_sessions_that_nobody_used_are_removed_when_one_is_made(tmp_path: Path) -> None:
    clock = Clock()
    keys = Keys(tmp_path, clock)
    used, left = (keys.session_for(keys.new_code()) for _ in range(2))
    assert used and left
    clock.now += SESSION_LIFE - 1
    assert keys.who(used) == "session"
    clock.now += 2
    new = keys.session_for(keys.new_code())
    assert new
    assert len(list((tmp_path / "server" / "sessions").iterdir())) == 2
    assert [keys.who(each) for each in (used, left, new)] == ["session", None, "session"]


@pytest.mark.parametrize("same", [True, False], ids=["by this process", "by another"])
def test_who_waits_for_the_end_of_a_session_is_told(tmp_path: Path, same: bool) -> None:
    keys = Keys(tmp_path)
    ending = keys if same else Keys(tmp_path)
    mine, theirs = (keys.session_for(keys.new_code()) for _ in range(2))
    assert mine and theirs

    async def scene() -> None:
        beat = 600.0 if same else 0.1
        waits = [asyncio.create_task(keys.until_ended(each, beat)) for each in (mine, theirs)]
        await asyncio.sleep(0.2)
        assert not any(each.done() for each in waits)
        ending.end_session(mine)
        await asyncio.wait_for(waits[0], 60)
        assert not waits[1].done()
        await asyncio.wait_for(keys.until_ended(mine, 600), 60)  # one who comes late
        waits[1].cancel()

    asyncio.run(scene())
    assert not keys._endings


def test_codes_that_nobody_used_are_removed(tmp_path: Path) -> None:
    clock = Clock()
    keys = Keys(tmp_path, clock)
    keys.new_code()
    [old] = (tmp_path / "server" / "codes").iterdir()
    os.utime(old, (clock.now - CODE_LIFE - 1,) * 2)
    keys.new_code()
    assert not old.exists()


def test_a_code_is_no_way_to_other_files(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    session = keys.session_for(keys.new_code())
    assert session
    for code in ("../token", "../sessions/x", "/etc/passwd", "", ".", "\0", "\udc80"):
        assert keys.session_for(code) is None
        assert keys.who(code) is None
    assert keys.who(session) == "session"


def test_a_token_that_others_may_have_read_is_not_used(tmp_path: Path) -> None:
    token = Keys(tmp_path).master()
    file = tmp_path / "server" / "token"
    file.chmod(0o644)
    with pytest.raises(AgsError, match="others may have read it"):
        Keys(tmp_path)
    file.unlink()
    assert Keys(tmp_path).master() != token
    assert Keys(tmp_path).master() == Keys(tmp_path).master()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_damaged_session_is_none(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    token = keys.session_for(keys.new_code())
    assert token
    [(digest, _)] = keys.sessions()
    assert keys.who(token) == "session"
    (tmp_path / "server" / "sessions" / digest).write_text('{"created": ')
    assert keys.who(token) is None


PASSING = (errno.EMFILE, errno.EIO)


def troubled(number: int) -> Callable[[Path], NoReturn]:
    def read(path: Path) -> NoReturn:
        raise OSError(number, os.strerror(number), str(path))

    return read


@pytest.mark.parametrize("number", [*PASSING, errno.ENOENT, errno.ELOOP])
def test_a_file_that_cannot_be_read_now_is_no_log_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async def talk(port: int, token: str) -> None:
        ask = f"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        ask += f"Authorization: Bearer {token}\r\n\r\n"
        with monkeypatch.context() as patch:
            patch.setattr(records, "read_file", troubled(number))
            told = (await whole_of(port, ask)).lower()
        if number in PASSING:
            assert b" 503 " in told.splitlines()[0] and b"retry-after: 1" in told
        else:
            assert b" 401 " in told.splitlines()[0]
        assert await status_of(port, ask) == 204

    asyncio.run(guarded(tmp_path, Victim(), talk))


def test_who_waits_for_the_end_of_a_session_waits_out_a_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(tmp_path)
    token = keys.session_for(keys.new_code())
    assert token
    asked = 0

    def read(path: Path) -> NoReturn:
        nonlocal asked
        asked += 1
        raise OSError(errno.EMFILE if asked < 9 else errno.ENOENT, "", str(path))

    monkeypatch.setattr(records, "read_file", read)
    asyncio.run(asyncio.wait_for(keys.until_ended(token, 0.01), 90))
    assert asked >= 9
    with pytest.raises(Unsure):
        monkeypatch.setattr(records, "read_file", troubled(errno.EIO))
        keys.session_for(keys.new_code())
