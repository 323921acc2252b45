"""The command line, and the supervisors it starts, with something taken out or broken.

`whole_cli.py NAME... -- ARGUMENTS` is `ags ARGUMENTS`; a name is one of `mutations.MUTATIONS`, of
`whole_mutations.FAULTS` or of `faults.FAULTS`. After `supervisor`, it is the supervisor.
"""

from __future__ import annotations

import sys
from pathlib import Path

SUPERVISOR = "supervisor"


def main() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[3]))
    at = sys.argv.index("--")
    names, sys.argv[1:] = sys.argv[1:at], sys.argv[at + 1 :]
    as_supervisor = names[0] == SUPERVISOR
    apply(names[as_supervisor:])
    if as_supervisor:
        from ags.supervisor import __main__ as supervisor

        supervisor.main()
    else:
        hand_on(names)
        from ags.cli.main import main as ags

        sys.exit(ags(sys.argv[1:]))


def apply(names: list[str]) -> None:
    from tests.attack import whole_mutations
    from tests.attack.egress import faults
    from tests.attack.mutations import MUTATIONS
    from tests.attack.patching import ForGood

    known = whole_mutations.FAULTS | faults.FAULTS
    for name in names:
        take_out = known[name] if name in known else MUTATIONS[name].apply
        take_out(ForGood())


def hand_on(names: list[str]) -> None:
    from ags.engine import Engine

    def command(ags_home: Path, run_id: str) -> tuple[str, ...]:
        own = (sys.executable, "-I", str(Path(__file__).resolve()))
        return (*own, SUPERVISOR, *names, "--", str(ags_home), run_id)

    defaults = Engine.__init__.__kwdefaults__
    assert defaults is not None
    defaults["supervisor"] = command


if __name__ == "__main__":
    main()
