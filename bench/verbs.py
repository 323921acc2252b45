"""The verbs that only look something up: how long a person waits, and what is loaded for it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.measure import Mark, Missing, Once, Peer, Row, Series, finish, interleaved, time_command
from bench.workshop import AGS, Workshop, workshop

ROUNDS, QUICK_ROUNDS = 20, 3
VERBS = (("--version",), ("doctor", "--help"))
SERVER_PARTS = ("fastapi", "pydantic", "starlette", "uvicorn")
NONE = Mark("none", lambda count: count == 0)

LIST_MODULES = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ags.cli.main import main
code = main(sys.argv[2:])
print(json.dumps(sorted(sys.modules)))
sys.exit(code)
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """Beside `git --version`, which shows how quick a program on this machine can be at all."""
    with workshop() as shop:
        contenders = {f"ags {' '.join(verb)}": _verb(verb, shop) for verb in VERBS}
        git = shutil.which("git")
        if git is not None:
            contenders["git --version"] = lambda: time_command(
                (git, "--version"), cwd=shop.workspace
            )
        figures = interleaved(contenders, QUICK_ROUNDS if quick else ROUNDS)
        peer = Peer("git --version", figures.get("git --version", Missing("not installed")))
        for verb in VERBS:
            case = f"ags {' '.join(verb)}"
            modules = imported(verb, shop.workspace)
            parts = server_parts(modules)
            yield Row("verbs", case, figures[case], peer=peer)
            yield Row("verbs", f"{case}: imported", Series((len(modules),)), unit="modules")
            yield Row(
                *("verbs", f"{case}: server parts", Series((len(parts),)), "modules"),
                mark=NONE,
                note=" ".join(parts),
            )


def _verb(verb: Sequence[str], shop: Workshop) -> Once:
    return lambda: time_command((AGS, *verb), cwd=shop.workspace, env=shop.environ)


def imported(verb: Sequence[str], cwd: Path) -> tuple[str, ...]:
    """Every module that is loaded when the verb has done its work."""
    source = AGS.parent.parent / "src"
    said = finish((sys.executable, "-I", "-c", LIST_MODULES, source, *verb), cwd=cwd)
    return tuple(json.loads(said.splitlines()[-1]))


def server_parts(modules: Iterable[str]) -> tuple[str, ...]:
    """Those of them that only the server may load."""
    return tuple(name for name in modules if name.partition(".")[0] in SERVER_PARTS)
