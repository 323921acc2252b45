"""W2: without a good token nothing is told or done, and a token is nowhere that others look."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.server.auth import CODE_LIFE, SESSION_LIFE, USE_WRITTEN, Keys

from .conftest import Server, serving

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


def test_wrong_codes_are_all_answered_alike_and_soon_not_at_all(server: Server) -> None:
    bodies = set()
    for n in range(10):
        answer = server.call("POST", "/session", json={"code": f"wrong-{n}"}, token=None)
        assert answer.status == 403
        bodies.add(answer.body)
    assert len(bodies) == 1
    good = Keys(server.ags_home).new_code()
    limited = server.call("POST", "/session", json={"code": good}, token=None)
    assert limited.status == 429
    assert limited.headers["Retry-After"]
    assert server.call("GET", "/health").status == 200


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
    file = tmp_path / "server" / "sessions" / digest
    inode = file.stat().st_ino
    clock.now += USE_WRITTEN - 1
    keys.who(token)
    assert file.stat().st_ino == inode
    clock.now += 2
    keys.who(token)
    assert json.loads(file.read_text())["used"] == clock.now


def test_wrong_codes_are_forgotten_after_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    keys = Keys(tmp_path, clock)
    for _ in range(10):
        assert keys.session_for("wrong") is None
    assert keys.is_guessing()
    clock.now += 61
    assert not keys.is_guessing()


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
