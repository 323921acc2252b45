"""Takes out one protection after another, runs the attacks, and demands that they then succeed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from ags.kernel import seccomp
from tests.attack.mutations import MUTATIONS
from tests.people import ROOT

NOTICED = "test_a_missing_protection_is_noticed"


@pytest.fixture(scope="module")
def trials(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[dict[str, Any]]]]:
    """Those that were asked for, several at a time."""
    chosen: dict[str, Future[dict[str, Any]]] = {
        str(item.callspec.params["name"]): Future()
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == NOTICED
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.attack.trials", *chosen],
        cwd=ROOT,
        env=os.environ | {"CI": ""},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        hearer = threading.Thread(target=_hear, args=(process, chosen))
        hearer.start()
        try:
            yield chosen
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            hearer.join()


def _hear(process: subprocess.Popen[str], chosen: dict[str, Future[dict[str, Any]]]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        chosen[told["name"]].set_result(told)
    for trial in chosen.values():
        if not trial.done():
            trial.set_exception(EOFError("the process of all trials ended early"))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_protection_is_noticed(
    name: str, trials: dict[str, Future[dict[str, Any]]]
) -> None:
    mutation = MUTATIONS[name]
    trial = trials[name].result()
    said = trial["said"]
    assert trial["status"] == 1, f"with {name!r} taken out nothing failed:\n{said}"
    assert " error" not in said.strip().splitlines()[-1], (
        f"not the attack but the test broke:\n{said}"
    )
    failed = {
        line.split("::")[1].split(" ")[0] for line in said.splitlines() if line.startswith("FAILED")
    }
    for test in mutation.noticed_by:
        wanted = test.split("::")[1]
        assert any(each.startswith(wanted) for each in failed), f"{test} noticed nothing:\n{said}"


def test_every_group_of_the_filter_has_its_mutation() -> None:
    assert {f"filter: {group}" for group in seccomp.GROUPS} <= set(MUTATIONS)
