"""W1: what a page of somebody else's can make a browser send is refused before any effect."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ags.server import gate
from ags.server.auth import Keys
from ags.server.heads import Head

from .conftest import Server, serving
from .guarding import Victim, guarded, status_of, upgrade, whole_of

HEARS_OUT = "from ags.server import gate; gate.LET_GO_PATIENCE = 60.0"
"""Whoever is refused may be slow to send the rest: cut off, they would not read why."""
FORMS = {
    "urlencoded": ("application/x-www-form-urlencoded", "code={code}"),
    "text": ("text/plain", '{{"code": "{code}"}}'),
    "text that is JSON with a form's tail": ("text/plain", '{{"code": "{code}", "x": "="}}'),
    "multipart": (
        "multipart/form-data; boundary=b",
        '--b\r\nContent-Disposition: form-data; name="code"\r\n\r\n{code}\r\n--b--\r\n',
    ),
    "JSON under no name": ("", '{{"code": "{code}"}}'),
    "nearly JSON": ("application/json, text/plain", '{{"code": "{code}"}}'),
    "JSON in another alphabet": ("application/json; charset=utf-7", '{{"code": "{code}"}}'),
}
FOREIGN: dict[str, dict[str, str]] = {
    "origin": {"Origin": "http://evil.example"},
    "null origin": {"Origin": "null"},
    "empty origin": {"Origin": ""},
    "origin of another port": {"Origin": "http://127.0.0.1:5173"},
    "origin that begins as ours": {"Origin": "http://127.0.0.1:{port}.evil.example"},
    "origin with a tail": {"Origin": "http://127.0.0.1:{port}/"},
    "origin of another scheme": {"Origin": "https://127.0.0.1:{port}"},
    "cross-site": {"Sec-Fetch-Site": "cross-site"},
    "same-site": {"Sec-Fetch-Site": "same-site"},
    "cross-site navigation": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
}
HOSTS = (
    "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.:{port}",
    "127.0.0.1.evil.example:{port}", "0.0.0.0:{port}", "[::]:{port}", "127.1:{port}", "",
)  # fmt: skip


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("patient"), first=HEARS_OUT) as made:
        yield made


def code_of(server: Server) -> str:
    return Keys(server.ags_home).new_code()


def filled(server: Server, headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value.format(port=server.port) for name, value in headers.items()}


def log_in(server: Server, code: str, **headers: str) -> int:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.call("POST", "/session", json={"code": code}, headers=given, token=None).status


@pytest.mark.parametrize("origin", [True, False], ids=["with origin", "without origin"])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_a_page_elsewhere_has_no_effect(shared: Server, form: str, origin: bool) -> None:
    kind, body = FORMS[form]
    code = code_of(shared)
    headers = {"Content-Type": kind} if kind else {}
    if origin:
        headers["Origin"] = "http://evil.example"
    answer = shared.send("POST", "/api/v1/session", headers, body.format(code=code).encode())
    assert answer.status == (403 if origin else 415)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["hint"]
    # The code is still good, and the same in our own form is taken.
    assert log_in(shared, code, Origin=shared.url) == 200


@pytest.mark.parametrize("case", FOREIGN)
def test_a_request_from_elsewhere_is_refused_even_with_the_token(shared: Server, case: str) -> None:
    code = code_of(shared)
    session = shared.call("POST", "/session", json={"code": code}, token=None).json()["token"]
    foreign = filled(shared, FOREIGN[case])
    assert shared.call("DELETE", "/session", headers=foreign, token=session).status == 403
    own = {"Origin": shared.url, "Sec-Fetch-Site": "same-origin"}
    assert shared.call("DELETE", "/session", headers=own, token=session).status == 204
    assert shared.call("DELETE", "/session", headers=own, token=session).status == 401


@pytest.mark.parametrize("host", HOSTS)
def test_a_foreign_host_is_refused_even_with_the_token(shared: Server, host: str) -> None:
    named = {"Host": host.format(port=shared.port)}
    assert shared.call("GET", "/health", headers=named).status == 421
    assert shared.call("GET", "//login", headers=named).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"])
def test_our_own_names_are_taken(shared: Server, host: str) -> None:
    named = {"Host": host.format(port=shared.port)}
    assert shared.call("GET", "/health", headers=named).status == 200
    loud = {"Host": named["Host"].upper()}
    assert shared.call("GET", "/health", headers=loud).status == 200


def test_anybody_may_link_to_the_page_and_nobody_may_embed_what_it_is_made_of(
    shared: Server,
) -> None:
    navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert shared.send("GET", "/login", navigation).status == 200
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert shared.send("GET", "/login.js", embedded).status == 403
    assert shared.send("GET", "/login.js", {"Sec-Fetch-Site": "same-origin"}).status == 200


def test_nobody_is_told_that_they_may_ask_from_elsewhere(shared: Server) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for headers in (asked, {}, {"Origin": shared.url}):
        answer = shared.call("OPTIONS", "/session", headers=headers)
        assert answer.status in (403, 405)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


ASK = "GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\n"


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (400, ASK + "Host: {host}\r\n"),
        (421, "GET /api/v1/health HTTP/1.0\r\n"),
        (400, ASK + "Origin: {url}\r\n" * 2),
        (400, ASK + "Authorization: Bearer x\r\n"),
        (400, ASK + "Sec-Fetch-Site: none\r\n" * 2),
        (400, ASK.replace("/api", "http://{host}/api")),
        (400, ASK.replace("/api", "//api")),
        (400, ASK.replace("/health", "/../v1/health")),
        (400, ASK.replace("/health", "/x/%2e%2e/health")),
        (400, ASK.replace("/health", "%2fhealth")),
        (400, ASK.replace("/health", "/health%00")),
        (400, ASK.replace("/health", "\\health")),
        (400, ASK.replace("/health", "/health%zz")),
        (431, ASK + "X-More: 1\r\n" * 70),
        (405, ASK.replace("GET", "TRACE")),
        (400, ASK.replace("GET", "POST") + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"),
    ],
)
def test_what_no_honest_client_sends_is_refused(shared: Server, status: int, head: str) -> None:
    end = f"Authorization: Bearer {shared.token}\r\nConnection: close\r\n\r\n"
    text = head.replace("{host}", shared.host).replace("{url}", shared.url) + end
    assert int(shared.raw(text.encode("latin-1")).split()[1]) == status


def test_the_same_written_plainly_is_taken(shared: Server) -> None:
    end = (
        f"Origin: {shared.url}\r\nAuthorization: Bearer {shared.token}\r\nConnection: close\r\n\r\n"
    )
    text = ASK.replace("{host}", shared.host) + end
    assert b" 200 " in shared.raw(text.encode()).splitlines()[0]


@pytest.mark.parametrize("dot", ["%2e", "%2E"])
def test_a_dot_that_is_hidden_is_refused_and_an_open_one_is_not(shared: Server, dot: str) -> None:
    for path in ("/api/v1/runs/{}{}/log", "/api/v1/runs/a{}b", "/login{}js", "/{}"):
        answer = shared.call("GET", "/" + path.replace("{}", dot))
        assert answer.status == 400, path
    assert shared.call("GET", "//login.js").status == 200
    assert shared.call("GET", f"/runs?words=a{dot}b").status == 200


COOKIES = "; ".join(f"c{n}={'x ' * 2000}" for n in range(175))


def test_cookies_of_other_ports_keep_nobody_out(shared: Server) -> None:
    assert len(COOKIES) > 700_000
    sent = {"Cookie": COOKIES}
    assert shared.send("GET", "/", sent).status == 200
    assert shared.call("GET", "/health", headers=sent).status == 200
    assert shared.call("GET", "/health", headers=sent, token="wrong").status == 401
    assert log_in(shared, code_of(shared), Cookie=COOKIES) == 200


def test_a_kept_connection_takes_cookies_each_time(shared: Server) -> None:
    with shared.connection() as connection:
        for _ in range(3):
            connection.request("GET", "/login", headers={"Cookie": COOKIES})
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read()


@pytest.mark.parametrize("line", ["X-Large: {}", "A: b\r\n {}"], ids=["header", "folded"])
def test_only_cookies_may_be_that_large(shared: Server, line: str) -> None:
    for size, wanted in ((100_000, b" 400 "), (30_000, b" 200 ")):
        head = f"GET /login HTTP/1.1\r\nHost: {shared.host}\r\n{line.format('x' * size)}\r\n"
        answer = shared.raw(head.encode() + b"Connection: close\r\n\r\n")
        assert wanted in answer.splitlines()[0]


def test_a_head_of_very_many_lines_costs_next_to_nothing(shared: Server) -> None:
    head = f"GET /login HTTP/1.1\r\nHost: {shared.host}\r\n".encode() + b"a:\r\n" * 250_000
    before = cpu(shared)
    refusal = shared.raw(head + b"\r\n")
    assert b" 400 " in refusal.splitlines()[0]
    assert b"content-type: application/problem+json" in refusal.lower()
    assert json.loads(refusal.partition(b"\r\n\r\n")[2])["status"] == 400
    assert cpu(shared) - before < 0.2


def cpu(server: Server) -> float:
    """Seconds that it has worked."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_head_is_the_same_in_whatever_pieces_it_comes(size: int) -> None:
    data = (
        b"GET / HTTP/1.1\r\nHost: x\r\nCOOKIE: a=b\r\n more of it\r\nX-Cookie: stays\r\n"
        b"cookie:c\r\nCookies: stay\r\n\r\nCookie: is a body"
    )
    end = data.index(b"Cookie: is")
    head, came = Head(), None
    for at in range(0, len(data), size):
        came = head.feed(data[at : at + size]) if came is None else came + data[at : at + size]
    assert came == (
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Cookie: stays\r\nCookies: stay\r\n\r\n" + data[end:]
    )


def test_a_body_is_bounded_whether_or_not_it_says_its_length(patient: Server) -> None:
    kind = {"Content-Type": "application/json"}
    large = b'"' + b"a" * gate.MOST_BODY + b'"'
    assert patient.send("POST", "/api/v1/session", kind, large).status == 413
    chunk = b"%x\r\n%s\r\n" % (len(large), large)
    head = (
        f"POST /api/v1/session HTTP/1.1\r\nHost: {patient.host}\r\nContent-Type: application/json"
    )
    chunked = head.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n"
    assert b" 413 " in patient.raw(chunked).splitlines()[0]
    small = b'{"code": "%s"}' % code_of(patient).encode()
    chunk = b"%x\r\n%s\r\n" % (len(small), small)
    chunked = head.encode() + b"\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b" 200 " in patient.raw(chunked + chunk + b"0\r\n\r\n").splitlines()[0]


def test_the_one_body_that_anybody_may_send_is_short(patient: Server) -> None:
    code = code_of(patient)
    kind = {"Content-Type": "application/json"}
    spaces = b" " * gate.MOST_LOGIN
    long = b'{"code": "%s"}%s' % (code.encode(), spaces)
    fits = long[: gate.MOST_LOGIN]
    assert patient.send("POST", "/api/v1/session", kind, long).status == 413
    head = (
        f"POST /api/v1/session HTTP/1.1\r\nHost: {patient.host}\r\nContent-Type: application/json"
    )
    chunked = head.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole = chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(long), long)
    assert b" 413 " in patient.raw(whole).splitlines()[0]
    assert patient.send("POST", "/api/v1/session", kind, fits).status == 200
    known = {**kind, "Authorization": f"Bearer {patient.token}"}
    assert patient.send("POST", "/api/v1/runs", known, b"{}" + spaces).status == 422


def test_many_large_bodies_of_strangers_hold_up_nobody(patient: Server) -> None:
    large = b"{%s}" % b",".join(b'"k%d":1' % n for n in range(90_000))
    head = (
        f"POST /api/v1/session HTTP/1.1\r\nHost: {patient.host}\r\nContent-Type: application/json"
    )
    start = f"{head}\r\nContent-Length: {len(large)}\r\n\r\n".encode()
    with contextlib.ExitStack() as held:
        flood = [held.enter_context(patient.connection()) for _ in range(40)]
        for each in flood:
            each.connect()
            each.send(start + large[:-1])
        # None of them is over: each still owes its last byte.
        for _ in range(10):
            assert patient.call("GET", "/health").status == 200
        for each in flood:
            each.send(large[-1:])
        assert {int(each.sock.recv(64).split()[1]) for each in flood} == {413}


def test_a_length_that_lies_is_refused_before_a_byte_is_read(shared: Server) -> None:
    head = f"POST /api/v1/session HTTP/1.1\r\nHost: {shared.host}\r\nContent-Type: application/json"
    for length in (str(gate.MOST_BODY + 1), "9" * 19):
        text = f"{head}\r\nContent-Length: {length}\r\n\r\n"
        assert b" 413 " in shared.raw(text.encode()).splitlines()[0]


@pytest.mark.parametrize(
    "body",
    [
        "{", "", "nul", '{"code": NaN}', '{"code": Infinity}', '{"code": 1e999}', "[" * 100_000,
        '{"a":' * 50_000, "\ufeff{}", '"\udc80"', "9" * 5000,
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_json_is_told_so(shared: Server, body: str) -> None:
    data = body.encode(errors="surrogateescape")
    given = {"Content-Type": "application/json", "Authorization": f"Bearer {shared.token}"}
    answer = shared.send("POST", "/api/v1/runs", given, data)
    assert answer.status in (400, 422), answer.text
    assert answer.json()["status"] == answer.status and answer.json()["hint"]


def test_every_answer_carries_what_keeps_a_browser_strict(shared: Server) -> None:
    for answer in (
        shared.call("GET", "/health"),
        shared.call("GET", "/health", token=None),
        shared.call("GET", "//login"),
        shared.call("GET", "/nothing"),
        shared.call("GET", "/health", headers={"Host": "evil.example"}),
    ):
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert "Server" not in answer.headers
        assert "Set-Cookie" not in answer.headers
    assert shared.call("GET", "/health").headers["Cache-Control"] == "no-store"


# In this process: WebSockets, and the gate with one check taken out.


def test_a_websocket_from_elsewhere_is_refused_before_it_is_one(tmp_path: Path) -> None:
    victim = Victim()

    async def talk(port: int, token: str) -> None:
        for wanted, headers in (
            (403, {"Origin": "http://evil.example"}),
            (403, {"Origin": "null"}),
            (403, {"Origin": "http://127.0.0.1:5173"}),
            (403, {"Sec_Fetch_Site": "cross-site"}),
            (421, {"Host": f"evil.example:{port}"}),
            (401, {"Sec_WebSocket_Protocol": "ags.v1"}),
            (401, {"Sec_WebSocket_Protocol": "ags.v1, bearer.wrong"}),
            (401, {"Sec_WebSocket_Protocol": f"ags.v1, bearer.{token}, bearer.{token}"}),
        ):
            assert await status_of(port, upgrade(port, token, **headers)) == wanted
        assert victim.reached == 0
        assert await status_of(port, upgrade(port, token)) == 101
        own = {"Origin": f"http://127.0.0.1:{port}", "Sec_Fetch_Site": "same-origin"}
        assert await status_of(port, upgrade(port, token, **own)) == 101
        assert victim.reached == 2
        assert await status_of(port, upgrade(port, token, Cookie=COOKIES)) == 101

    asyncio.run(guarded(tmp_path, victim, talk))


def test_a_websocket_that_its_parser_does_not_take_is_told_so_and_closed(tmp_path: Path) -> None:
    victim = Victim()

    async def talk(port: int, token: str) -> None:
        for headers in (
            {"Content_Length": "5"},
            {"Transfer_Encoding": "chunked"},
            {"X_Long": "x" * 9000},
        ):
            head, _, body = (await whole_of(port, upgrade(port, token, **headers))).partition(
                b"\r\n\r\n"
            )
            assert head.startswith(b"HTTP/1.1 400 ")
            assert json.loads(body)["status"] == 400
        assert victim.reached == 0
        assert await status_of(port, upgrade(port, token, X_Long="x" * 8000)) == 101
        assert await status_of(port, upgrade(port, token, Content_Length="0")) == 101

    asyncio.run(guarded(tmp_path, victim, talk))


ATTACKS = {
    "check_host": {"Host": "evil.example"},
    "check_origin": {"Origin": "http://evil.example"},
    "check_site": {"Sec-Fetch-Site": "cross-site"},
    "_check_kind": {"Content-Type": "text/plain"},
}


@pytest.mark.parametrize("taken_out", [None, *ATTACKS])
def test_each_check_is_what_stops_its_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_out: str | None
) -> None:
    if taken_out:
        monkeypatch.setattr(gate, taken_out, lambda *_, **__: None)
    victim = Victim()

    async def talk(port: int, token: str) -> None:
        for attack, headers in ATTACKS.items():
            before = victim.reached
            body = json.dumps({"code": "x"})
            given = {
                "Host": f"127.0.0.1:{port}",
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            } | headers
            head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
            await status_of(port, f"POST /api/v1/session HTTP/1.1\r\n{head}\r\n{body}")
            assert (victim.reached > before) == (attack == taken_out), attack

    asyncio.run(guarded(tmp_path, victim, talk))


def test_without_the_token_check_anybody_gets_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = Victim()

    async def talk(port: int, token: str) -> None:
        plain = f"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        assert await status_of(port, plain) == 401
        assert victim.reached == 0
        monkeypatch.setattr(Keys, "who", lambda self, token: "person")
        assert await status_of(port, plain) == 401  # there is no token to be good
        bearer = plain.replace("\r\n\r\n", "\r\nAuthorization: Bearer wrong\r\n\r\n")
        assert await status_of(port, bearer) == 204

    asyncio.run(guarded(tmp_path, victim, talk))
