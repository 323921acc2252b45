"""What was asked and answered, kept in a database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sums.evaluate import evaluate


class History:
    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS history (question TEXT, answer INTEGER)")

    def ask(self, question: str) -> int:
        answer = evaluate(question)
        with self._database:
            self._database.execute("INSERT INTO history VALUES (?, ?)", (question, answer))
        return answer

    def all(self) -> list[tuple[str, int]]:
        return list(self._database.execute("SELECT question, answer FROM history"))

    def close(self) -> None:
        self._database.close()
