"""Whatever a server sends, a terminal obeys nothing of it (W6)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from ags.cli.main import main
from tests.cli.desk import HOSTILE, is_harmless
from tests.client.answers import (
    ASK,
    BRANCH,
    DIFF,
    DONE,
    PORT,
    PROJECT,
    ROW,
    RUN,
    listed,
)
from tests.client.scripted import END, TOKEN, problem, reply, scripted, sent, stream

PLAIN = {"state", "mode", "kind", "outcome", "how", "old_mode", "new_mode", "status", "id"}
EVIL = HOSTILE + "\nags: cannot be trusted\x7f\x85\ud800\u2028"
APPLIED = {**DONE, "how": "merge", "at": 1000.0, "undone": 1001.0}
del APPLIED["outcome"]
EVENT = {"seq": 1, "ts": 1.5, "kind": "message"}


def poisoned(value: Any, name: str = "") -> Any:
    """The same with every text in it hostile, but for what has a fixed meaning."""
    if isinstance(value, dict):
        return {key: poisoned(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each, name) for each in value] or ([EVIL] if name == "notes" else [])
    if name.endswith("base64") or name in PLAIN:
        return value
    return EVIL if isinstance(value, str) or (value is None and name in TEXTS) else value


TEXTS = {"stopped_by", "branch", "base", "said", "limited_by", "workspace", "run", "before"}
EVIL_RUN = poisoned({**RUN, "applied": [APPLIED], "exit_code": 3})
EVIL_DIFF = poisoned(copy.deepcopy(DIFF)) | {"new": "b" * 40}
EVIL_PROJECT = poisoned(PROJECT) | {"name": "shop", "error": EVIL}


@pytest.fixture(autouse=True)
def _person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGS_HOME", str(tmp_path / "ags"))
    monkeypatch.setenv("AGS_TOKEN", TOKEN)


CASES: list[tuple[tuple[str, ...], list[bytes]]] = [
    (("list",), [reply(listed(poisoned(ROW)))]),
    (("list", "--json"), [reply(listed(poisoned(ROW)))]),
    (("show", "a"), [reply(EVIL_RUN)]),
    (("show", "--json", "a"), [reply(EVIL_RUN)]),
    (("diff", "a"), [reply(EVIL_DIFF), reply(EVIL_RUN)]),
    (("diff", "--stat", "a"), [reply(EVIL_DIFF), reply(EVIL_RUN)]),
    (("diff", "--json", "a"), [reply(EVIL_DIFF)]),
    (("apply", "--yes", "a"), [reply(EVIL_RUN), reply(EVIL_DIFF), reply(poisoned(DONE))]),
    (("apply", "a"), [reply(EVIL_RUN), reply(EVIL_DIFF)]),
    (("undo", "a"), [reply(poisoned(DONE))]),
    (("stop", "a"), [reply(EVIL_RUN)]),
    (("restart", "--detach", "a"), [reply({"items": [], "last": 0}), reply(EVIL_RUN)]),
    (("tell", "--detach", "a", "x"), [reply({"items": [], "last": 0}), reply(EVIL_RUN)]),
    (
        ("restart", "a"),
        [
            reply({"items": [], "last": 0}),
            reply(EVIL_RUN),
            stream(sent(1, text=EVIL, stream=EVIL), END),
            reply(EVIL_RUN),
        ],
    ),
    (("rm", "a"), [reply(b"", 204)]),
    (
        ("logs", "a"),
        [reply({"items": [EVENT | {"text": EVIL}], "last": 1}), reply({"items": [], "last": 1})],
    ),
    (
        ("logs", "--json", "a"),
        [reply({"items": [EVENT | {"x": EVIL}], "last": 1}), reply({"items": [], "last": 1})],
    ),
    (("logs", "-f", "a"), [stream(sent(1, text=EVIL), END)]),
    (("asks",), [reply({"items": [poisoned(ASK) | {"id": EVIL}]})]),
    (("asks", "--json"), [reply({"items": [poisoned(ASK)]})]),
    (("deny", "kfw1"), [reply({"items": [poisoned(ASK) | {"run": "a"}]}), reply(poisoned(ASK))]),
    (("allow", "kfw1"), [reply({"items": [poisoned(ASK) | {"run": "a"}]}), reply(poisoned(ASK))]),
    (("port", "a", "5173"), [reply(poisoned(PORT))]),
    (("project", "list"), [reply(listed(EVIL_PROJECT, poisoned(PROJECT)))]),
    (("project", "list", "--json"), [reply(listed(EVIL_PROJECT))]),
    (("project", "add", "x"), [reply(poisoned(PROJECT) | {"error": ""})]),
    (
        ("project", "branches", "shop"),
        [reply(listed(EVIL_PROJECT)), reply({"items": [poisoned(BRANCH)]})],
    ),
    (("project", "remove", "shop"), [reply(listed(EVIL_PROJECT)), reply(b"", 204)]),
    (("show", "a"), [problem(409, title=EVIL, detail=EVIL, hint=EVIL, subject=EVIL)]),
    (("show", "a"), [reply(b"", media="text/\x1b]0;owned\x07")]),
]


@pytest.mark.parametrize(("words", "answers"), CASES, ids=lambda each: str(each)[:40])
def test_nothing_that_a_server_sends_is_obeyed(
    words: tuple[str, ...], answers: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted(*answers) as server:
        main(("--server", server.url, *words))
    said = capsys.readouterr()
    assert said.out or said.err
    assert "Traceback" not in said.err
    assert is_harmless(said.out) and is_harmless(said.err), said
    assert len(server.asked) == len(answers)
    assert TOKEN not in said.out + said.err
