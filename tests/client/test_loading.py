"""The client costs little to have, and needs nothing but Python."""

from __future__ import annotations

import subprocess
import sys

from tests.people import ROOT

ALLOWED = {"client", "errors", "frozen", "model", "text"}


def test_it_loads_only_the_standard_library_and_a_few_of_ours() -> None:
    path = str(ROOT / "src")
    script = f"import sys; sys.path.insert(0, {path!r}); import ags.client; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "asyncio" not in found
    ours = {each.split(".")[1] for each in found if each.startswith("ags.")}
    assert ours <= ALLOWED
    tops = {each.partition(".")[0] for each in found} - {"ags", "__main__"}
    assert tops <= sys.stdlib_module_names | {"__main__"}
