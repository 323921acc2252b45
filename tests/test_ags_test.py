"""The rules of bin/ags-test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import checks, packages
from bootstrap.packages import Need
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
