"""W3, and how a server starts, is found by a second one, and ends."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import pty
import re
import resource
import signal
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.dependencies.models import Dependant

from ags import proc
from ags.cli import up
from ags.cli.invocation import Invocation
from ags.egress import origins
from ags.errors import AgsError
from ags.server import serve
from ags.server.app import ROUTES
from ags.server.auth import Keys
from ags.server.log import Log
from ags.server.serve import Serving, address, check, ours, public
from ags.server.state import State

from .conftest import ROOT, Server, free_port, serving

BEYOND = (
    "0", "0.0.0.0", "00.0.0.0", "0x0", "::", "[::]", "::0", "0:0:0:0:0:0:0:0", "", " ", "*",
    "::ffff:0.0.0.0", "::ffff:0:0", "192.0.2.7", "3221225991", "0xC0000207", "0300.0.2.7",
    "::ffff:192.0.2.7", "2001:db8::1", "fe80::1", "10.1", "169.254.169.254",
)  # fmt: skip
WITHIN = (
    "127.0.0.1", "127.1", "0x7f000001", "2130706433", "127.0.0.53", "::1", "[::1]", "localhost",
    "LOCALHOST", "::ffff:127.0.0.1", " 127.0.0.1 ",
)  # fmt: skip
NAMES = (
    "example.org",
    "localhost.example.org",
    "my-machine",
    "127.0.0.1.example.org",
    "local host",
)


def wish(host: str, **others: Any) -> Serving:
    return Serving(ports={"web": 0}, host=host, **others)


@pytest.mark.parametrize("host", BEYOND)
def test_listening_beyond_loopback_takes_an_explicit_choice(
    host: str, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    tls: dict[str, Any] = {"tls_cert": cert, "tls_key": key}
    url = {"public_url": "https://ags.example.org"}
    for given in ({}, tls, {"behind_proxy": True}, url):
        with pytest.raises(AgsError) as refused:
            check(wish(host, **given))
        assert "listen beyond this machine" in str(refused.value)
        for word in ("--tls-cert", "--tls-key", "--behind-proxy", "--public-url https://"):
            assert word in refused.value.hint
    assert not check(wish(host, **tls, **url)).is_loopback
    assert not check(wish(host, behind_proxy=True, **url)).is_loopback


@pytest.mark.parametrize("host", WITHIN)
def test_loopback_in_any_spelling_takes_none(host: str) -> None:
    assert check(wish(host)).is_loopback


@pytest.mark.parametrize("host", NAMES)
def test_a_name_is_not_an_address(host: str) -> None:
    with pytest.raises(AgsError, match="not an address"):
        check(wish(host, behind_proxy=True, public_url="https://ags.example.org"))


def test_a_server_told_to_listen_everywhere_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="listen beyond this machine"),
        serving(tmp_path, ("web", "--no-open", "--host", "0")),
    ):
        pass
    assert not (tmp_path / "ags").exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://ags.example.org", "ags.example.org", "https://", "https://u:p@ags.example.org",
        "https://ags.example.org/path", "https://ags.example.org?x", "https://ags.example.org:x",
        "https://[x", "ftp://ags.example.org", "https://*", "https://*.example.org",
        "https://ags example.org", "https://ags.example.org ", "https://ags\n.example.org",
        "https://ags.example.org:0", "https://ags.example.org:70000", "https://ags..example.org",
        "https://-ags.example.org", "https://ags.example.org.", "https://b\u00fccher.example",
        "https://ags.example.org,evil.example", "https://a\\b", "https://@ags.example.org",
        "https://[fe80::1%25eth0]", "https://[::1]x", "https://ags.example.org%2e",
    ],
)  # fmt: skip
def test_a_public_address_is_plain_https(url: str) -> None:
    with pytest.raises(AgsError, match="public address"):
        check(wish("127.0.0.1", behind_proxy=True, public_url=url))


def test_half_a_choice_is_told_what_is_missing(certificate: tuple[Path, Path]) -> None:
    for given, told in (
        ({"behind_proxy": True}, "--public-url"),
        ({"public_url": "https://ags.example.org"}, "--behind-proxy"),
        ({"tls_cert": certificate[0]}, "--tls-key"),
    ):
        with pytest.raises(AgsError) as refused:
            check(wish("127.0.0.1", **given))
        assert told in refused.value.hint


def test_the_public_name_is_ours_with_and_without_its_port() -> None:
    assert public("https://Ags.Example.org/") == ("ags.example.org", "https://ags.example.org")
    assert public("https://[2001:db8::1]:8443")[0] == "[2001:db8::1]:8443"
    assert public("https://[2001:DB8:0::1]")[0] == "[2001:db8::1]"
    assert public("https://192.0.2.7:8443")[0] == "192.0.2.7:8443"
    assert public("https://xn--bcher-kva.example:443")[0] == "xn--bcher-kva.example"
    known = ours(wish("127.0.0.1", behind_proxy=True, public_url="https://a.example"), [])
    assert known.hosts == {"a.example", "a.example:443"}
    assert known.origins == {"https://a.example"}


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443), ("http", 443)])
def test_a_port_that_browsers_leave_out_may_be_left_out(scheme: str, port: int) -> None:
    tls = {"tls_cert": Path("cert"), "tls_key": Path("key")} if scheme == "https" else {}
    known = ours(wish("127.0.0.1", **tls), [port])
    is_default = (scheme, port) != ("http", 443)
    assert ("localhost" in known.hosts) == (f"{scheme}://[::1]" in known.origins) == is_default
    assert f"127.0.0.1:{port}" in known.hosts and f"{scheme}://localhost:{port}" in known.origins


def test_behind_a_proxy_the_public_name_is_taken_and_no_other(tmp_path: Path) -> None:
    words = ("web", "--no-open", "--behind-proxy", "--public-url", "https://ags.example.org")
    with serving(tmp_path, words, port=free_port()) as server:
        assert server.url == "https://ags.example.org"
        port = int(words_of(server)[words_of(server).index("--port") + 1])
        for host, origin, wanted in (
            ("ags.example.org", "https://ags.example.org", 200),
            (f"127.0.0.1:{port}", "https://ags.example.org", 200),
            ("ags.example.org", "http://ags.example.org", 403),
            ("ags.example.org", "https://evil.example", 403),
            ("evil.example", "https://ags.example.org", 421),
        ):
            head = f"GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n"
            text = f"{head}Authorization: Bearer {server.token}\r\nConnection: close\r\n\r\n"
            with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
                sock.sendall(text.encode())
                assert int(sock.recv(65536).split()[1]) == wanted, (host, origin)


def words_of(server: Server) -> list[str]:
    return Path(f"/proc/{server.process.pid}/cmdline").read_text().split("\0")


def test_it_speaks_tls_itself(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    words = ("web", "--no-open", "--tls-cert", str(cert), "--tls-key", str(key))
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 900))"
    with serving(tmp_path, words, first=few) as server:
        assert server.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(cert))
        context.check_hostname = False
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=60) as sock,
            context.wrap_socket(sock, server_hostname="ags.example.org") as wrapped,
        ):
            head = f"GET /login HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n\r\n"
            wrapped.sendall(head.encode())
            assert b" 200 " in wrapped.recv(65536).splitlines()[0]
        # Strangers who never end a handshake are no connections yet that could be counted.
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (900, 900)


def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    bad = str(tmp_path / "bad.pem")
    with (
        pytest.raises(AssertionError, match="cannot use the certificate"),
        serving(tmp_path, ("web", "--no-open", "--tls-cert", bad, "--tls-key", bad)),
    ):
        pass


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(AssertionError, match="another program listens there"),
        serving(tmp_path, port=port),
    ):
        pass
    with serving(tmp_path, port=port) as server:  # nothing is left in its way
        assert server.call("GET", "/health").status == 200


def test_a_second_start_finds_the_first_and_gives_a_link(server: Server) -> None:
    for words in (("up", "--no-open", "--api-port", "0"), ("web", "--no-open")):
        second = server.ags(*words, "--port", "0")
        assert second.returncode == 0, second.stderr
        assert f"{server.url} (runs already, process {server.process.pid})" in second.stdout
        assert log_in(server, second.stdout) == 200
        assert "note: not used: --port" in second.stderr
        assert f"`kill {server.process.pid}`" in second.stderr
        assert "--no-open" not in second.stderr
    assert server.ags("up", "--no-open").stderr == ""
    link = server.ags("up", "--link")
    assert link.stdout.startswith(f"{server.url}/login#")
    assert log_in(server, link.stdout) == 200
    assert log_in(server, link.stdout) == 403


def log_in(server: Server, printed: str) -> int:
    code = printed.rpartition("#")[2].strip()
    return server.call("POST", "/session", json={"code": code}, token=None).status


def test_without_a_server_there_is_no_link(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        pass
    answer = server.ags("up", "--link")
    assert answer.returncode == 1
    assert "ags up" in answer.stderr


def test_page_and_api_are_one_process_on_two_ports(tmp_path: Path) -> None:
    with serving(tmp_path, ("up", "--no-open", "--api-port", "0")) as server:
        api = json.loads((server.ags_home / "server" / "api.lock").read_text())
        assert api["pid"] == server.process.pid
        assert api["url"] != server.url
        port = int(api["url"].rpartition(":")[2])
        both = (server.port, port)
        for each in both:
            server.url = f"http://127.0.0.1:{each}"
            assert server.call("GET", "/health").status == 200


def test_the_api_alone_has_no_page(tmp_path: Path) -> None:
    with serving(tmp_path, ("server",), part="api") as server:
        assert server.call("GET", "/health").status == 200
        assert server.call("GET", "//login").status == 404
        assert server.call("GET", "//login", token=None).status == 401
        beside = ("up", "--no-open", "--api-port", "0")
        with serving(tmp_path, beside) as page:  # for the same person
            assert page.token == server.token
            api = json.loads((page.ags_home / "server" / "api.lock").read_text())
            assert api["pid"] == server.process.pid
            assert page.call("GET", "//login", token=None).status == 200


def test_what_is_printed_where_nobody_looks_logs_nobody_in(server: Server) -> None:
    server.end()
    assert server.process.stdout
    printed = server.process.stdout.read().decode()
    assert server.url in printed
    assert "#" not in printed


def test_on_a_terminal_the_link_is_printed(tmp_path: Path) -> None:
    ours_, theirs = pty.openpty()
    with serving(tmp_path, stdout=theirs) as server:
        os.close(theirs)
        printed = b""
        while b"#" not in printed or not printed.endswith(b"\n"):
            printed += os.read(ours_, 1000)
        assert f"log in: {server.url}/login#" in printed.decode()
        assert log_in(server, printed.decode()) == 200
    os.close(ours_)


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Server]:
    """It would wait for who does not ask for longer than we do."""
    first = "from ags.server import heads, serve; heads.PATIENCE = serve.KEPT = 600"
    with serving(tmp_path, first=first) as made:
        yield made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_in_order_whatever_is_open(patient: Server, number: int) -> None:
    server = patient
    idle = socket.create_connection(("127.0.0.1", server.port))
    half = socket.create_connection(("127.0.0.1", server.port))
    half.sendall(b"POST /api/v1/session HTTP/1.1\r\nHost: " + server.host.encode() + b"\r\n")
    kept = socket.create_connection(("127.0.0.1", server.port))
    kept.sendall(b"GET /login HTTP/1.1\r\nHost: " + server.host.encode() + b"\r\n\r\n")
    assert kept.recv(10)
    stream = socket.create_connection(("127.0.0.1", server.port))
    head = f"GET /api/v1/stream HTTP/1.1\r\nHost: {server.host}\r\n"
    stream.sendall(f"{head}Authorization: Bearer {server.token}\r\n\r\n".encode())
    assert b" 200 " in stream.recv(100)
    assert server.end(number) == 0
    for each in (idle, half, kept, stream):
        each.close()
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", server.port)) != 0


def test_with_hang_ups_ignored_it_outlives_its_terminal(tmp_path: Path) -> None:
    ignored = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with serving(tmp_path, first=ignored) as server:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        masks = dict(re.findall(r"(Sig\w+):\t(\w+)", status))
        bit = 1 << signal.SIGHUP - 1
        assert int(masks["SigIgn"], 16) & bit and not int(masks["SigCgt"], 16) & bit
        assert server.call("GET", "/health").status == 200
        assert server.end() == 0


def test_what_a_last_request_has_begun_does_not_hold_the_end_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        state = State({}, tmp_path, tmp_path / "state", Log("text"))

        async def answered(*_: object) -> None:
            state.tasks.add(asyncio.create_task(asyncio.sleep(3600)))

        monkeypatch.setattr(uvicorn.Server, "shutdown", answered)
        await asyncio.wait_for(serve.Server(no_app, wish("127.0.0.1"), state).shutdown(), 60)
        assert [task.cancelled() for task in state.tasks] == [True]

    async def no_app(*_: object) -> None: ...

    asyncio.run(scene())


def test_warnings_that_anybody_can_cause_are_told_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seldom = serve.Seldom()

    def passes(text: str, level: int = logging.WARNING) -> bool:
        return seldom.filter(logging.LogRecord("x", level, "", 0, text, (), None))

    assert [passes("Exceeded concurrency limit.") for _ in range(3)] == [True, False, False]
    assert passes("another")
    assert all(passes("failed", logging.ERROR) for _ in range(3))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + serve.SELDOM + 1)
    assert passes("Exceeded concurrency limit.")


def test_it_is_one_thread_after_a_round_of_requests(server: Server) -> None:
    session = Keys(server.ags_home).new_code()
    for method, path, body in (
        ("GET", "/health", None),
        ("GET", "/openapi.json", None),
        ("GET", "/runs", None),
        ("GET", "/projects", None),
        ("GET", "/asks", None),
        ("GET", "/runs/none", None),
        ("GET", "/runs/none/files", None),
        ("POST", "/runs", {"goal": 1}),
        ("POST", "/session", {"code": session}),
        ("POST", "/session", {"code": "wrong"}),
        ("POST", "/session", {"code": 1}),
        ("DELETE", "/session", None),
        ("GET", "//metrics", None),
        ("GET", "//login", None),
        ("GET", "//nothing", None),
    ):
        server.call(method, path, json=body)
    assert server.threads() == 1


THREADS = (
    "StaticFiles", "FileResponse", "run_in_threadpool", "to_thread", "run_in_executor",
    "getaddrinfo", "import threading", "ThreadPool", "BackgroundTask",
)  # fmt: skip


def test_nothing_in_the_server_would_begin_a_thread() -> None:
    for path in (ROOT / "src/ags/server").rglob("*.py"):
        assert not [word for word in THREADS if word in path.read_text()], path
    found = 0
    for name in ROUTES:
        router = importlib.import_module(f"ags.server.routes.{name}").router
        for dependant in (route.dependant for route in router.routes):
            for call in calls_of(dependant):
                # FastAPI calls what is no coroutine function in a thread.
                assert inspect.iscoroutinefunction(call), (name, call)
                found += 1
    assert found > len(ROUTES)


def calls_of(dependant: Dependant) -> Iterator[object]:
    yield dependant.call
    for each in dependant.dependencies:
        yield from calls_of(each)


def test_systemd_is_told_when_it_is_ready_and_when_it_ends(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(60)
        with serving(tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as server:
            assert sock.recv(100) == b"READY=1"
            server.end()
            assert sock.recv(100) == b"STOPPING=1"


def test_a_killed_server_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    with serving(tmp_path, port=free_port()) as server:
        server.process.kill()
        server.process.wait()
    assert serve.running(server.ags_home, "web") is None
    with serving(tmp_path, port=server.port) as again:
        assert again.call("GET", "/health").status == 200


# The browser


def at(folder: Path, **environ: str) -> Invocation:
    return Invocation(environ, folder, folder / "ags", None, False)


def test_a_browser_is_led_by_a_file_and_never_by_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []
    held: list[tuple[str, int]] = []

    def spawned(argv: tuple[str, ...], **given: object) -> None:
        seen.append(argv)
        held.append((Path(argv[1]).read_text(), stat.S_IMODE(os.stat(argv[1]).st_mode)))

    monkeypatch.setattr(proc, "find", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(proc, "spawn", spawned)
    monkeypatch.setattr(up, "OPENING", 0)
    keys = Keys(tmp_path / "ags")
    asyncio.run(up.show_page(at(tmp_path), keys, "http://127.0.0.1:8080"))
    assert not seen  # there is no screen
    asyncio.run(up.show_page(at(tmp_path, DISPLAY=":0"), keys, "http://127.0.0.1:8080"))
    [(program, file)] = seen
    assert program == "/usr/bin/xdg-open"
    [(text, mode)] = held
    assert mode == 0o600
    code = text.partition("/login#")[2].partition('"')[0]
    assert code not in file
    assert keys.session_for(code)
    assert not Path(file).exists()


def test_ports_that_cannot_be_are_told() -> None:
    for port in (-1, 70000):
        with pytest.raises(AgsError, match="cannot listen"):
            serve.bind(address("127.0.0.1"), port)


def test_a_state_folder_that_takes_nothing_is_told(tmp_path: Path) -> None:
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(AgsError, match="cannot start the server") as refused,
        serve.listening(tmp_path, wish("127.0.0.1"), {"web": full.fileno()}),
    ):
        pass
    assert "make room" in refused.value.hint
    (tmp_path / "server/web.lock").symlink_to("elsewhere")
    seats = serve.seats(tmp_path, ["web"])
    with pytest.raises(AgsError, match="cannot start the server") as refused, seats:
        pass
    assert refused.value.hint


def test_a_port_that_an_agent_had_is_not_ours_any_more(tmp_path: Path) -> None:
    with serving(tmp_path) as made:
        port = int(made.url.rpartition(":")[2])
        assert port in origins.ours(made.ags_home)
    origins.note(made.ags_home, "published", port)
    (made.ags_home / "server/served").unlink()
    refused = made.ags("web", "--no-open", "--port", str(port))
    assert refused.returncode == 1 and "an agent's server was published there" in refused.stderr


def test_small_answers_go_at_once_and_the_deaf_are_given_up() -> None:
    with serve.bind(address("127.0.0.1"), 0) as listening, socket.socket() as client:
        # Of a socket without its protocol's name, asyncio leaves small answers waiting.
        assert listening.proto == socket.IPPROTO_TCP
        client.connect(listening.getsockname())
        listening.setblocking(True)
        with listening.accept()[0] as taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
