"""E8–E15: variants that no list has, of what a connection may do to be taken for another."""

from __future__ import annotations

import pytest

from tests.attack.egress.scene import Scene, paths, told

RULES = """
domains:
  - {host: plain.example, methods: [GET, POST], paths: [/ok, /ok/*]}
  - {host: api.example, methods: [GET, POST], paths: [/ok, /ok/*]}
"""
WAYS = """
def over_tls(): return secured(dial("api.example", 443), "api.example")
def in_clear(): return dial("plain.example", 80)
WAYS = [(in_clear, "plain.example"), (over_tls, "api.example")]
"""
CONTROL = """
for way, host in WAYS: say(way(), get("/ok/control", host, LAST))
"""


def both(scene: Scene) -> list[list[str]]:
    return [paths(scene.sites.plain), paths(scene.sites.api)]


def test_who_sends_much_before_it_listens_still_hears_the_refusal(scene: Scene) -> None:
    """A reset in the middle would be taken for a lost network, and tried again for ever."""
    script = """
import urllib.request, urllib.error
def post(url):
    asked = urllib.request.Request(url, data=b"x" * (8 << 20), method="POST")
    try: return urllib.request.urlopen(asked, context=trusting(), timeout=60).status
    except urllib.error.HTTPError as error: return error.code
    except OSError as error: return repr(error)
tell(codes=[post(f"{scheme}://{host}.example/up") for scheme in ("http", "https")
            for host in ("other", "plain", "api")])
"""
    rules = "domains: [{host: plain.example, methods: [GET]}, {host: api.example, methods: [GET]}]"
    assert told(scene.attack(script, rules))["codes"] == [403] * 6
    assert scene.reached == set() and scene.asked == set()


def test_who_never_stops_sending_is_hung_up_on(scene: Scene) -> None:
    """However fast it sends, and however slowly."""
    much = scene.attack(
        """
talk = dial("other.example", 80)
sent = 0
with quietly():
    talk.sendall(get("/up", "other.example", f"Content-Length: {1 << 40}", method="POST"))
    while sent < 96 << 20: sent += talk.send(b"x" * 65536)
tell(sent=sent)
""",
        settings={"egress.server.LINGER": 600.0},
    )
    assert told(much)["sent"] < 64 << 20
    long = scene.attack(
        """
begun = time.monotonic()
quiet = dial("other.example", 80)
say(quiet, get("/", "other.example"))
while time.monotonic() < begun + 100:
    time.sleep(0.2)
    try: quiet.sendall(b"x")
    except OSError: break
tell(seconds=time.monotonic() - begun)
""",
        settings={"egress.server.LINGER": 1.0},
    )
    assert told(long)["seconds"] < 100


def test_a_program_that_distrusts_the_fence_leaves_a_line(scene: Scene) -> None:
    """Where the TLS is ended here; where it is not, the fence has nothing to be distrusted for."""
    script = """
wary = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
with quietly(), wary.wrap_socket(dial("api.example", 443), server_hostname="api.example"): pass
"""
    ended = scene.attack(WAYS + script + CONTROL, RULES)
    assert ended.reasons == ["distrusted"] and both(scene)[1] == ["/ok/control"]
    assert scene.attack(script).reasons == []


def test_what_is_no_request_to_a_proxy_leaves_a_line(scene: Scene) -> None:
    ended = scene.attack(
        WAYS
        + """
def request(line, host="api.example"):
    return f"{line} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode()
for first in (b"\\5\\1\\2", b"\\4\\1\\0\\x50abcd", request("GET /"), request("CONNECT api.example"),
              request("CONNECT [fe80::1%25lo]:443", "[fe80::1%25lo]:443"),
              request("CONNECT \u0430pi.example:443"),
              request("CONNECT api.example:443@other.example:443"),
              request("GET http://api.example@other.example/")):
    with quietly(): say(dial(GATEWAY, PROXY), first)
"""
        + CONTROL,
        RULES,
    )
    assert ended.reasons == ["proxy-request"] * 8
    assert both(scene) == [["/ok/control"]] * 2


NEW_PROTOCOLS = """
H2 = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + b"\\0\\0\\0\\4\\0\\0\\0\\0\\0"
for way, host in WAYS:
    with quietly(): say(way(), H2)
    for upgrade in ("h2c", "TLS/1.0", "websocket, h2c", "h2c, websocket"):
        lines = ("Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__", LAST)
        with quietly(): say(way(), get("/ok/up", host, f"Upgrade: {upgrade}", *lines) + H2)
"""


def test_no_other_protocol_is_changed_to(scene: Scene) -> None:
    """The offer is left out, as curl and Java make it in every request."""
    scene.attack(WAYS + NEW_PROTOCOLS + CONTROL, RULES)
    for origin in (scene.sites.plain, scene.sites.api):
        assert {seen.path for seen in origin.requests} == {"/ok/up", "/ok/control"}
        for seen in origin.requests:
            names = {name.lower() for name, _ in seen.headers}
            assert not names & {"upgrade", "http2-settings"}
            assert seen.method == "GET" and "upgrade" not in str(seen.headers).lower()


def test_of_requests_in_a_row_each_is_judged(scene: Scene) -> None:
    """All sent at once; nothing that follows one that is refused is heard."""
    scene.attack(
        WAYS
        + """
for way, host in WAYS:
    row = [get("/ok/1", host), get("/ok/2", host), get("/secret", host), get("/ok/3", host, LAST)]
    say(way(), b"".join(row))
    chunked = get("/ok/4", host, "Transfer-Encoding: chunked", method="POST")
    whole = chunked + b"3;a=b\\r\\nabc\\r\\n0\\r\\n\\r\\n"
    say(way(), whole + get("/secret", host, LAST))
    for trailer in ("Host: other.example", "Content-Length: 3", "Authorization: Bearer x"):
        say(way(), chunked.replace(b"/ok/4", b"/ok/bad")
            + f"0\\r\\n{trailer}\\r\\n\\r\\n".encode() + get("/ok/after", host, LAST))
"""
        + CONTROL,
        RULES,
    )
    for seen in both(scene):
        assert [path for path in seen if path != "/ok/bad"] == [
            "/ok/1",
            "/ok/2",
            "/ok/4",
            "/ok/control",
        ]


def test_who_waits_to_be_told_to_go_on_is_told_at_once(scene: Scene) -> None:
    ended = scene.attack(
        WAYS
        + """
heard = []
for way, host in WAYS:
    for path in ("/ok/wait", "/secret"):
        talk = way()
        lines = ("Expect: 100-continue", "Content-Length: 4", LAST)
        talk.sendall(get(path, host, *lines, method="POST"))
        first = talk.recv(4096)
        heard.append(first[:12].decode())
        if b" 100 " in first: heard.append(say(talk, b"body")[:12].decode())
tell(heard=heard)
""",
        RULES,
    )
    one = ["HTTP/1.1 100", "HTTP/1.1 200", "HTTP/1.1 403"]
    assert told(ended)["heard"] == one * 2
    assert both(scene) == [["/ok/wait"]] * 2


def test_who_has_said_all_still_hears_the_answer(scene: Scene) -> None:
    """Half closed, as `nc -N` and some libraries do it; on raw and on plain connections."""
    raw = scene.world.origin("raw.example", port=7000, kind="echo")
    ended = scene.attack(
        """
def half(talk, data):
    talk.sendall(data)
    talk.shutdown(socket.SHUT_WR)
    return hear(talk)
tell(plain=half(dial("plain.example", 80), get("/slow?seconds=1", "plain.example", LAST))[-8:]
     .decode(), raw=half(dial("raw.example", 7000), b"x" * (1 << 20)).count(b"x"))
""",
        "domains: [plain.example, {host: raw.example, ports: [7000], protocol: raw}]\n",
    )
    assert told(ended) == {"plain": "at last\n", "raw": 1 << 20}
    assert len(raw.visits) == 1


NAMES = """
kept = dial("plain.example", 80)
first = kept.getpeername()[0]
def asked(number):
    answer = ask(query(f"n{number}.example", 1), patience=60)
    return socket.inet_ntoa(answer[-4:])
seen = {asked(number) for number in range(9000)}
for _ in range(3): kept.sendall(get("/kept", "plain.example")); hear(kept, b"plain.example\\n")
again = socket.gethostbyname("plain.example")
say(socket.create_connection((first, 80), 60), get("/first", "plain.example", LAST))
gone = asked(0)
tell(many=len(seen), first=first, again=again, taken=first in seen)
for host in ("n1.example", "other.example"):
    with quietly(): say(socket.create_connection((first, 80), 60), get("/other", host, LAST))
"""


def test_an_address_in_use_is_given_to_no_other_name(scene: Scene) -> None:
    """More names than have room are asked for meanwhile."""
    ended = scene.attack(NAMES)
    found = told(ended)
    assert found["many"] == 9000 and not found["taken"] and found["again"] == found["first"]
    assert paths(scene.sites.plain) == ["/kept"] * 3 + ["/first"]
    assert scene.only(scene.sites.plain)


def test_many_questions_in_one_breath_are_answered_in_order(scene: Scene) -> None:
    """Over TCP; among them such as loop, ask for anything, or are cut off."""
    loop = "query('x', 255)[:12] + b'\\xc0\\x0c\\0\\1\\0\\1'"
    ended = scene.attack(
        f"""
wanted = [query(f"n{{n}}.example", (1, 28, 255, 16, 65)[n % 5]) for n in range(200)]
wanted[7::20] = [{loop}] * len(wanted[7::20])
talk = dial(GATEWAY, 53)
talk.sendall(b"".join(struct.pack(">H", len(each)) + each for each in wanted))
talk.settimeout(60)
heard, codes = b"", []
with quietly():
    while len(codes) < 200 and (piece := talk.recv(1 << 16)):
        heard += piece
        while len(heard) > 2 and len(heard) >= 2 + int.from_bytes(heard[:2], "big"):
            size = 2 + int.from_bytes(heard[:2], "big")
            codes.append(heard[5] & 15)
            heard = heard[size:]
tell(codes=codes)
"""
    )
    codes = told(ended)["codes"]
    assert len(codes) == 200 and codes[7::20] == [1] * 10 and set(codes) == {0, 1}
    assert scene.asked == set() and scene.reached == set()


@pytest.mark.parametrize("port", [443, 80, 3128, 53])
def test_connections_that_are_reset_at_once_leave_nothing_behind(scene: Scene, port: int) -> None:
    ended = scene.attack(
        f"""
where = GATEWAY if {port} in (53, 3128) else "api.example"
address = socket.gethostbyname(where)
for number in range(2000):
    with quietly():
        talk = socket.create_connection((address, {port}), 3)
        if number % 2: talk.sendall((b"", b"\\x16", b"\\0", b"GET ")[number // 2 % 4])
        talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        talk.close()
"""
        + WAYS
        + CONTROL
    )
    assert both(scene) == [["/ok/control"]] * 2
    assert "Traceback" not in ended.log, ended.log
