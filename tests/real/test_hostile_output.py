"""An agent that prints what no agent should: the run goes on, and what is kept is bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ags import programs
from ags.model import MIB
from tests.people import Person
from tests.real.installed import AGENTS
from tests.real.stage import Stage, staged

HOSTILE = r"""#!/bin/sh
echo '{"type":'
echo '{"type":"assistant","message":{"content":[{"type":"text","text":7},3,null]}}'
echo '{"type":["result"],"part":[],"item":"x","message":"x","stats":5,"error":[]}'
echo '{"type":"result","is_error":"no","usage":{"input_tokens":1e999,"output_tokens":-5}}'
head -c 2000000 /dev/zero | tr '\0' x; echo
printf '{"type":"text","part":{"text":"'; head -c 2000000 /dev/zero | tr '\0' y; echo '"}}'
head -c 100000 /dev/zero | tr '\0' '['; echo
head -c 300000 /dev/urandom; echo
head -c 4000 /dev/zero; echo
printf '\033]0;owned\007\033[2J\n'
for n in $(seq 2000); do echo "line $n of a flood"; done
echo 'complaint' >&2
cat <<'END'
@END@
END
printf '{"type":"assistant","message":{"content":[{"type":"te'
"""
SAID = "Still here."
ENDS: dict[str, tuple[object, ...]] = {
    "claude": (
        {"type": "assistant", "message": {"content": [{"type": "text", "text": SAID}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": SAID,
         "session_id": "s-1"},
    ),
    "codex": (
        {"type": "thread.started", "thread_id": "s-1"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": SAID}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    ),
    "gemini": (
        {"type": "init", "session_id": "s-1"},
        {"type": "message", "role": "assistant", "content": SAID},
        {"type": "result", "status": "success", "stats": {}},
    ),
    "opencode": (
        {"type": "text", "sessionID": "s-1", "part": {"text": SAID}},
        {"type": "step_finish", "sessionID": "s-1", "part": {"reason": "stop"}},
    ),
    "pi": (
        {"type": "session", "id": "s-1"},
        {"type": "message_end", "message": {"role": "assistant", "stopReason": "stop",
         "content": [{"type": "text", "text": SAID}]}},
    ),
}  # fmt: skip


def install(stage: Stage, script: str) -> None:
    """In the place of the real program, as `update-agents` would have left it."""
    program = programs.program(stage.agent)
    folder = stage.state / "agents" / stage.agent / "9.9.9"
    executable = folder / program.path
    executable.parent.mkdir(parents=True)
    executable.write_text(script)
    executable.chmod(0o755)
    facts = {"package": program.package, "version": "9.9.9", "path": program.path}
    (folder / "ags.json").write_text(json.dumps(facts))
    (folder.parent / "current").symlink_to("9.9.9")


@pytest.fixture(params=AGENTS)
def fake(request: pytest.FixtureRequest, person: Person, own_network: None) -> Iterator[Stage]:
    with staged(request.param, None, person) as stage:
        lines = "\n".join(json.dumps(line) for line in ENDS[stage.agent])
        install(stage, HOSTILE.replace("@END@", lines))
        yield stage


def test_no_line_of_an_agent_stops_a_run_or_its_stream(fake: Stage) -> None:
    done = fake.start("try", "be hostile")
    run = fake.record()
    assert done.returncode == 0 and run.state == "done", fake.told()
    assert run.session == "s-1"
    assert SAID in done.stdout and "line 2000 of a flood" in done.stdout
    assert "complaint" in done.stdout and "\x1b" not in done.stdout and "\0" not in done.stdout
    assert SAID in [each["text"] for each in fake.events("message")]
    log = (fake.run_dir() / "events.jsonl").read_bytes()
    assert len(log) < 16 * MIB and max(map(len, log.splitlines())) < MIB
    assert all(json.loads(line) for line in log.splitlines())
