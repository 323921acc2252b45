from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from sums.history import History


class Histories(unittest.TestCase):
    def test_it_is_kept(self) -> None:
        for place in (None, "."):  # the scratch folder, and the workspace
            with self.subTest(place), tempfile.TemporaryDirectory(dir=place) as folder:
                file = Path(folder, "history.db")
                history = History(file)
                history.ask("1+1")
                history.close()
                again = History(file)
                again.ask("2*3")
                self.assertEqual(again.all(), [("1+1", 2), ("2*3", 6)])
                again.close()
