"""A person's machine with one real agent, whose model is a script, and no way to elsewhere."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ags import runs
from ags.runs import Run
from tests.internet.certificates import Authority
from tests.models import ModelServer, Script, tools
from tests.people import ROOT
from tests.real import installed
from tests.workspace.repositories import Checkout, checkout

PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Maker:
    """Where an agent's model is, and how its key comes there."""

    host: str
    variable: str
    key: str
    header: str
    sent: str


def _maker(host: str, variable: str, key: str, header: str, template: str = "{}") -> Maker:
    return Maker(host, variable, key, header, template.format(key))


ANTHROPIC = _maker(
    "api.anthropic.com", "ANTHROPIC_API_KEY", "sk-ant-api03-" + "R" * 93 + "AA", "x-api-key"
)
OPENAI = _maker(
    "api.openai.com", "OPENAI_API_KEY", "sk-proj-" + "R" * 48, "authorization", "Bearer {}"
)
GOOGLE = _maker(
    "generativelanguage.googleapis.com", "GEMINI_API_KEY", "AIza" + "R" * 35, "x-goog-api-key"
)
MAKERS = {
    "claude": ANTHROPIC,
    "codex": OPENAI,
    "gemini": GOOGLE,
    "opencode": ANTHROPIC,
    "pi": ANTHROPIC,
}


@dataclass(frozen=True, slots=True)
class Stage:
    agent: str
    place: Path
    project: Checkout
    script: Script
    server: ModelServer

    @property
    def maker(self) -> Maker:
        return MAKERS[self.agent]

    @property
    def state(self) -> Path:
        return self.place / "state"

    @property
    def settings(self) -> Path:
        return self.place / "home" / ".config" / "ags"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.place / "home"),
            "AGS_HOME": str(self.state),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT / "src"),
            **self.keys,
        }

    @property
    def keys(self) -> dict[str, str]:
        """What the person exports for their agent."""
        return {self.maker.variable: self.maker.key}

    def ags(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "ags.cli.main", *arguments),
            cwd=self.project.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def start(self, name: str, goal: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return self.ags("start", name, goal, "--agent", self.agent, *self.model, *flags)

    @property
    def model(self) -> tuple[str, ...]:
        wanted = tools.MODELS[self.agent]
        return ("--model", wanted) if wanted else ()

    def write(self, path: str, text: str, run: str = "try") -> Any:
        """A call of the tool that writes a file, in the run's workspace."""
        return tools.write(self.agent, str(self.state / "worktrees" / run / path), text)

    def run(self, command: str) -> Any:
        return tools.run(self.agent, command)

    def run_dir(self, name: str = "try") -> Path:
        return (self.state / "names" / name).resolve()

    def record(self, name: str = "try") -> Run:
        return runs.load(self.run_dir(name))

    def events(self, kind: str, name: str = "try") -> list[dict[str, Any]]:
        # By line feeds alone: what an agent says may hold other ends of lines.
        lines = (self.run_dir(name) / "events.jsonl").read_bytes().splitlines()
        return [told for told in map(json.loads, lines) if told["kind"] == kind]

    def refused(self, name: str = "try") -> set[str]:
        """Hosts that the run asked for in vain."""
        lines = (self.run_dir(name) / "egress.jsonl").read_text().splitlines()
        return {told["host"] for told in map(json.loads, lines) if not told["allowed"]}

    def on_branch(self, path: str, name: str = "try") -> str:
        return self.project.git("show", f"agent--{name}:{path}").decode()

    def seen(self) -> str:
        """All that the model was sent."""
        return "\n".join(each.body.decode(errors="replace") for each in self.server.requests)

    def told(self, name: str = "try") -> str:
        """For a failed test."""
        return self.ags("logs", name).stdout + (self.run_dir(name) / "supervisor.log").read_text()


@dataclass(frozen=True, slots=True)
class LoggedIn(Stage):
    """With a subscription, and so without a key."""

    @property
    def keys(self) -> dict[str, str]:
        return {}

    def secrets(self) -> list[str]:
        """Of all tokens that there ever were, what is in no stand-in."""
        raise NotImplementedError

    def check_tokens_stayed_outside(self) -> None:
        """In no file of a run's, and in nothing that the model was sent but the header."""
        own = [each for each in self.state.iterdir() if each.name not in ("agents", "logins")]
        for secret in self.secrets():
            assert holding(secret, self.project.folder, *own) == []
            assert secret not in self.seen()


def holding(text: str, *folders: Path) -> list[Path]:
    """Files that have it anywhere in them."""
    wanted = text.encode()
    files = (path for folder in folders for path in folder.rglob("*"))
    return [path for path in files if _plain(path) and wanted in path.read_bytes()]


def _plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@contextmanager
def staged(agent: str, programs: Path | None, place: Path) -> Iterator[Stage]:
    (place / "home").mkdir()
    if programs is not None:
        installed.give(programs, agent, place / "state")
    project = checkout(place / "project")
    project.write("a.txt", "one\n")
    project.commit("first")
    script = Script()
    with ModelServer(tools.model(agent, script), tls=_identified(agent, place)) as server:
        made = Stage(agent, place, project, script, server)
        _lead_there(made)
        yield made


def _identified(agent: str, place: Path) -> ssl.SSLContext:
    """As the maker's host, by an authority of this test's."""
    authority = Authority()
    (place / "ca.pem").write_bytes(authority.certificate)
    (place / "host.pem").write_bytes(authority.issue(MAKERS[agent].host))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(place / "host.pem")
    return tls


def _lead_there(stage: Stage) -> None:
    stage.settings.mkdir(parents=True)
    upstream = {"address": "127.0.0.1", "port": stage.server.port, "ca": f"{stage.place}/ca.pem"}
    policy = {"upstreams": {stage.maker.host: upstream}}
    (stage.settings / "policy.yaml").write_text(json.dumps(policy))
