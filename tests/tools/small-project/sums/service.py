"""Answers over a socket, a line each."""

from __future__ import annotations

import asyncio

from sums.evaluate import evaluate


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        try:
            said = str(evaluate(line.decode()))
        except (ValueError, ZeroDivisionError) as error:
            said = f"error: {error}"
        writer.write(f"{said}\n".encode())
        await writer.drain()
    writer.close()


async def ask(port: int, *questions: str) -> list[str]:
    reader, writer = await asyncio.open_connection("localhost", port)
    answers = []
    for question in questions:
        writer.write(f"{question}\n".encode())
        answers.append((await reader.readline()).decode().strip())
    writer.close()
    await writer.wait_closed()
    return answers
