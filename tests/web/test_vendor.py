"""What others wrote and the page brings along: known, unchanged, and with its licence."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from ags.server.page import FOLDER, IMPORT_MAP

VENDOR = FOLDER / "vendor"
LOCK = VENDOR / "vendor.lock"
PERMISSIVE = {"MIT", "Apache-2.0", "BSD-3-Clause"}
IMPORTED = re.compile(
    r"""(?m)(?:^(?:import|export|\})[^"'`\n]*\bfrom|^import|\bimport\()\s*["'`]([^"'`\n]+)["'`]"""
)


def locked() -> dict[str, Any]:
    return tomllib.loads(LOCK.read_text())


def scripts() -> list[Path]:
    return [path for path in sorted(FOLDER.rglob("*.js")) if VENDOR not in path.parents]


def mapped() -> dict[str, str]:
    found = IMPORT_MAP.search((FOLDER / "index.html").read_bytes())
    assert found is not None
    imports: dict[str, str] = json.loads(found[1])["imports"]
    return imports


def test_every_vendored_file_is_the_one_that_was_locked() -> None:
    promised = {
        f"{folder}/{name}": sha256
        for folder, package in locked().items()
        for name, sha256 in package["sha256"].items()
    }
    there = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path != LOCK
    }
    assert there == promised


def test_every_vendored_package_names_its_version_and_brings_its_licence() -> None:
    for folder, package in locked().items():
        assert package["package"] and re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert package["licence"] in PERMISSIVE
        assert (VENDOR / folder / "LICENSE").stat().st_size > 500


def test_all_that_the_import_map_names_is_there() -> None:
    for address in mapped().values():
        assert (FOLDER / address.removeprefix("/")).is_file(), address


def test_the_page_imports_nothing_from_elsewhere() -> None:
    names = mapped()
    for path in scripts():
        for name in IMPORTED.findall(path.read_text()):
            is_ours = name.startswith(("./", "../")) and "://" not in name
            assert is_ours or name in names, f"{path.name} imports {name}"


def test_what_the_page_imports_of_its_own_is_there() -> None:
    for path in scripts():
        for name in IMPORTED.findall(path.read_text()):
            if name.startswith(".") and "$" not in name:
                assert (path.parent / name).resolve().is_file(), f"{path.name} imports {name}"


def test_every_script_of_the_page_has_its_types_checked() -> None:
    for path in scripts():
        assert path.read_text().startswith("// @ts-check\n"), path.name
        assert "@ts-nocheck" not in path.read_text(), path.name


def test_no_script_of_the_page_makes_html_of_text() -> None:
    ways = re.compile(
        r"innerHTML|outerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write"
        r"|DOMParser|createContextualFragment|srcdoc|\beval\(|new Function"
    )
    for path in scripts():
        assert not (found := ways.search(path.read_text())), f"{path.name}: {found}"


def test_no_file_of_the_page_outgrows_its_reader() -> None:
    for path in [*scripts(), *FOLDER.glob("*.css")]:
        assert len(path.read_text().splitlines()) <= 500, path.name
