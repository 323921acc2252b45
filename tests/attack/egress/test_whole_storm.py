"""E15: one run storms and dawdles, another works; judged at the origin of the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ags import runs
from tests.attack.egress.scene import Scene, paths
from tests.attack.egress.whole import Desk, desk_for, python
from tests.attack.whole import said, until

STORM = """
import resource, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
WHERE = (("api.example", 443), ("plain.example", 80), ("other.example", 443), (GATEWAY, PROXY),
         (GATEWAY, 53), ("8.8.8.8", 443))
FIRST = (hello("api.example"), get("/slow?seconds=30", "plain.example"), hello("other.example"),
         b"CONNECT api.example:443 HTTP/1.1\\r\\n", b"\\0\\x1d", b"\\x16\\3\\1")
def storm(number):
    with quietly():
        talk = socket.create_connection(WHERE[number % 6], 60)
        held.append(talk)
        talk.sendall(FIRST[number % 6])
threads = [threading.Thread(target=storm, args=(number,)) for number in range(500)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"held {len(held)}", flush=True)
while not os.path.exists("calm"):
    for number in range(0, len(held), 5):  # slow senders beside connections that come and go
        if os.path.exists("calm"): break
        with quietly(): held[number].sendall(b"x")
        with quietly(): socket.create_connection(WHERE[number % 6], 1).close()
        ask(query(f"name-{number}.example", 1), patience=0.01)
"""
CALM = """
for n in $(seq 20); do curl -sS -m 90 https://calm.example/$n || echo trouble; done
"""


@pytest.fixture
def desk(scene: Scene) -> Iterator[Desk]:
    with desk_for(scene) as made:
        yield made


def test_while_one_run_storms_another_works_undisturbed(desk: Desk, scene: Scene) -> None:
    calm = scene.world.origin("calm.example", tls=True)
    both = ("--allow", "api.example", "--allow", "plain.example")
    desk.ags("start", "storm", "-a", "shell", "--detach", *both, python(STORM))
    storm = desk.run_dir("storm")
    until(lambda: "held " in said(storm))
    assert int(said(storm).partition("held ")[2].split()[0]) > 400
    printed = desk.run("calm", CALM, "--allow", "calm.example")
    assert runs.is_alive(storm)  # so it was meanwhile
    (desk.worktree("storm") / "calm").touch()
    assert paths(calm) == [f"/{number}" for number in range(1, 21)]
    assert "trouble" not in printed
    until(lambda: not runs.is_alive(storm))
    assert runs.load(storm).state == "done", said(storm)
    assert all(site.visits == [] for site in scene.sites.others)
