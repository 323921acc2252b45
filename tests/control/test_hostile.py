"""Bytes that no viewer of ours would send."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from ags.control import wire
from ags.control.hub import MOST_WAITING
from tests.control.scene import Looker, Raw, looker, play, stage, until

HOSTILE_FRAMES = [
    b"garbage, no frame at all",
    b"\xff" * 1000,
    b"i\xff\xff\xff\xff" + b"x" * 100_000,
    b"o\0\0\0\5hello",
    b"e\0\0\0\2{}",
    b"r\0\0\0\3abc",
    b"r\0\0\0\0",
    b"r\0\0\0\x08\0\x18\0\x50\0\0\0\0",
]


@pytest.mark.parametrize("frames", HOSTILE_FRAMES)
def test_what_is_no_frame_ends_that_view_alone(tmp_path: Path, frames: bytes) -> None:
    async def scene() -> None:
        async with stage(tmp_path, ("/usr/bin/cat",)) as on, looker(tmp_path) as me:
            with Raw(tmp_path) as hostile:
                await hostile.send(b'{"do": "attach"}\n')
                assert (await hostile.line())["ok"] is True
                with contextlib.suppress(OSError):  # closed before it was all sent
                    await hostile.send(frames)
                assert await hostile.closed()
            await until(lambda: on.hub.viewers == 1, "it is gone")
            await _still_works(me)

    play(scene())


def test_half_a_frame_holds_up_nobody(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, ("/usr/bin/cat",)) as on, looker(tmp_path) as me:
            for half in (b"i", b"i\0\0\0", b"i\0\0\0\x0ahalf", b"r\0\0\0\4\0"):
                with Raw(tmp_path) as hostile:
                    await hostile.send(b'{"do": "attach"}\n' + half)
                    await _still_works(me)
                    await until(lambda: on.hub.viewers == 2, "it is there")
                await until(lambda: on.hub.viewers == 1, "it is gone")

    play(scene())


def test_a_size_beyond_all_terminals_is_cut_down(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, ("/usr/bin/cat",)) as on:
            with Raw(tmp_path) as hostile:
                await hostile.send(b'{"do": "attach", "rows": -5, "columns": 99999999999}\n')
                assert (await hostile.line())["ok"] is True
                assert on.hub.size == wire.Size(1, wire.MOST_LINES)
                await hostile.send(b"r\0\0\0\4\0\0\xff\xff")
                await until(lambda: on.hub.size == wire.Size(1, wire.MOST_LINES), "cut down")
            with Raw(tmp_path) as hostile:
                await hostile.send(b'{"do": "attach", "rows": "many"}\n')
                assert "not numbers" in str((await hostile.line())["cause"])

    play(scene())


def test_asking_for_the_picture_without_end_and_reading_none_takes_no_memory(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        command = ("/usr/bin/bash", "-c", "seq 10000; echo over; read")
        async with stage(tmp_path, command) as on, looker(tmp_path) as me:
            await me.look(b"over")
            with Raw(tmp_path) as hostile:
                await hostile.send(b'{"do": "attach"}\n')
                await until(lambda: on.hub.viewers == 2, "it is there")
                await hostile.send(b"r\0\0\0\4\0\x18\0\x50" * 5000)
                stuck = on.hub._viewers[-1]
                await until(lambda: stuck.skipped > 10 * MOST_WAITING, "most are skipped")
                assert stuck._writer.transport.get_write_buffer_size() < 2 * MOST_WAITING

    play(scene())


def test_random_bytes_do_no_harm(tmp_path: Path) -> None:
    async def scene() -> None:
        chance = random.Random(11)
        async with stage(tmp_path, ("/usr/bin/cat",)) as on, looker(tmp_path) as me:
            for _ in range(40):
                with Raw(tmp_path) as hostile:
                    opening = chance.choice([b"", b'{"do": "attach"}\n'])
                    with contextlib.suppress(OSError):
                        await hostile.send(opening + chance.randbytes(chance.randrange(5000)))
            await until(lambda: on.hub.viewers == 1, "all are gone")
            await _still_works(me)

    play(scene())


async def _still_works(me: Looker) -> None:
    await me.seen.type(b"\x15still here\r")
    await me.look(b"still here\r\nstill here\r\n")
