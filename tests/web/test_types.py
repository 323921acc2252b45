"""The page's scripts have types, in their comments: a checker reads them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ags.server.page import FOLDER
from tests.web.packages import WANTED, modules

CONFIG = Path(__file__).parent / "tsconfig.json"


@pytest.fixture
def settings() -> dict[str, Any]:
    """As they are in the tree, for a place elsewhere: the types are beside the cached packages."""
    found: dict[str, Any] = json.loads(re.sub(r"(?m)^\s*//.*$", "", CONFIG.read_text()))
    for key in ("include", "exclude"):
        found[key] = [os.path.normpath(CONFIG.parent / each) for each in found[key]]
    types = found["compilerOptions"]["paths"]
    for name, (path,) in types.items():
        types[name] = [str(modules() / path)]
    return found


def checked(settings: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    tsc = modules() / "node_modules/.bin/tsc"
    return subprocess.run(
        (tsc, "--pretty", "false", "--project", folder), capture_output=True, text=True, timeout=300
    )


def test_the_types_of_the_page_fit_together(settings: dict[str, Any], tmp_path: Path) -> None:
    done = checked(settings, tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_type_that_does_not_fit_is_found(settings: dict[str, Any], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.js"
    wrong.write_text(
        f'// @ts-check\nimport {{ call }} from "{FOLDER}/api.js";\ncall("GET", 1);\n'
        'import { signal } from "@preact/signals";\nsignal("").value = 1;\n'
    )
    done = checked({**settings, "include": [str(wrong)]}, tmp_path)
    assert done.returncode != 0
    assert done.stdout.count("error TS2345") == 1 and done.stdout.count("error TS2322") == 1


def test_types_are_of_the_versions_that_the_page_brings_along() -> None:
    wanted = json.loads((WANTED / "package.json").read_text())["dependencies"]
    brought = tomllib.loads((FOLDER / "vendor" / "vendor.lock").read_text()).values()
    versions = {package["package"]: package["version"] for package in brought}
    assert versions.items() >= {
        (name, version) for name, version in wanted.items() if name in versions
    }
    assert {"preact", "htm", "@preact/signals", "@xterm/xterm"} <= wanted.keys() & versions.keys()
