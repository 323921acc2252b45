"""A screen at a time: which pager, what it gets, and what it must not do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ags import proc
from ags.cli.pager import _terminal_lent, page, pager
from ags.errors import AgsError
from bootstrap.packages import find_program
from tests.cli.desk import Desk

LONG = {"a.txt": "".join(f"line {number}\n" for number in range(5000))}


def script(folder: Path, text: str) -> str:
    path = folder / "my-pager"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_persons_pager_is_found_by_their_path(tmp_path: Path) -> None:
    found = script(tmp_path, "cat")
    path = {"PATH": f"/nowhere:{tmp_path}"}
    assert pager(path | {"PAGER": "my-pager -x 'a b'"}) == (found, "-x", "a b")
    assert pager({"PAGER": found}) == (found,)


def test_never_one_that_lies_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "cat")
    monkeypatch.chdir(tmp_path)
    for path, name in ((".", "my-pager"), ("", "my-pager"), ("/", "./my-pager")):
        assert pager({"PATH": path, "PAGER": name}) is None
    assert pager({"PATH": str(tmp_path), "PAGER": "my-pager"}) is not None


def test_less_is_the_systems_and_none_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "find", {"less": "/usr/bin/less"}.get)
    assert pager({}) == ("/usr/bin/less", "-FRX")
    monkeypatch.setattr(proc, "find", lambda name: None)
    assert pager({}) is None


@pytest.mark.parametrize("given", ["", "cat", "no-such-program", "un'closed"])
def test_without_a_pager_all_is_printed(desk: Desk, given: str) -> None:
    desk.finished(files=LONG)
    code, screen = desk.on_terminal("diff", "fix-login", env={"PAGER": given, "NO_COLOR": "1"})
    assert code == 0 and "+line 4999" in screen


def test_on_a_terminal_the_pager_gets_it_all_and_is_told_to_be_careful(
    desk: Desk, tmp_path: Path
) -> None:
    desk.finished(files=LONG)
    kept = tmp_path / "kept"
    given = script(tmp_path, f'cat >{kept}; echo "secure $LESSSECURE less $LESS"')
    code, screen = desk.on_terminal("diff", "fix-login", env={"PAGER": given})
    assert code == 0 and "secure 1 less -FRX" in screen
    text = kept.read_text()
    assert "\x1b[32m+line 0\x1b[0m" in text and "+line 4999" in text


def test_elsewhere_nothing_is_paged(desk: Desk, tmp_path: Path) -> None:
    desk.finished()
    given = script(tmp_path, "echo paged")
    assert "paged" in desk.on_terminal("diff", "fix-login", env={"PAGER": given})[1]
    assert "paged" not in desk.on_terminal("diff", "--no-pager", "fix-login")[1]
    assert "paged" not in desk.ags("diff", "fix-login").out


def test_a_reader_who_has_seen_enough_may_leave(desk: Desk, tmp_path: Path) -> None:
    desk.finished(files=LONG)
    given = script(tmp_path, "head -n 1")
    code, screen = desk.on_terminal("diff", "fix-login", env={"PAGER": given})
    assert code == 0 and len(screen.splitlines()) == 1


@pytest.mark.skipif(not find_program("less"), reason="there is no less here")
def test_less_stops_at_a_screen_and_ends_at_a_key(desk: Desk) -> None:
    desk.finished(files=LONG)
    code, screen = desk.on_terminal("diff", "fix-login", keys={"\n:": "q"})
    assert code == 0 and "+line 4999" not in screen


def test_ctrl_c_reaches_the_pager(desk: Desk, tmp_path: Path) -> None:
    desk.finished(files=LONG)
    text = "trap 'echo caught; exit 0' INT; echo ready; while :; do sleep 0.1; done"
    given = script(tmp_path, text)
    code, screen = desk.on_terminal(
        "diff", "fix-login", keys={"ready": "\x03"}, env={"PAGER": given}
    )
    assert code == 0 and "caught" in screen and "Traceback" not in screen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_pager_has_begun_reaches_it(number: signal.Signals) -> None:
    codes = []

    async def lent() -> None:
        with _terminal_lent() as to:
            os.kill(os.getpid(), number)
            child = proc.spawn(("/bin/sleep", "1000"), env={}, descriptors={})
            to(child)
            codes.append(await child.wait())

    if number == signal.SIGINT:
        asyncio.run(lent())
    else:
        with pytest.raises(SystemExit, match=str(128 + number)):
            asyncio.run(lent())
    assert codes == [-number]


def test_what_goes_wrong_meanwhile_is_told_once_the_reader_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines() -> Iterator[str]:
        yield "one"
        raise AgsError("read on")

    given = script(tmp_path, f"cat >/dev/null; sleep 0.2; touch {tmp_path}/left")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(AgsError):
        asyncio.run(page(lines(), {"PAGER": given, "PATH": os.environ["PATH"]}))
    assert (tmp_path / "left").exists()
