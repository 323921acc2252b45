from __future__ import annotations

import subprocess
import sys
import unittest


class Main(unittest.TestCase):
    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "sums", *words)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_an_answer(self) -> None:
        self.assertEqual(self.call("6", "*", "7").stdout, "42\n")

    def test_a_refusal(self) -> None:
        done = self.call("1", "/", "0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
