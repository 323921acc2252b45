from __future__ import annotations

import subprocess
import unittest

from sums.fast import BUILD, fast_sum


class Native(unittest.TestCase):
    def test_the_library(self) -> None:
        self.assertEqual(fast_sum(range(1001)), 500500)

    def test_the_program(self) -> None:
        done = subprocess.run((BUILD / "count", "1", "2", "3"), capture_output=True, check=True)
        self.assertEqual(done.stdout, b"6\n")
