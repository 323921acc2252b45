"""E9, E10, E11, E14: each request is judged, as what the origin will take it for."""

from __future__ import annotations

import pytest

from tests.attack.egress.scene import Scene, paths, told

RULES = """
domains:
  - {host: plain.example, methods: [GET, POST], paths: [/ok/*]}
  - {host: api.example, methods: [GET, POST], paths: [/ok/*]}
"""
TALK = """
ARRIVED = b"hello from"
def over_tls(): return secured(dial("api.example", 443), "api.example")
def in_clear(): return dial("plain.example", 80)
def proxied(): return connected("plain.example", 80)
WAYS = [(in_clear, "plain.example"), (over_tls, "api.example"), (proxied, "plain.example")]
"""
CONTROL = """
for way, host in WAYS[:2]:
    say(way(), get("/ok/control", host, LAST))
"""

CORPUS = r"""
def corpus(host):
    hidden = get("/ok/smuggled", host).replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n")
    n = len(hidden)
    post = f"POST /ok/bad HTTP/1.1\r\nHost: {host}\r\n".encode()
    plain = f"GET /ok/bad HTTP/1.1\r\nHost: {host}\r\n".encode()
    chunks = b"0\r\n\r\n" + hidden
    te, cl = b"Transfer-Encoding: chunked\r\n", b"Content-Length: %d\r\n" % n
    yield post + cl + te + b"\r\n" + chunks
    yield post + te + cl + b"\r\n" + chunks
    yield post + te + b"Content-Length: 0\r\n\r\n" + chunks
    yield post + b"Content-Length: 0\r\n" + cl + b"\r\n" + hidden
    yield post + cl + cl + b"\r\n" + hidden
    yield post + b"Content-Length: 0, %d\r\n\r\n" % n + hidden
    for odd in (b"+%d", b"-%d", b"0x%x", b"%d ,", b" %d a", b"0%d", b"%d\x0b", b"%d.0", b"\xb2%d"):
        yield post + b"Content-Length: " + odd % n + b"\r\n\r\n" + hidden
    for odd in (b"xchunked", b"chunked, identity", b"identity, chunked", b"chunked, chunked",
                b"\x0bchunked", b"chunked\x00", b'"chunked"', b"gzip, chunked", b"chunked;q=1",
                b"identity", b""):
        yield post + b"Transfer-Encoding: " + odd + b"\r\n\r\n" + chunks
    for name in (b"Transfer-Encoding ", b"Transfer-Encoding\t", b" Transfer-Encoding",
                 b"Transfer_Encoding", b"Transfer-Encoding\x00", b"\x0bTransfer-Encoding",
                 b"Content_Length", b"X: y\nTransfer-Encoding", b"X: y\rTransfer-Encoding"):
        yield post + name + b": chunked\r\n\r\n" + chunks
    yield post + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n" + chunks
    yield post + te + te + b"\r\n" + chunks
    yield plain.replace(b"\r\n", b"\n") + b"\n" + hidden
    yield plain + b"X: y\n\r\n" + hidden
    yield plain + b"X: y\r\n\n" + hidden
    yield plain + b"X: a\rb\r\n\r\n" + hidden
    yield plain + b"X: a\0b\r\n\r\n" + hidden
    yield plain + b"no colon\r\n\r\n" + hidden
    yield plain + b": empty\r\n\r\n" + hidden
    yield plain + b"Host: other.example\r\n\r\n"
    yield plain + b"Authorization: Basic YTpi\r\nauthorization: Bearer x\r\n\r\n"
    yield plain + b"Range: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n"
    yield plain + f"Host: {host}\r\n\r\n".encode()
    yield plain + b"Connection: Host, Content-Length\r\n" + cl + b"\r\n" + hidden
    yield plain + b"Expect: 200-ok\r\n\r\n"
    yield b"GET /ok/bad HTTP/1.1\r\n\r\n"
    yield b"GET /ok/bad\r\n\r\n" + hidden
    yield b"GET /ok/bad HTTP/2.0\r\nHost: " + host.encode() + b"\r\n\r\n"
    yield b"GET /ok/bad HTTP/1.2\r\nHost: " + host.encode() + b"\r\n\r\n"
    yield b"GET  /ok/bad HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
    yield b"GET /ok/bad x HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
    yield b"GET /ok/bad\x0bx HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
    yield b"\r\n" + plain + b"\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"GET http://other.example/ok/bad HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
    yield f"GET ftp://{host}/ok/bad HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    yield b"GET //other.example/ok/bad HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
    yield b"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n" + hidden
    yield b"GET /ok/bad#x HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n"
"""
BODIES = r"""
def bodies(host):
    hidden = get("/secret", host)
    head = f"POST /ok/begun HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    for bad in (b"0x5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n", b"+5\r\nhello\r\n0\r\n\r\n",
                b"5\nhello\n0\n\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n",
                b"fffffffffffffffff\r\nhello", b"5 \r\nhello\r\n0\r\n\r\n",
                b"5\r\nhello\r\n0\r\nHost: other.example\r\n\r\n",
                b"5\r\nhello\r\n0\r\nTransfer-Encoding: x\r\n\r\n", b"\r\n5\r\nhello\r\n0\r\n\r\n",
                b"5\rX\nhello\r\n0\r\n\r\n"):
        yield head + bad + hidden
"""


def hosts(scene: Scene) -> set[str | None]:
    origins = (scene.sites.api, scene.sites.plain)
    return {seen.host for origin in origins for seen in origin.requests}


@pytest.mark.parametrize("way", [0, 1, 2], ids=["in-clear", "over-tls", "by-connect"])
def test_a_request_with_two_readings_does_not_arrive(scene: Scene, way: int) -> None:
    ended = scene.attack(
        TALK
        + CORPUS
        + f"way, host = WAYS[{way}]"
        + """
for number, attack in enumerate(corpus(host)):
    with quietly(), way() as talk:
        attack = attack.replace(b"/ok/bad", b"/ok/bad-%d" % number)
        say(talk, attack.replace(b"/ok/smuggled", b"/ok/smuggled-%d" % number), until=ARRIVED)
"""
        + CONTROL,
        RULES,
    )
    assert paths(scene.sites.api) == ["/ok/control"]
    assert paths(scene.sites.plain) == ["/ok/control"]
    assert scene.only(scene.sites.api, scene.sites.plain)
    assert len(ended.reasons) > 50


@pytest.mark.parametrize("way", [0, 1], ids=["in-clear", "over-tls"])
def test_a_body_with_two_readings_hides_no_request(scene: Scene, way: int) -> None:
    """Its head may have gone by then. What follows is judged as what the origin takes it for."""
    scene.attack(
        TALK
        + BODIES
        + f"way, host = WAYS[{way}]"
        + """
for attack in bodies(host):
    with quietly(), way() as talk:
        if b"ffff" in attack: talk.settimeout(0.5)  # as much as it says is waited for
        say(talk, attack, until=ARRIVED)
"""
        + CONTROL,
        RULES,
    )
    for origin in (scene.sites.api, scene.sites.plain):
        assert set(paths(origin)) <= {"/ok/begun", "/ok/control"}
        assert "/ok/control" in paths(origin)
    assert hosts(scene) == {"api.example", "plain.example"}


@pytest.mark.parametrize("way", [0, 1, 2], ids=["in-clear", "over-tls", "by-connect"])
def test_a_later_request_cannot_name_another_host(scene: Scene, way: int) -> None:
    """Neither on its own, nor with the first one; a second one for the same host is carried."""
    scene.attack(
        TALK
        + f"way, host = WAYS[{way}]"
        + """
for name in ("other.example", "api.example", "plain.example", f"x.{host}", f"{host}:8080"):
    if name == host: continue
    for apart in (True, False):
        with quietly(), way() as talk:
            first, second = get("/ok/first", host), get("/ok/second", name, LAST)
            say(talk, *((first, second) if apart else (first + second,)), pause=0.2)
    for form in (f"http://{name}/ok/absolute", f"https://{name}/ok/absolute"):
        with quietly(), way() as talk:
            say(talk, get("/ok/first", host), get(form, name, LAST), pause=0.2)
with way() as talk:
    say(talk, get("/ok/first", host), get("/ok/control", host, LAST), pause=0.2)
""",
        RULES,
    )
    victim = scene.sites.api if way == 1 else scene.sites.plain
    assert scene.only(victim)
    assert {seen.host for seen in victim.requests} == {victim.name}
    assert paths(victim).count("/ok/control") == 1
    assert set(paths(victim)) == {"/ok/first", "/ok/control"}


def test_a_path_rule_is_about_what_is_sent(scene: Scene) -> None:
    scene.attack(
        TALK
        + r"""
odd = ["/secret", "/ok", "/OK/x", "/ok/../secret", "/ok/./../secret", "/ok/%2e%2e/secret",
       "/ok/.%2E/secret", "/ok/%252e%252e/secret", "/ok/..;/secret", "/ok/..%2fsecret",
       "/ok/..%5csecret", "/ok\\..\\secret", "/ok/..\\secret", "//secret", "//ok/x",
       "/ok//../secret", "/ok/%00", "/ok/a%2f..%2f..%2fsecret", "/ok/%c0%ae%c0%ae/secret",
       "/ok/\u2025/secret", "/ok/%e2%80%a5/secret", "/ok/x;/../../secret", "/%6fk/../secret",
       "/ok/%", "/ok/%zz", "*", "/ok%2fx", "/secret/?/ok/", "/secret?x=/ok/", "/ok/x%0d%0aX:y"]
for way, host in WAYS[:2]:
    for path in odd:
        for target in (path, f"http://{host}{path}"):
            with quietly(), way() as talk:
                say(talk, get(target, host, LAST))
"""
        + CONTROL,
        RULES,
    )
    assert paths(scene.sites.api) == ["/ok/control"]
    assert paths(scene.sites.plain) == ["/ok/control"]


def test_a_method_rule_is_about_what_the_origin_will_do(scene: Scene) -> None:
    """Headers with which an origin may take one method or path for another are not let through."""
    scene.attack(
        TALK
        + """
for way, host in WAYS[:2]:
    for method in ("DELETE", "PUT", "get", "Get", "POSTX", "OPTIONS", "TRACE", "HEAD", "PATCH"):
        with quietly(), way() as talk:
            say(talk, get("/ok/method", host, LAST, method=method))
    for header in ("X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE",
                   "x-method-override: PUT", "X_HTTP_Method_Override: DELETE",
                   "X-Original-URL: /secret",
                   "X-Rewrite-URL: /secret", "X-Forwarded-Prefix: /secret"):
        with quietly(), way() as talk:
            say(talk, get("/ok/override", host, header, LAST, method="POST"))
"""
        + CONTROL,
        RULES,
    )
    assert paths(scene.sites.api) == ["/ok/control"]
    assert paths(scene.sites.plain) == ["/ok/control"]


def test_without_a_rule_about_them_such_headers_are_nobodys_business(scene: Scene) -> None:
    scene.attack(
        TALK
        + """
for way, host in WAYS[:2]:
    say(way(), get("/override", host, "X-HTTP-Method-Override: PUT", LAST))
"""
    )
    assert paths(scene.sites.api) == paths(scene.sites.plain) == ["/override"]


def test_an_upgrade_does_not_leave_the_rules(scene: Scene) -> None:
    """Only a WebSocket is one, to where a request may go; the offer of any other is left out."""
    ended = scene.attack(
        TALK
        + """
key = ("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13")
for way, host in WAYS[:2]:
    for wanted in ("h2c", "tls/1.0", "websocket, h2c", "foo", "WebSocket/1"):
        with quietly(), way() as talk:
            say(talk, get("/ok/upgrade", host, f"Upgrade: {wanted}", *key,
                          "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQC"),
                until=ARRIVED)
    with quietly(), way() as talk:
        say(talk, get("/ws", host, "Upgrade: websocket", "Connection: Upgrade", *key))
"""
        + CONTROL,
        RULES,
    )
    assert "Traceback" not in ended.log
    for origin in (scene.sites.api, scene.sites.plain):
        assert set(paths(origin)) == {"/ok/upgrade", "/ok/control"}
        assert {seen.header("upgrade") for seen in origin.requests} == {None}
        assert {seen.header("http2-settings") for seen in origin.requests} == {None}


def test_a_websocket_goes_where_something_may_be_sent(scene: Scene) -> None:
    ended = scene.attack(
        TALK
        + """
key = ("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13")
for way, host in WAYS[:2]:
    with way() as talk:
        talk.sendall(get("/ws", host, "Upgrade: websocket", "Connection: Upgrade", *key))
        tell(**{host: b"101 Switching" in hear(talk, b"\\r\\n\\r\\n")})
        talk.sendall(b"\\x82\\x80\\0\\0\\0\\0")
""",
        "domains: [{host: api.example, methods: [GET, POST]}, plain.example]",
    )
    assert told(ended) == {"api.example": True, "plain.example": True}


def test_a_redirect_is_a_request_of_its_own(scene: Scene) -> None:
    ended = scene.run(
        "/bin/sh",
        "-c",
        """
for to in https://other.example/x http://other.example/x http://10.0.0.5/x http://169.254.169.254/x
do curl -sSLk -m 60 "https://api.example/redirect?to=$to"; done
curl -sSL -m 60 "https://api.example/redirect?to=http://plain.example/control"
""",
    )
    assert "refused" in ended.out
    assert scene.only(scene.sites.api, scene.sites.plain)
    assert paths(scene.sites.plain) == ["/control"]
    assert paths(scene.sites.api) == ["/redirect"] * 5
