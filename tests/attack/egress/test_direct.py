"""E1: who does not ask the way gets nowhere, by whichever protocol."""

from __future__ import annotations

from tests.attack.egress.scene import BOTH, Scene, paths, told

SPRAY = """
import errno
addresses = ["11.1.0.4", "8.8.8.8", "10.0.0.5", "169.254.169.254", "11.0.0.1", "11.0.0.2",
             "2c0f::1", "2c0f::2", "2001:4860:4860::8888", "fd00:ec2::254", "fe80::1%lo"]
ports = [1, 22, 25, 53, 80, 443, 3128, 5432, 8080, 65535]
tried = 0
def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET
for address in addresses:
    for port in ports:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with quietly(), socket.socket(family(address), kind) as made:
                made.settimeout(0.5)
                tried += 1
                where = socket.getaddrinfo(address, port, type=kind)[0][4]
                made.connect(where)
                made.sendall(get("/direct", address))
                if kind == socket.SOCK_STREAM:
                    made.recv(100)
"""

ODD = """
made = []
kinds = [(socket.AF_INET, socket.SOCK_RAW, number) for number in (1, 6, 17, 47, 132, 255)]
kinds += [(socket.AF_INET6, socket.SOCK_RAW, number) for number in (58, 6, 17)]
kinds += [(socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_INET6, socket.SOCK_DGRAM, 58)]
kinds += [(socket.AF_INET, socket.SOCK_STREAM, 132), (socket.AF_INET, socket.SOCK_SEQPACKET, 132)]
kinds += [(socket.AF_INET, socket.SOCK_DGRAM, 136), (socket.AF_INET, 6, 33)]
kinds += [(17, socket.SOCK_RAW, 0x300), (17, socket.SOCK_DGRAM, 0x300)]
for family, kind, number in kinds:
    for address in ("8.8.8.8", "10.0.0.5", "11.0.0.1", "255.255.255.255", "224.0.0.251"):
        with quietly(), socket.socket(family, kind, number) as talk:
            made.append((family, kind, number))
            talk.settimeout(0.2)
            where = (address if family == socket.AF_INET else "2c0f::1", 443)
            if family == 17:
                where = ("lo", 0x800, 0, 0, b"\\xff" * 6)
            with quietly():
                talk.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            with quietly():
                talk.connect(where)
            for _ in range(2):
                with quietly():
                    talk.sendto(b"\\x08\\0\\0\\0\\0\\1\\0\\1direct", where)
tell(made=sorted(set(made)))
"""

CONTROL = """
fetch(dial("api.example", 443), "api.example", get("/control", "api.example", LAST))
"""


@BOTH
def test_a_direct_dial_to_any_address_and_port_arrives_nowhere(scene: Scene) -> None:
    ended = scene.attack(SPRAY + CONTROL)
    assert scene.only(scene.sites.api), (scene.reached, scene.asked)
    assert paths(scene.sites.api) == ["/control"]
    assert {"8.8.8.8", "2c0f::1"} <= {line["host"] for line in ended.audit if not line["allowed"]}


@BOTH
def test_no_other_protocol_than_tcp_leads_out(scene: Scene) -> None:
    scene.attack(ODD + CONTROL)
    assert scene.only(scene.sites.api), scene.reached
    assert paths(scene.sites.api) == ["/control"]


def test_an_allowed_name_in_the_hello_opens_no_other_address(scene: Scene) -> None:
    """The address that was dialled is what counts, not the name that is said there."""
    address = scene.sites.other.address
    scene.attack(f"""
for name in ("api.example", "other.example", None):
    for port in (443, 80):
        with quietly():
            fetch(dial("{address}", port), name, get("/direct", "api.example", LAST))
        with quietly():
            say(dial("{address}", port), get("/direct", "plain.example", LAST))
    with quietly():
        say(dial("{address}", 80), get("/direct", "{address}", LAST))
{CONTROL}""")
    assert scene.only(scene.sites.api), scene.reached
    assert paths(scene.sites.api) == ["/control"]


@BOTH
def test_nothing_inside_can_change_the_routes_or_the_listeners(scene: Scene) -> None:
    """Neither may anybody else listen where the fence does."""
    ended = scene.attack(f"""
import subprocess
for command in ("ip route add default dev lo", "ip route flush table all", "ip link set lo down",
                "ip link add x type veth", "ip route del local default dev lo table local"):
    subprocess.run(["/bin/sh", "-c", command], capture_output=True)
bound = []
for address, port in ((GATEWAY, 53), (GATEWAY, 3128), ("0.0.0.0", 443), ("198.18.1.0", 443)):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with quietly(), socket.socket(socket.AF_INET, kind) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind((address, port))
            if kind == socket.SOCK_STREAM:
                made.listen()
            bound.append((address, port, kind))
tell(bound=bound)
{CONTROL}""")
    streams = [where for where in told(ended)["bound"] if where[2] == 1 or where[1] == 53]
    assert streams == []
    assert scene.only(scene.sites.api)
    assert paths(scene.sites.api) == ["/control"]
