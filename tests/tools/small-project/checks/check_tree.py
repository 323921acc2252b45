from __future__ import annotations

import unittest

from sums.tree import Operation, Reader


class Trees(unittest.TestCase):
    def test_stronger_binding_comes_first(self) -> None:
        tree = Reader(["1", "+", "2", "*", "3"]).whole()
        self.assertEqual(tree, Operation("+", 1, Operation("*", 2, 3)))

    def test_an_open_bracket_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "open"):
            Reader(["(", "1"]).whole()
