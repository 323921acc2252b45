"""A supervisor with one protection taken out: `supervisor.py AGS_HOME RUN MUTATION`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from ags.supervisor import __main__ as supervisor
    from tests.attack.mutations import MUTATIONS
    from tests.attack.patching import ForGood

    MUTATIONS[sys.argv.pop()].apply(ForGood())
    supervisor.main()


if __name__ == "__main__":
    main()
