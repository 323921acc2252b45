"""Runs commands in a sandbox behind the fence, whose way out is the fake internet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.internet import Internet
from tests.internet.world import ENVIRONMENT, ROOT

DRIVER = (sys.executable, "-m", "tests.egress.fenced")
PATHS = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
PATIENCE = 600.0


@dataclass(frozen=True)
class Outcome:
    """What the command said, and what the fence noted of it."""

    code: int
    out: str
    err: str
    audit: tuple[Mapping[str, Any], ...]
    broken: str
    """Why the policy could not be read."""
    log: str
    """What the fence's own process said."""

    @property
    def reasons(self) -> list[str]:
        """Of all that was refused or failed, in order."""
        return [line["reason"] for line in self.audit if line["reason"] != "allowed"]


class Running:
    """A command behind the fence that is still at work. `driver` is the fence's own process."""

    def __init__(self, driver: subprocess.Popen[str]) -> None:
        self.driver = driver

    def ended(self, timeout: float = PATIENCE) -> Outcome:
        out, err = self.driver.communicate(timeout=timeout)
        assert self.driver.returncode == 0, err
        return Outcome(**json.loads(out), log=err)


@contextmanager
def started(
    world: Internet,
    command: Sequence[str],
    policy: str | Path,
    *,
    workspace: Path | None = None,
    bwrap: str | None = None,
    mutation: str | None = None,
    **told: Any,
) -> Iterator[Running]:
    """A policy is its text, or the file that has it. For what else can be told see `behind`."""
    with tempfile.TemporaryDirectory(prefix="ags-behind-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        told |= {"workspace": str(workspace or _workspace(folder)), "command": list(command)}
        told |= {"policy": str(_policy(folder, policy)), "roots": [world.ca_file.read_text()]}
        told |= {"bwrap": bwrap, "mutation": mutation}
        driver = subprocess.Popen(
            world.command(DRIVER),
            env=ENVIRONMENT | PATHS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert driver.stdin is not None
            with driver.stdin as stdin:
                json.dump(told, stdin)
            driver.stdin = None  # or `communicate` would flush what is closed
            yield Running(driver)
        finally:
            driver.kill()
            driver.wait()


def behind(
    world: Internet,
    command: Sequence[str],
    policy: str | Path,
    *,
    secrets: Mapping[str, str] | None = None,
    injections: Sequence[Mapping[str, object]] = (),
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
    **given: Any,
) -> Outcome:
    """To its end. Inside, each secret's name is a variable that holds its placeholder.

    `settings` are constants of AGS to change, such as `egress.connection.FIRST`.
    """
    given |= {"secrets": dict(secrets or {}), "injections": [dict(each) for each in injections]}
    given |= {"environment": dict(environment or {}), "settings": dict(settings or {})}
    with started(world, command, policy, **given) as running:
        return running.ended()


def _workspace(folder: Path) -> Path:
    """The driver takes `home` beside it for the person's."""
    for name in ("workspace", "home"):
        (folder / name).mkdir()
    return folder / "workspace"


def _policy(folder: Path, policy: str | Path) -> Path:
    if isinstance(policy, Path):
        return policy
    file = folder / "policy.yaml"
    file.write_text(policy)
    os.chmod(file, 0o600)
    return file
