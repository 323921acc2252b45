"""A run's fence: its policy, its secrets, and the line that is kept of every decision."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ags import clients, records, secrets
from ags.agents.base import Agent
from ags.agents.shell import members
from ags.config.load import load
from ags.config.schema import Settings
from ags.control.server import Verb
from ags.egress import company, indexes, layers
from ags.egress.asks import Asks
from ags.egress.audit import Chain, Line
from ags.egress.company import CompanyProxy
from ags.egress.desk import Desk
from ags.egress.fence import Terms
from ags.egress.layers import Whole
from ags.egress.policy import Policy
from ags.egress.wiring import FOLDER, Wiring, keys_of, renewed, wire
from ags.errors import AgsError
from ags.events import Writer
from ags.logins import state
from ags.logins.several import Several
from ags.logins.state import Wired
from ags.network import Network, extra_roots
from ags.prepare import Request
from ags.runs import Held
from ags.supervisor.asking import Asking
from ags.supervisor.granting import Granting
from ags.supervisor.publishing import PortVerbs
from ags.supervisor.requests import HeldRequests, noted
from ags.supervisor.site import Site
from ags.workspace.root import find_root

PATIENCE = 3.0
"""Seconds that a start or a reload waits for what indexes have to say."""


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
        self._behind = b""
        size = os.fstat(self._file).st_size
        self._chain = Chain(held.run.egress_count, held.run.egress_last or Chain().last, size)

    def record(self, line: Line) -> None:
        """What was refused is told in the run's log as well, where a person looks."""
        self._write(self._chain.append(line))
        if not line.allowed:
            shown = {"host": line.host, "port": line.port, "method": line.method}
            self._log.write("egress", allowed=False, reason=line.reason, path=line.path, **shown)

    def _write(self, data: bytes) -> None:
        """On a full disk what did not fit comes before the next: a gap would break the chain."""
        self._behind += data
        with contextlib.suppress(OSError):
            self._behind = self._behind[os.write(self._file, self._behind) :]

    def note(self) -> None:
        """How far it is, in the record."""
        run = self._held.run
        if run.egress_count != self._chain.count:
            count, last = self._chain.count, self._chain.last
            self._held.save(replace(run, egress_count=count, egress_last=last))

    def close(self) -> None:
        if self._file >= 0:
            self._write(self._chain.close())
            self.note()
            os.close(self._file)
            self._file = -1


class Fencing:
    """All of it, for as long as the run is tended."""

    def __init__(
        self,
        site: Site,
        log: Writer,
        asking: Asking,
        environ: Mapping[str, str],
        wiring: Wiring,
        whole: Whole,
        proxy: CompanyProxy | None,
    ) -> None:
        self._site, self._environ = site, environ
        self._proxy = proxy
        self.logins: Mapping[str, Wired] = {}
        """The subscription of each agent; what stands for it inside is a file in its home."""
        self._at_hand: tuple[str, ...] = ()
        self._others: tuple[str, ...] = ()
        """Those at hand whose hosts are open."""
        self._wiring = wiring
        self._learning: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()
        self._audit = Audit(site.held, log)
        self._asks = Asks(
            lambda: self.network.fence.policy, on_change=lambda change: asking.note(noted(change))
        )
        asking.add(HeldRequests(self._asks))
        self._tell = site.tell
        self.network = Network(
            site.run.id,
            _terms(whole.policy, wiring),
            environ=environ,
            extra=extra_roots(site.preparer.settings.network.ca),
            record=self._audit.record,
            secret=lambda secret_id: self._wiring.lookup(secret_id),
            ask=self._asks.ask,
            proxy=proxy,
            ags_home=site.ags_home,
        )
        self._granting = Granting(self.network, site.tell)

    @classmethod
    async def of(
        cls, site: Site, agent: Agent, log: Writer, asking: Asking, environ: Mapping[str, str]
    ) -> Fencing:
        at_hand = tuple(each.name for each in members(agent) if each is not agent)
        wiring = await _wired(site, site.preparer.settings, environ, at_hand)
        logins = _logins(site, at_hand or (agent.name,), environ, wiring)
        wiring = replace(wiring, desk=_desk(logins))
        others = tuple(name for name in at_hand if name in logins or _has_key(name, wiring))
        for name in wiring.left_out:
            client = site.run.order.client
            hint = f"`ags secret set --client {client} {name}`"
            site.tell(f"the secret {name} is not there: {client} has none of its own; {hint}")
        whole = await _policy(site, environ, wiring, others)
        network, kept = (
            site.preparer.settings.network,
            secrets.store(site.ags_home / FOLDER, environ),
        )
        proxy = await company.configured(network, kept, environ)
        made = cls(site, log, asking, environ, wiring, whole, proxy)
        made.logins, made._at_hand, made._others = logins, at_hand, others
        if at_hand:
            site.tell(_told(at_hand, others))
        await made._learn(whole)
        return made

    async def _learn(self, whole: Whole) -> None:
        """Where indexes keep their files. A slow one is not waited for, and helps a bit later."""
        if self._learning is not None:
            self._learning.cancel()
        self._learning = asyncio.create_task(self._learnt(whole))
        await asyncio.wait({self._learning}, timeout=PATIENCE)

    async def _learnt(self, whole: Whole) -> None:
        learnt = await indexes.learn(self.network.fence, whole.indexes)
        terms = self.network.fence.terms
        try:
            policy = indexes.extended(terms.policy, learnt)
            await self.network.change(replace(terms, policy=policy))
        except AgsError as error:
            self._tell(f"where package indexes keep their files cannot be opened: {error.cause}")
            return
        for line in indexes.told(learnt):
            self._tell(line)

    @property
    def keys(self) -> Mapping[str, str]:
        """Variables inside, each with what stands in for its secret there."""
        return dict(self._wiring.environment)

    def given(self, request: Request) -> Request:
        """What is asked for, with what the fence puts inside."""
        return replace(
            request,
            network=self.network.plan(),
            # Last, so that a key which is passed by a flag as well is a placeholder all the same.
            environment=(*request.environment, *self._wiring.inside().items()),
            weakenings=(
                *request.weakenings,
                *self._wiring.weakenings,
                *((self._proxy.weakening,) if self._proxy else ()),
            ),
        )

    def verbs(self) -> dict[str, Verb]:
        ports = PortVerbs(lambda: self.network.ports, self._tell)
        own: dict[str, Verb] = {"reload": self._reload}
        return {**ports.verbs(), **self._granting.verbs(), **own}

    async def _reload(self, request: Mapping[str, object]) -> dict[str, object]:
        """Policy and secrets, all at once; one that cannot be read leaves all as it was."""
        async with self._reading:  # what is read last holds
            try:
                wiring, notes = renewed(self._wiring, await self._wired_anew())
                whole = await _policy(self._site, self._environ, wiring, self._others)
            except AgsError as error:
                self._tell(f"the policy and secrets stay as they were: {error.cause}")
                raise
            self._wiring = wiring
            await self.network.change(_terms(self._granting.within(whole.policy), wiring))
        self._asks.reloaded()
        for note in ("the policy and secrets were read anew", *notes):
            self._tell(note)
        await self._learn(whole)
        return {"notes": list(notes)}

    async def _wired_anew(self) -> Wiring:
        run = self._site.run
        settings = load(run.order.config, self._environ, self._site.home)
        return await _wired(self._site, settings, self._environ, self._at_hand)

    async def settle(self) -> None:
        """A token that is just being renewed must not be lost: the old one is worth nothing."""
        for login in self.logins.values():
            await login.desk.settle()

    def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
        self._granting.close()
        self._audit.close()


def _told(at_hand: tuple[str, ...], others: tuple[str, ...]) -> str:
    opened = f"; the hosts of {', '.join(others)} are open" if others else ""
    shut = ", ".join(name for name in at_hand if name not in others)
    without = f"; no key and no log-in, so nothing is open, for {shut}" if shut else ""
    return f"at hand in this shell: {', '.join(at_hand)}{opened}{without}"


def _has_key(agent: str, wiring: Wiring) -> bool:
    given = {name for name, _ in (*wiring.environment, *wiring.exposed)}
    return not given.isdisjoint(key.variable for key in keys_of(agent))


def _desk(logins: Mapping[str, Wired]) -> Desk | None:
    desks = tuple(login.desk for login in logins.values())
    return Several(desks) if len(desks) > 1 else next(iter(desks), None)


def _logins(
    site: Site, agents: tuple[str, ...], environ: Mapping[str, str], wiring: Wiring
) -> dict[str, Wired]:
    found = {name: _login(site, name, environ, wiring) for name in agents}
    return {name: login for name, login in found.items() if login is not None}


def _login(site: Site, agent: str, environ: Mapping[str, str], wiring: Wiring) -> Wired | None:
    """Whoever shares one on purpose, or exports a key, means that; else what is found."""
    run = site.run
    if run.order.login is not None:
        path: Path | None = run.order.login / ".credentials.json"
    else:
        if _has_key(agent, wiring):
            return None
        found = state.found(agent, site.home, site.ags_home, run.order.client, environ)
        if found.where != "none":
            site.tell(f"log-in of {agent}: {found}")
        path = None if found.trouble else found.path
    if path is None:
        return None
    return state.wire(agent, path, run.order.client, site.ags_home, site.tell)


async def _wired(
    site: Site, settings: Settings, environ: Mapping[str, str], at_hand: tuple[str, ...]
) -> Wiring:
    order, agent = site.run.order, site.run.agent
    given = (settings.secrets, agent, environ, site.ags_home, order.client)
    return await wire(*given, own_settings=order.config is not None, others=at_hand)


async def _policy(
    site: Site, environ: Mapping[str, str], wiring: Wiring, others: tuple[str, ...]
) -> Whole:
    run = site.run
    own = find_root(run.project, os.geteuid()) if run.mode == "inplace" else run.workspace
    mounted = (each.config.host for each in run.order.mounts if each.config.mode == "rw")
    given = (each.host for each in site.preparer.settings.mounts if each.mode == "rw")
    written = [folder for folder in (own, *mounted, *given) if folder is not None]
    return await layers.whole(
        run.agent,
        user_file=layers.policy_file(environ, site.home),
        run_file=run.order.policy,
        allow=run.order.allow,
        environ=environ,
        home=site.home,
        apart=(*written, run.project, site.ags_home),
        written=written,
        client_file=clients.policy_file(environ, site.home, run.order.client),
        ask=run.order.ask,
        secrets=wiring.hosts,
        others=others,
    )


def _terms(policy: Policy, wiring: Wiring) -> Terms:
    return Terms(policy, wiring.injections, wiring.placeholders, wiring.desk)
