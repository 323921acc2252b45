"""A person's machine with one real agent, whose model is a script, and no way to elsewhere.

It is as installed: an ordinary user with an ordinary home, who calls `bin/ags` of a checkout of
their own. State is in ~/.ags, settings are in ~/.config/ags, and no AGS_* variable is set.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ags import runs
from ags.runs import Run
from tests.internet.certificates import Authority
from tests.models import ModelServer, Script, tools
from tests.people import Person
from tests.real import installed
from tests.workspace.repositories import Checkout, checkout

TIMEOUT_S = 600.0


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
    person: Person
    project: Checkout
    script: Script
    server: ModelServer

    @property
    def maker(self) -> Maker:
        return MAKERS[self.agent]

    @property
    def home(self) -> Path:
        return self.person.home

    @property
    def state(self) -> Path:
        return self.home / ".ags"

    @property
    def settings(self) -> Path:
        return self.home / ".config" / "ags"

    @property
    def keys(self) -> dict[str, str]:
        """What the person exports for their agent."""
        return {self.maker.variable: self.maker.key}

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """`ags` at work; its standard input is empty."""
        self.hand_over()
        command = [str(self.person.checkout / "bin" / "ags"), *arguments]
        process = self.person.start(command, self.project.folder, self.keys)
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        return process

    def ags(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self.begin(*arguments) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT_S)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def hand_over(self) -> None:
        """Make the person own what the test has put into their home, the programs aside."""
        programs = self.state / "agents"
        person = self.person
        subprocess.run(
            ("find", person.home, "-path", programs, "-prune", "-o", "!", "-uid", str(person.uid),
             "-exec", "chown", "-h", f"{person.uid}:{person.gid}", "{}", "+"),
            check=True,
        )  # fmt: skip

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

    @property
    def own_files(self) -> list[Path]:
        """What AGS keeps, the agents' programs aside."""
        return [each for each in self.state.iterdir() if each.name != "agents"]

    def check_key_stayed_outside(self) -> None:
        """The model was sent it in its header; it is in no file of a run's and in no request."""
        maker = self.maker
        assert maker.sent in {each.header(maker.header) for each in self.server.requests}
        assert maker.key not in self.seen()
        assert holding(maker.key, self.project.folder, *self.own_files) == []

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
def staged(agent: str, programs: Path | None, person: Person) -> Iterator[Stage]:
    if programs is not None:
        installed.give(programs, agent, person)
    project = first_project(person)
    script, authority = Script(), Authority()
    host = MAKERS[agent].host
    with ModelServer(tools.model(agent, script), tls=identify(host, authority)) as server:
        made = Stage(agent, person, project, script, server)
        lead_there(made, authority, {host: server.port})
        yield made


def first_project(person: Person) -> Checkout:
    """A repository of the person's, with one file in it."""
    project = checkout(person.home / "project")
    # To git, the test is somebody else than the owner.
    trust = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory"}
    environment = {**project.environment, **trust, "GIT_CONFIG_VALUE_0": "*"}
    project = Checkout(project.folder, environment)
    project.write("a.txt", "one\n")
    project.commit("first")
    return project


def identify(host: str, authority: Authority) -> ssl.SSLContext:
    """For a server that speaks as this host, by an authority of the test's."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        file.write(authority.issue(host))
        file.flush()
        tls.load_cert_chain(file.name)
    return tls


def lead_there(stage: Stage, authority: Authority, ports: Mapping[str, int]) -> None:
    """By the person's policy, each of these hosts is a port of loopback."""
    (stage.home / "ca.pem").write_bytes(authority.certificate)
    stage.settings.mkdir(parents=True)
    ca = f"{stage.home}/ca.pem"
    upstreams = {
        host: {"address": "127.0.0.1", "port": port, "ca": ca} for host, port in ports.items()
    }
    (stage.settings / "policy.yaml").write_text(json.dumps({"upstreams": upstreams}))
