"""Requests and answers on one connection: in order, and as they come."""

from __future__ import annotations

import asyncio

from tests.egress.origin import ANSWER, GET, HOST, Origin, Scene, run


def test_requests_that_come_together_are_answered_one_after_the_other() -> None:
    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        writer.write(GET * 3)
        assert await reader.readexactly(3 * len(ANSWER)) == 3 * ANSWER
        writer.close()

    assert run(Origin(), work).heard == [(1, "GET")] * 3


def test_what_a_client_says_while_the_origin_thinks_is_not_lost() -> None:
    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        writer.write(GET)
        await asyncio.sleep(0.1)
        writer.write(GET)
        assert await reader.readexactly(2 * len(ANSWER)) == 2 * ANSWER
        writer.close()

    assert run(Origin(thinks=0.3), work).heard == [(1, "GET")] * 2


def test_a_client_that_has_said_its_last_word_is_answered() -> None:
    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        writer.write(GET)
        writer.write_eof()
        assert await reader.read() == ANSWER
        writer.close()

    assert run(Origin(thinks=0.2), work).heard == [(1, "GET")]


def test_each_piece_of_an_answer_comes_as_soon_as_it_is_there() -> None:
    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        writer.write(GET)
        assert await reader.readuntil(b"\r\n\r\nok")
        made.origin.go.set()
        assert await reader.readexactly(2) == b"ok"
        writer.close()

    half = ANSWER.replace(b"Length: 2", b"Length: 4")
    assert run(Origin(answer=half, later=b"ok"), work).heard == [(1, "GET")]
