"""Package tools are asked for their default: the person's own, and nothing that an agent wrote."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ags import toolchains
from ags.egress import tools
from ags.egress.tools import tool_defaults

SAYS = "echo https://packages.example/"


@pytest.fixture(autouse=True)
def no_tools_of_the_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only those that a test makes, and what a script needs."""
    bin_ = program(tmp_path / "system/sh", "").parent
    (bin_ / "sh").unlink()
    for name in ("sh", "env", "touch", "cat", "sleep", "python3"):
        (bin_ / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setattr(toolchains, "STANDARD_PATH", (str(bin_),))
    monkeypatch.setattr(tools, "TIMEOUT", 60.0)


def program(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def asked(home: Path, *path: Path, apart: tuple[Path, ...] = (), tool: str = "npm") -> list[str]:
    environ = {"HOME": str(home), "PATH": ":".join(map(str, path))}
    found = asyncio.run(tool_defaults((tool, "github"), environ, home, apart))
    assert found.keys() <= {tool}
    return [rule.host for each in found.values() for rule in each.rules]


@pytest.mark.parametrize(
    "folder",
    [
        ".nvm/versions/node/v20.0.0/bin", ".pyenv/shims", ".asdf/shims", ".volta/bin",
        ".local/share/mise/shims", ".local/bin",
    ],
)  # fmt: skip
def test_a_version_managers_tool_is_asked(home: Path, folder: str) -> None:
    program(home / folder / "npm", SAYS)
    assert asked(home, home / folder) == ["packages.example"]
    assert asked(home) == []


def test_a_tool_finds_its_interpreter_where_it_was_found(home: Path) -> None:
    folder = home / ".nvm/versions/node/v20.0.0/bin"
    program(folder / "node", SAYS)
    npm = program(folder / "npm", "")
    npm.write_text("#!/usr/bin/env node\n")
    assert asked(home, folder) == ["packages.example"]


def test_nothing_from_a_workspace_is_run(home: Path, tmp_path: Path) -> None:
    workspace, mark = home / "project", tmp_path / "ran"
    planted = program(workspace / "tools/npm", f"touch {mark}; {SAYS}")
    links = home / ".local/bin"
    links.mkdir(parents=True)
    (links / "npm").symlink_to(planted)
    (home / "way").symlink_to(workspace / "tools")
    for entry in (planted.parent, links, home / "way", Path("tools"), Path()):
        assert asked(home, entry, apart=(workspace,)) == []
    assert not mark.exists()
    assert asked(home, planted.parent) == ["packages.example"] and mark.exists()


@pytest.mark.parametrize("folder", ["env/bin", "node_modules/.bin"])
def test_what_was_made_for_any_project_is_passed_over(home: Path, folder: str) -> None:
    tool = program(home / "other" / folder / "npm", SAYS)
    (home / "other/env").mkdir(exist_ok=True)
    (home / "other/env/pyvenv.cfg").touch()
    assert asked(home, tool.parent) == []
    sound = program(home / "bin/npm", SAYS)
    assert asked(home, tool.parent, sound.parent) == ["packages.example"]


def test_a_workspace_that_holds_the_home_hides_no_tool(home: Path) -> None:
    tool = program(home / ".local/bin/npm", SAYS)
    assert asked(home, tool.parent, apart=(home, Path("/"))) == ["packages.example"]


def test_a_tool_is_asked_in_no_folder_of_the_persons_and_with_none_of_their_variables(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = program(home / ".local/bin/npm", f"pwd > {tmp_path}/where; env > {tmp_path}/env; {SAYS}")
    monkeypatch.chdir(home)
    monkeypatch.setenv("NODE_OPTIONS", "--require=/x")
    assert asked(home, tool.parent) == ["packages.example"]
    assert (tmp_path / "where").read_text() == "/\n"
    given = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert given["HOME"] == str(home) and "NODE_OPTIONS" not in given


def test_a_tool_has_no_network(home: Path, tmp_path: Path) -> None:
    seen = tmp_path / "interfaces"
    tool = program(home / ".local/bin/npm", f"cat /proc/self/net/dev > {seen}; {SAYS}")
    assert asked(home, tool.parent) == ["packages.example"]
    names = [line.split(":")[0].strip() for line in seen.read_text().splitlines()[2:]]
    here = os.listdir("/sys/class/net")
    assert names == ["lo"], here


def test_a_tool_that_hangs_or_fails_says_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = program(home / ".local/bin/npm", f"{SAYS}; sleep 600")
    with monkeypatch.context() as patch:
        patch.setattr(tools, "TIMEOUT", 0.5)
        assert asked(home, tool.parent) == []
    program(tool, f"{SAYS}; exit 1")
    assert asked(home, tool.parent) == []
    program(tool, SAYS)
    assert asked(home, tool.parent) == ["packages.example"]


def test_pip_is_asked_by_whichever_name_it_has(home: Path) -> None:
    said = "echo '-i, --index-url <url> Base URL (default https://packages.example/simple).'"
    tool = program(home / ".pyenv/shims/pip3", said)
    program(home / ".pyenv/shims/pip", "echo no version is chosen >&2; exit 127")
    assert asked(home, tool.parent, tool="pip") == ["packages.example"]
