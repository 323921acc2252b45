"""What only the tests need from npm, as `npm/package-lock.json` pins it: fetched once, by hash."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bootstrap.packages import find_program

WANTED = Path(__file__).parent / "npm"
FILES = ("package.json", "package-lock.json")
QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
AXE = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"


def modules() -> Path:
    """A folder with `node_modules`, beside the other caches: the checkout is nobody's dustbin."""
    wanted = hashlib.sha256(b"".join((WANTED / name).read_bytes() for name in FILES)).hexdigest()
    place = Path(sys.prefix) / "cache" / f"npm-{wanted[:20]}"
    if not place.exists():
        if find_program("npm") is None:
            pytest.skip("npm is not installed")
        _fetch(place)
    return place


def _fetch(place: Path) -> None:
    """Whole or not at all: others may look for it meanwhile, and one of us is the first."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".npm-", dir=place.parent) as folder:
        made = Path(folder) / "made"
        made.mkdir()
        for name in FILES:
            shutil.copy(WANTED / name, made)
        done = subprocess.run(
            ("npm", "ci", *QUIET), cwd=made, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with contextlib.suppress(OSError):
            made.rename(place)
    assert place.is_dir()


def axe() -> str:
    """The script that looks for what shuts people out: it runs in our page, so it is looked at."""
    script = (modules() / "node_modules/axe-core/axe.min.js").read_bytes()
    assert hashlib.sha256(script).hexdigest() == AXE
    return script.decode()
