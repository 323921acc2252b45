"""The shape of the code, kept by tests: who may import whom, how large a file grows, what loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ags"
MOST_LINES = 500

# Imports go to the same layer or to one before it, never to a later one.
LAYERS = (
    ("errors", "frozen", "model", "paint", "reach", "text"),
    ("proc",),
    (
        "clients",
        "config",
        "egress",
        "events",
        "homes",
        "hooks",
        "host",
        "identity",
        "kernel",
        "logins",
        "places",
        "records",
        "runs",
        "secrets",
        "toolchains",
        "workspace",
    ),
    ("agents", "backends", "control", "plan", "store"),
    ("doctor", "network", "prepare", "shelf"),
    ("programs",),
    ("supervisor",),
    ("engine", "asking", "logtext"),
    ("projects", "review", "wishes"),
    ("client", "server"),
    ("cli",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "ags":
            yield from (alias.name for alias in node.names if alias.name != "__version__")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ags."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("ags."))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_dependencies_point_downwards(path: Path) -> None:
    here = layer_of(path)
    assert here in RANK, f"give {here} a layer"
    for name in imported(path):
        assert RANK[name] <= RANK[here], f"{here} must not import {name}"


def test_no_route_is_a_part_of_another() -> None:
    for path in (SOURCE / "server/routes").glob("*.py"):
        assert "ags.server.routes" not in path.read_text(), f"{path.name}: have it beside them"


def test_no_file_is_larger_than_a_reader_can_hold() -> None:
    files = [*modules(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bootstrap").rglob("*.py")]
    long = {str(f): n for f in files if (n := len(f.read_text().splitlines())) > MOST_LINES}
    assert long == {}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_proc_starts_processes(path: Path) -> None:
    # A helper that proc starts, and that becomes what it was sent to start.
    if path in (SOURCE / "proc.py", SOURCE / "kernel/join.py"):
        return
    text = path.read_text()
    for door in ("import subprocess", "os.system", "posix_spawn", "os.exec", "create_subprocess"):
        assert door not in text, f"{path} starts a process by {door}; proc.py is the one door"


def loaded(arguments: str) -> set[str]:
    script = f"""
import sys; sys.path.insert(0, {str(ROOT / "src")!r})
from ags.cli import main
main.main({arguments})
print(*sys.modules, file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


def test_a_verb_loads_only_what_it_needs() -> None:
    for arguments in ("['--version']", "['--help']", "['exec', '--help']"):
        found = loaded(arguments)
        heavy = {"rich", "fastapi", "pydantic", "uvicorn", "sqlite3", "yaml", "cryptography"}
        assert not found & heavy, f"{arguments} loads {found & heavy}"
    assert "asyncio" not in loaded("['--version']")
