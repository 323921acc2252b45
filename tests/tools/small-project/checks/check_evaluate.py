from __future__ import annotations

import concurrent.futures
import multiprocessing
import unittest

from sums import evaluate


class Evaluate(unittest.TestCase):
    def test_values(self) -> None:
        for text, value in {"1+2*3": 7, "(1+2)*3": 9, "7-2-1": 4, "9/2": 4}.items():
            with self.subTest(text):
                self.assertEqual(evaluate(text), value)

    def test_in_many_threads(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(evaluate, [f"{n}*{n}" for n in range(200)]))
        self.assertEqual(answers, [n * n for n in range(200)])

    def test_in_other_processes(self) -> None:
        for method in ("fork", "spawn"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                self.assertEqual(pool.map(evaluate, ["1+1", "2+2", "3+3"]), [2, 4, 6])
