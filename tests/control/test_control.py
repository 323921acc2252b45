"""Requests over the control socket: who may speak, what is answered, and what disturbs nobody."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ags.control import server, wire
from ags.control.client import ask
from ags.control.server import Control, Verb
from ags.errors import AgsError
from tests.control.scene import Raw, play, until
from tests.descriptors import held

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
NOBODY = 65534
Done = list[Mapping[str, object]]


def verbs(done: Done, go: asyncio.Event | None = None) -> dict[str, Verb]:
    """`slow` takes until `go`."""

    async def note(request: Mapping[str, object]) -> dict[str, object]:
        done.append(request)
        return {"count": len(done)}

    async def nothing(_: Mapping[str, object]) -> None:
        return None

    async def refuse(_: Mapping[str, object]) -> None:
        raise AgsError("stop the run", subject="fox", cause="it is done", hint="go", exit_code=7)

    async def fail(request: Mapping[str, object]) -> dict[str, object]:
        return {"a": request["absent"]}

    async def unspeakable(_: Mapping[str, object]) -> dict[str, object]:
        return {"a": object()}

    async def slow(request: Mapping[str, object]) -> None:
        assert go is not None
        await go.wait()
        done.append(request)

    return {
        "note": note,
        "nothing": nothing,
        "refuse": refuse,
        "fail": fail,
        "unspeakable": unspeakable,
        "slow": slow,
    }


def test_a_request_is_done_and_answered(tmp_path: Path) -> None:
    async def scene() -> None:
        done: Done = []
        control = await Control.open(tmp_path, verbs(done))
        assert await ask(tmp_path, "note", text="grüße\udc80", deep=[1, {"a": None}]) == {
            "count": 1
        }
        assert await ask(tmp_path, "nothing") == {}
        await control.close()
        assert done == [{"do": "note", "text": "grüße\udc80", "deep": [1, {"a": None}]}]

    play(scene())


def test_several_requests_go_over_one_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        control = await Control.open(tmp_path, verbs([]))
        with Raw(tmp_path) as client:
            await client.send(b'{"do": "note"}\n{"do": "note"}\n')
            assert await client.line() == {"ok": True, "count": 1}
            assert await client.line() == {"ok": True, "count": 2}
        await control.close()

    play(scene())


def test_a_refusal_arrives_in_its_own_words(tmp_path: Path) -> None:
    async def scene() -> None:
        control = await Control.open(tmp_path, verbs([]))
        with pytest.raises(AgsError) as caught:
            await ask(tmp_path, "refuse")
        await control.close()
        error = caught.value
        assert str(error) == "cannot stop the run (fox): it is done"
        assert (error.hint, error.exit_code) == ("go", 7)

    play(scene())


@pytest.mark.parametrize("verb", ["fail", "unspeakable"])
def test_a_fault_in_a_verb_is_told_and_reported_and_stays_there(tmp_path: Path, verb: str) -> None:
    async def scene() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        control = await Control.open(tmp_path, verbs([]))
        with pytest.raises(AgsError, match="a fault in ags"):
            await ask(tmp_path, verb)
        assert await ask(tmp_path, "note") == {"count": 1}
        await control.close()
        assert len(reported) == 1

    play(scene())


@pytest.mark.parametrize(
    ("request_line", "cause"),
    [
        (b"{}", "knows no such request"),
        (b'{"do": "nonsense"}', "knows no such request"),
        (b'{"do": ["note"]}', "knows no such request"),
        (b'{"do": "__class__"}', "knows no such request"),
        (b"", "Expecting value"),
        (b"[]", "not a JSON object"),
        (b'"note"', "not a JSON object"),
        (b'{"do": "note"', "Expecting"),
        (b"\xff\xfe\x00", "can't decode"),
        ('{"do": "note"}'.encode("utf-16"), "can't decode"),
        (b'{"do": "note", "a": NaN}', "is no number"),
        (b'{"do": "note", "a": ' + b"9" * 10_000 + b"}", "Exceeds the limit"),
        (b'{"a": ' + b"[" * 60_000, "nested too deeply"),
    ],
)
def test_what_is_no_request_is_answered_and_the_next_one_done(
    tmp_path: Path, request_line: bytes, cause: str
) -> None:
    async def scene() -> None:
        done: Done = []
        control = await Control.open(tmp_path, verbs(done))
        with Raw(tmp_path) as client:
            # A newline among the bytes of another encoding makes two lines of it.
            await client.send(request_line.replace(b"\n", b"") + b"\n")
            answer = await client.line()
            assert answer["ok"] is False and cause in str(answer["cause"])
            assert done == []
            await client.send(b'{"do": "note"}\n')
            assert await client.line() == {"ok": True, "count": 1}
        await control.close()

    play(scene())


def test_a_request_may_be_large_but_not_larger(tmp_path: Path) -> None:
    async def scene() -> None:
        done: Done = []
        control = await Control.open(tmp_path, verbs(done))
        with Raw(tmp_path) as client:
            await client.send(b'{"do": "note", "a": "' + b"x" * 65_000 + b'"}\n')
            assert await client.line() == {"ok": True, "count": 1}
            await client.send(b"x" * (wire.MOST_REQUEST + 10))
            assert "longer than 65536 bytes" in str((await client.line())["cause"])
            assert await client.closed()
        with pytest.raises(AgsError, match="longer than 65536 bytes"):
            await ask(tmp_path, "note", text="x" * 70_000)
        assert len(done) == 1
        await control.close()

    play(scene())


def test_a_client_that_is_slow_is_let_go_and_disturbs_nobody(tmp_path: Path) -> None:
    async def scene() -> None:
        control = await Control.open(tmp_path, verbs([]), patience=3)
        with Raw(tmp_path) as silent, Raw(tmp_path) as half, Raw(tmp_path) as deaf:
            await half.send(b'{"do": "no')
            await deaf.send(b'{"do": "no\xff"}\n' * 3000)
            assert await ask(tmp_path, "note") == {"count": 1}
            assert await silent.closed() and await half.closed() and await deaf.closed()
        await control.close()

    play(scene())


def test_many_connections_are_refused_beyond_a_number_and_come_back_later(tmp_path: Path) -> None:
    async def scene() -> None:
        control = await Control.open(tmp_path, verbs([]))
        crowd = [Raw(tmp_path) for _ in range(server.MOST_CLIENTS)]
        await until(lambda: len(control._clients) == server.MOST_CLIENTS, "all are there")
        with pytest.raises(AgsError, match="connections already"):
            await ask(tmp_path, "note")
        for each in crowd:
            each.socket.close()
        await until(lambda: not control._clients, "all are gone")
        answers = await asyncio.gather(*(ask(tmp_path, "note") for _ in range(50)))
        assert {answer["count"] for answer in answers} == set(range(1, 51))
        await control.close()

    play(scene())


def test_a_verb_runs_on_when_its_caller_leaves(tmp_path: Path) -> None:
    async def scene() -> None:
        done: Done = []
        go = asyncio.Event()
        control = await Control.open(tmp_path, verbs(done, go))
        with Raw(tmp_path) as client:
            await client.send(b'{"do": "slow"}\n')
            await until(lambda: bool(control._at_work), "it is at work")
        go.set()
        await until(lambda: bool(done), "done")
        await control.close()

    play(scene())


def test_a_verb_at_work_still_answers_when_all_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LAST_WORDS", 600.0)  # of which the idle one gets none

    async def scene() -> None:
        go = asyncio.Event()
        control = await Control.open(tmp_path, verbs([], go))
        asking = asyncio.create_task(ask(tmp_path, "slow"))
        with Raw(tmp_path) as idle:
            await until(lambda: bool(control._at_work), "it is at work")
            asyncio.get_running_loop().call_later(0.3, go.set)
            await control.close()
            assert await asking == {}
            assert await idle.closed()

    play(scene())


def test_the_socket_is_the_persons_alone_and_gone_afterwards(tmp_path: Path) -> None:
    async def scene() -> None:
        before = os.umask(0)
        control = await Control.open(tmp_path, {})
        os.umask(before)
        facts = (tmp_path / wire.SOCKET).lstat()
        assert stat.S_ISSOCK(facts.st_mode) and stat.S_IMODE(facts.st_mode) == 0o600
        await control.close()
        assert list(tmp_path.iterdir()) == []

    play(scene())


@pytest.mark.parametrize("left", ["socket", "file", "link", "half-made"])
def test_what_was_left_behind_is_replaced(tmp_path: Path, left: str) -> None:
    path = tmp_path / wire.SOCKET
    if left == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    elif left == "file":
        path.touch()
    elif left == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        socket.socket(socket.AF_UNIX).bind(f"{path}.new")

    async def scene() -> None:
        control = await Control.open(tmp_path, verbs([]))
        assert await ask(tmp_path, "note") == {"count": 1}
        await control.close()
        assert list(tmp_path.iterdir()) == []

    play(scene())


def test_closing_leaves_the_socket_of_a_successor_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        first = await Control.open(tmp_path, {})
        second = await Control.open(tmp_path, verbs([]))
        await first.close()
        assert await ask(tmp_path, "note") == {"count": 1}
        await second.close()

    play(scene())


def test_a_place_where_no_socket_can_be_is_an_error(tmp_path: Path) -> None:
    async def scene() -> None:
        with pytest.raises(AgsError, match="cannot open the control socket .*: no such file"):
            await Control.open(tmp_path / "absent", {})
        (tmp_path / wire.SOCKET).mkdir()
        with pytest.raises(AgsError, match="is a directory"):
            await Control.open(tmp_path, {})
        assert [each.name for each in tmp_path.iterdir()] == [wire.SOCKET]

    play(scene())


def test_a_run_that_is_not_at_work_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        for _ in range(2):
            with pytest.raises(AgsError) as caught:
                await ask(tmp_path, "note")
            assert (caught.value.cause, caught.value.hint) == (
                "it is not at work",
                "see `ags list`",
            )
            if not (tmp_path / wire.SOCKET).exists():
                socket.socket(socket.AF_UNIX).bind(str(tmp_path / wire.SOCKET))
        with pytest.raises(AgsError, match="it is not at work"):
            await ask(tmp_path / "absent", "note")

    play(scene())


def test_one_that_answers_nothing_or_nonsense_is_an_error(tmp_path: Path) -> None:
    async def scene() -> None:
        async def answer(data: bytes) -> Callable[[], None]:
            async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(data)
                writer.close()

            made = await asyncio.start_unix_server(serve, tmp_path / wire.SOCKET)
            return made.close

        for said, cause in (
            (b"", "it ended before it answered"),
            (b"what?\n", "cannot be read"),
            (b"x" * 2 * wire.MOST_ANSWER, "cannot be read"),
            (b"{}\n", "cannot do that"),
        ):
            close = await answer(said)
            with pytest.raises(AgsError, match=cause):
                await ask(tmp_path, "note")
            close()

    play(scene())


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    run_dir = tmp_path.joinpath(*["long-name-of-a-folder"] * 15)
    run_dir.mkdir(parents=True)
    assert len(str(run_dir)) > 300

    async def scene() -> None:
        control = await Control.open(run_dir, verbs([]))
        assert await ask(run_dir, "note") == {"count": 1}
        await control.close()
        assert list(run_dir.iterdir()) == []

    play(scene())


CLIENT = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(b'{"do": "note"}\\n')
print(client.makefile().readline())
"""


async def said_by(run_dir: Path, *prefix: str, user: int | None = None) -> str:
    """What another process is answered, over a socket that is open to everybody."""
    (run_dir / wire.SOCKET).chmod(0o777)
    program = sys.executable if user is None else "/usr/bin/python3"
    argv = (*prefix, program, "-I", "-S", "-c", CLIENT, str(run_dir / wire.SOCKET))
    run = await asyncio.to_thread(
        subprocess.run, argv, capture_output=True, text=True, user=user, cwd="/"
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@needs_root
def test_another_user_is_refused_by_who_they_are(world: Path) -> None:
    async def scene() -> None:
        done: Done = []
        run_dir = world / "open-to-all"
        run_dir.mkdir()
        run_dir.chmod(0o755)
        control = await Control.open(run_dir, verbs(done))
        assert "it belongs to another user" in await said_by(run_dir, user=NOBODY)
        assert done == []
        assert '"ok": true' in await said_by(run_dir)
        assert len(done) == 1
        await control.close()

    play(scene())


def test_the_same_user_in_a_sandbox_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        done: Done = []
        control = await Control.open(tmp_path, verbs(done))
        for unshare in (("--user",), ("--user", "--map-root-user"), ("--user", "--pid", "--fork")):
            answer = await said_by(tmp_path, "/usr/bin/unshare", *unshare)
            assert "does not listen to what runs in a sandbox" in answer
        assert done == []
        assert '"ok": true' in await said_by(tmp_path, "/usr/bin/env")
        assert len(done) == 1
        await control.close()

    play(scene())


@needs_root
def test_root_may_speak_to_an_ordinary_users_run(world: Path) -> None:
    run_dir = world / "of-nobody"
    run_dir.mkdir()
    os.chown(run_dir, NOBODY, NOBODY)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            asyncio.run(_serve_one(run_dir, writing))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"."
        assert asyncio.run(ask(run_dir, "note")) == {"count": 1}
    finally:
        os.close(reading)
        assert os.waitpid(child, 0)[1] == 0


async def _serve_one(run_dir: Path, writing: int) -> None:
    done: Done = []
    control = await Control.open(run_dir, verbs(done))
    os.write(writing, b".")
    await until(lambda: bool(done), "somebody asked")
    await control.close()


def test_the_patience_of_who_asks_is_also_for_being_let_in(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        deaf = stack.enter_context(socket.socket(socket.AF_UNIX))
        deaf.bind(str(tmp_path / wire.SOCKET))
        deaf.listen(0)
        with contextlib.suppress(BlockingIOError):  # as soon as its queue is full
            while True:
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(tmp_path / wire.SOCKET))
        before = held()
        with pytest.raises(AgsError, match="no answer came in 0.05 s"):
            asyncio.run(ask(tmp_path, "note", patience=0.05))
        assert held() == before
