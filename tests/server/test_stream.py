"""A run's events over a real socket: in order, once each, whatever happens on the way."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from ags import runs
from ags.errors import AgsError
from ags.events import Writer
from ags.runs import Run
from ags.server import stream
from ags.server.auth import Keys
from ags.server.log import Log
from ags.server.state import State
from ags.server.stream import EventStream
from tests.faults.conftest import workshop as workshop
from tests.faults.workshop import Workshop
from tests.server.conftest import Server, serving
from tests.server.listening import Listener, deaf, eventually, listening, memory

TALKS = 'for n in $(seq 1 300); do echo "line $n"; done'
HOLDS = "echo begun; while ! [ -e go ]; do sleep 0.05; done; echo went on"


@pytest.fixture
def served(workshop: Workshop, request: pytest.FixtureRequest) -> Iterator[Server]:
    """And what runs at the end of a test is ended in order."""
    with serving(workshop.place, first=getattr(request, "param", "")) as server:
        yield server
    rest(workshop)


NO_BEATS = (
    "from ags.server import stream, terminal\n"
    "terminal.BEAT = stream.EventStream.__init__.__kwdefaults__['beat'] = 600.0"
)
"""As long as anybody waits here, no beat has the server look who is still there."""


def rest(workshop: Workshop) -> None:
    engine = workshop.engine()
    for each in engine.listing().runs:
        if each.state not in runs.FINAL:
            with contextlib.suppress(AgsError):
                workshop.does(engine.stop(each.name, at_once=True))


def let_go(workshop: Workshop, run: Run) -> None:
    """What HOLDS waits for."""
    folder = workshop.load(run).workspace
    assert folder is not None
    (folder / "go").touch()


def said(listener: Listener) -> list[str]:
    """Ids of all events, to the end of the stream."""
    return [message.id for message in listener if message.id]


def test_all_lines_come_in_order_and_then_the_end(workshop: Workshop, served: Server) -> None:
    run = workshop.start(goal=TALKS)
    with listening(served, f"/runs/{run.name}/stream") as listener:
        assert listener.status == 200
        assert listener.response.headers["content-type"].startswith("text/event-stream")
        messages = list(listener)
    *events, last = messages
    assert [int(each.id) for each in events] == list(range(1, len(events) + 1))
    printed = [each.json()["text"] for each in events if each.event == "output"]
    assert printed == [f"line {n}" for n in range(1, 301)]
    assert all(str(each.json()["seq"]) == each.id for each in events)
    assert (last.event, last.id, last.json()) == ("end", "", {"state": "done"})


def test_a_stream_goes_on_after_the_last_event_that_was_seen(
    workshop: Workshop, served: Server
) -> None:
    run = workshop.ended(workshop.start(goal=TALKS))
    path = f"/runs/{run.id}/stream"
    with listening(served, path) as listener:
        whole = said(listener)
    with listening(served, path, {"Last-Event-ID": "100"}) as listener:
        assert said(listener) == whole[100:]
    with listening(served, f"{path}?after=250") as listener:
        assert said(listener) == whole[250:]
    # A browser that comes again sends the header beside the address it had at first.
    with listening(served, f"{path}?after=1", {"Last-Event-ID": "250"}) as listener:
        assert said(listener) == whole[250:]


def test_an_event_that_cannot_be_meant_is_refused(workshop: Workshop, served: Server) -> None:
    run = workshop.ended(workshop.start(goal="true"))
    for bad in ("x", "-1", "1.5", "", "9" * 19, "1e3", "٣"):
        header = {"Last-Event-ID": bad.encode().decode("latin-1")}
        answer = served.call("GET", f"/runs/{run.name}/stream", headers=header)
        assert answer.status == 422, bad
        assert answer.headers["content-type"] == "application/problem+json"
    assert (
        served.call("GET", f"/runs/{run.name}/stream", headers={"Last-Event-ID": "0"}).status == 200
    )


def test_a_run_that_is_not_there_has_no_stream(served: Server) -> None:
    for name in ("nobody", "0" * 20, "..", "a%20b"):
        assert served.call("GET", f"/runs/{name}/stream").status in (400, 404)


def test_one_who_is_ahead_of_the_log_waits_for_what_comes_then(
    workshop: Workshop, served: Server
) -> None:
    run = workshop.start(goal=HOLDS)
    with listening(served, f"/runs/{run.name}/stream") as first:
        begun = first.until(lambda each: each.event == "output")
        with listening(
            served, f"/runs/{run.name}/stream", {"Last-Event-ID": str(int(begun.id) + 1)}
        ) as ahead:
            let_go(workshop, run)
            all_of_it, later = said(first), said(ahead)
    assert later == all_of_it[1:]


def test_a_stream_outlives_nothing_but_misses_nothing_when_the_server_is_killed(
    workshop: Workshop,
) -> None:
    run = None
    got: list[str] = []
    goal = 'for n in $(seq 1 200); do echo "line $n"; sleep 0.02; done'
    with serving(workshop.place) as first:
        run = workshop.start(goal=goal)
        with listening(first, f"/runs/{run.name}/stream") as listener:
            for _ in range(30):
                message = listener.next()
                assert message is not None
                got.append(message.id)
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait()
    with (
        serving(workshop.place) as second,
        listening(second, f"/runs/{run.name}/stream", {"Last-Event-ID": got[-1]}) as listener,
    ):
        messages = list(listener)
    got += [each.id for each in messages if each.id]
    assert [int(each) for each in got] == list(range(1, len(got) + 1))
    assert messages[-1].json() == {"state": "done"}
    assert len(workshop.events(run)) == len(got)


def test_a_run_that_is_begun_anew_goes_on_in_the_same_numbers(
    workshop: Workshop, served: Server
) -> None:
    run = workshop.ended(workshop.start(goal="echo once"))
    before = workshop.events(run)[-1].seq
    workshop.restarted(run)
    with listening(served, f"/runs/{run.name}/stream", {"Last-Event-ID": str(before)}) as listener:
        messages = list(listener)
    assert messages[0].id == str(before + 1)
    assert "once" in {each.json().get("text") for each in messages}
    assert messages[-1].event == "end"


def test_a_run_whose_supervisor_is_killed_is_told_as_interrupted(
    workshop: Workshop, served: Server
) -> None:
    run = workshop.start(goal=HOLDS)
    with listening(served, f"/runs/{run.name}/stream") as listener:
        listener.until(lambda each: each.event == "output")
        workshop.kill_supervisor(run)
        last = listener.until(lambda each: not each.id)
    assert (last.event, last.json()) == ("end", {"state": "interrupted"})


def test_a_run_that_is_removed_meanwhile_is_told_as_gone(
    workshop: Workshop, served: Server
) -> None:
    run = workshop.start(goal=HOLDS)
    with listening(served, f"/runs/{run.name}/stream") as listener:
        listener.until(lambda each: each.event == "output")
        # By one who holds its lock, so that nobody sees it ended before it is gone.
        os.rename(workshop.run_dir(run), workshop.ags_home / "runs" / f".old-{run.id}")
        last = listener.until(lambda each: not each.id)
        assert (last.event, last.json()) == ("gone", {"id": run.id})
        os.rename(workshop.ags_home / "runs" / f".old-{run.id}", workshop.run_dir(run))


def test_one_who_never_reads_slows_nobody_and_costs_no_memory(
    workshop: Workshop, served: Server
) -> None:
    goal = "echo begun; while ! [ -e go ]; do sleep 0.05; done; seq -f '%030g' 1 20000"
    run = workshop.start(goal=goal)
    path = f"/runs/{run.name}/stream"
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening(served, path))
        listener.until(lambda each: each.event == "output")
        for _ in range(20):
            stack.enter_context(deaf(served, path))
        eventually("21 streams", lambda: "ags_streams_open 21\n" in metrics(served))
        before = memory(served.process.pid)
        let_go(workshop, run)
        printed = [each.json()["text"] for each in listener if each.event == "output"]
        grown = memory(served.process.pid) - before
    assert printed == [f"{n:030}" for n in range(1, 20_001)]
    assert workshop.ended(run).state == "done"
    # All of it is 3 MiB and more for each; what waits is a piece, and what a transport may hold.
    assert grown < 15 * 2**20, f"{grown / 2**20:.1f} MiB"


def metrics(server: Server) -> str:
    return server.call("GET", "//metrics").text


def test_two_hundred_streams_are_served_at_once(workshop: Workshop, served: Server) -> None:
    run = workshop.start(goal=HOLDS)
    path = f"/runs/{run.name}/stream"
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(listening(served, path)) for _ in range(200)]
        for each in listeners:
            each.until(lambda message: message.event == "output")
        let_go(workshop, run)
        ids = {tuple(said(each)) for each in listeners}
    assert len(ids) == 1
    assert served.threads() == 1
    eventually("all streams closed", lambda: "ags_streams_open 0\n" in metrics(served))


def test_there_are_only_so_many_streams(workshop: Workshop, served: Server) -> None:
    run = workshop.start(goal=HOLDS)
    path = f"/runs/{run.name}/stream"
    with contextlib.ExitStack() as stack:
        for _ in range(stream.MOST_STREAMS):
            assert stack.enter_context(listening(served, path)).status == 200
        refused = served.call("GET", path)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert refused.headers["content-type"] == "application/problem+json"
        assert served.call("GET", "/stream").status == 503
        assert served.call("GET", "/health").status == 200
    eventually("there is room again", lambda: "ags_streams_open 0\n" in metrics(served))
    with listening(served, path) as listener:
        assert listener.status == 200
        let_go(workshop, run)
        assert said(listener)


def test_a_server_that_is_told_to_end_ends_its_streams(workshop: Workshop, served: Server) -> None:
    run = workshop.start(goal=HOLDS)
    with (
        listening(served, f"/runs/{run.name}/stream") as listener,
        listening(served, "/stream") as board,
    ):
        listener.until(lambda each: each.event == "output")
        board.until(lambda each: each.event == "snapshot")
        served.process.terminate()
        assert all(message.event != "end" for message in listener)
        assert served.process.wait(60) == 0
    assert workshop.load(run).state == "running"


@pytest.mark.parametrize("served", [NO_BEATS], indirect=True)
def test_who_logs_out_ends_their_streams_and_no_others(workshop: Workshop, served: Server) -> None:
    run = workshop.start(goal=HOLDS)
    session = Keys(served.ags_home).session_for(Keys(served.ags_home).new_code())
    assert session
    path = f"/runs/{run.name}/stream"
    with (
        listening(served, path, token=session) as mine,
        listening(served, "/stream", token=session) as board,
        listening(served, path) as other,
    ):
        for each in (mine, other):
            each.until(lambda message: message.event == "output")
        board.until(lambda message: message.event == "snapshot")
        assert served.call("DELETE", "/session", token=session).status == 204
        assert all(message.event != "end" for message in mine)
        assert all(message.event != "end" for message in board)
        let_go(workshop, run)
        assert "went on" in [message.json().get("text") for message in other]
    with listening(served, path, token=session) as again:
        assert again.status == 401


# A server within the test, for what takes long in the real one


@contextlib.asynccontextmanager
async def small(app: object) -> AsyncIterator[int]:
    """An application on a loopback port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http="h11", lifespan="off", log_config=None)  # type: ignore[arg-type]
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


def state_in(folder: Path) -> State:
    (folder / "ags" / "server").mkdir(parents=True)
    return State({}, folder, folder / "ags", Log("json", os.open(os.devnull, os.O_WRONLY)))


def known(scope: Scope, state: State) -> Scope:
    """As the gate would hand it on."""
    return {**scope, "ags.token": state.keys.master()}


def test_a_stream_ends_when_another_process_ended_its_session(tmp_path: Path) -> None:
    async def scene() -> None:
        state = state_in(tmp_path)
        mine, theirs = (state.keys.session_for(state.keys.new_code()) for _ in range(2))
        assert mine and theirs

        async def source() -> AsyncGenerator[list[bytes], None]:
            while True:  # never silent, so that there is no beat to be sent
                yield [stream.message("1", "output", b"{}")]
                await asyncio.sleep(0.02)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            token = mine if scope["path"] == "/mine" else theirs
            given = {**scope, "ags.token": token}
            await EventStream(state, source(), beat=0.2)(given, receive, send)

        async with small(app) as port:
            followers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for (_, writer), path in zip(followers, ("mine", "theirs"), strict=True):
                writer.write(f"GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            for reader, _ in followers:
                await reader.readuntil(b"event: output")
            Keys(state.ags_home).end_session(mine)  # what another process does
            try:
                await asyncio.wait_for(followers[0][0].readuntil(b"\r\n0\r\n\r\n"), 60)
                await followers[1][0].readuntil(b"event: output")
                assert state.metrics.streams == 1
            finally:
                state.stopping.set()
                for _, writer in followers:
                    writer.close()

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_a_silent_stream_gives_signs_of_life(tmp_path: Path) -> None:
    async def scene() -> bytes:
        state = state_in(tmp_path)
        enough = asyncio.Event()

        async def source() -> AsyncGenerator[list[bytes], None]:
            await enough.wait()
            yield [stream.message("1", "output", b"{}")]

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await EventStream(state, source(), beat=0.05)(known(scope, state), receive, send)

        async with small(app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.0\r\nHost: x\r\n\r\n")
            said = b""
            for _ in range(2):
                said += await reader.readuntil(b": beat\n\n")
            enough.set()
            said += await reader.read()
            writer.close()
        return said

    head, _, body = asyncio.run(asyncio.wait_for(scene(), 120)).partition(b"\r\n\r\n")
    assert b"text/event-stream" in head
    assert body.startswith(b"retry: 1000\n\n: beat\n\n")
    assert body.endswith(b"id: 1\nevent: output\ndata: {}\n\n")
    assert body.count(b": beat\n\n") >= 2


def test_one_who_does_not_read_for_long_is_left(tmp_path: Path) -> None:
    async def scene() -> tuple[int, bool]:
        state = state_in(tmp_path)
        given, ended = 0, asyncio.Event()

        async def source() -> AsyncGenerator[list[bytes], None]:
            nonlocal given
            try:
                while True:
                    given += 1
                    yield [b"x" * 100_000]
            finally:
                ended.set()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            stream_ = EventStream(state, source(), patience=0.3)
            await stream_(known(scope, state), receive, send)

        async with small(app) as port:
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.connect(("127.0.0.1", port))
                sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                await ended.wait()
        return given, state.metrics.streams == 0

    given, closed = asyncio.run(asyncio.wait_for(scene(), 120))
    assert closed
    assert given < 200, "it was read on although nobody took it"


@pytest.mark.parametrize("broken", ["source", "reader"])
def test_a_source_that_fails_is_in_the_log_and_a_reader_that_left_is_not(
    tmp_path: Path, broken: str
) -> None:
    log = tmp_path / "log"
    trouble = OSError(errno.EIO, "Input/output error")

    async def source() -> AsyncGenerator[list[bytes], None]:
        if broken == "source":
            raise trouble
        yield [stream.message("1", "output", b"{}")]

    async def send(message: Message) -> None:
        if broken == "reader" and message["type"] == "http.response.body":
            raise trouble

    async def stays() -> Message:
        await asyncio.sleep(3600)
        return {}

    async def scene() -> None:
        with log.open("wb") as file:
            state = State({}, tmp_path, tmp_path / "ags", Log("json", file.fileno()))
            await EventStream(state, source())(known({}, state), stays, send)

    asyncio.run(asyncio.wait_for(scene(), 120))
    assert ("Input/output error" in log.read_text()) == (broken == "source")


def test_a_torn_line_is_not_sent_and_its_number_is_used_again(tmp_path: Path) -> None:
    """One that ends as a whole line would, in the middle of a log."""
    from ags.events import Watch, follow_stored

    log = tmp_path / "events.jsonl"
    writer = Writer(log)
    writer.write("output", text="one")
    writer.close()
    with log.open("ab") as file:
        file.write(b'{"seq":2,"ts":1.5,"kind":"tool_call","input":{"a":{"b":1}')
    writer = Writer(log)
    writer.write("output", text="three")
    writer.close()

    async def scene() -> list[tuple[int, str]]:
        found = follow_stored(log, 0, lambda: True, Watch())
        return [(each.seq, each.kind) async for lines in found for each in lines]

    assert asyncio.run(scene()) == [(1, "output"), (2, "system"), (3, "output")]
