"""E15: however a run misuses its fence, it closes nothing but its own connections."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from tests.attack.egress.scene import BOTH, Scene, paths, told
from tests.attack.egress.whole import unfinished

CONTROL = """
fetch(dial("api.example", 443), "api.example", get("/control", "api.example", LAST))
"""
GET = "fetch(dial('api.example', 443), 'api.example', get('/{}', 'api.example', LAST))\n"


def until(true: Callable[[], bool], patience: float = 120.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)


@BOTH
def test_a_storm_of_connections_leaves_the_others_alone(scene: Scene) -> None:
    """Five hundred at once, of every sort, while one of the same run and another run work on."""
    with scene.attacking(
        """
import resource, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
def storm(number):
    with quietly():
        host, port = (("api.example", 443), ("plain.example", 80), ("other.example", 443),
                      (GATEWAY, PROXY), ("8.8.8.8", 443))[number % 5]
        talk = socket.create_connection((host, port), 60)
        held.append(talk)
        firsts = (hello("api.example")[:100], b"GET / HTTP/1.1\\r\\n", b"\\x16", b"\\5", b"")
        talk.sendall(firsts[number % 5])
threads = [threading.Thread(target=storm, args=(number,)) for number in range(500)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        + GET.format("same")
        + """
open("storming", "w").write(str(len(held)))
os.rename("storming", "stormed")
time.sleep(300)
"""
    ) as storm:
        until(lambda: (scene.workspace / "stormed").exists())
        assert int((scene.workspace / "stormed").read_text()) > 400
        calm = scene.attack(GET.format("another"))
        assert storm.driver.poll() is None  # so it was meanwhile
    assert paths(scene.sites.api) == ["/same", "/another"]
    assert calm.reasons == []


def test_there_is_a_most_of_connections_and_the_rest_is_turned_away(scene: Scene) -> None:
    ended = scene.attack(
        """
held = [dial("plain.example", 80) for _ in range(30)]
heard = [say(talk, get("/held", "plain.example"), until=b"hello from") for talk in held]
tell(heard=sum(map(bool, heard)))
for talk in held: talk.close()
until = time.monotonic() + 60
while time.monotonic() < until:  # until that is known
    with quietly():
        if say(dial("plain.example", 80), get("/room", "plain.example", LAST)): break
"""
        + CONTROL,
        settings={"egress.server.MOST": 20},
    )
    assert told(ended)["heard"] == 20
    assert paths(scene.sites.api) == ["/control"]


def test_a_sender_that_never_comes_to_the_point_is_cut_off(scene: Scene) -> None:
    """A hello, a request head, a proxy's request: each has its time, and the origin has none."""
    ended = scene.attack(
        """
def slowly(talk, first):
    begun = time.monotonic()
    talk.settimeout(0.2)
    with quietly():
        for byte in first * 100:
            talk.sendall(bytes((byte,)))
            try:
                if not talk.recv(1): break
            except TimeoutError: pass
            if time.monotonic() - begun > 20: return None
    return time.monotonic() - begun
tell(tls=slowly(dial("api.example", 443), hello("api.example")),
     http=slowly(dial("plain.example", 80), b"GET / HTTP/1.1\\r\\nX: " + b"a" * 1000),
     proxy=slowly(dial(GATEWAY, PROXY), b"CONNECT api.example:443 HTTP/1.1\\r\\nX: " + b"a" * 1000),
     socks=slowly(dial(GATEWAY, PROXY), b"\\5\\xff" + b"\\1" * 200),
     dns=slowly(dial(GATEWAY, 53), b"\\4\\0" + b"\\0" * 200))
""",
        settings={
            "egress.connection.FIRST": 1.0,
            "egress.conversation.BETWEEN": 1.0,
            "egress.server.DNS_SILENT": 1.0,
        },
    )
    assert None not in told(ended).values(), told(ended)
    assert paths(scene.sites.api) == [] and scene.only()
    scene.attack(CONTROL)  # with all the time that it needs
    assert paths(scene.sites.api) == ["/control"] and scene.only(scene.sites.api)


def test_an_endless_head_is_cut_off(scene: Scene) -> None:
    """Long before it fills anybody's memory."""
    ended = scene.attack(
        """
def endless(talk, first, piece):
    sent = 0
    talk.settimeout(60)
    with quietly():
        talk.sendall(first)
        while sent < 32 << 20:
            talk.sendall(piece)
            sent += len(piece)
    return sent
head = b"GET / HTTP/1.1\\r\\nHost: plain.example\\r\\n"
tell(line=endless(dial("plain.example", 80), head + b"X: ", b"a" * 4096),
     lines=endless(dial("plain.example", 80), head, b"X: yy\\r\\n" * 500),
     target=endless(dial("plain.example", 80), b"GET /", b"a" * 4096),
     connect=endless(dial(GATEWAY, PROXY), b"CONNECT ", b"a" * 4096),
     hello=endless(dial("api.example", 443), b"\\x16\\3\\1\\xff\\xff\\1\\0\\xff\\xfb", b"a" * 4096))
"""
        + CONTROL,
        settings={"egress.server.MOST_UNHEARD": 1 << 20},
    )
    assert all(sent < 16 << 20 for sent in told(ended).values()), told(ended)
    assert ended.reasons.count("too-large") == 3
    assert paths(scene.sites.api) == ["/control"] and scene.only(scene.sites.api)


def test_a_firehose_does_not_keep_others_waiting(scene: Scene) -> None:
    """What is carried by hand, request by request, takes turns with everything else."""
    ended = scene.attack(
        """
import threading
def pour():
    with quietly():
        talk = dial("plain.example", 80)
        head = get("/up", "plain.example", f"Content-Length: {1 << 40}", LAST, method="POST")
        talk.sendall(head)
        while True: talk.sendall(b"x" * (1 << 20))
pouring = threading.Thread(target=pour, daemon=True)
pouring.start()
time.sleep(0.3)
for _ in range(5): ask(query("api.example", 1), patience=60)
"""
        + CONTROL
        + "tell(pouring=pouring.is_alive()); os._exit(0)"
    )
    assert told(ended)["pouring"]  # so it was meanwhile
    assert paths(scene.sites.api) == ["/control"]


@BOTH
def test_a_fence_that_dies_leaves_no_way_out(scene: Scene) -> None:
    """Killed in the midst of it: from then on nothing arrives, and nothing is left running."""
    mark = f"ags-orphan-{os.getpid()}-{time.monotonic_ns()}"
    with scene.attacking(
        f"""
mark = {mark!r}
request = get("/before", "api.example", LAST)
while True:
    with quietly(): fetch(dial("api.example", 443), "api.example", request)
    open("alive", "w").write("yes")
"""
    ) as running:
        until(lambda: (scene.workspace / "alive").exists())
        assert len(paths(scene.sites.api)) > 0
        running.driver.kill()
        running.driver.wait()
        until(lambda: not _running(mark))
        until(lambda: unfinished(scene.world.inside) == [])  # what came before is noted
        scene.world.clear()
        time.sleep(0.5)
        assert scene.reached == set() and paths(scene.sites.api) == []


def _running(mark: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read() and int(pid) != os.getpid():
                    return True
        except OSError:
            continue
    return False
