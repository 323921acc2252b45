"""The fake internet is one: it answers, it notices, and nothing leaves it."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from bootstrap.packages import find_program
from tests.internet import Internet, Origin, Packet, pattern_digest, ssh, websocket
from tests.internet.world import ROOT

MIB = 1 << 20


def curl(world: Internet, *arguments: str) -> subprocess.CompletedProcess[str]:
    trust = ("--cacert", str(world.ca_file))
    return world.run(("curl", "-sS", "--max-time", "90", *trust, *arguments))


def test_a_tls_origin_tells_what_reached_it(internet: Internet) -> None:
    api = internet.origin("api.example", tls=True)
    found = curl(internet, "-d", "a body", api.url("/echo?q=1"))
    assert found.stdout == "a body"
    (seen,) = api.requests
    assert (seen.method, seen.target, seen.path) == ("POST", "/echo?q=1", "/echo")
    assert (seen.host, seen.sni, seen.body) == ("api.example", "api.example", b"a body")
    assert seen.head.startswith(b"POST /echo?q=1 HTTP/1.1\r\nHost: api.example\r\n")
    assert [visit.raw for visit in api.visits] == [seen.head + b"a body"]


def test_a_name_has_one_address_for_all_its_ports(internet: Internet) -> None:
    plain, tls = internet.origin("both.example"), internet.origin("both.example", tls=True)
    odd = internet.origin("both.example", port=8080)
    assert plain.address == tls.address == odd.address
    assert odd.url("/x") == "http://both.example:8080/x"
    for origin in (plain, tls, odd):
        assert curl(internet, origin.url()).stdout == "hello from both.example\n"
        assert len(origin.requests) == 1


@pytest.mark.parametrize(
    ("name", "wishes"),
    [
        ("lies.example", {"certificate": "other.example"}),
        ("stranger.example", {"trusted": False}),
        ("stale.example", {"lasts": timedelta(days=-1)}),
    ],
)
def test_an_origin_can_have_a_certificate_that_nobody_should_believe(
    internet: Internet, name: str, wishes: dict[str, object]
) -> None:
    origin = internet.origin(name, tls=True, **wishes)  # type: ignore[arg-type]
    assert curl(internet, origin.url()).returncode == 60
    assert origin.requests == []
    assert origin.hellos == [name]
    assert curl(internet, "--insecure", origin.url()).returncode == 0
    assert len(origin.requests) == 1


def test_an_origin_can_have_an_ipv6_address(internet: Internet) -> None:
    origin = internet.origin("six.example", ipv6="2c0f:1::6")
    assert curl(internet, "-6", origin.url()).returncode == 0
    assert [visit.peer for visit in origin.visits] == ["2c0f::2"]


def test_the_lan_and_the_metadata_address_are_there(internet: Internet) -> None:
    for origin, address in ((internet.lan, "10.0.0.5"), (internet.metadata, "169.254.169.254")):
        assert curl(internet, f"http://{address}/").returncode == 0
        assert [seen.host for seen in origin.requests] == [address]


def test_dns_notes_every_query_at_any_server_over_udp_and_tcp(internet: Internet) -> None:
    internet.answers("there.example", ["11.9.9.9"])
    script = """
import socket, struct
def ask(kind, server):
    name = b"".join(bytes([len(x)]) + x for x in (b"there", b"example")) + b"\\0"
    message = struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + name + struct.pack(">HH", 16, 1)
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, kind) as s:
        s.settimeout(60)
        s.connect((server, 53))
        s.send(message if kind == socket.SOCK_DGRAM else struct.pack(">H", len(message)) + message)
        assert s.recv(500)
ask(socket.SOCK_DGRAM, "8.8.4.4")
ask(socket.SOCK_STREAM, "8.8.4.4")
ask(socket.SOCK_DGRAM, "2001:4860::1")
"""
    done = internet.run((sys.executable, "-I", "-c", script))
    assert done.returncode == 0, done.stderr
    assert [(q.name, q.kind, q.server, q.transport) for q in internet.queries] == [
        ("there.example", "TXT", "8.8.4.4", "udp"),
        ("there.example", "TXT", "8.8.4.4", "tcp"),
        ("there.example", "TXT", "2001:4860::1", "udp"),
    ]


def test_dns_says_what_it_is_told_and_changes_its_mind(internet: Internet) -> None:
    internet.answers("mixed.example", ["11.1.0.1", "10.0.0.5", "2c0f::1"])
    internet.answers("moving.example", ["11.1.0.1"], ["169.254.169.254"])
    internet.answers("alias.example", ["real.example"])
    internet.answers("empty.example")
    with internet.enter() as there:
        found = {address for _, address in there.lookup("mixed.example")}
        assert found == {"11.1.0.1", "10.0.0.5", "2c0f::1"}
        moving = [there.lookup("moving.example")[0][1] for _ in range(3)]
        assert moving == ["11.1.0.1", "169.254.169.254", "169.254.169.254"]
        for name in ("alias.example", "empty.example", "unknown.example"):
            with pytest.raises(OSError):
                there.lookup(name)
    asked = [query.name for query in internet.queries if query.kind == "A"]
    assert asked.count("moving.example") == 3
    assert "unknown.example" in asked


def test_sockets_opened_there_live_there(internet: Internet) -> None:
    origin = internet.origin("echo.example", port=7000, kind="echo")
    with internet.enter() as there, there.connect("echo.example", 7000) as connection:
        connection.sendall(b"over there")
        assert connection.recv(100) == b"over there"
        assert connection.getsockname()[0] == "11.0.0.2"
    assert [visit.raw for visit in origin.visits] == [b"over there"]


def test_a_thread_can_go_there_and_comes_back(internet: Internet) -> None:
    origin = internet.origin("visited.example")
    before = os.readlink("/proc/thread-self/ns/net")
    with internet.here():
        assert os.readlink("/proc/thread-self/ns/net") != before
        with socket.create_connection((origin.address, 80), timeout=60) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert os.readlink("/proc/thread-self/ns/net") == before


def test_every_first_packet_is_noted_wherever_it_was_for(internet: Internet) -> None:
    with internet.enter() as there:
        with there.open(kind=socket.SOCK_DGRAM) as datagram:
            datagram.sendto(b"x", ("9.9.9.9", 4444))
        with there.open() as stream, pytest.raises(ConnectionRefusedError):
            stream.connect(("172.16.3.4", 25))
        with there.open(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_ICMP) as ping:
            ping.sendto(b"\x08\x00\xf7\xfe\x00\x01\x00\x00", ("11.200.0.1", 0))
            assert ping.recv(100)
    assert internet.packets == [
        Packet("udp", "11.0.0.2", "9.9.9.9", 4444),
        Packet("tcp", "11.0.0.2", "172.16.3.4", 25),
        Packet("icmp", "11.0.0.2", "11.200.0.1", 0),
    ]


@pytest.fixture(scope="module")
def many(the_internet: Internet) -> Origin:
    return the_internet.origin("many.example", tls=True)


def test_redirects_and_statuses_are_as_asked_for(internet: Internet, many: Origin) -> None:
    found = curl(internet, "-D-", many.url("/redirect?to=http://elsewhere.example/"))
    assert "302 Found" in found.stdout
    assert "Location: http://elsewhere.example/" in found.stdout
    shown = ("-o", "/dev/null", "-w", "%{http_code}")
    assert curl(internet, *shown, many.url("/status?code=418")).stdout == "418"


def test_chunks_arrive_and_a_cut_answer_is_cut(internet: Internet, many: Origin) -> None:
    assert curl(internet, many.url("/chunked?count=2")).stdout == "chunk 0\nchunk 1\n"
    assert curl(internet, many.url("/half")).returncode == 18
    assert curl(internet, many.url("/close")).returncode == 52
    assert curl(internet, many.url("/drip?count=5&every=0.01")).stdout == "....."


def test_a_slow_answer_takes_its_time(internet: Internet, many: Origin) -> None:
    began = time.monotonic()
    assert curl(internet, many.url("/slow?seconds=0.5")).stdout == "at last\n"
    assert time.monotonic() - began >= 0.5


def test_events_come_one_by_one(internet: Internet) -> None:
    origin = internet.origin("events.example")
    with internet.enter() as there, there.connect("events.example", 80) as connection:
        connection.sendall(b"GET /sse?count=2&every=30 HTTP/1.1\r\nHost: events.example\r\n\r\n")
        got = b""
        while b"data: 0\n\n" not in got:
            got += connection.recv(1000)
    assert b"text/event-stream" in got
    assert b"data: 1" not in got
    assert origin.requests[0].path == "/sse"


def test_a_websocket_says_everything_back(internet: Internet) -> None:
    internet.origin("socket.example")
    key = base64.b64encode(os.urandom(16))
    with internet.enter() as there, there.connect("socket.example", 80) as connection:
        connection.sendall(
            b"GET /ws HTTP/1.1\r\nHost: socket.example\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n"
            % key
        )
        stream = connection.makefile("rb")
        assert b"101" in stream.readline()
        while stream.readline() != b"\r\n":
            pass
        for said in (b"hello", b"x" * 300, b"y" * 70_000):
            connection.sendall(websocket.frame(0x82, said, b"mask"))
            expected = websocket.frame(0x82, said)
            assert stream.read(len(expected)) == expected
    assert curl(internet, "-D-", "http://socket.example/ws").stdout.startswith("HTTP/1.1 426")


def test_much_goes_up_and_down_with_the_right_sum(internet: Internet, many: Origin) -> None:
    size = 64 * MIB
    script = f"curl -sS --cacert {internet.ca_file} {many.url(f'/down?size={size}')} | sha256sum"
    assert internet.run(("/bin/sh", "-c", script)).stdout.split()[0] == pattern_digest(size)
    script = (
        f"head -c {size} /dev/zero | curl -sS --cacert {internet.ca_file} -T - {many.url('/up')}"
    )
    told = json.loads(internet.run(("/bin/sh", "-c", script)).stdout)
    assert told["size"] == size == many.requests[-1].size
    assert told["sha256"] == many.requests[-1].digest


def test_an_origin_is_as_careless_as_a_smuggler_hopes(internet: Internet) -> None:
    origin = internet.origin("careless.example")
    both = (
        b"POST / HTTP/1.1\nHost: careless.example\nContent-Length: 46\n"
        b"Transfer-Encoding: chunked\n\n0\n\nGET /smuggled HTTP/1.1\nHost: other.example\n\n"
    )
    with internet.enter() as there, there.connect("careless.example", 80) as connection:
        connection.sendall(both)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass
    assert [seen.path for seen in origin.requests] == ["/", "/smuggled"]
    assert [visit.raw for visit in origin.visits] == [both]


def test_psql_gets_an_answer(internet: Internet) -> None:
    if not find_program("psql"):
        pytest.skip("there is no psql on this machine")
    origin = internet.postgres("db.example")
    command = ("psql", "-X", "-At", "-h", "db.example", "-U", "me", "-d", "it", "-c", "SELECT 42")
    found = internet.run(command)
    assert (found.stdout, found.stderr) == ("SELECT 42\n", "")
    assert [seen.target for seen in origin.requests] == ["SELECT 42"]


def test_git_clones_and_pushes_over_https(internet: Internet, tmp_path: Path) -> None:
    origin = internet.git("git.example", credentials="me:token")
    bare = origin.repository("team/app.git", {"README": "read me\n"})
    url = origin.url("/team/app.git")
    env = {
        "GIT_SSL_CAINFO": str(internet.ca_file),
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": str(tmp_path),
    }
    refused = internet.run(("git", "clone", "-q", url, "none"), cwd=tmp_path, env=env)
    assert refused.returncode == 128
    known = url.replace("https://", "https://me:token@")
    script = f"""set -e
git clone -q {known} work && cd work && cat README
git -c user.name=me -c user.email=me@git.example commit -q --allow-empty -m second
git push -q origin main
"""
    done = internet.run(("/bin/sh", "-c", script), cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, "read me\n"), done.stderr
    log = subprocess.run(
        ("git", f"--git-dir={bare}", "log", "--format=%s"), capture_output=True, text=True
    )
    assert log.stdout == "second\nfirst\n"
    assert {seen.sni for seen in origin.requests} == {"git.example"}


def test_git_clones_over_ssh(internet: Internet, tmp_path: Path) -> None:
    if ssh.installed() is None:
        pytest.skip("openssh-server is not installed")
    server = internet.ssh("ssh.example")
    url = server.repository("app.git", {"README": "over ssh\n"})
    how = f"ssh -i {server.key} -o UserKnownHostsFile={server.known_hosts} -o IdentitiesOnly=yes"
    env = {"GIT_SSH_COMMAND": f"{how} -F none"}
    done = internet.run(("git", "clone", "-q", url, tmp_path / "work"), env=env)
    assert done.returncode == 0, done.stderr + server.log
    assert (tmp_path / "work" / "README").read_text() == "over ssh\n"
    command = (*how.split(), "-F", "none", "root@ssh.example", "id")
    other = internet.run(command)
    assert other.returncode != 0 and "uid" not in other.stdout


def test_there_is_no_way_to_the_network_of_the_host(internet: Internet) -> None:
    for pid, peer in ((internet.outside, internet.inside), (internet.inside, internet.outside)):
        links = _links(pid)
        assert set(links) == {"lo", "net0"}
        assert links["net0"]["link_index"] == _links(peer)["net0"]["ifindex"]
    with socket.create_server(("0.0.0.0", 0)) as listener:
        listener.settimeout(0.3)
        port = listener.getsockname()[1]
        with internet.enter() as there:
            for address in _own_addresses():
                with there.open() as attempt, pytest.raises(ConnectionRefusedError):
                    attempt.settimeout(60)
                    attempt.connect((address, port))
        with pytest.raises(TimeoutError):
            listener.accept()
        with socket.create_connection(("127.0.0.1", port), timeout=60):
            listener.accept()[0].close()
    targets = {packet.target for packet in internet.packets}
    assert targets == set(_own_addresses()) - {"127.0.0.1"}


def _links(pid: int) -> dict[str, dict[str, int]]:
    command = ("nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-j", "link")
    shown = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {link["ifname"]: link for link in shown}


def _own_addresses() -> list[str]:
    command = ("ip", "-4", "-j", "addr")
    shown = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return [address["local"] for link in shown for address in link.get("addr_info", [])]


def test_nothing_is_left_after_a_crash() -> None:
    script = """
import signal
from tests.internet import Internet
with Internet() as world:
    print(world.outside, world.inside, world.folder, flush=True)
    signal.pause()
"""
    path = f"{ROOT / 'src'}:{ROOT}"
    command = (sys.executable, "-c", script)
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        *pids, folder = killed.stdout.readline().split()
        assert all(Path("/proc", pid, "ns/net").exists() for pid in pids)
        assert Path(folder).is_dir()
        killed.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in pids if _alive(pid)] == []
    assert not Path(folder).exists()


def _alive(pid: str) -> bool:
    """A process that only waits for its parent to notice holds no namespace."""
    try:
        os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return False
    return True


def test_two_at_once_do_not_know_each_other(internet: Internet) -> None:
    ours = internet.origin("same.example")
    with Internet() as other:
        theirs = other.origin("same.example")
        assert curl(other, theirs.url()).returncode == 0
        assert len(theirs.requests) == 1
    assert ours.requests == []
    assert curl(internet, ours.url()).returncode == 0
    assert len(ours.requests) == 1
