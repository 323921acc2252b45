"""The fence of one sandbox: what is told inside, and what stands outside while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ags import plan
from ags.backends.base import Sandbox
from ags.egress import dns, policy, tls
from ags.egress.audit import Line
from ags.egress.company import CompanyProxy
from ags.egress.fence import Ask, Fence, Terms
from ags.egress.hosts import HOST_NAME
from ags.egress.inject import Lookup
from ags.egress.link import Link
from ags.egress.ports import Ports, Spares
from ags.egress.server import Server
from ags.errors import AgsError
from ags.kernel import netns

COVERED = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
REFUSED = "refused.ags-fence-check.example"
CHECK_TIMEOUT = 20.0
"""Seconds, however many start at once."""
CHECK_SPARES = 4
"""Sockets that the check uses up: two names, a lookup and a connection each."""
SERVICES_HINT = "services of the host that were opened for you are at this name"


class Network:
    """Make it before the plan, open it while the command waits, close it at the end."""

    def __init__(
        self,
        run: str,
        terms: Terms,
        *,
        environ: Mapping[str, str],
        extra: tuple[bytes, ...] = (),
        record: Callable[[Line], None],
        secret: Lookup = lambda secret_id: None,
        ask: Ask | None = None,
        proxy: CompanyProxy | None = None,
        ags_home: Path | None = None,
    ) -> None:
        """`extra` are further CAs of the person's, as PEM: trusted inside and by the fence."""
        self._system = _system_roots(environ)
        self._extra = extra
        self._ags_home = ags_home
        self._authority = tls.Authority(run)
        self.fence = Fence(
            terms,
            authority=self._authority,
            upstream=tls.upstream(tls.roots(self._system, extra)),
            record=record,
            secret=secret,
            ask=ask,
            proxy=proxy,
        )
        self._helper: netns.Helper | None = None
        self.server: Server | None = None
        self.ports: Ports | None = None
        self._init = 0
        self._listening: set[int] = set()

    def plan(self) -> plan.Network:
        given = dict(tls.environment(plan.BUNDLE, plan.TRUSTSTORE))
        given["AGS_HOST_SERVICES_HOST"] = HOST_NAME
        given["AGS_HOST_SERVICES_HINT"] = SERVICES_HINT
        return plan.Network(
            nameserver=netns.GATEWAY,
            bundle=self._authority.bundle(self._system, self._extra),
            truststore=self._authority.truststore(self._system, self._extra),
            covers=tuple(PurePosixPath(path) for path in COVERED if _is_file(path)),
            environment=tuple(given.items()),
        )

    def get_ready(self) -> None:
        """Start the helper that will go inside, so that it is there when the sandbox is. The
        earlier, the less anybody waits for it."""
        if self._helper is None:
            self._helper = netns.Helper()

    async def open(self, sandbox: Sandbox) -> None:
        """Between launch and release. Raises rather than let a command go without a sound fence."""
        self._listening = set(self.fence.policy.ports)
        wanted = netns.Wanted(ports=tuple(sorted(self._listening)))
        helper, self._helper = self._helper, None
        opened = await netns.open_sockets(sandbox.init, wanted, helper)
        self.server = Server(self.fence, opened)
        self.server.start()
        await self._check(opened)
        check_routes(sandbox.init)
        self._init = sandbox.init
        left = replace(opened, spares=opened.spares[CHECK_SPARES:])
        self.ports = Ports(Spares(sandbox.init, left), opened, self._ags_home)
        await self._listen()  # the policy may be another since it was asked for its ports

    async def change(self, terms: Terms) -> None:
        """Another policy from now on, with listeners for the ports that are new in it."""
        before, self.fence.terms = self.fence.terms, terms
        try:
            await self._listen()
        except BaseException:
            if self.fence.terms is terms:  # and not those of another change since
                self.fence.terms = before
            raise

    async def _listen(self) -> None:
        """On the ports that are new. While the network is being opened, that is left to its end."""
        server, listening = self.server, self._listening
        new = self.fence.policy.ports - listening
        if not new or server is None or self.ports is None:
            return
        listening |= new
        try:
            wanted = netns.Wanted(ports=tuple(sorted(new)), gateway=False, spares=0)
            server.add(await netns.open_sockets(self._init, wanted))
        except BaseException:
            listening -= new
            raise

    async def close(self) -> None:
        """With its sandbox. Another one may be opened then: a run has one for its set-up too."""
        ports, self.ports = self.ports, None
        server, self.server = self.server, None
        helper, self._helper = self._helper, None
        for each in (ports, server, helper):
            if each is not None:
                await each.close()

    async def _check(self, opened: netns.Opened) -> None:
        """From inside: a refused name must be refused, and an allowed one must reach us."""
        assert self.server is not None
        allowed = policy.an_allowed_one(self.fence.policy)
        if allowed is not None and allowed[1] not in self._listening:
            allowed = None  # of a policy that came while the sockets were opened
        cases = [(REFUSED, 443, False), *([(*allowed, True)] if allowed else [])]
        pairs = zip(opened.spares[::2], opened.spares[1::2], strict=True)
        tried = [
            self._reached(*pair, host, port)
            for pair, (host, port, _) in zip(pairs, cases, strict=False)
        ]
        for found, (host, _, expected) in zip(await asyncio.gather(*tried), cases, strict=True):
            if found is not expected:
                raise _unsound(host, f"it is {_SAID[found]}, but must be {_SAID[expected]}")

    async def _reached(
        self, asking: socket.socket, dialling: socket.socket, host: str, port: int
    ) -> bool | None:
        """What was decided of a connection from inside; None if it never came to that."""
        assert self.server is not None
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                address = await _looked_up(asking, host)
                return await self.server.check(dialling, address, port)
        except (TimeoutError, OSError):
            return None


def check_routes(init: int) -> None:
    """No way may lead out of the sandbox, not even one that the fence's own go before."""
    for name, column in (("route", 0), ("ipv6_route", -1)):
        try:
            lines = Path(f"/proc/{init}/net/{name}").read_text().splitlines()
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for words in map(str.split, lines[1:] if name == "route" else lines):
            if words[column] != "lo":
                raise _unsound(
                    words[column], "a route leads to this device, and out of the sandbox"
                )


def _unsound(subject: str, cause: str) -> AgsError:
    return AgsError(
        "raise the network fence",
        subject=subject,
        cause=cause,
        hint="nothing was run; `--no-network` goes without a network",
        exit_code=125,
    )


_SAID = {True: "allowed", False: "refused", None: "not reached"}


async def _looked_up(asking: socket.socket, host: str) -> str:
    """As a program inside would: over the fence's own DNS."""
    asking.setblocking(False)
    await asyncio.get_running_loop().sock_connect(asking, (netns.GATEWAY, netns.DNS))
    link = Link(asking)
    try:
        await link.send(dns.framed(dns.question(host)))
        held = b""
        while data := await link.read():
            messages, held = dns.unframed(held + data)
            for message in messages:
                return socket.inet_ntoa(message[-4:])
        raise ConnectionError("no answer")
    finally:
        with contextlib.suppress(OSError):
            link.close()


def extra_roots(paths: Iterable[Path]) -> tuple[bytes, ...]:
    """What `[network] ca` names, for `Network`."""
    return tuple(map(_pem, paths))


def _pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("read [network] ca", subject=path, cause=cause) from error


def _system_roots(environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """A machine without any trusts nobody, which is no reason not to start."""
    try:
        return tls.system_roots(environ)
    except AgsError:
        return ()


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)
