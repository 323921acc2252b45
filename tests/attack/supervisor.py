"""A supervisor with one protection taken out: `supervisor.py AGS_HOME RUN MUTATION`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def main() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from ags.supervisor import __main__ as supervisor
    from tests.attack.mutations import MUTATIONS

    MUTATIONS[sys.argv.pop()].apply(pytest.MonkeyPatch())
    supervisor.main()


if __name__ == "__main__":
    main()
