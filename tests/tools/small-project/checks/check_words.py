from __future__ import annotations

import unittest

from sums.words import words


class Words(unittest.TestCase):
    def test_numbers_and_signs(self) -> None:
        self.assertEqual(list(words(" 12+(3 *4)")), ["12", "+", "(", "3", "*", "4", ")"])

    def test_anything_else_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "not understood"):
            list(words("1 & 2"))
