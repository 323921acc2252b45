"""Agents' programs: real npm, a registry on loopback, unpacked and tried in real sandboxes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from ags import programs
from ags.agents.base import Program
from ags.config.schema import Update
from ags.programs import Outcome, install
from tests.programs.registry import CLAUDE, CPU, PI
from tests.programs.shop import CANARY, Shop


def test_an_agent_is_installed_and_nobody_else_can_change_it(shop: Shop) -> None:
    shop.registry.publish_claude("1.0.0")
    done = shop.install()
    assert done.new and done.installed == shop.current()
    assert os.readlink(shop.state / "agents/claude/current") == "1.0.0"
    assert done.installed.folder == shop.state / "agents/claude/1.0.0"
    answer = subprocess.run([done.installed.executable, "--version"], capture_output=True)
    assert answer.stdout == b"1.0.0\n"
    for path in (done.installed.folder, *done.installed.folder.rglob("*")):
        facts = path.lstat()
        assert facts.st_uid == os.geteuid() and not facts.st_mode & 0o7022, path
    assert shop.left() == [] and done.installed.size > 0
    assert not any("darwin" in path for path in shop.registry.fetched())


def test_what_is_there_is_not_fetched_again(stocked: Shop) -> None:
    assert stocked.install() == Outcome(stocked.current(), new=False)
    assert stocked.registry.log != [] and stocked.registry.fetched() == []


def test_an_update_keeps_the_old_one_and_can_be_taken_back(stocked: Shop) -> None:
    stocked.registry.publish_claude("1.1.0")
    assert stocked.install().installed.version == stocked.current().version == "1.1.0"
    assert sorted(programs.versions(stocked.state, "claude")) == ["1.0.0", "1.1.0"]
    assert not stocked.install(version="1.0.0").new and stocked.current().version == "1.0.0"


def test_what_it_needs_must_be_old_enough_too(shop: Shop) -> None:
    shop.registry.publish("helper", "1.0.0", {"index.js": "module.exports = 'helper 1.0.0'"})
    young = {"index.js": "module.exports = 'helper 1.0.1'"}
    shop.registry.publish("helper", "1.0.1", young, days=0.5)
    shop.registry.publish_pi("2.0.0", needs={"helper": "^1.0.0"})
    done = shop.install("pi")
    manifest = (done.installed.folder / "node_modules/helper/package.json").read_text()
    assert json.loads(manifest)["version"] == "1.0.0" and done.installed.node is not None
    shop.registry.publish_pi("2.0.1", needs={"helper": "^1.0.0"}, days=0.1)
    assert shop.install("pi").installed.version == "2.0.0"
    assert any("2.0.1 has been out for 2 hours only" in line for line in shop.told)


def test_by_name_a_young_version_is_taken_and_that_is_said(shop: Shop) -> None:
    shop.registry.publish_claude("1.0.0")
    shop.registry.publish_claude("1.1.0", days=0.1)
    assert shop.install().installed.version == "1.0.0"
    assert shop.install(version="1.1.0").installed.version == "1.1.0"
    assert "claude: 1.1.0 has been out for 2 hours only; taken as asked for" in shop.told


def test_a_version_pinned_in_the_settings_is_taken(shop: Shop) -> None:
    shop.registry.publish_claude("1.0.0")
    shop.registry.publish_claude("1.1.0")
    shop.update = Update(versions=(("claude", "1.0.0"),))
    assert shop.install().installed.version == "1.0.0"
    assert asyncio.run(shop.installer.newest("claude")) == "1.0.0"


def test_a_company_may_give_the_package_another_name(shop: Shop) -> None:
    script = "#!/usr/bin/env node\nconsole.log('3.0.0')\n"
    shop.registry.publish("@company/pi", "3.0.0", {"dist/cli.js": script})
    shop.update = Update(packages=(("pi", "@company/pi"),))
    assert shop.install("pi").installed.version == "3.0.0"
    assert not any(PI in path for path, _ in shop.registry.log)


def evil(shop: Shop) -> tuple[str, Path]:
    """A script that leaves its mark inside, tries to leave one outside, and calls the registry."""
    outside = shop.home / "marker"
    call = f"require('http').get('{shop.registry.url}/called').on('error', () => {{}})"
    code = (
        "const fs = require('fs'); fs.writeFileSync('marker', process.env.CANARY || '');"
        f"try {{ fs.writeFileSync('{outside}', '') }} catch (e) {{}}; {call}"
    )
    return code, outside


@pytest.mark.parametrize("named", [False, True])
def test_scripts_run_only_where_named_and_then_behind_walls(
    shop: Shop, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, outside = evil(shop)
    tool = Program("tool", "node_modules/tool/run", scripts=named)
    files = {"run": "#!/bin/sh\necho 1\n", "evil.js": code}
    shop.registry.publish("tool", "1.0.0", files, scripts={"postinstall": "node evil.js"})
    monkeypatch.setattr(install, "program", lambda agent: tool)
    shop.environ = {"CANARY": CANARY}
    folder = shop.install("claude").installed.folder
    marker = folder / "node_modules/tool/marker"
    assert marker.exists() is named
    assert not named or marker.read_text() == ""
    assert not outside.exists()
    assert not any("called" in path for path, _ in shop.registry.log)


def test_the_program_is_tried_behind_walls(shop: Shop) -> None:
    outside = shop.home / "marker"
    script = f"#!/bin/sh\ntouch {outside} /ags/agent/marker; cat {shop.home}/.npmrc; echo 1\n"
    shop.registry.publish_claude("1.0.0", script=script)
    folder = shop.install().installed.folder
    assert not outside.exists() and not (folder / "marker").exists()


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n", "#!/no/such/program\n"]
)
def test_one_that_does_not_answer_leaves_the_old_one_current(stocked: Shop, script: str) -> None:
    stocked.registry.publish_claude("1.1.0", script=script)
    assert "use claude" in stocked.refused().what
    assert stocked.current().version == "1.0.0"
    assert programs.versions(stocked.state, "claude") == ("1.0.0",)


def test_a_package_that_is_not_the_announced_one_is_refused(stocked: Shop) -> None:
    stocked.registry.publish_claude("1.1.0")
    path = f"/{CLAUDE}-linux-{CPU}/-/claude-code-linux-{CPU}-1.1.0.tgz"
    stocked.registry.balls[path] = stocked.registry.balls[path.replace("1.1.0", "1.0.0")]
    assert "not what the registry announced" in stocked.refused().cause
    assert stocked.current().version == "1.0.0"


@pytest.mark.parametrize("source", ["git+https://x.invalid/y.git", "{url}/loose.tgz"])
def test_what_comes_from_elsewhere_than_the_registry_is_refused(shop: Shop, source: str) -> None:
    shop.registry.publish("helper", "1.0.0", {"index.js": "module.exports = 1"})
    shop.registry.balls["/loose.tgz"] = shop.registry.balls["/helper/-/helper-1.0.0.tgz"]
    shop.registry.publish_pi("1.0.0", needs={"helper": source.format(url=shop.registry.url)})
    shop.refused("pi")
    shop.registry.publish_pi("1.0.1", needs={"helper": "1.0.0"})
    assert shop.install("pi").new
