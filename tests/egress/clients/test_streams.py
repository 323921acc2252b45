"""What lasts: events, WebSockets, protocols of their own, and much at once."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

import pytest

from tests.egress.clients import shop
from tests.egress.clients.desk import Desk, needs
from tests.internet import Internet, pattern_digest

MIB = 1 << 20
MUCH = 1024 * MIB if os.environ.get("AGS_LONG") == "1" else 64 * MIB

LISTEN = """
import http.client, ssl, sys
trusted = ssl.create_default_context()
def connection():
    return http.client.HTTPSConnection(sys.argv[1], timeout=60, context=trusted)
stream = connection()
stream.request("GET", "/events")
answer = stream.getresponse()
if answer.status != 200:
    sys.exit(answer.read().decode())
back = connection()
while line := answer.fp.readline():
    if line.startswith(b"data: "):
        print(line.decode().strip(), flush=True)
        back.request("GET", "/heard")
        back.getresponse().read()
"""

SOCKET = """
import base64, os, socket, ssl, struct, sys
def frame(data):
    size = len(data)
    told = struct.pack(">BH", 254, size) if size > 125 else bytes([128 + size])
    return bytes([129]) + told + bytes(4) + data
def hear():
    size = stream.read(2)[1]
    return stream.read(struct.unpack(">H", stream.read(2))[0] if size == 126 else size)
for host in sys.argv[1:]:
    talk = socket.create_connection((host, 80 if host.startswith("plain") else 443), 60)
    if not host.startswith("plain"):
        talk = ssl.create_default_context().wrap_socket(talk, server_hostname=host)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ("GET /ws HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", "", "")
    talk.sendall("\\r\\n".join(lines).encode())
    stream = talk.makefile("rb")
    print(stream.readline().split()[1].decode())
    while stream.readline().strip():
        pass
    for text in (b"one", b"two", b"x" * 60000):
        talk.sendall(frame(text))
        print(hear() == text)
"""

JAVA_SOCKET = """
import java.net.URI;
import java.net.http.*;
import java.util.concurrent.*;
public class Talk implements WebSocket.Listener {
    static final BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    final StringBuilder parts = new StringBuilder();
    public CompletionStage<?> onText(WebSocket socket, CharSequence data, boolean last) {
        parts.append(data);
        if (last) { heard.add(parts.toString()); parts.setLength(0); }
        socket.request(1);
        return null;
    }
    public static void main(String[] urls) throws Exception {
        for (var url : urls) {
            var builder = HttpClient.newHttpClient().newWebSocketBuilder();
            var socket = builder.buildAsync(URI.create(url), new Talk()).get(90, TimeUnit.SECONDS);
            for (var text : new String[] {"one", "two", "x".repeat(300000)}) {
                socket.sendText(text, true).get();
                var back = heard.poll(90, TimeUnit.SECONDS);
                System.out.println(back.length() + " " + back.equals(text));
            }
            socket.sendClose(WebSocket.NORMAL_CLOSURE, "").get();
        }
    }
}
"""


@pytest.mark.parametrize("policy", ["opaque", "intercepted"])
def test_every_event_arrives_before_the_next_is_sent(
    desk: Desk, the_internet: Internet, policy: str
) -> None:
    rule = "events.example" if policy == "opaque" else "{host: events.example, methods: [GET]}"
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base, "files")
        folder.mkdir()
        with shop.opened(the_internet, "events.example", folder):
            command = ("/usr/bin/python3", "-I", "-c", LISTEN)
            ended = desk.run(*command, "events.example", policy=f"domains: [{rule}]\n")
    assert ended.out.split("\n")[:-1] == [f"data: {number}" for number in range(shop.EVENTS)], ended

    refused = desk.run(*command, "refused.example", policy=f"domains: [{rule}]\n")
    assert refused.code != 0 and "ags_policy_refusal" in refused.err, refused
    assert desk.untouched


HOSTS = ("opaque.example", "inner.example", "plain.example")


def test_a_websocket_works_seen_and_unseen(desk: Desk) -> None:
    ended = desk.run("/usr/bin/python3", "-I", "-c", SOCKET, *HOSTS)
    assert ended.out.split() == ["101", "True", "True", "True"] * len(HOSTS), ended
    for site in (desk.sites.opaque, desk.sites.inner, desk.sites.plain):
        assert [seen.target for seen in site.requests] == ["/ws"]

    refused = desk.run("/usr/bin/python3", "-I", "-c", SOCKET, "refused.example")
    assert refused.out.split()[:1] == ["403"], refused
    assert desk.untouched


@pytest.mark.parametrize("host", HOSTS)
def test_a_websocket_of_javas_works(desk: Desk, host: str) -> None:
    needs("javac")
    (desk.workspace / "Talk.java").write_text(JAVA_SOCKET)
    scheme = "ws" if host.startswith("plain") else "wss"
    ended = desk.shell(f"java Talk.java {scheme}://{host}/ws")
    assert ended.out.split("\n")[:-1] == ["3 true", "3 true", "300000 true"], ended


def test_java_is_told_that_a_websocket_is_refused(desk: Desk) -> None:
    needs("javac")
    (desk.workspace / "Talk.java").write_text(JAVA_SOCKET)
    refused = desk.shell("java Talk.java wss://refused.example/ws")
    assert refused.code != 0 and "WebSocketHandshakeException" in refused.err, refused
    assert desk.untouched


def test_a_protocol_of_its_own_passes_where_a_rule_opens_its_port(desk: Desk) -> None:
    needs("psql")
    open_, closed = (desk.world.postgres(name) for name in ("db.example", "refused-db.example"))
    ask = "psql -XAt 'host={} user=ada dbname=things connect_timeout=60' -c 'select 42'"
    ended = desk.shell(ask.format("db.example"))
    assert (ended.code, ended.out) == (0, "select 42\n"), ended
    assert [seen.target for seen in open_.requests] == ["select 42"]

    refused = desk.shell(ask.format("refused-db.example"))
    assert refused.code != 0, refused
    assert closed.visits == []
    assert not any("refused" in query.name for query in desk.world.queries)


@pytest.mark.parametrize("name", ["opaque", "inner", "plain"])
def test_much_passes_both_ways_unchanged(desk: Desk, name: str) -> None:
    site = getattr(desk.sites, name)
    down = f"curl -sSf '{site.url(f'/down?size={MUCH}')}' | sha256sum"
    up = f"head -c {MUCH} /dev/zero | curl -sSf -T - -X POST '{site.url('/up')}'"
    ended = desk.shell(f"{down}; {up}")
    digest, _, told = ended.out.partition("  -\n")
    assert digest == pattern_digest(MUCH), ended
    assert json.loads(told) == {"size": MUCH, "sha256": _zeros(MUCH)}


def _zeros(size: int) -> str:
    digest = hashlib.sha256()
    for _ in range(size // MIB):
        digest.update(bytes(MIB))
    return digest.hexdigest()
