"""A state folder that is not ours to use is told by name, and in the way of nothing else."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags import doctor
from ags.workspace.tree import Owner, acting_as
from tests.cli.desk import Desk
from tests.test_doctor import folder, on

WORDS = (
    *(("list",), ("show", "one"), ("start", "one", "goal"), ("demo",), ("cleanup",), ("asks",)),
    *(("client", "list"), ("secret", "list"), ("project", "list"), ("agents",)),
    *(("up", "--link"), ("up", "--no-open"), ("server",), ("exec", "--", "ls", "--help")),
)


@pytest.fixture
def state(desk: Desk, world: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somewhere that all can reach."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    folder = world / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("AGS_HOME", str(folder))
    yield folder
    folder.rmdir()


@contextlib.contextmanager
def somebody_else(*verbs: str) -> Iterator[None]:
    for verb in verbs:  # whose files may be closed to them as well
        importlib.import_module(f"ags.cli.{verb}")
    with acting_as(Owner(65534, 65534)):
        yield


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_one_of_another_user_is_told_with_its_owner(
    desk: Desk, state: Path, words: tuple[str, ...]
) -> None:
    with somebody_else(words[0]):
        said = desk.ags(*words)
    assert (said.code, said.out) == (125, "")
    assert said.err.splitlines() == [
        f"ags: cannot use the state folder ({state})",
        "  why: it belongs to user 0, and you are 65534",
        "  try: set AGS_HOME to a folder of your own, or, if this should be yours:"
        f" `sudo chown -R 65534 {state}`",
    ]


def test_one_that_can_be_read_is_read(desk: Desk, state: Path) -> None:
    state.chmod(0o755)
    assert desk.ags("list").code == 0
    with somebody_else("list"):
        assert desk.ags("list").out.startswith("no runs yet")


def test_help_needs_none(desk: Desk, state: Path) -> None:
    with somebody_else("list", "policy"):
        for words in (("--help",), ("--version",), ("list", "-h"), ("policy", "show", "--help")):
            assert (said := desk.ags(*words)).code == 0 and said.out, words


def test_the_doctor_tells_of_it(desk: Desk, state: Path) -> None:
    desk.ags("doctor")
    with somebody_else("doctor"):
        found = json.loads(desk.ags("doctor", "--json").out)["findings"]
    assert f"{state} belongs to user 0" in next(
        each["text"] for each in found if each["name"] == "state folder"
    )


def test_one_that_is_closed_by_its_mode_or_from_above_is_told(
    desk: Desk, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(state, 65534, 65534)
    state.chmod(0)
    with somebody_else("list"):
        assert f"try: `chmod 700 {state}`" in desk.ags("list").err
        monkeypatch.setenv("AGS_HOME", str(desk.home))
        assert "a folder above it is closed to you" in desk.ags("list").err


def test_a_server_needs_one_that_it_can_write(desk: Desk, state: Path) -> None:
    state.chmod(0o755)
    importlib.import_module("ags.server.serve")
    with somebody_else("up", "server"):
        for words in (("up", "--no-open"), ("server",)):
            assert "it belongs to user 0" in desk.ags(*words).err


@pytest.mark.parametrize(
    ("mode", "uid", "status"),
    [(0o711, 0, "ok"), (0o711, 1000, "fail"), (0o755, 0, "fail"), (0o733, 0, "fail")],
)
def test_others_may_pass_through_roots_alone_and_look_into_nobodys(
    mode: int, uid: int, status: str
) -> None:
    found = doctor.findings(on(settings__state=folder(mode, uid), uid=uid))
    assert [each.status for each in found if each.name == "state folder"] == [status]


def test_a_file_in_its_place_is_told(desk: Desk) -> None:
    desk.state.write_text("")
    said = desk.ags("list")
    assert said.code == 125 and "why: it is not a folder\n" in said.err
    assert desk.state.read_text() == ""
