"""A request for the desk is read to its end; the real endpoint is reached by a verified way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ags.egress import serving, tls, wiring
from ags.egress.desk import Answer, Asked
from ags.egress.fence import Fence, Terms
from ags.egress.http import HeadReader, RequestHead
from ags.egress.inject import Hidden, Misused, Swapped
from ags.egress.policy import Layer, Rule, Upstream, merge
from ags.egress.wire import Refused
from tests.internet.certificates import Authority
from tests.logins.run import MODEL, TOKEN, Agent, asked, host_login, to, wired
from tests.logins.vendor import Vendor

HEAD = "POST /v1/oauth/token HTTP/1.1\r\nHost: platform.claude.com\r\n"


class Inside:
    """A client inside that sends these pieces and then hangs up."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.heard = b""

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None:
        self.heard += data


def whole(lines: str, *pieces: bytes, rest: bytes = b"") -> tuple[bytes | Refused, bytes]:
    head = HeadReader().feed(f"{HEAD}{lines}\r\n".encode())
    assert isinstance(head, RequestHead)
    inside = Inside(*pieces)
    return asyncio.run(serving.whole(inside, head, rest)), inside.heard


def test_a_body_in_pieces_is_whole() -> None:
    assert whole("Content-Length: 6\r\n", b"cd", b"ef", rest=b"ab") == (b"abcdef", b"")
    assert whole("Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n0", b"\r\n\r\n") == (b"abc", b"")
    assert whole("") == (b"", b"")


def test_who_waits_to_be_asked_for_a_body_is_asked() -> None:
    found, heard = whole("Expect: 100-continue\r\nContent-Length: 2\r\n", b"ab")
    assert found == b"ab" and heard == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("lines", "pieces", "reason"),
    [
        ("Content-Length: 6\r\n", (b"abc",), "protocol"),
        ("Content-Length: 99999999\r\n", (b"x" * 60_000, b"x" * 60_000), "too-large"),
        ("Transfer-Encoding: chunked\r\n", (b"ffffff\r\n", b"x" * 70_000), "too-large"),
        ("Transfer-Encoding: chunked\r\n", (b"zz\r\n",), "protocol"),
    ],
)
def test_a_body_that_is_not_whole_or_too_large_is_refused(
    lines: str, pieces: tuple[bytes, ...], reason: str
) -> None:
    found, _ = whole(lines, *pieces)
    assert isinstance(found, Refused) and found.reason == reason


def test_a_client_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "PATIENCE", 0.05)

    class Silent(Inside):
        async def read(self) -> bytes:
            await asyncio.sleep(60)
            return b""

    head = HeadReader().feed(f"{HEAD}Content-Length: 6\r\n\r\n".encode())
    assert isinstance(head, RequestHead)
    assert isinstance(asyncio.run(serving.whole(Silent(), head, b"")), Refused)


def test_an_answer_is_written_whole_whatever_its_status() -> None:
    for status in (200, 403, 599):
        written = serving.written(Answer(status, Hidden(b"{}")))
        assert written.startswith(b"HTTP/1.1 %d " % status) and written.endswith(b"\r\n\r\n{}")


GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Origin:
    """A token endpoint on loopback, and the fence that leads to it."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.certificate)
        self.chain = folder / "chain.pem"
        self.heard: list[bytes] = []

    @contextlib.asynccontextmanager
    async def fence(self, said: bytes, name: str = TOKEN.host) -> AsyncIterator[Fence]:
        self.chain.write_bytes(self.authority.issue(name))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain)

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.heard.append(head + await reader.readexactly(size))
                writer.write(said)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        upstream = Upstream(TOKEN.host, "127.0.0.1", port, self.ca)
        layer = Layer("user", (Rule(TOKEN.host),), upstreams=(upstream,))
        async with server:
            yield _fence(Terms(merge([layer])))


def _fence(terms: Terms) -> Fence:
    return Fence(
        terms, authority=tls.Authority("x"), upstream=tls.upstream(()), record=lambda line: None
    )


def posted(origin: Origin, said: bytes, name: str = TOKEN.host) -> Answer:
    async def work() -> Answer:
        own = ((b"Content-Type", b"application/json"), (b"X-Mine", b"1"))
        hop = ((b"Accept-Encoding", b"gzip"), (b"Host", b"x"), (b"Connection", b"upgrade"))
        headers = (*own, *hop)
        question = Asked(TOKEN, "/v1/oauth/token?x=1", headers, Hidden(b'{"a": 1}'))
        async with origin.fence(said, name) as fence:
            return await serving.post(fence, question)

    return asyncio.run(work())


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


def test_the_endpoint_gets_the_agents_own_request(origin: Origin) -> None:
    answer = posted(origin, GOOD)
    assert (answer.status, bytes(answer.body)) == (200, b"{}")
    head, _, body = origin.heard[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/oauth/token?x=1 HTTP/1.1" and body == b'{"a": 1}'
    assert b"X-Mine: 1" in lines and b"Host: platform.claude.com" in lines
    assert b"Accept-Encoding: identity" in lines and b"Connection: close" in lines
    assert head.lower().count(b"host:") == 1 and b"gzip" not in head


def test_a_redirect_is_an_answer(origin: Origin) -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n"
    assert posted(origin, away).status == 302 and len(origin.heard) == 1


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
def test_what_is_no_whole_answer_is_none(origin: Origin, said: bytes) -> None:
    with pytest.raises(OSError):
        posted(origin, said)


def test_an_endpoint_that_is_not_who_it_says_hears_nothing(origin: Origin) -> None:
    with pytest.raises(tls.TlsError):
        posted(origin, GOOD, name="other.example")
    assert origin.heard == []


class Fenced:
    """A fence with a desk, without sockets."""

    def __init__(self, folder: Path) -> None:
        self.vendor = Vendor()
        self.agent = Agent(wired(folder, host_login(folder, self.vendor, 1.0)))
        self.fence = _fence(Terms(desk=self.agent.desk))

    def swap(self, token: str, host: str = MODEL.host) -> Swapped | Misused:
        headers = ((b"Authorization", f"Bearer {token}".encode()),)
        request = type(MODEL)(host, 443, "tls", "POST", "/v1/messages")
        return self.fence.swap(headers, "/v1/messages", request)


@pytest.fixture
def fenced(tmp_path: Path) -> Iterator[Fenced]:
    yield Fenced(tmp_path)


def test_a_stand_in_becomes_the_current_token(fenced: Fenced) -> None:
    old, before = fenced.agent.login["accessToken"], fenced.vendor.access
    asyncio.run(fenced.agent.renew(to(fenced.vendor)))
    for stand in (old, fenced.agent.login["accessToken"]):
        swapped = fenced.swap(stand)
        assert isinstance(swapped, Swapped)
        assert (b"Authorization", f"Bearer {fenced.vendor.access}".encode()) in swapped.headers
        covered = {bytes(each) for each in swapped.covered}
        assert {token.encode() for token in fenced.vendor.issued} <= covered
        assert before.encode() in covered, "old ones too"
        assert before not in repr(swapped) and fenced.vendor.access not in repr(swapped)


@pytest.mark.parametrize("host", ["platform.claude.com", "api.anthropic.com.evil.example"])
def test_a_stand_in_is_worth_nothing_elsewhere(fenced: Fenced, host: str) -> None:
    assert isinstance(fenced.swap(fenced.agent.login["accessToken"], host), Misused)


def test_a_refresh_token_is_never_put_into_a_header(fenced: Fenced) -> None:
    assert isinstance(fenced.swap(fenced.agent.login["refreshToken"]), Misused)


def test_stand_ins_in_a_body_are_noted_and_not_refused(fenced: Fenced) -> None:
    both = (fenced.agent.login["accessToken"] + fenced.agent.login["refreshToken"]).encode()
    scanner = fenced.fence.scanner()
    scanner.feed(both)
    assert scanner.passed == {each.secret_id for each in fenced.agent.desk.placeholders}


def test_a_runs_wiring_keeps_its_desk(fenced: Fenced) -> None:
    desk = fenced.agent.desk
    made, _ = wiring.renewed(wiring.Wiring(desk=desk), wiring.Wiring())
    assert made.desk is desk
    assert {(TOKEN.host, 443), (MODEL.host, 443)} <= made.hosts
    assert wiring.Wiring().hosts == frozenset()


def test_what_could_not_be_stored_is_not_given(
    fenced: Fenced, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = len(fenced.agent.desk.placeholders)
    monkeypatch.setattr("os.fsync", full)
    status, told = asyncio.run(fenced.agent.renew(to(fenced.vendor)))
    assert status == 503 and "access_token" not in told
    assert len(fenced.agent.desk.placeholders) == before


@pytest.mark.parametrize("removed", ["stand-ins", "check", "both"])
def test_taking_out_one_protection_is_noticed_by_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    """And with both taken out a token goes inside: these tests can see one."""
    vendor = Vendor()
    agent = Agent(wired(tmp_path, host_login(tmp_path, vendor, 1.0)))
    body = agent.request()
    if removed != "check":
        monkeypatch.setattr(
            "ags.logins.stands.Stands.text", lambda self, held, kind: held.token(kind).reveal()
        )
    if removed != "stand-ins":
        monkeypatch.setattr("ags.logins.document.check", lambda text, tokens: None)
    answer = asyncio.run(agent.desk.answer(asked(agent.desk, body), to(vendor)))
    leaked = any(token in answer.body.decode() for token in vendor.issued)
    assert leaked is (removed == "both")
    assert answer.status == (503 if removed == "stand-ins" else 200)
    assert json.loads(bytes(answer.body))
