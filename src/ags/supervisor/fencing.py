"""A run's fence: its policy, its secrets, and the line that is kept of every decision."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ags import records
from ags.control.server import Verb
from ags.egress import layers
from ags.egress.asks import Asks
from ags.egress.audit import Chain, Line
from ags.egress.fence import Terms
from ags.egress.policy import Policy
from ags.egress.wiring import Wiring, wire
from ags.errors import AgsError
from ags.events import Writer
from ags.network import Network
from ags.prepare import Request
from ags.runs import Held
from ags.supervisor.asking import AskVerbs, PortVerbs, noting
from ags.supervisor.site import Site


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


class Fencing:
    """All of it, for as long as the run is tended."""

    def __init__(self, site: Site, log: Writer, environ: Mapping[str, str], wiring: Wiring) -> None:
        self._held = site.held
        self._environ, self._home = environ, site.home
        self._wiring = wiring
        self._defaults: layers.Hosts = {}
        self._audit = Audit(site.held, log)
        self._asks = Asks(lambda: self.network.fence.policy, on_change=noting(site.held, log))
        self._tell = site.tell
        self.network = Network(
            site.run.id,
            Terms(self._policy(), wiring.injections, wiring.placeholders),
            environ=environ,
            extra=tuple(_pem(path) for path in site.preparer.settings.network.ca),
            record=self._audit.record,
            secret=wiring.lookup,
            ask=self._asks.ask,
        )

    @classmethod
    async def of(cls, site: Site, log: Writer, environ: Mapping[str, str]) -> Fencing:
        configured = site.preparer.settings.secrets
        wiring = await wire(configured, site.run.agent, environ, site.ags_home)
        made = cls(site, log, environ, wiring)
        await made._ask_tools()
        return made

    async def _ask_tools(self) -> None:
        """What package tools use where the person has no settings, only they can say."""
        terms = self.network.fence.terms
        if names := layers.pending(terms.policy):
            self._defaults = await layers.tool_defaults(names, self._environ)
            self.network.fence.terms = replace(terms, policy=self._policy())

    def given(self, request: Request) -> Request:
        """What is asked for, with what the fence puts inside."""
        return replace(
            request,
            network=self.network.plan(),
            # Last, so that a key which is passed by a flag as well is a placeholder all the same.
            environment=(*request.environment, *self._wiring.inside().items()),
            weakenings=(*request.weakenings, *self._wiring.weakenings),
        )

    def _policy(self) -> Policy:
        order = self._held.run.order
        return layers.layers(
            self._held.run.agent,
            user_file=layers.policy_file(self._environ, self._home),
            run_file=order.policy,
            allow=order.allow,
            environ=self._environ,
            home=self._home,
            ask=order.ask,
            secrets=self._wiring.hosts,
            defaults=self._defaults,
        )

    def verbs(self) -> dict[str, Verb]:
        ports = PortVerbs(lambda: self.network.ports, self._tell)
        return {**AskVerbs(self._asks).verbs(), **ports.verbs(), "reload": self._reload}

    async def _reload(self, request: Mapping[str, object]) -> dict[str, object]:
        """All at once; a file that cannot be read leaves the last good policy in force."""
        await self.network.change(replace(self.network.fence.terms, policy=self._policy()))
        self._asks.reloaded()
        self._tell("the policy was read anew")
        return {}

    def close(self) -> None:
        self._audit.close()


def _pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("read [network] ca", subject=path, cause=cause) from error
