"""E5, E7, E13: an address is reached only as itself; a name never leads to where it must not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.attack.egress.scene import BOTH, OWN, Scene, listening, paths

SPECIAL = {
    "loopback": "127.0.0.1",
    "loopback-of-another-spelling": "127.1.2.3",
    "this-network": "0.0.0.0",
    "private": "10.0.0.5",
    "private-172": "172.16.0.1",
    "private-192": "192.168.1.1",
    "carrier": "100.64.0.1",
    "link-local": "169.254.1.1",
    "metadata": "169.254.169.254",
    "made": "198.18.0.1",
    "multicast": "224.0.0.251",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "own": OWN,
    "loopback-6": "::1",
    "unspecified-6": "::",
    "mapped": "::ffff:10.0.0.5",
    "compatible": "::10.0.0.5",
    "translated": "64:ff9b::a00:5",
    "6to4": "2002:a00:5::1",
    "teredo": "2001:0:a00:5::1",
    "unique-local": "fd00:ec2::254",
    "link-local-6": "fe80::1",
    "own-6": "2c0f::2",
}
VISIT = """
def visit(name, path):
    request = get(path, name, LAST)
    every([lambda: say(dial(name, 80), request), lambda: say(connected(name, 80), request),
           lambda: fetch(dial(name, 443), name, request), lambda: say(socksed(name, 80), request)])
"""
CONTROL = """
for way in (dial, connected, socksed):
    say(way("plain.example", 80), get("/control", "plain.example", LAST))
"""
SPELLINGS = """
def spellings(address):
    a, b, c, d = map(int, address.split("."))
    whole = int.from_bytes(bytes((a, b, c, d)), "big")
    return [address, str(whole), hex(whole), f"0{whole:o}", f"{a}.{b}.{c * 256 + d}",
            f"{a}.{b * 65536 + c * 256 + d}", f"0x{a:x}.{b}.0{c:o}.{d}", f"{address}.",
            f"::ffff:{address}", f"[::ffff:{address}]", f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
            f"::ffff:{a:x}{b:02x}:{c:x}{d:02x}", f"{a}.{b}.{c}.{d}%lo"]
"""


@contextlib.contextmanager
def own_services(scene: Scene) -> Iterator[list[list[bytes]]]:
    """Services of the machine itself, where every one of its addresses leads."""
    with contextlib.ExitStack() as held:
        places = ("0.0.0.0", "::1", "2c0f::2")
        yield [held.enter_context(listening(scene.world, place, 80)) for place in places]


def policy_for(*names: str) -> str:
    return f"domains: [plain.example, {', '.join(names)}]\n"


@pytest.mark.parametrize("beside", [(), ("11.1.0.5",)], ids=["alone", "mixed"])
def test_an_allowed_name_does_not_lead_to_a_special_address(
    scene: Scene, beside: tuple[str, ...]
) -> None:
    names = [f"{kind}.special.example" for kind in SPECIAL]
    for name, address in zip(names, SPECIAL.values(), strict=True):
        scene.world.answers(name, [*beside, address])
    script = "".join(f"visit('{name}', '/special')\n" for name in names)
    with own_services(scene) as came:
        ended = scene.attack(VISIT + script + CONTROL, policy_for(*names))
    assert came == [[], [], []]
    assert scene.reached == {("tcp", scene.sites.plain.address, 80)}
    assert paths(scene.sites.plain) == ["/control"] * 3
    judged = {line["host"] for line in ended.audit if line["reason"] == "address"}
    assert judged >= set(names)


def test_a_name_is_looked_up_once_and_that_is_what_is_dialled(scene: Scene) -> None:
    """Rebinding: the second answer is never heard of by the connection that had the first."""
    good = scene.sites.plain.address
    scene.world.answers("moving.example", [good], ["10.0.0.5"])
    scene.attack(
        VISIT + "say(dial('moving.example', 80), get('/one', 'moving.example', LAST))",
        policy_for("moving.example"),
    )
    assert paths(scene.sites.plain) == ["/one"]
    assert [query.kind for query in scene.world.queries].count("A") == 1
    assert scene.world.lan.visits == []


def test_a_name_that_moves_to_the_lan_is_refused_from_then_on(scene: Scene) -> None:
    scene.world.answers("rebound.example", [scene.sites.plain.address], ["10.0.0.5"])
    ask = "say(dial('rebound.example', 80), get('/{}', 'rebound.example', LAST))\n"
    scene.attack(VISIT + ask.format("one") + ask.format("two"), policy_for("rebound.example"))
    assert paths(scene.sites.plain) == ["/one"]
    assert scene.world.lan.visits == []


def test_an_address_in_any_spelling_is_reached_only_if_it_is_listed(scene: Scene) -> None:
    """The listed one is, in every spelling that a program may use."""
    other, plain = scene.sites.other_plain.address, scene.sites.plain.address
    script = f"""
for address in ("{other}", "10.0.0.5", "169.254.169.254", "127.0.0.1"):
    for spelled in spellings(address): visit(spelled, "/literal")
for spelled in spellings("{plain}")[:6]:
    with quietly(): say(connected(spelled, 80), get("/listed", spelled, LAST))
"""
    with own_services(scene) as came:
        scene.attack(VISIT + SPELLINGS + script, f"domains: ['{plain}']")
    assert came == [[], [], []]
    assert scene.reached == {("tcp", plain, 80)}
    assert scene.asked == set()
    assert paths(scene.sites.plain) == ["/listed"] * 6


def test_of_private_addresses_just_the_listed_one_is_dialled_and_never_our_own(
    scene: Scene,
) -> None:
    """A database on the person's own network is theirs to list; this machine is not."""
    policy = "domains: [plain.example, 10.0.0.5, 11.0.0.2]"
    others = "'11.0.0.2', '10.0.0.6', '10.0.0.53', '192.168.0.5', '127.0.0.1', '169.254.169.254'"
    with own_services(scene) as came:
        scene.attack(
            VISIT + f"for one in ('10.0.0.5', {others}): visit(one, '/listed')" + CONTROL, policy
        )
    assert came == [[], [], []]
    assert scene.reached == {("tcp", scene.sites.plain.address, 80), ("tcp", "10.0.0.5", 80)}


HOSTS = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "127.1", OWN, "198.18.0.1", "host",
         "host.containers.internal", "host.docker.internal", "gateway.docker.internal")  # fmt: skip


@BOTH
@pytest.mark.parametrize("listed", [False, True], ids=["not-listed", "listed"])
def test_a_service_of_the_host_is_reached_only_if_it_is_listed(scene: Scene, listed: bool) -> None:
    """At its name, and at no other port."""
    policy = f"domains: [plain.example]\nhost_services: [{7001 if listed else 7002}]\n"
    script = f"""
for host in {HOSTS!r}:
    for port in (7001, 7003, 80):
        for way in (dial, connected, socksed):
            with quietly(): say(way(host, port), get("/host", host, LAST))
        where = f"{{host}}:{{port}}"
        with quietly(): say(dial(GATEWAY, PROXY), get(f"http://{{where}}/host", where, LAST))
"""
    with (
        listening(scene.world, "127.0.0.1", 7001) as wanted,
        listening(scene.world, "127.0.0.1", 7003) as unwanted,
        listening(scene.world, OWN, 7001) as outer,
        own_services(scene) as came,
    ):
        scene.attack(VISIT + script + CONTROL, policy)
    assert (unwanted, outer, came) == ([], [], [[], [], []])
    assert len(wanted) == (4 if listed else 0)
    assert paths(scene.sites.plain) == ["/control"] * 3


def test_another_run_is_out_of_reach(scene: Scene, tmp_path: Path) -> None:
    """Neither what it serves nor its fence, at any address; it itself gets through to both."""
    served = """
import threading
server = socket.create_server(("0.0.0.0", 9000))
def serve():
    while True:
        talk, _ = server.accept()
        with talk, open("visits", "a") as visits: visits.write(talk.recv(100).decode())
threading.Thread(target=serve, daemon=True).start()
own = dial("127.0.0.1", 9000)
own.sendall(b"own ")
own.recv(1)  # its end, which comes once that is written down
open("ready", "w").close()
time.sleep(600)
"""
    tmp_path.chmod(0o755)
    for name in ("workspace", "home"):
        (tmp_path / name).mkdir()
    elsewhere = replace(scene, workspace=tmp_path / "workspace")
    with elsewhere.attacking(served):
        deadline = time.monotonic() + 60
        while not (elsewhere.workspace / "ready").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        scene.attack(
            """
PATIENCE = 0.5
for host in ("127.0.0.1", "::1", GATEWAY, "198.18.1.0", "11.0.0.2", "11.0.0.1", "localhost",
             "host.containers.internal", "0.0.0.0", "169.254.0.1", "10.0.0.1", "172.17.0.1"):
    for way in (dial, connected, socksed):
        with quietly(): way(host, 9000).sendall(b"foreign ")
PATIENCE = 60
"""
            + CONTROL,
            "domains: [plain.example]\nhost_services: [9000]\n",
        )
        assert (elsewhere.workspace / "visits").read_text() == "own "
    assert paths(scene.sites.plain) == ["/control"] * 3
