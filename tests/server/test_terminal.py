"""A run's terminal in a browser: over a real socket, from a real sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ags.engine import Wish
from ags.model import Limits
from ags.runs import Order, Run
from ags.server.auth import Keys
from tests.faults.conftest import workshop as workshop
from tests.faults.workshop import Workshop
from tests.server.conftest import Server, serving
from tests.server.listening import eventually, memory
from tests.server.screen import Screen, play, terminal
from tests.server.test_stream import HOLDS, NO_BEATS, metrics
from tests.server.test_stream import served as served


@pytest.fixture
def shell(workshop: Workshop, served: Server) -> Run:
    """A run with a shell at a terminal."""
    order = Order(terminal=True)
    goal = "exec bash --norc --noprofile -i"
    wish = Wish("sitting", goal, "shell", workshop.project.folder, Limits(), order=order)
    run = workshop.does(workshop.engine().start(wish))
    eventually("it runs", lambda: workshop.load(run).state == "running")
    return run


def watching(
    server: Server, name: str, query: str = "", **given: Any
) -> AbstractAsyncContextManager[Screen]:
    return terminal(server, f"/runs/{name}/terminal{query}", **given)


def test_what_is_typed_is_echoed_and_answered(served: Server, shell: Run) -> None:
    async def scene() -> None:
        async with watching(served, shell.name) as screen:
            assert screen.socket.subprotocol == "ags.v1"
            await screen.types("echo $((6 * 7))-answer\n")
            await screen.shows(rb"echo \$\(\(6 \* 7\)\)-answer")
            await screen.shows(rb"42-answer")

    play(scene())


def test_two_see_the_same_and_both_can_type(served: Server, shell: Run) -> None:
    async def scene() -> None:
        async with watching(served, shell.name) as one, watching(served, shell.id) as other:
            await one.types("echo $((6 * 7))-one\n")
            for screen in (one, other):
                await screen.shows(rb"42-one")
            await other.types("echo $((6 * 7))-other\n")
            for screen in (one, other):
                await screen.shows(rb"42-other")

    play(scene())


def test_the_program_sees_the_size_of_who_looks(served: Server, shell: Run) -> None:
    async def scene() -> None:
        async with watching(served, shell.name, "?rows=33&columns=101") as screen:
            await size_is(screen, b"33 101")
            await screen.resizes(44, 122)
            await size_is(screen, b"44 122")

    play(scene())


async def size_is(screen: Screen, wanted: bytes) -> None:
    """The hub shows another size for a moment, so that programs draw themselves anew."""
    while True:
        await screen.types("echo size=$(stty size)=\n")
        if (await screen.shows(rb"size=(\d+ \d+)="))[1] == wanted:
            return
        await asyncio.sleep(0.05)


def test_a_size_that_no_terminal_has_becomes_the_nearest(served: Server, shell: Run) -> None:
    async def scene() -> None:
        for asked, had in (
            ("?rows=0&columns=80", b"1 80"),
            ("?rows=5000&columns=99999", b"2000 2000"),
        ):
            async with watching(served, shell.name, asked) as screen:
                await size_is(screen, had)

    play(scene())


@pytest.mark.parametrize(
    "query", ["rows=abc", "rows=", "columns=1.5", "rows=" + "9" * 5000, "shell=maybe"]
)
def test_what_cannot_be_read_is_told_as_to_any_other_request(shared: Server, query: str) -> None:
    async def scene() -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with watching(shared, "nobody", f"?{query}"):
                pass
        answer = refused.value.response
        assert answer.status_code == 422
        assert answer.headers["Content-Type"] == "application/problem+json"
        told = json.loads(answer.body)
        assert told["title"] == "Cannot take the request" and told["detail"]
        assert told["errors"][0]["where"] == f"query.{query.partition('=')[0]}"
        async with watching(shared, "nobody", "?rows=24&shell=true") as screen:
            assert (await screen.closing())[0] == 4404

    play(scene())


def test_the_end_is_told_with_its_code(workshop: Workshop, served: Server, shell: Run) -> None:
    async def scene() -> None:
        async with watching(served, shell.name) as one, watching(served, shell.name) as other:
            await one.types("exit 7\n")
            for screen in (one, other):
                assert (await screen.last_words())["ended"] == 7
                assert await screen.closing() == (1000, "")

    play(scene())
    assert workshop.ended(shell).exit_code == 7
    eventually("both are gone", lambda: "ags_streams_open 0\n" in metrics(served))


def test_who_leaves_ends_nothing(workshop: Workshop, served: Server, shell: Run) -> None:
    async def scene() -> None:
        async with watching(served, shell.name) as screen:
            await screen.types("kept=here\n")
            await screen.shows(rb"kept=here")
        async with watching(served, shell.name) as screen:
            await screen.types("echo still-$kept\n")
            await screen.shows(rb"still-here")

    play(scene())
    assert workshop.load(shell).state == "running"
    eventually("both are gone", lambda: "ags_streams_open 0\n" in metrics(served))


def test_a_shell_beside_an_agent_sees_its_workspace_and_ends_alone(
    workshop: Workshop, served: Server
) -> None:
    run = workshop.start("working", HOLDS)
    eventually("it runs", lambda: workshop.load(run).state == "running")

    async def scene() -> None:
        async with watching(served, run.name, "?shell=1") as screen:
            await screen.types("cat file; echo $((6 * 7))-in $TERM; touch mark; exit 3\n")
            await screen.shows(rb"one\r\n42-in xterm-256color")
            assert (await screen.last_words())["ended"] == 3

    play(scene())
    folder = workshop.load(run).workspace
    assert folder is not None and (folder / "mark").exists()
    (folder / "go").touch()
    assert workshop.ended(run).state == "done"


def test_runs_without_a_terminal_and_unknown_ones_are_told_so(
    workshop: Workshop, served: Server
) -> None:
    run = workshop.start("plain", HOLDS)
    over = workshop.ended(workshop.start("over", "true"))
    eventually("it runs", lambda: workshop.load(run).state == "running")

    async def scene() -> None:
        for name, query, wanted, word in (
            (run.name, "", 4409, "without a terminal"),
            (over.name, "", 4409, "not at work"),
            (over.name, "?shell=1", 4409, "not at work"),
            ("nobody", "", 4404, "no run"),
        ):
            async with watching(served, name, query) as screen:
                code, reason = await screen.closing()
            assert code == wanted and word in reason, (name, code, reason)

    play(scene())


def test_text_that_is_no_size_ends_the_visit_and_not_the_run(
    workshop: Workshop, served: Server, shell: Run
) -> None:
    bad = ["no json", "[]", "{}", '{"rows": "x", "columns": 3}', '{"rows": true, "columns": 3}']

    async def scene() -> None:
        for sent in bad:
            async with watching(served, shell.name) as screen:
                await screen.socket.send(sent)
                assert (await screen.closing())[0] == 4422, sent

    play(scene())
    assert workshop.load(shell).state == "running"


def test_an_odd_size_and_a_frame_that_is_too_large_harm_nobody(served: Server, shell: Run) -> None:
    async def scene() -> None:
        async with watching(served, shell.name) as screen:
            for rows in (0, -5, 10**9):
                await screen.resizes(rows, 80)
            await screen.types("echo $((6 * 7))-sized\n")
            await screen.shows(rb"42-sized")
            await screen.socket.send(b"x" * (64 * 1024 + 1))
            assert (await screen.closing())[0] == 1009
        async with watching(served, shell.name) as screen:
            await screen.types("\x15echo $((6 * 7))-after\n")
            await screen.shows(rb"42-after")

    play(scene())


def test_a_page_of_somebody_elses_and_one_without_a_token_get_nothing(
    workshop: Workshop, served: Server, shell: Run
) -> None:
    own = served.url
    attempts: list[tuple[int, dict[str, Any]]] = [
        (403, {"origin": "https://evil.example"}),
        (403, {"origin": "null"}),
        (403, {"origin": f"http://127.0.0.1:{served.port + 1}"}),
        (401, {"origin": own, "subprotocols": ["ags.v1"]}),
        (401, {"origin": own, "token": "wrong"}),
        (421, {"origin": own, "called": "evil.example"}),
    ]

    async def scene() -> None:
        for status, given in attempts:
            with pytest.raises(InvalidStatus) as refused:
                async with watching(served, shell.name, **given) as screen:
                    await screen.types("touch broken-in\n")
            assert refused.value.response.status_code == status, given
        async with watching(served, shell.name, origin=own) as screen:
            await screen.types("ls; touch let-in; echo $((6 * 7))-done\n")
            listed = await screen.shows(rb"(?s)done\r\n(.*)42-done")
            assert b"broken-in" not in listed[1]

    play(scene())
    folder = workshop.load(shell).workspace
    assert folder is not None
    assert (folder / "let-in").exists() and not (folder / "broken-in").exists()


def test_a_viewer_that_never_reads_holds_up_nobody_and_costs_no_memory(
    served: Server, shell: Run
) -> None:
    async def scene() -> None:
        async with contextlib.AsyncExitStack() as stack:
            deaf = [
                # One message and one frame: its reader stops there.
                await stack.enter_async_context(watching(served, shell.name, max_queue=1))
                for _ in range(10)
            ]
            reader = await stack.enter_async_context(watching(served, shell.name))
            await reader.types("echo $((6 * 7))-ready\n")
            await reader.shows(rb"42-ready")
            before = memory(served.process.pid)
            await reader.types("seq -f %0100g 1 200000; echo $((6 * 7))-printed\n")
            await reader.shows(rb"42-printed")
            grown = memory(served.process.pid) - before
            for each in deaf:
                each.socket.transport.abort()
        # 20 MB came by for each of them; 2 MiB may wait on the way from the run.
        assert grown < 40 * 2**20, f"{grown / 2**20:.1f} MiB"

    play(scene())


@pytest.mark.parametrize("same", [True, False], ids=["here", "in another process"])
@pytest.mark.parametrize("query", ["", "?shell=1"], ids=["terminal", "shell"])
def test_what_is_typed_after_logging_out_does_nothing(
    workshop: Workshop, served: Server, shell: Run, same: bool, query: str
) -> None:
    keys = Keys(served.ags_home)
    session = keys.session_for(keys.new_code())
    assert session

    async def scene() -> None:
        async with (
            watching(served, shell.name, query, token=session) as screen,
            watching(served, shell.name) as other,
        ):
            await screen.types("touch before; echo $((6 * 7))-in\n")
            await screen.shows(rb"42-in")
            if same:
                assert served.call("DELETE", "/session", token=session).status == 204
            else:
                keys.end_session(session)
            with contextlib.suppress(ConnectionClosed):
                await screen.types("touch after\n")
            assert await screen.closing() == (4401, "the session was ended; the run goes on")
            await other.types("touch later; echo $((6 * 7))-later\n")
            await other.shows(rb"42-later")

    play(scene())
    folder = workshop.load(shell).workspace
    assert folder is not None
    assert [(folder / name).exists() for name in ("before", "after", "later")] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("served", [NO_BEATS], indirect=True)
def test_who_logs_out_and_types_nothing_sees_no_more(served: Server, shell: Run) -> None:
    keys = Keys(served.ags_home)
    session = keys.session_for(keys.new_code())
    assert session

    async def scene() -> None:
        async with watching(served, shell.name, token=session) as screen:
            await screen.types("echo $((6 * 7))-in\n")
            await screen.shows(rb"42-in")
            assert served.call("DELETE", "/session", token=session).status == 204
            assert (await screen.closing())[0] == 4401

    play(scene())


def test_a_server_that_ends_says_so_and_the_run_goes_on(
    workshop: Workshop, served: Server, shell: Run
) -> None:
    async def scene() -> None:
        async with watching(served, shell.name) as screen:
            await screen.types("echo $((6 * 7))-before\n")
            await screen.shows(rb"42-before")
            served.process.terminate()
            assert (await screen.closing())[0] == 1012

    play(scene())
    assert served.process.wait(60) == 0
    assert workshop.load(shell).state == "running"
    with serving(workshop.place) as again:

        async def later() -> None:
            async with watching(again, shell.name) as screen:
                await screen.types("echo $((6 * 7))-after\n")
                await screen.shows(rb"42-after")

        play(later())
