"""Takes out one protection after another, runs the attacks, and demands that they then succeed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from ags.kernel import seccomp
from tests.attack.mutations import MUTATIONS

HERE = Path(__file__).parent
NOTICED = "test_a_missing_protection_is_noticed"


Ran = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def trials(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Ran]]]:
    """Those that were asked for, side by side: each is a process of its own anyway."""
    chosen = [
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == NOTICED
    ]
    # Most of what they do is to wait for what does not come.
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        yield {name: pool.submit(_trial, name) for name in chosen}
        pool.shutdown(cancel_futures=True)


def _trial(name: str) -> Ran:
    tests = [f"{HERE}/{test}" for test in MUTATIONS[name].noticed_by]
    enough = () if len(tests) > 1 else ("-x",)  # of one test for several people or cases
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider",
            "--mutation", name, *enough, *tests,
        ],
        cwd=HERE.parent.parent,
        env=os.environ | {"CI": ""},
        capture_output=True,
        text=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_protection_is_noticed(name: str, trials: dict[str, Future[Ran]]) -> None:
    mutation = MUTATIONS[name]
    run = trials[name].result()
    summary = run.stdout.strip().splitlines()[-1]
    assert run.returncode == 1, f"with {name!r} taken out nothing failed:\n{run.stdout}"
    assert " error" not in summary, f"not the attack but the test broke:\n{run.stdout}"
    failed = {
        line.split("::")[1].split(" ")[0]
        for line in run.stdout.splitlines()
        if line.startswith("FAILED")
    }
    for test in mutation.noticed_by:
        wanted = test.split("::")[1]
        assert any(each.startswith(wanted) for each in failed), (
            f"{test} noticed nothing:\n{run.stdout}"
        )


def test_every_group_of_the_filter_has_its_mutation() -> None:
    assert {f"filter: {group}" for group in seccomp.GROUPS} <= set(MUTATIONS)
