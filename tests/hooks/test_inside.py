"""What lives in a sandbox: the forwarder, the plugin and the extension, with real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from ags.hooks import managed, person, questions, wire
from ags.hooks.channel import Channel
from ags.hooks.decide import Bench, Decider
from ags.hooks.inside import forward
from ags.hooks.model import Ground
from ags.identity import resolve
from ags.model import Bind
from bootstrap.packages import find_program
from tests.box import Box, run_plan
from tests.hooks.test_person import nobody

PYTHON = managed.interpreter().path
GROUND = Ground("/work/space", "/home/me")


@contextlib.asynccontextmanager
async def listening(run_dir: Path, owner: int | None = None) -> AsyncIterator[list[object]]:
    noted: list[object] = []
    decider = Decider(Bench("run-1", GROUND, Path("/home/me")), noted.append, nobody)
    made = await Channel.open(run_dir, decider.hear, owner=owner)
    try:
        yield noted
    finally:
        await made.close()


def with_channel(run_dir: Path, work: Callable[[], None]) -> None:
    async def whole() -> None:
        async with listening(run_dir):
            await asyncio.to_thread(work)

    asyncio.run(whole())


def forwarded(
    path: Path, payload: bytes, agent: str = "claude", event: str = "PreToolUse"
) -> subprocess.CompletedProcess[bytes]:
    command = (PYTHON, "-I", "-S", forward.__file__, path, agent, event)
    return subprocess.run(command, input=payload, capture_output=True, timeout=120, check=False)


def bash(command: str) -> bytes:
    said = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": "/work/space"}
    return json.dumps(said, indent=2).encode()


def test_the_forwarder_says_what_was_decided_outside(tmp_path: Path) -> None:
    def work() -> None:
        socket = tmp_path / wire.SOCKET
        fine = forwarded(socket, bash("ls"))
        assert (fine.returncode, fine.stdout, fine.stderr) == (0, b"", b"")
        refused = forwarded(socket, bash("rm -rf /"))
        assert refused.returncode == 2 and b"guard" in refused.stderr
        told = forwarded(socket, bash("rm -rf /"), event="PostToolUse")
        assert (told.returncode, told.stderr) == (0, b"")
        gemini = bash("git push -f").replace(b"Bash", b"run_shell_command")
        assert forwarded(socket, gemini, "gemini", "BeforeTool").returncode == 2
        assert forwarded(socket, bash("ls"), "codex").returncode == 0

    with_channel(tmp_path, work)


@pytest.mark.parametrize("payload", [b"", b"{", b"null", b"\xff\xff", b"}", b"x" * 2_000_000])
def test_what_is_no_call_is_refused_by_the_forwarder(tmp_path: Path, payload: bytes) -> None:
    def work() -> None:
        found = forwarded(tmp_path / wire.SOCKET, payload)
        assert found.returncode == 2 and found.stderr.strip()

    with_channel(tmp_path, work)


def test_without_an_answer_it_is_a_no_but_never_to_stopping(tmp_path: Path) -> None:
    nobody = tmp_path / "none.sock"
    found = forwarded(nobody, bash("ls"))
    assert found.returncode == 2 and found.stderr.strip()
    assert forwarded(nobody, b"{}", event="Stop").returncode == 0
    (tmp_path / "file").write_text("")
    assert forwarded(tmp_path / "file", bash("ls")).returncode == 2
    bare = subprocess.run((PYTHON, "-I", "-S", forward.__file__), input=b"", check=False)
    assert bare.returncode == 2


def test_a_connection_that_closes_without_an_answer_is_a_no(tmp_path: Path) -> None:
    async def whole() -> None:
        async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_unix_server(close, tmp_path / "s")
        found = await asyncio.to_thread(forwarded, tmp_path / "s", bash("ls"))
        assert found.returncode == 2 and found.stderr.strip()
        server.close()

    asyncio.run(whole())


def test_the_forwarder_compares_with_the_very_bytes_of_a_yes() -> None:
    assert forward.ALLOW == wire.ALLOW
    assert forward.PATIENCE < managed.PATIENCE
    assert forward.MOST + 10_000 < wire.MOST_REQUEST


def test_it_works_in_a_real_sandbox_where_nothing_of_it_can_be_changed(tmp_path: Path) -> None:
    run_dir, workspace, home = tmp_path / "run", tmp_path / "space", tmp_path / "home"
    for folder in (run_dir, workspace, home):
        folder.mkdir()
    (tmp_path / "forward.py").write_bytes(managed.forwarder())
    (workspace / "fine").write_bytes(bash("ls"))
    (workspace / "bad").write_bytes(bash("rm -rf /"))
    python = managed.interpreter()
    command = managed.command("claude", "PreToolUse", python.path)
    script = (
        f"{command} < fine; echo $?; {command} < bad; echo $?\n"
        f"rm {managed.SOCKET}; mv {managed.SOCKET} /tmp/x; chmod 777 {managed.SOCKET}\n"
        f"echo 'exit 0' > {managed.FORWARD}; rm {managed.FORWARD}\n"
        f"{command} < bad; echo $?"
    )
    box = Box(workspace, home)
    binds = (
        Bind(run_dir / wire.SOCKET, managed.SOCKET),
        Bind(tmp_path / "forward.py", managed.FORWARD),
        *python.binds,
    )
    who = resolve(workspace.stat(), home)

    async def whole() -> None:
        async with listening(run_dir, who.host_uid) as noted:
            plan = box.plan("/bin/sh", "-c", script, binds=binds)
            found = await run_plan(box.backend, plan)
            assert found.out.split() == ["0", "2", "2"], found
            assert "guard" in found.err
            decisions = [each["decision"] for each in noted]  # type: ignore[index]
            assert decisions == ["allow", "deny", "deny"]
            assert (run_dir / wire.SOCKET).is_socket()

    asyncio.run(whole())


def test_the_system_is_asked_for_a_python_first_and_ours_is_mounted_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Path(managed.interpreter().path).is_relative_to("/usr")
    monkeypatch.setattr("ags.proc.find", lambda _: None)
    found = managed.interpreter()
    assert subprocess.run((found.path, "-I", "-S", "-c", "import _socket"), check=True)
    prefix = Path(sys.base_prefix).resolve()
    if not prefix.is_relative_to("/usr"):
        assert found.binds == (Bind(prefix, PurePosixPath(prefix)),)


def test_settings_name_the_forwarder_for_every_event() -> None:
    claude = json.loads(json.dumps(managed.claude_settings("/usr/bin/python3")))
    (group,) = claude["hooks"]["PreToolUse"]
    assert group["matcher"] == "*"
    assert group["hooks"][0]["command"].endswith("/ags/inside.sock claude PreToolUse")
    gemini = json.loads(json.dumps(managed.gemini_settings("/usr/bin/python3")))
    assert gemini["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"] == 1000 * managed.PATIENCE
    codex = tomllib.loads(managed.codex_requirements("/usr/bin/python3"))
    assert codex["hooks"]["managed_dir"] == "/ags/hooks"
    (before,) = codex["hooks"]["PreToolUse"]
    assert before["hooks"][0]["command"].endswith("codex PreToolUse")


def test_who_asks_waits_longer_than_who_is_asked() -> None:
    """Where an agent gives up first, it goes on as if nobody had said no."""
    answered = person.PATIENCE + questions.PATIENCE
    assert answered < forward.PATIENCE < managed.PATIENCE
    for source in (managed.plugin(), managed.extension()):
        assert f"const PATIENCE = {1000 * forward.PATIENCE:.0f}\n".encode() in source


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_forwarder_that_is_ended_says_no(tmp_path: Path, number: signal.Signals) -> None:
    with forwarding(tmp_path) as (process, link):
        process.send_signal(number)
        assert process.wait(120) == 2
        link.close()


def test_also_one_that_is_ended_while_it_says_so(tmp_path: Path) -> None:
    for milliseconds in range(30):
        with forwarding(tmp_path) as (process, link):
            link.close()
            time.sleep(milliseconds / 1000)
            process.terminate()
            assert process.wait(120) == 2
            assert process.stderr is not None and b"refused" in process.stderr.read()


@contextlib.contextmanager
def forwarding(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """One that listens to signals, and waits for an answer that does not come."""
    with socket.socket(socket.AF_UNIX) as silent:
        (folder / "s").unlink(missing_ok=True)
        silent.bind(str(folder / "s"))
        silent.listen()
        words = (PYTHON, "-I", "-S", forward.__file__, folder / "s", "claude", "PreToolUse")
        with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.close()
            with silent.accept()[0] as link:
                yield process, link


def node(folder: Path, source: bytes, socket: Path, script: str) -> list[str]:
    program = find_program("node")
    if program is None:
        pytest.skip("there is no node")
    text = source.decode().replace(str(managed.SOCKET), str(socket))
    (folder / "hook.mjs").write_text(text)
    (folder / "try.mjs").write_text(script)
    done = subprocess.run(
        (program, folder / "try.mjs"), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


OPENCODE = """
import { AGS } from "./hook.mjs"
const hooks = await AGS({ directory: "/work/space" })
async function before(tool, args) {
  try {
    await hooks["tool.execute.before"]({ tool, sessionID: "s", callID: "c" }, { args })
    console.log("ran")
  } catch (error) { console.log("refused: " + error.message) }
}
await before("bash", { command: "ls" })
await before("bash", { command: "rm -rf /" })
await before("write", { filePath: "/home/me/.bashrc", content: "x" })
await hooks["tool.execute.after"]({ tool: "write", args: { filePath: "a" } }, {})
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
await hooks.event({ event: { type: "message.updated" } })
"""

PI = """
import extension from "./hook.mjs"
const on = {}
extension({ on: (name, handler) => { on[name] = handler } })
async function call(toolName, input) {
  const found = await on.tool_call({ type: "tool_call", toolName, input }, { cwd: "/work/space" })
  console.log(found?.block ? "refused: " + found.reason : "ran")
}
await call("bash", { command: "ls" })
await call("bash", { command: "rm -rf /" })
await call("write", { path: "/home/me/.bashrc", content: "x" })
await on.tool_result({ toolName: "write", input: { path: "a" } }, {})
await on.agent_end({ messages: [] }, {})
"""


@pytest.mark.parametrize(
    ("source", "script"), [(managed.plugin, OPENCODE), (managed.extension, PI)]
)
def test_plugin_and_extension_ask_before_each_tool(
    tmp_path: Path, source: Callable[[], bytes], script: str
) -> None:
    def work() -> None:
        said = node(tmp_path, source(), tmp_path / wire.SOCKET, script)
        assert [line.partition(":")[0] for line in said] == ["ran", "refused", "refused"]
        assert "guard" in said[1]

    with_channel(tmp_path, work)
    nobody = node(tmp_path, source(), tmp_path / "none", script)
    assert all("cannot be asked" in line for line in nobody) and len(nobody) == 3
