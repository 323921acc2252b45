"""THREATS H2: no control verb has an effect when it comes from inside, on any socket there is."""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePosixPath

import pytest

from ags import runs
from ags.control import client
from ags.model import Bind
from ags.runs import Run
from tests.attack.whole import Whole, said, told
from tests.attack.whole import whole as whole
from tests.box import Box
from tests.workspace.agent import done

VERBS = """
import json, os, socket, stat, sys

VERBS = [
    {"do": "stop"}, {"do": "stop", "at_once": True}, {"do": "attach", "rows": 24, "columns": 80},
    {"do": "enter", "rows": 24, "columns": 80}, {"do": "input", "data": "exit"},
    {"do": "answer", "allow": True}, {"do": "policy", "allow": ["*"]}, {"do": "resize"},
]

def speak(address):
    for verb in VERBS:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(60)
        try:
            made.connect(address)
            made.sendall(json.dumps(verb).encode() + b"\\n" + b"i\\0\\0\\0\\5exit\\n")
            print("heard", verb["do"], made.recv(65536))
        except OSError as error:
            print("nothing", verb["do"], error)
"""
WALK = (
    VERBS
    + """
listening = socket.socket(socket.AF_UNIX); listening.bind("own.sock"); listening.listen(99)
hidden = socket.socket(socket.AF_UNIX); hidden.bind("\\0own-abstract"); hidden.listen(99)
found = set()
for folder, folders, files in os.walk("/", onerror=lambda error: None):
    if folder == "/proc":
        folders[:] = [each for each in folders if not each.isdigit() or each == "1"]
    for name in files:
        path = os.path.join(folder, name)
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                found.add(path)
        except OSError:
            pass
for line in open("/proc/net/unix").read().splitlines()[1:]:
    if len(words := line.split()) > 7:
        found.add("\\0" + words[7][1:] if words[7].startswith("@") else os.path.abspath(words[7]))
for fd in os.listdir("/proc/self/fd"):
    try:
        if stat.S_ISSOCK(os.stat(f"/proc/self/fd/{fd}").st_mode) and int(fd) not in (
            listening.fileno(), hidden.fileno()
        ):
            found.add(f"descriptor {fd}")
    except OSError:
        pass
for address in sorted(found):
    print("found", repr(address), flush=True)
    if "own" not in address:
        speak(address)
print("all tried")
"""
)
ATTACK = "cat > /tmp/attack.py <<'END'\n{}\nEND\npython3 -I /tmp/attack.py"


def inside(script: str) -> str:
    return ATTACK.format(script)


def still_at_work(run_dir: Path) -> Run:
    assert runs.is_alive(run_dir), told(run_dir)
    run = runs.load(run_dir)
    assert run.state == "running" and run.stopped_by is None, told(run_dir)
    return run


@pytest.mark.parametrize("whole", ["self", "root for another"], indirect=True)
def test_no_socket_within_reach_takes_a_control_verb(whole: Whole) -> None:
    run_dir = whole.at_work("inner", inside(WALK))
    still_at_work(run_dir)
    assert (run_dir / "control.sock").is_socket()
    text = said(run_dir)
    assert "all tried" in text, told(run_dir)
    found = {line for line in text.splitlines() if line.startswith("found")}
    # The search works: it finds what the agent itself has listening, and nothing else.
    assert {each.rpartition("/")[2] for each in found if "own.sock" in each} == {"own.sock'"}
    assert "found '\\x00own-abstract'" in found
    assert len(found) == 2, found
    assert "heard" not in text
    # The twin: asked from the host, it ends.
    assert done(whole.engine().stop("inner")).state == "stopped"


def test_another_runs_control_socket_is_out_of_reach(whole: Whole) -> None:
    run_dir = whole.at_work("victim", "true")
    for path in (run_dir, run_dir / "control.sock"):
        whole.run("attacker", inside(VERBS + f'speak("{path}")') + f"; ls {path}")
        assert "heard" not in said(whole.engine().run_dir("attacker"))
        done(whole.engine().remove("attacker", force=True))
        whole.sh("git branch -D agent--attacker")
    still_at_work(run_dir)
    done(whole.engine().stop("victim"))


def test_a_socket_mounted_inside_all_the_same_obeys_nobody_there(
    whole: Whole,
) -> None:
    """A plan made by hand, with the run's own folder in it, run by the host's very same uid."""
    run_dir = whole.at_work("victim", "true")
    box = Box(whole.root, whole.home)
    mounted = Bind(run_dir, PurePosixPath("/mnt/run"), writable=True)
    outcome = box.python(VERBS + 'speak("/mnt/run/control.sock")', binds=[mounted])
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("heard") == 8, outcome.out  # it got through to the supervisor
    still_at_work(run_dir)
    assert outcome.out.count("does not listen to what runs in a sandbox") == 8, outcome.out
    asyncio.run(client.ask(run_dir, "stop"))
    assert done(whole.engine().ended(run_dir, 120)).state == "stopped"
