"""A real agent at work, against a scripted model, where nothing can leave.

Not a test by itself, since the programs must be there: `python -m tests.agents.real FOLDER` with
FOLDER/<agent> as npm installed it, in a network namespace that has only `lo`
(`unshare -n sh -c 'ip link set lo up; ...'`).
"""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ags.agents import agent, merge, prompt
from ags.agents.base import AGENT_DIR, Agent, Facts, Heard, Wish
from ags.backends import bwrap
from ags.hooks import managed
from tests.models import ModelServer, Request, Say, Script, Think, tools

HOME, WORK = "/home/person", "/home/person/project"
KEYS = {
    "claude": {"ANTHROPIC_API_KEY": "sk-ant-api03-" + "p" * 95},
    "codex": {"OPENAI_API_KEY": "sk-proj-" + "p" * 40},
    "gemini": {"GEMINI_API_KEY": "AIza" + "p" * 35},
    "opencode": {"ANTHROPIC_API_KEY": "sk-ant-api03-" + "p" * 95},
    "pi": {"ANTHROPIC_API_KEY": "sk-ant-api03-" + "p" * 95},
}
DENIED = {"decision": "deny", "reason": "the test forbids it"}


@dataclass(frozen=True)
class Performance:
    code: int
    out: str
    err: str
    heard: tuple[Heard, ...]
    requests: tuple[Request, ...]
    hooked: tuple[dict[str, Any], ...]

    @property
    def session(self) -> str:
        return next((each.session for each in self.heard if each.session), "")

    @property
    def failure(self) -> str | None:
        """As the run would have it: the last word counts."""
        said = [each.failure for each in self.heard if each.failure is not None]
        return said[-1] if said else None

    def told(self, kind: str) -> list[Mapping[str, object]]:
        return [s.fields for heard in self.heard for s in heard.said if s.kind == kind]


class Hooks:
    """Stands in for the hooks outside: notes what is asked, and denies what is forbidden."""

    def __init__(self, path: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        path.unlink(missing_ok=True)
        self._server = socketserver.ThreadingUnixStreamServer(str(path), self._handler())
        self._server.daemon_threads = True

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        asked = self.asked

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline()
                asked.append(json.loads(line))
                answer = DENIED if b"forbidden" in line else {"decision": "allow"}
                self.wfile.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")

        return Handler

    def __enter__(self) -> Hooks:
        threading.Thread(target=self._server.serve_forever, args=(0.05,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Stage:
    """One home and one workspace, which last from performance to performance."""

    def __init__(self, name: str, installed: Path, scratch: Path, **facts: object) -> None:
        self.agent: Agent = agent(name)
        self.home, self.work = scratch / "home", scratch / "work"
        told, python = prompt.text(allowed=("example.com",)), managed.interpreter().path
        self.facts = Facts(HOME, WORK, KEYS[name], told, python=python)
        self.facts = replace(self.facts, **facts)  # type: ignore[arg-type]
        self._installed, self._etc = installed, scratch / "etc"
        for folder in (self.home, self.work, self._etc):
            folder.mkdir(exist_ok=True)
        subprocess.run(("git", "init", "-q", self.work), check=True)
        self._socket = scratch / "inside.sock"
        self._nothing = scratch / "nothing"
        self._nothing.mkdir(exist_ok=True)
        (self._nothing / ".gitignore").touch()
        (self._nothing / "settings").write_text("{}\n")

    def play(self, script: Script, wish: Wish, timeout: float = 120) -> Performance:
        name = self.agent.name
        with ModelServer(tools.model(name, script)) as server, Hooks(self._socket) as hooks:
            self._prepare(server.url)
            wish = replace(wish, model=wish.model or tools.MODELS[name])
            if name == "codex":
                base = ("-c", f'openai_base_url="{server.url}/v1"')
                wish = replace(wish, arguments=(*wish.arguments, *base))
            command = self._command(self.agent.headless(wish), _pointed(name, server.url))
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
            )
            heard = tuple(self.agent.parse(line) for line in ended.stdout.splitlines())
            return Performance(
                ended.returncode,
                ended.stdout,
                ended.stderr,
                heard,
                tuple(server.requests),
                tuple(hooks.asked),
            )

    def _prepare(self, url: str) -> None:
        for file in self.agent.files(self.facts):
            path = self.home / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(merge.merged(path.read_text() if path.exists() else None, file))
        if self.agent.name == "pi":
            path = self.home / ".pi/agent/models.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"providers": {"anthropic": {"baseUrl": url}}}))
        for etc in self.agent.etc(self.facts):
            path = self._etc / etc.path.removeprefix("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(etc.text)

    def _command(self, argv: tuple[str, ...], extra: Mapping[str, str]) -> tuple[str, ...]:
        environment = {
            "HOME": HOME,
            "PATH": "/usr/bin:/bin",
            "TERM": "dumb",
            **self.facts.keys,
            **self.agent.environment(self.facts),
            **extra,
        }
        return (str(bwrap.wheel()), *self._mounts(), "--clearenv", *_set(environment), "--", *argv)

    def _mounts(self) -> Iterator[str]:
        yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent")
        yield from ("--uid", "1000", "--gid", "1000", "--new-session", "--proc", "/proc")
        yield from ("--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr")
        for link in ("bin", "lib", "lib64", "sbin"):
            yield from ("--symlink", f"usr/{link}", f"/{link}")
        for file in ("passwd", "group", "ssl", "alternatives", "ld.so.cache"):
            yield from ("--ro-bind-try", f"/etc/{file}", f"/etc/{file}")
        for each in self.agent.etc(self.facts):
            yield from ("--ro-bind", str(self._etc / each.path.removeprefix("/")), each.path)
        yield from ("--ro-bind", str(self._installed), AGENT_DIR)
        yield from ("--ro-bind", str(self._socket), str(managed.SOCKET))
        yield from ("--bind", str(self.home), HOME, "--bind", str(self.work), WORK)
        for name in () if self.facts.trusted else self.agent.settings:
            if (self.work / name).is_dir():
                yield from ("--ro-bind", str(self._nothing), f"{WORK}/{name}")
            elif (self.work / name).exists():
                yield from ("--ro-bind", str(self._nothing / "settings"), f"{WORK}/{name}")
        for own in self.agent.files(self.facts):
            if own.fixed:
                yield from ("--ro-bind", str(self.home / own.path), f"{HOME}/{own.path}")
        yield from ("--chdir", WORK)


def _set(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        yield from ("--setenv", name, value)


def _pointed(name: str, url: str) -> dict[str, str]:
    """To the scripted model, in place of the maker's."""
    provider = {"provider": {"anthropic": {"options": {"baseURL": f"{url}/v1"}}}}
    return {
        "claude": {"ANTHROPIC_BASE_URL": url},
        "gemini": {"GOOGLE_GEMINI_BASE_URL": url},
        "opencode": {"OPENCODE_CONFIG_CONTENT": json.dumps(provider)},
    }.get(name, {})


def first_turn(name: str) -> Script:
    """It thinks, writes a file, runs a command, is denied one, and has one fail."""
    return Script(
        (Think("Let me see."), Say("I write."), tools.write(name, f"{WORK}/hello.txt", "hi\n")),
        tools.run(name, "echo done > ran.txt; cat hello.txt"),
        tools.run(name, "touch forbidden.txt"),
        tools.run(name, "exit 3"),
        Say("All done."),
    )


def show(name: str, installed: Path) -> bool:
    """One after the other, what must be so; whether all of it is."""
    with tempfile.TemporaryDirectory() as scratch:
        stage = Stage(name, installed, Path(scratch))
        first = stage.play(first_turn(name), Wish("- make it so, 'quoted' and \"all\""))
        then = stage.play(
            Script(tools.run(name, "echo more > more.txt"), Say("More is done.")),
            Wish("go on", session=first.session),
        )
        files = {path.name for path in stage.work.iterdir()}
        seen = "".join(each.body.decode(errors="replace") for each in first.requests)
        checks = {
            "it ends well": (first.code, first.failure) == (0, ""),
            "it wrote and ran": {"hello.txt", "ran.txt"} <= files,
            "what hooks deny does not happen": "forbidden.txt" not in files,
            "hooks are asked before and after": len(first.hooked) >= 5,
            "the model saw the denial": "the test forbids it" in seen,
            "the model was told where it is": "made by ags" in seen,
            "the goal came whole": "make it so, 'quoted'" in seen,
            "it spoke": [m["text"] for m in first.told("message")] == ["I write.", "All done."],
            "calls and results": (len(first.told("tool_call")), len(first.told("tool_result"))),
            "file edits": [c["files"] for c in first.told("tool_call") if "files" in c],
            "results": [(r["ok"], r["output"]) for r in first.told("tool_result")],
            "thinking": [t["text"] for t in first.told("thinking")],
            "usage": first.told("usage"),
            "answer": [each.answer for each in first.heard if each.answer],
            "session": first.session,
            "it goes on": (then.code, then.failure, then.session == first.session),
            "it went on": "more.txt" in files,
            "it knows what was": any(b"hello.txt" in each.body for each in then.requests),
            "usage then": then.told("usage"),
            "routes": sorted({f"{each.method} {each.path}" for each in first.requests}),
        }
        for what, value in checks.items():
            print(f"  {what}: {value}")
        if False in checks.values():
            print(first.out, first.err, first.hooked, then.out, then.err, sep="\n---\n")
        return False not in checks.values()


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    fine = True
    for each in names or KEYS:
        print(each)
        fine &= show(each, Path(folder) / each)
    sys.exit(not fine)
