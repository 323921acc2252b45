"""The rules of bin/ags-test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ags.toolchains import STANDARD_PATH
from bootstrap import checks, packages
from bootstrap.packages import Need, find_program
from tests.people import ROOT

PASSES = "def test_passes(): pass\n"
NOT_RUN = {
    "skipped by a mark": "import pytest\n@pytest.mark.skip\ndef test_it(): pass\n",
    "skipped while running": "import pytest\ndef test_it(): pytest.skip('no')\n",
    "skipped as a file": "import pytest\npytest.skip('no', allow_module_level=True)\n",
    "skipped for want of a module": "import pytest\npytest.importorskip('no_such_module')\n",
    "expected to fail and not run": (
        "import pytest\n@pytest.mark.xfail(run=False)\ndef test_it(): pass\n"
    ),
}


def suite(directory: Path, *tests: str) -> Path:
    """A file for each under our conftest, and one that passes."""
    made = directory / "tests"
    shutil.copytree(ROOT / "tests", made, ignore=lambda _, names: set(names) - SUPPORT)
    for number, test in enumerate((PASSES, *tests)):
        (made / f"test_{number}.py").write_text(test)
    (directory / "pyproject.toml").write_text(
        f'[tool.pytest.ini_options]\npythonpath = [".", "{ROOT}", "{ROOT}/src"]\n'
    )
    return made


def session(suite: Path, ci: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """A whole run of pytest."""
    pytest_ = (sys.executable, "-I", "-m", "pytest", "-p", "no:cacheprovider")
    command = (*pytest_, *options, str(suite))
    env = {**os.environ, "CI": ci}
    done = subprocess.run(
        command, cwd=suite.parent, env=env, text=True, capture_output=True, check=False
    )
    return done.returncode, done.stdout


SUPPORT = {"conftest.py", "once.py", "people.py", "__init__.py"}


@pytest.mark.parametrize("test", NOT_RUN.values(), ids=NOT_RUN)
def test_a_test_that_does_not_run_fails_the_session_on_ci_and_is_named(
    tmp_path: Path, test: str
) -> None:
    code, output = session(suite(tmp_path, test), ci="true")
    assert code == 1
    assert "tests/test_1.py" in output.partition("which with CI=true is a failure")[2]


def test_side_by_side_each_of_them_is_named_as_well(tmp_path: Path) -> None:
    made = suite(tmp_path, *NOT_RUN.values())
    code, output = session(made, ci="true", options=checks.SIDE_BY_SIDE)
    assert code == 1
    named = output.partition("which with CI=true is a failure")[2]
    for number, how in enumerate(NOT_RUN, 1):
        assert f"tests/test_{number}.py" in named, how


def test_elsewhere_a_session_with_all_of_them_passes(tmp_path: Path) -> None:
    assert session(suite(tmp_path, *NOT_RUN.values()), ci="")[0] == 0


def test_a_session_in_which_all_runs_passes_on_ci(tmp_path: Path) -> None:
    expected = "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False\n"
    assert session(suite(tmp_path, expected), ci="true")[0] == 0


def test_the_other_checks_are_shown_above_the_counts_and_fail_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stages = (("bad", ("json.tool", "/no/such/file")), ("good", ("json.tool", "--help")))
    monkeypatch.setattr(checks, "STAGES", stages)
    monkeypatch.setattr(checks, "SIDE_BY_SIDE", ("--rootdir", tmp_path, suite(tmp_path, PASSES)))
    assert checks.everything(os.environ) == 1
    output = capfd.readouterr().out
    _, _, said = output.partition("other checks")
    assert re.search(r"No such file.*bad: FAILED.*good: ok.*2 passed", said, re.DOTALL)
    assert "2 passed" in output.splitlines()[-1]


def test_a_package_is_missing_only_if_what_it_is_needed_for_is() -> None:
    needs = (Need("nodejs", "node"), Need("libc6-dev", "/usr/include/stdio.h"))
    assert packages.missing(needs, {"node"}.__contains__) == ("libc6-dev",)


def test_commands_and_files_are_found_or_not_on_the_real_machine() -> None:
    assert packages.present("sh")
    assert packages.present("/usr/bin/python3*")
    assert not packages.present("no-such-command")
    assert not packages.present("/no/such/file")


def test_a_program_is_looked_for_where_a_sandbox_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every one that is needed: found on the caller's PATH alone, it is missing all the same."""
    assert packages.PROGRAM_FOLDERS == STANDARD_PATH
    for name in (*(need.proof for need in packages.NEEDS), "only-here"):
        if not name.startswith("/"):
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shutil.which("only-here") and not packages.present("only-here")
    monkeypatch.setattr(packages, "find_program", lambda name: find_program(name, ("/no/such",)))
    wanted = tuple(need.package for need in packages.NEEDS if not need.proof.startswith("/"))
    found = packages.missing(packages.NEEDS, packages.present)
    assert set(found) >= set(wanted) and "golang-go" in wanted


def test_a_link_to_where_no_sandbox_looks_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("#!/bin/sh\n")
    (tmp_path / "real").chmod(0o755)
    (tmp_path / "linked").symlink_to("real")
    (tmp_path / "good").symlink_to("/usr/bin/env")
    assert find_program("linked", (str(tmp_path),)) is None
    assert find_program("good", (str(tmp_path),)) == str(tmp_path / "good")


OWN_SEARCH = {
    "test_ags_test.py": "shows what a PATH has",
    "test_proc.py": "tests the search of ours",
    "bench/test_start.py": "needs any git",
    "bench/test_tunnel.py": "asks as the benchmark does",
    "tools/test_scripted.py": "tries what is in the tester's home",
}


def test_tests_look_programs_up_where_the_set_up_does() -> None:
    tests = ROOT / "tests"
    own = {
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        if "shutil.which(" in path.read_text() or "proc.find(" in path.read_text()
    }
    assert own == OWN_SEARCH.keys()


def test_a_test_named_from_another_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").touch()
    assert checks.from_root("test_x.py::test_y", tmp_path) == f"{tmp_path}/test_x.py::test_y"
    assert checks.from_root("-x", tmp_path) == "-x"
    assert checks.from_root("tests", ROOT) == "tests"


def test_ci_runs_exactly_the_test_command() -> None:
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec bin/ags-test"


def test_no_lock_file_names_a_place_to_get_packages_from() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lines = (ROOT / name).read_text().splitlines()
        assert all("://" not in line and "index" not in line for line in lines)
        pins = [line for line in lines if "==" in line]
        assert pins
        assert sum("--hash=sha256:" in line for line in lines) >= len(pins)
