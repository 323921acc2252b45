"""Connections to origins that outlive their client: who gets them next, and who does not."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from ags.egress import conversation, outer
from ags.egress.policy import merge
from tests.egress.origin import ANSWER, GET, HOST, OTHER, POST, SECURE, Origin, Scene, run


@pytest.fixture(autouse=True)
def _kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer, "LONGEST", 600.0)
    monkeypatch.setattr(conversation, "AGAIN", 600.0)


@pytest.mark.parametrize("host", [HOST, SECURE])
def test_what_one_client_left_serves_the_next(host: str) -> None:
    async def work(made: Scene) -> None:
        for _ in range(3):
            assert (await made.ask(host)).endswith(b"\r\n\r\nok")
        assert [line.address for line in made.lines] == ["127.0.0.1"] * 3

    assert run(Origin(), work).heard == [(1, "GET")] * 3


def test_clients_at_the_same_time_share_nothing() -> None:
    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        writer.write(GET)
        assert (await reader.read(4096)).endswith(b"ok")
        assert (await made.ask()).endswith(b"ok")
        writer.close()

    assert run(Origin(), work).heard == [(1, "GET"), (2, "GET")]


def test_another_name_gets_a_connection_of_its_own() -> None:
    async def work(made: Scene) -> None:
        for host in (HOST, OTHER, SECURE):
            assert (await made.ask(host)).endswith(b"ok")

    assert run(Origin(), work).heard == [(1, "GET"), (2, "GET"), (3, "GET")]


def test_what_cannot_be_said_twice_dials_anew() -> None:
    async def work(made: Scene) -> None:
        for method in ("GET", "POST", "GET"):
            assert (await made.ask(method=method)).endswith(b"ok")

    assert run(Origin(), work).heard == [(1, "GET"), (2, "POST"), (1, "GET")]


@pytest.mark.parametrize("after", [(), ("GET",)], ids=["at-once", "with-another-after-it"])
def test_what_carried_a_body_is_left_to_nobody(after: tuple[str, ...]) -> None:
    """An origin that takes the end of a body for the next request would answer the wrong client."""

    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        for request in (POST, *(GET for _ in after)):
            writer.write(request)
            assert (await reader.read(4096)).endswith(b"ok")
        writer.close()
        await made.until(lambda: made.serving == 0)
        assert (await made.ask()).endswith(b"ok")

    assert run(Origin(), work).heard[-1] == (2, "GET")


def test_with_other_terms_it_is_dialled_anew() -> None:
    async def work(made: Scene) -> None:
        await made.ask()
        made.fence.terms = replace(made.fence.terms)
        assert (await made.ask()).endswith(b"ok")

    assert run(Origin(), work).heard == [(1, "GET"), (2, "GET")]


def test_what_was_dialled_before_the_terms_changed_is_not_of_the_new_ones() -> None:
    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        writer.write(GET)
        await reader.read(4096)
        made.fence.terms = replace(made.fence.terms)
        writer.close()
        await made.until(lambda: made.serving == 0)
        assert (await made.ask()).endswith(b"ok")

    assert run(Origin(), work).heard == [(1, "GET"), (2, "GET")]


def test_an_origin_that_hangs_up_in_between_is_asked_again() -> None:
    async def work(made: Scene) -> None:
        for _ in range(2):
            assert (await made.ask()).endswith(b"\r\n\r\nok")
        assert [line.reason for line in made.lines] == ["allowed", "allowed"]

    assert run(Origin(deaf_after=1), work).heard == [(1, "GET"), (1, "GET"), (2, "GET")]


def test_what_is_no_longer_allowed_is_not_sent_again() -> None:
    """By the time that the origin hangs up, what was judged may be another's word."""

    async def work(made: Scene) -> None:
        await made.ask()
        again = asyncio.create_task(made.ask())
        await made.until(lambda: len(made.origin.heard) == 2)
        shut = replace(made.fence.policy.layers[0], allow=())
        made.fence.terms = replace(made.fence.terms, policy=merge([shut]))
        made.origin.go.set()
        assert b" 502 " in await again
        assert b" 403 " in await made.ask()

    assert run(Origin(deaf_after=1, holds=True), work).heard == [(1, "GET"), (1, "GET")]


def test_an_origin_that_takes_its_time_to_hang_up_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversation, "AGAIN", -1.0)

    async def work(made: Scene) -> None:
        await made.ask()
        assert b" 502 " in await made.ask()

    assert run(Origin(deaf_after=1), work).heard == [(1, "GET"), (1, "GET")]


def test_a_client_that_has_said_its_last_word_is_told_of_it() -> None:
    async def work(made: Scene) -> None:
        await made.ask()
        reader, writer = await made.reach(HOST)
        writer.write(GET)
        writer.write_eof()
        assert await reader.read()
        writer.close()

    run(Origin(deaf_after=1), work)


def test_with_other_terms_a_client_goes_on_elsewhere() -> None:
    async def work(made: Scene) -> None:
        reader, writer = await made.reach(HOST)
        for _ in range(2):
            writer.write(GET)
            assert (await reader.read(4096)).endswith(b"ok")
            made.fence.terms = replace(made.fence.terms)
        writer.close()

    assert run(Origin(), work).heard == [(1, "GET"), (2, "GET")]


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"], ids=["204", "304"])
def test_what_may_send_a_body_all_the_same_is_left_to_nobody(status: bytes) -> None:
    async def work(made: Scene) -> None:
        for _ in range(2):
            assert status in await made.ask()

    answer = b"HTTP/1.1 %s\r\n\r\n" % status
    assert run(Origin(answer=answer), work).heard == [(1, "GET"), (2, "GET")]


def test_a_body_after_a_head_reaches_nobody() -> None:
    async def work(made: Scene) -> None:
        assert b" 200 " in await made.ask(method="HEAD")
        assert (await made.ask()).endswith(b"\r\n\r\nok")

    assert run(Origin(), work).heard == [(1, "HEAD"), (2, "GET")]


def test_a_client_that_kept_its_connection_is_left_to_ask_again_itself() -> None:
    async def work(made: Scene) -> None:
        assert await made.ask(times=2) == b""

    assert run(Origin(deaf_after=1), work).heard == [(1, "GET")] * 2


def test_an_origin_that_said_too_much_is_not_kept() -> None:
    async def work(made: Scene) -> None:
        for _ in range(2):
            assert (await made.ask()).endswith(b"\r\n\r\nok")

    assert run(Origin(answer=ANSWER + b"more"), work).heard == [(1, "GET"), (2, "GET")]


def test_what_an_origin_says_later_is_no_answer_for_the_next() -> None:
    async def work(made: Scene) -> None:
        assert (await made.ask()).endswith(b"\r\n\r\nok")
        made.origin.go.set()
        await made.until(lambda: made.origin.late == 1)
        assert (await made.ask()).endswith(b"\r\n\r\nok")

    unasked = ANSWER.replace(b"ok", b"no")
    assert run(Origin(later=unasked), work).heard == [(1, "GET"), (2, "GET")]


def test_an_origin_that_closes_is_not_kept() -> None:
    async def work(made: Scene) -> None:
        for _ in range(2):
            assert b"\r\n\r\nok" in await made.ask()

    closing = ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert run(Origin(answer=closing), work).heard == [(1, "GET"), (2, "GET")]


def test_it_is_hung_up_on_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer, "LONGEST", 0.2)

    async def work(made: Scene) -> None:
        await made.ask()
        await made.until(lambda: made.origin.gone == 1)

    run(Origin(), work)


def test_there_is_a_most_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer, "MOST", 1)

    async def work(made: Scene) -> None:
        await made.ask(HOST)
        await made.ask(OTHER)
        await made.until(lambda: made.origin.gone == 1)
        await made.ask(OTHER)

    assert run(Origin(), work).heard == [(1, "GET"), (2, "GET"), (2, "GET")]


def test_none_outlives_the_fence() -> None:
    async def work(made: Scene) -> None:
        before = len(os.listdir("/proc/self/fd"))
        await made.ask()
        await made.server.close()
        await made.until(lambda: made.origin.gone == 1)
        assert len(os.listdir("/proc/self/fd")) < before

    run(Origin(), work)


def test_keys_are_gone_on_with_once_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer, "LONGEST", 0.0)

    async def work(made: Scene) -> None:
        for _ in range(3):
            assert (await made.ask(SECURE)).endswith(b"ok")

    assert run(Origin(), work).resumed == [False, True, True]
