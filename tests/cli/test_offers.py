"""A project that will want packages is told how to let runs have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.cli.test_policy import write


def started(desk: Desk, *flags: str) -> str:
    """What is said before the run; there is none, for its base does not exist."""
    said = desk.ags("start", "-a", "shell", *flags, "--base", "no-such-ref", "try", "true")
    assert said.code != 0
    return said.err


@pytest.fixture(autouse=True)
def in_the_project(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in place works wherever the test process is."""
    monkeypatch.chdir(desk.project.folder)


@pytest.fixture(autouse=True)
def nothing_of_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have settings of its own for these tools, which are of no matter here."""
    from ags.egress import registries

    given = registries.setting_files
    monkeypatch.setattr(
        registries,
        "setting_files",
        lambda tool, home, environ, root=Path("/"): given(tool, home, environ, home / "root"),
    )
    for name in ("NPM_CONFIG_REGISTRY", "npm_config_registry", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("files", "tools"),
    [
        (("package-lock.json",), "npm"),
        (("requirements.txt",), "pip"),
        (("poetry.lock", "yarn.lock"), "npm pip"),
    ],
)
def test_a_lock_file_brings_one_line_that_names_the_command(
    desk: Desk, files: tuple[str, ...], tools: str
) -> None:
    for file in files:
        (desk.project.folder / file).touch()
    said = started(desk)
    assert f"`ags policy add {tools}`" in said and said.count("policy add") == 1
    assert all(file in said for file in files)


def test_who_has_no_lock_file_is_told_nothing(desk: Desk) -> None:
    (desk.project.folder / "package-lock.json").mkdir()
    assert "policy add" not in started(desk)


@pytest.mark.parametrize(
    "policy",
    [
        "services: [npm]\n",
        "services: [npm: {access: none}]\n",
        "domains: [packages.example]\n",
    ],
)
def test_who_has_decided_is_not_told_again(desk: Desk, policy: str) -> None:
    (desk.project.folder / "package-lock.json").touch()
    (desk.home / ".npmrc").write_text("registry=https://packages.example/\n")
    assert "policy add npm" in started(desk)
    assert "policy add" not in started(desk, "--no-network")
    write(desk, policy)
    assert "policy add" not in started(desk)


def test_an_agent_at_the_terminal_brings_it_too(desk: Desk) -> None:
    (desk.project.folder / "uv.lock").touch()
    folder = str(desk.project.folder)
    said = desk.ags("--agent", "shell", "--name", "try", folder, "--", "-c", "true")
    assert "`ags policy add pip`" in said.err
