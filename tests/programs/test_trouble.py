"""Whose settings hold while an agent is installed, and what becomes of a failure."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from ags import programs
from ags.config.schema import Update
from ags.errors import AgsError
from ags.programs import Outcome, node, npm
from tests.disk import small_disk
from tests.programs.shop import CANARY, Shop


def test_the_persons_log_in_is_used_and_stays_outside(shop: Shop) -> None:
    host = shop.registry.url.removeprefix("http:")
    with (shop.home / ".npmrc").open("a") as file:
        file.write(f"{host}/:_authToken=${{COMPANY_TOKEN}}\n")
    shop.environ = {"COMPANY_TOKEN": CANARY, "OTHER": CANARY}
    shop.registry.publish_claude("1.0.0", script="#!/bin/sh\nenv; cat ~/.npmrc; echo 1\n")
    folder = shop.install().installed.folder
    assert {said for _, said in shop.registry.log} == {f"Bearer {CANARY}"}
    assert [path.name for path in shop.home.iterdir()] == [".npmrc"]
    found = subprocess.run(["grep", "-r", CANARY, shop.state], capture_output=True)
    assert (found.returncode, folder.exists()) == (1, True)


def test_settings_of_a_project_are_not_obeyed(shop: Shop, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".npmrc").write_text("registry=http://127.0.0.1:9/\nignore-scripts=false\n")
    (project / "package.json").write_text("{}")
    shop.registry.publish_claude("1.0.0")
    argv, env = shop.command("update-agents", "claude")
    done = subprocess.run(argv, env=env, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"claude 1\.0\.0 installed \(.+, \d+ s\)\n", done.stdout)
    assert sorted(path.name for path in project.iterdir()) == [".npmrc", "package.json"]


def test_npm_gets_what_it_needs_of_the_environment_and_no_more(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("//x/:_authToken=${TOKEN}\n")
    given = {
        "TOKEN": "t", "npm_config_registry": "r", "HTTPS_PROXY": "p", "ANTHROPIC_API_KEY": "k",
        "NODE_OPTIONS": "--require=x", "PATH": "/evil", "LD_PRELOAD": "x",
    }  # fmt: skip
    tool = npm.npm(node.Node(Path("/usr/bin/node"), Path("/usr/npm.js")), given, tmp_path)
    found = dict(tool.environment)
    assert found.pop("PATH").startswith("/usr/bin:") and found.pop("HOME") == str(tmp_path)
    assert found.keys() == {"TOKEN", "npm_config_registry", "HTTPS_PROXY", "LC_ALL"}


def test_without_a_registry_in_reach_it_says_so(shop: Shop) -> None:
    (shop.home / ".npmrc").write_text("registry=http://127.0.0.1:9/\nfetch-retries=0\n")
    error = shop.refused()
    assert "cannot be reached" in error.cause and "npm config get registry" in error.hint


def test_a_package_or_version_that_is_not_there_is_told(shop: Shop) -> None:
    assert "no such package" in shop.refused().cause
    shop.registry.publish_claude("1.0.0")
    assert "there is no version 7.0.0" in shop.refused(version="7.0.0").cause
    for agent in ("nobody", "shell", "../x"):
        with pytest.raises(AgsError, match="install the agent"):
            shop.install(agent)
    assert programs.current(shop.state, "claude") is None


@pytest.mark.parametrize(
    "update", [Update(versions=(("cluade", "1.0.0"),)), Update(packages=(("cluade", "x"),))]
)
def test_settings_for_an_agent_that_nobody_knows_are_told_of(shop: Shop, update: Update) -> None:
    shop.update = update
    error = shop.refused()
    assert error.subject == "cluade" and "claude" in error.hint and shop.registry.log == []


def test_of_two_at_once_one_installs_and_the_other_finds_it(shop: Shop) -> None:
    shop.registry.publish_claude("1.0.0")

    async def both() -> list[Outcome]:
        return await asyncio.gather(*(shop.installer.install("claude") for _ in range(2)))

    assert sorted(done.new for done in asyncio.run(both())) == [False, True]
    fetched = shop.registry.fetched()
    assert len(fetched) == len(set(fetched)) and any("waiting" in line for line in shop.told)


def test_one_that_was_killed_leaves_nothing_that_counts(shop: Shop) -> None:
    shop.registry.publish_claude("1.0.0")
    shop.registry.stalls = ".tgz"
    argv, env = shop.command("update-agents", "claude")
    with subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL) as process:
        assert shop.registry.stalled.wait(300)
        process.kill()
    assert shop.left() != [] and programs.current(shop.state, "claude") is None
    shop.registry.stalls = ""
    released = threading.Thread(target=let_go, args=(shop,))
    released.start()
    assert shop.install().new and shop.left() == []
    released.join()
    assert waited(shop), "what it had started is at work still"


def waited(shop: Shop) -> bool:
    return any("waiting" in line for line in shop.told)


def let_go(shop: Shop) -> None:
    until = time.monotonic() + 300
    while not waited(shop) and time.monotonic() < until:
        time.sleep(0.02)
    shop.registry.over.set()


def test_a_full_disk_is_told_and_the_old_one_stays(shop: Shop) -> None:
    shop.registry.publish_claude("1.0.0")
    with small_disk(shop.state, "8m"):
        shop.install()
        noise = os.urandom(6 << 20).hex()
        shop.registry.publish_claude("1.1.0", script=f"#!/bin/sh\necho 1\nexit\n{noise}")
        error = shop.refused()
        assert "room" in error.hint, (error.cause, error.hint)
        assert shop.current().version == "1.0.0"
