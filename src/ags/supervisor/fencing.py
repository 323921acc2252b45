"""A run's fence: its policy, its secrets, and the line that is kept of every decision."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ags import records
from ags.config.load import settings_folder
from ags.egress import layers
from ags.egress.audit import Chain, Line
from ags.egress.fence import Ask, Terms
from ags.events import Writer
from ags.network import Network
from ags.runs import Held


class Audit:
    """`egress.jsonl`, one writer. The run's record has how long it is and how it ends."""

    def __init__(self, held: Held, log: Writer) -> None:
        self._held = held
        self._log = log
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        path = held.run_dir / "egress.jsonl"
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise records.write_error("open the log of requests", path, error) from error
        size = os.fstat(self._file).st_size
        self._chain = Chain(held.run.egress_count, held.run.egress_last or Chain().last, size)

    def record(self, line: Line) -> None:
        """What was refused is told in the run's log as well, where a person looks."""
        os.write(self._file, self._chain.append(line))
        if not line.allowed:
            shown = {"host": line.host, "port": line.port, "method": line.method}
            self._log.write("egress", allowed=False, reason=line.reason, path=line.path, **shown)

    def note(self) -> None:
        """How far it is, in the record."""
        run = self._held.run
        if run.egress_count != self._chain.count:
            count, last = self._chain.count, self._chain.last
            self._held.save(replace(run, egress_count=count, egress_last=last))

    def close(self) -> None:
        if self._file >= 0:
            os.write(self._file, self._chain.close())
            self.note()
            os.close(self._file)
            self._file = -1


def network(
    held: Held,
    audit: Audit,
    environ: Mapping[str, str],
    home: Path,
    ask: Ask | None = None,
) -> Network | None:
    """The run's way out, as policy and flags have it; None for a run that is sealed."""
    run = held.run
    if not run.order.network:
        return None
    folder = settings_folder(environ, home)
    found = layers.layers(
        run.agent,
        user_file=folder / "policy.yaml",
        run_file=run.order.policy,
        allow=run.order.allow,
        environ=environ,
        home=home,
    )
    return Network(run.id, Terms(found), environ=environ, record=audit.record, ask=ask)
