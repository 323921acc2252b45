"""With CI=true a test that does not run is a failed one; and the people who run ags in tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from bootstrap import install
from tests import people
from tests.once import once, removed
from tests.people import ROOT, Person

NOT_RUN = pytest.StashKey[list[str]]()
CHECKS = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutation", help="take out one protection (tests/attack/mutations.py)")


LONG = (
    "tests/real/test_headless.py", "tests/attack/test_mutations.py", "tests/faults/",
    "tests/real/", "tests/attack/egress/", "tests/web/",
)  # fmt: skip
"""Begun first, so that nobody is left alone with one of them at the end. Of those with real agents
one goes ahead of the others: it installs them, and the others would wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((n for n, at in enumerate(LONG) if at in item.nodeid), 9))


@pytest.fixture(autouse=True)
def _mutated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if name := request.config.getoption("--mutation"):
        from tests.attack.mutations import MUTATIONS

        MUTATIONS[name].apply(monkeypatch)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As shells have it for what they start aside; so would have it all that tests start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes says something about the machine, nothing about the code.
    hypothesis.settings.register_profile(
        "ags", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("ags")
    config.stash[NOT_RUN] = []
    config.stash[CHECKS] = os.environ.pop("AGS_CHECKS", "")  # not for sessions within tests
    config.pluginmanager.register(NotRun(config.stash[NOT_RUN]))
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(config))
    elif config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(Workers(config.stash[NOT_RUN]))


class NotRun:
    """Notes what was collected but not run, be it a test or a whole file."""

    def __init__(self, noted: list[str]) -> None:
        self.noted = noted

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        expected_failure = getattr(report, "wasxfail", None)
        if report.skipped and (expected_failure is None or "[NOTRUN]" in expected_failure):
            self.noted.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.noted.append(report.nodeid)


class Worker:
    """One of several processes that run tests: tells which files it left out, which nobody else
    would."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_sessionfinish(self) -> None:
        self._config.workeroutput["not_run"] = self._config.stash[NOT_RUN]  # type: ignore[attr-defined]


class Workers:
    """Hears what the others left out."""

    def __init__(self, noted: list[str]) -> None:
        self.noted = noted

    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {}).get("not_run", [])
        self.noted.extend(nodeid for nodeid in told if nodeid not in self.noted)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") == "true" and session.config.stash[NOT_RUN] and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if os.environ.get("CI") == "true" and config.stash[NOT_RUN]:
        terminalreporter.section("not run, which with CI=true is a failure", red=True)
        for nodeid in config.stash[NOT_RUN]:
            terminalreporter.line(nodeid)
    if checks := config.stash[CHECKS]:
        terminalreporter.section("other checks")
        terminalreporter.line(Path(checks).read_text().rstrip())  # waits for those at work


@pytest.fixture(scope="session")
def world() -> Iterator[Path]:
    """A directory that every user can reach, which those of pytest are not."""
    directory = Path(tempfile.mkdtemp(prefix="ags-test-", dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    removed(directory)


@pytest.fixture(scope="session")
def wheels() -> Iterator[Path]:
    """The pinned packages."""
    with once("wheels", _download, mode=0o755) as place:
        yield place


def _download(place: Path) -> None:
    command = (sys.executable, "-I", install.pip(), "download", *install.PINNED)
    subprocess.run(
        (*command, "-q", "-d", place, "-r", ROOT / "requirements.lock"),
        env=install.child_environment(os.environ),
        check=True,
    )


@pytest.fixture(scope="session")
def person_environment(wheels: Path) -> Mapping[str, str]:
    """A small environment, with the pinned packages at hand for all set-ups."""
    user = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
    return {
        **user,
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
    }


@pytest.fixture(scope="session")
def ordinary(world: Path, person_environment: Mapping[str, str]) -> Iterator[Person]:
    """An ordinary user whose own checkout is set up: a throw-away one if we are root, else we."""
    checkout = world / "ordinary"
    if os.geteuid() == 0:
        with people.throw_away_user(checkout, person_environment) as person:
            yield people.settled(person)
    else:
        yield people.settled(people.myself(checkout, person_environment))
