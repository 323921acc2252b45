"""E3, E5, E6: a name has one spelling, whoever says it; everything else goes nowhere."""

from __future__ import annotations

import pytest

from tests.attack.egress.scene import Scene, paths

POLICY = """
domains: [api.example, plain.example, "*.wild.example"]
deny: [secret.wild.example]
"""

LOOK_ALIKES = (
    "xapi.example",
    "api.example.other.example",
    "api-example.other.example",
    "api.example-other.example",
    "apiexample",
    "example",
    "wild.example",
    "evilwild.example",
    "evil-wild.example",
    "a.wild.example.other.example",
    "a.wild.exampl",
    "xn--pi-6kc.example",
)
ODD = (
    "api..example",
    ".api.example",
    "api.example..",
    "a..wild.example",
    ".wild.example",
    "*.wild.example",
    "-a.wild.example",
    "a b.wild.example",
    " api.example",
    "api.example ",
    "other.example\\0.wild.example",
    "other.example\\n.wild.example",
    "other.example\\r\\nX: .wild.example",
    "other.example\\t.wild.example",
    "other.example#.wild.example",
    "other.example/.wild.example",
    "other.example?.wild.example",
    "other.example:443#.wild.example",
    "other.example%00.wild.example",
    "other.example%2e.wild.example",
    "other.example\\\\.wild.example",
    "user@api.example",
    "user:pass@api.example",
    "api.example@other.example",
    "\\u0430pi.example",
    "ap\\u0131.example",
    "api\\u3002example",
    "api\\uff0eexample",
    "\\uff41pi.example",
    "a\\u200d.wild.example",
    "\\udcff.wild.example",
    "\\u2460.wild.example",
    "a" * 64 + ".wild.example",
    "a." * 125 + "wild.example",
)
WAYS = """
def ways(name, path, port=443):
    # As bytes: Python's own idea of international names is not what is looked at here.
    raw = name.encode("utf-8", "surrogateescape")
    def visit(talk):
        if name.isascii():
            fetch(talk, name, get(path, name, LAST))
        else:
            say(talk, greeting(raw))
    def named(): visit(dial(raw, port))
    def by_connect(): visit(connected(name, port))
    def by_socks(): visit(socksed(name, port))
    def in_clear(): say(dial("plain.example", 80), get(path, name, LAST))
    def in_full(): say(dial(GATEWAY, PROXY), get(f"http://{name}{path}", name, LAST))
    def fronted(): visit(dial("api.example", port))
    def greeted(): say(dial("api.example", port), greeting(raw))
    def asked(): ask(query(name, 1, raw.split(b".")))
    return [named, by_connect, by_socks, in_clear, in_full, fronted, greeted, asked]
"""
CONTROL = """
every(ways("api.example", "/control")[:3])
"""


def names(*given: str) -> str:
    listed = ", ".join(f'"{name}"' for name in given)
    return f"NAMES = [{listed}]\n"


@pytest.fixture(autouse=True)
def _everywhere(scene: Scene) -> None:
    """Whatever is asked for leads to somebody who would answer."""
    for name in (*LOOK_ALIKES, "secret.wild.example", "SECRET.wild.example"):
        scene.world.answers(name, [scene.sites.other.address])
    scene.world.answers("a.wild.example", [scene.sites.api.address])


def unharmed(scene: Scene) -> None:
    assert scene.only(scene.sites.api), (scene.reached, scene.asked)
    assert paths(scene.sites.api) == ["/control"] * 3
    assert {seen.host for seen in scene.sites.api.requests} == {"api.example"}


def test_a_look_alike_is_not_the_name(scene: Scene) -> None:
    script = WAYS + names(*LOOK_ALIKES) + "for name in NAMES: every(ways(name, '/alike'))" + CONTROL
    scene.attack(script, POLICY)
    unharmed(scene)


@pytest.mark.parametrize("half", [ODD[::2], ODD[1::2]], ids=["some", "others"])
def test_an_odd_spelling_is_no_name_at_all(scene: Scene, half: tuple[str, ...]) -> None:
    script = WAYS + names(*half) + "for name in NAMES: every(ways(name, '/odd'))" + CONTROL
    scene.attack(script, POLICY)
    unharmed(scene)


def test_case_and_a_final_dot_are_the_same_name(scene: Scene) -> None:
    """And the origin is told the one spelling that was judged."""
    scene.attack(
        """
def asked(talk): say(talk, get("/same", "PLAIN.Example", LAST))
every([lambda: asked(dial("PLAIN.example.", 80)), lambda: asked(connected("Plain.Example", 80)),
       lambda: asked(socksed("plain.example.", 80))])
say(dial("plain.example", 80), get("/same", "plain.example.", LAST))
fetch(dial("API.example.", 443), "Api.Example", get("/same", "api.example", LAST))
""",
        POLICY,
    )
    assert scene.only(scene.sites.api, scene.sites.plain)
    assert paths(scene.sites.plain) == ["/same"] * 4
    assert {seen.host for seen in scene.sites.plain.requests} == {"plain.example"}
    assert paths(scene.sites.api) == ["/same"]


def test_a_wildcard_covers_what_is_below_and_a_denial_takes_precedence(scene: Scene) -> None:
    denied = ("secret.wild.example", "SECRET.wild.example", "secret.wild.example.")
    scene.attack(
        WAYS
        + names(*denied)
        + """
for name in NAMES: every(ways(name, "/denied"))
fetch(dial("a.wild.example", 443), "a.wild.example", get("/below", "a.wild.example", LAST))
""",
        POLICY,
    )
    assert scene.asked <= {"a.wild.example"}
    assert {seen.path for seen in scene.sites.api.requests} == {"/below"}
    assert all(origin.visits == [] for origin in scene.sites.others)


@pytest.mark.parametrize("port", [0, 1, 22, 25, 80, 8443, 65535, 65536, -1])
def test_a_port_that_is_not_listed_is_shut(scene: Scene, port: int) -> None:
    """Port 80 of a host that has only its TLS port listed, too."""
    policy = "domains: [{host: api.example, ports: [443]}, plain.example]"
    scene.attack(
        f"""
request, where = get("/port", "api.example", LAST), "api.example:{port}"
every([lambda: say(dial("api.example", {port}), request),
       lambda: say(connected("api.example", {port}), request),
       lambda: say(socksed("api.example", {port} & 0xffff), request),
       lambda: say(dial("plain.example", 80), get("/port", "api.example:{port}", LAST)),
       lambda: say(dial(GATEWAY, PROXY), get("http://" + where + "/port", where)),
       lambda: fetch(connected("api.example", {port}), "api.example", request)])
for spelled in ("443 ", "+443", "0443", "443x", "", "0x1bb", "443:443"):
    with quietly(): fetch(connected("api.example", spelled), "api.example", request)
fetch(connected("api.example", 443), "api.example", get("/control", "api.example", LAST))
""",
        policy,
    )
    assert scene.only(scene.sites.api), scene.reached
    assert paths(scene.sites.api) == ["/control"]
