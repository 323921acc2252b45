"""A person with npm settings of their own, the registry these name, and what they installed."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ags import programs
from ags.backends.bubblewrap import Bubblewrap
from ags.config.schema import Settings, Update
from ags.errors import AgsError
from ags.programs import Installed, Installer, Outcome
from tests.people import ROOT
from tests.programs.registry import Registry

CANARY = "canary-7d1f"


@dataclass
class Shop:
    """A person with npm settings of their own, and the registry these name."""

    registry: Registry
    home: Path
    state: Path
    told: list[str] = field(default_factory=list)
    update: Update = Update()
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def installer(self) -> Installer:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environ}
        settings = Settings(update=self.update)
        settings = replace(settings, limits=replace(settings.limits, disk_free=None))
        return Installer(environ, self.home, self.state, settings, Bubblewrap(), self.told.append)

    def install(self, agent: str = "claude", version: str = "") -> Outcome:
        return asyncio.run(self.installer.install(agent, version))

    def refused(self, agent: str = "claude", version: str = "") -> AgsError:
        with pytest.raises(AgsError) as caught:
            self.install(agent, version)
        assert self.left() == [], "nothing half-made stays"
        return caught.value

    def current(self, agent: str = "claude") -> Installed:
        found = programs.current(self.state, agent)
        assert found is not None
        return found

    def left(self) -> list[str]:
        return [path.name for path in self.state.glob("agents/*/.*") if path.name != ".lock"]

    def command(self, *arguments: str) -> tuple[tuple[str, ...], dict[str, str]]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "AGS_HOME": str(self.state)}
        argv = (sys.executable, "-m", "ags.cli.main", *arguments)
        return argv, env | {"PYTHONPATH": str(ROOT / "src")}
