"""Which log-in there is, told without a word of its tokens."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.logins import state
from ags.logins.state import Found, found, kept_path
from tests.logins.run import host_login, wired
from tests.logins.test_document import FILES
from tests.logins.vendor import Vendor


def looked(folder: Path, agent: str = "claude", client: str = "", **environ: str) -> Found:
    return found(agent, folder / "home", folder / "ags", client, environ)


def test_none_at_all(tmp_path: Path) -> None:
    assert looked(tmp_path) == Found() and str(looked(tmp_path)) == "none"
    assert looked(tmp_path, "shell") == Found()


def test_the_persons_own_is_found_with_its_plan(tmp_path: Path) -> None:
    vendor = Vendor()
    path = host_login(tmp_path, vendor)
    there = looked(tmp_path)
    assert (there.where, there.path) == ("host", path)
    (one,) = there.subscriptions
    assert (one.maker, one.plan, one.renewable) == ("anthropic", "max", True)
    assert one.expires is not None and abs(one.expires - time.time() - 3600) < 600
    assert str(there) == "your own log-in: anthropic (max)"
    assert not any(token in repr(there) for token in vendor.issued)


@pytest.mark.parametrize("agent", sorted(FILES))
def test_of_every_agent(tmp_path: Path, agent: str) -> None:
    path = state.host_path(agent, tmp_path / "home", {})
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(FILES[agent]))
    there = looked(tmp_path, agent)
    assert there.where == "host" and there.subscriptions and "REAL" not in repr(there)


def test_where_the_agents_own_variable_says(tmp_path: Path) -> None:
    vendor = Vendor()
    path = host_login(tmp_path / "other", vendor)
    assert looked(tmp_path).where == "none"
    assert looked(tmp_path, CLAUDE_CONFIG_DIR=str(path.parent)).path == path


def test_a_clients_own_goes_first_and_is_only_its_own(tmp_path: Path) -> None:
    host_login(tmp_path, Vendor())
    kept = state.keep("claude", Vendor().claude_file(), tmp_path / "ags", "acme")
    assert kept == kept_path("claude", tmp_path / "ags", "acme")
    assert os.stat(kept).st_mode & 0o777 == 0o600
    assert {os.stat(each).st_mode & 0o777 for each in list(kept.parents)[:2]} == {0o700}
    assert looked(tmp_path, client="acme").where == "kept"
    assert looked(tmp_path, client="other").where == "host"
    assert looked(tmp_path).where == "host"


def test_what_is_no_log_in_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(AgsError, match="no log-in"):
        state.keep("claude", b"{}", tmp_path / "ags", "acme")
    assert not (tmp_path / "ags").exists()


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_write_is_trouble(tmp_path: Path, mode: int) -> None:
    path = host_login(tmp_path, Vendor())
    path.chmod(mode)
    assert looked(tmp_path).trouble == "others may write to it"
    with pytest.raises(AgsError, match="others may write"):
        wired(tmp_path, path)


def test_a_pipe_is_trouble_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = host_login(tmp_path, Vendor())
    path.unlink()
    os.mkfifo(path)
    assert looked(tmp_path).trouble == "it is not a file"


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another owner")
def test_another_ones_file_is_trouble(tmp_path: Path) -> None:
    path = host_login(tmp_path, Vendor())
    os.chown(path, 1234, 1234)
    assert "somebody else" in looked(tmp_path).trouble


def test_stand_ins_are_the_same_for_the_same_client_alone(tmp_path: Path) -> None:
    path = host_login(tmp_path, Vendor())
    assert wired(tmp_path, path).file == wired(tmp_path, path).file
    assert wired(tmp_path, path, client="a").file != wired(tmp_path, path, client="b").file
