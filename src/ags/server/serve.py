"""Sockets, signals and the lock by which a second start finds the first.

Everything runs in one loop in one thread: what acts as another user changes the whole process, and
sandboxes die with the thread that made them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import re
import signal
import socket
import ssl
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from ags import places, records
from ags.egress import origins
from ags.errors import AgsError, Unfit
from ags.frozen import frozen
from ags.kernel import rlimits
from ags.runs.lock import flock
from ags.server import heads, problems
from ags.server.app import build
from ags.server.gate import Ours
from ags.server.log import Format, FromUvicorn, Log
from ags.server.page import Page
from ags.server.state import State

Part = Literal["api", "web"]
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
GRACE = 3
"""Seconds for streams and requests to end by themselves."""
MOST_CONNECTIONS = 500
BACKLOG = 128
DEAF = 60
"""Seconds in which a peer must take something of what it is sent."""
KEPT = 10
"""Seconds that a connection without a request is kept."""
MOST_FRAME = 64 * 1024
SELDOM = 60.0
"""Seconds between warnings of uvicorn that say the same: anybody can cause them."""
DEFAULT_PORT = {"http": 80, "https": 443}
LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
PLACE = re.compile(rf"({LABEL}(\.{LABEL})*|\[[0-9a-f:.]+\])(:[0-9]+)?", re.IGNORECASE)
"""A name or an address, and a port. What urlsplit finds there may be less than what is there."""


@frozen
class Serving:
    """How to be reached."""

    ports: Mapping[Part, int]
    host: str = "127.0.0.1"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    public_url: str = ""
    log: Format = "text"
    dev: bool = False

    @property
    def scheme(self) -> Literal["http", "https"]:
        return "https" if self.tls_cert else "http"


@frozen
class Running:
    """What the lock of a running server says."""

    pid: int
    url: str
    """Of this part: the public one if there is one."""
    local: str = ""
    """For this machine alone, if it listens on loopback."""


# Where to listen. Beyond loopback only by an explicit choice.


def address(host: str) -> Address:
    """The one address meant, whichever way it is spelled."""
    text = host.strip().removeprefix("[").removesuffix("]")
    if text in ("", "*"):
        return ipaddress.IPv4Address("0.0.0.0")  # noqa: S104
    if text.lower() == "localhost":  # whatever a resolver would make of it
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return _as_the_system_reads(text, host)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _as_the_system_reads(text: str, host: str) -> Address:
    """`0`, `127.1` and `0x7f000001` are addresses too."""
    try:
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except (OSError, UnicodeError):
        raise Unfit(
            "listen",
            subject=host,
            cause="it is not an address; where a name leads can change",
            hint="give one of this machine's addresses, such as 127.0.0.1",
        ) from None


def check(serving: Serving) -> Address:
    """Refuse what would let others in without the person having said so."""
    found = address(serving.host)
    if (serving.tls_cert is None) != (serving.tls_key is None):
        raise Unfit("use TLS", cause="certificate and key go together", hint=_TLS_HINT)
    if serving.public_url:
        public(serving.public_url)
    guarded = bool(serving.tls_cert) or serving.behind_proxy
    if not found.is_loopback and not (guarded and serving.public_url):
        raise AgsError(
            "listen beyond this machine",
            subject=serving.host or "''",
            cause="others could reach the server, and read what is sent to it",
            hint=f"say who speaks TLS, and the address people use: {_TLS_HINT}, or"
            " --behind-proxy; and --public-url https://NAME. Or stay on 127.0.0.1",
        )
    if serving.behind_proxy and not serving.public_url:
        cause = "without the address that people use, their requests would be refused"
        raise Unfit("be behind a proxy", cause=cause, hint="add --public-url https://NAME")
    if serving.public_url and not guarded:
        cause = f"nobody speaks TLS for {serving.public_url}"
        hint = f"add {_TLS_HINT}, or --behind-proxy"
        raise Unfit("use the public address", cause=cause, hint=hint)
    return found


_TLS_HINT = "--tls-cert FILE --tls-key FILE"


def public(url: str) -> tuple[str, str]:
    """Host and origin of the address people use."""
    try:
        host = _public_host(url)
    except ValueError:
        cause = "it is not an address such as https://ags.example.org"
        raise Unfit("use the public address", subject=url, cause=cause) from None
    return host, f"https://{host}"


def _public_host(url: str) -> str:
    """As browsers send it; ValueError if none ever would."""
    parts = urlsplit(url)
    named, port = parts.hostname or "", parts.port
    is_plain = parts.path in ("", "/") and not parts.query and not parts.fragment
    is_odd = PLACE.fullmatch(parts.netloc) is None or port == 0
    # urlsplit leaves out line breaks and the like, wherever they are.
    if parts.scheme != "https" or not is_plain or is_odd or not re.fullmatch(r"[!-~]+", url):
        raise ValueError(url)
    host = f"[{ipaddress.IPv6Address(named)}]" if ":" in named else named
    return host if port in (None, 443) else f"{host}:{port}"


def ours(serving: Serving, ports: Sequence[int]) -> Ours:
    """The names under which requests may come in."""
    names = [*LOOPBACK_NAMES]
    if not (bound := address(serving.host)).is_unspecified:
        names.append(f"[{bound}]" if bound.version == 6 else str(bound))
    hosts = {f"{name}:{port}" for name in names for port in ports}
    if DEFAULT_PORT[serving.scheme] in ports:  # browsers leave it out
        hosts |= set(names)
    origins = {f"{serving.scheme}://{host}" for host in hosts}
    if serving.public_url:
        host, origin = public(serving.public_url)
        hosts |= {host, f"{host}:443"} if ":" not in host.rpartition("]")[2] else {host}
        origins.add(origin)
    return Ours(frozenset(hosts), frozenset(origins))


def bind(at: Address, port: int) -> socket.socket:
    """A socket that listens, so that a port in use is known now."""
    family = socket.AF_INET6 if at.version == 6 else socket.AF_INET
    # With its protocol named: only then does asyncio send small answers at once (TCP_NODELAY).
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections have it from here: one that takes nothing more is given up, with its buffers.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAF * 1000)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((str(at), port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except (OSError, OverflowError) as error:
        sock.close()
        raise _bind_error(at, port, error) from error
    return sock


def _bind_error(at: Address, port: int, error: OSError | OverflowError) -> AgsError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        cause, hint = "another program listens there", "end it, or choose another with --port"
    elif number == errno.EACCES:
        cause, hint = "only root may use ports below 1024", "choose another with --port"
    else:
        cause, hint = str(error), "choose another with --host or --port"
    return AgsError("listen", subject=f"{at} port {port}", cause=cause, hint=hint)


# The lock of each part: who holds it, serves it.


@contextlib.contextmanager
def seats(ags_home: Path, parts: Sequence[Part]) -> Iterator[dict[Part, int]]:
    """Take the locks that are free; what is missing from the answer is served already."""
    places.make_state_folder(ags_home)
    with contextlib.ExitStack() as held:
        taken: dict[Part, int] = {}
        with _written(ags_home):
            (ags_home / "server").mkdir(mode=0o700, exist_ok=True)
            for part in parts:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(_lock_file(ags_home, part), flags, 0o600)
                held.callback(os.close, descriptor)
                if flock(descriptor, 0):
                    os.truncate(descriptor, 0)
                    taken[part] = descriptor
        yield taken


@contextlib.contextmanager
def _written(ags_home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise records.write_error("start the server", ags_home / "server", error) from error


def running(ags_home: Path, part: Part, patience: float = 5.0) -> Running | None:
    """Who serves that part now. One that is only just starting is waited for."""
    try:
        descriptor = os.open(_lock_file(ags_home, part), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if flock(descriptor, 0):
            return None
        return _told_by(ags_home, part, patience)
    finally:
        os.close(descriptor)


def _told_by(ags_home: Path, part: Part, patience: float) -> Running:
    until = time.monotonic() + patience
    while True:
        try:
            return records.decode(Running, records.read_file(_lock_file(ags_home, part))[0])
        except ValueError:
            if time.monotonic() > until:
                cause = "it has been starting for long"
                raise AgsError("find the server", subject=part, cause=cause) from None
        time.sleep(0.02)


def _lock_file(ags_home: Path, part: Part) -> Path:
    return ags_home / "server" / f"{part}.lock"


# Serving


@contextlib.contextmanager
def listening(
    ags_home: Path, serving: Serving, taken: Mapping[Part, int]
) -> Iterator[dict[Part, socket.socket]]:
    """A socket for each part, and the word of it in each lock."""
    at = check(serving)
    _check_tls(serving)
    with contextlib.ExitStack() as held:
        sockets = {
            part: held.enter_context(contextlib.closing(bind(at, serving.ports[part])))
            for part in taken
        }
        for part, descriptor in taken.items():
            port = sockets[part].getsockname()[1]
            url, local = url_of(serving, at, sockets[part]), local_url(serving, at, port)
            running = Running(os.getpid(), url, local)
            with _written(ags_home):
                _claim(ags_home, port)
                os.pwrite(descriptor, records.encode(running), 0)
        yield sockets


def _claim(ags_home: Path, port: int) -> None:
    if port in origins.agents(ags_home):
        raise AgsError(
            "listen",
            subject=f"port {port}",
            cause="an agent's server was published there once, and a browser may still keep what"
            " it left for this address",
            hint="choose another with --port or --api-port",
        )
    origins.note(ags_home, "served", port)


def urls(serving: Serving, sockets: Mapping[Part, socket.socket]) -> dict[Part, str]:
    at = address(serving.host)
    return {part: url_of(serving, at, sock) for part, sock in sockets.items()}


def url_of(serving: Serving, at: Address, sock: socket.socket) -> str:
    if serving.public_url:
        return public(serving.public_url)[1]
    host = f"[{at}]" if at.version == 6 else str(at)
    return f"{serving.scheme}://{host}:{sock.getsockname()[1]}"


def local_url(serving: Serving, at: Address, port: int) -> str:
    """Nothing for another address of this machine: on loopback somebody else may have the port."""
    host = at
    if at.is_unspecified:
        host = address("127.0.0.1" if at.version == 4 else "::1")
    named = f"[{host}]" if host.version == 6 else str(host)
    return f"{serving.scheme}://{named}:{port}" if host.is_loopback else ""


def _check_tls(serving: Serving) -> None:
    if serving.tls_cert is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A key with a pass phrase would ask for it on the terminal, and again at each start.
        context.load_cert_chain(serving.tls_cert, serving.tls_key, password=lambda: b"")
    except (OSError, ValueError) as error:
        cause = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise AgsError("use the certificate", subject=serving.tls_cert, cause=cause) from error


async def serve(state: State, serving: Serving, sockets: Mapping[Part, socket.socket]) -> None:
    """Until a signal says otherwise. Runs do not notice."""
    rlimits.raise_open_files()
    page = Page(dev=serving.dev) if "web" in sockets else None
    known = ours(serving, [each.getsockname()[1] for each in sockets.values()])
    await Server(build(state, known, page), serving, state).serve([*sockets.values()])


class Server(uvicorn.Server):
    """Uvicorn, without threads or log of its own, that tells streams to end before it does."""

    def __init__(self, app: ASGIApp, serving: Serving, state: State) -> None:
        super().__init__(_config(self._answer, serving, state.log))
        self._app = app
        self._state = state
        self.servers = []

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """In the place of uvicorn's own bound, which would be told in plain text."""
        if scope["type"] == "http" and len(self.server_state.connections) >= MOST_CONNECTIONS:
            logging.getLogger("uvicorn.error").warning("Too many connections: one is refused.")
            cause, hint = "too many are open", "close a page or a terminal, then try again"
            headers = {"Connection": "close", "Retry-After": "5"}
            title = "Cannot take another connection"
            told = problems.answer(503, title, detail=cause, hint=hint, headers=headers)
            await told(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self.end)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def end(self) -> None:
        """The second time, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._state.stopping.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """In uvicorn's place: it would wait a minute for a TLS handshake."""
        await asyncio.gather(*(self._listen(each) for each in sockets or ()))
        self.started = True
        self._state.log.event("serving", pid=os.getpid())
        notify(self._state.environ, "READY=1")

    async def _listen(self, sock: socket.socket) -> None:
        tls = self.config.ssl
        patience = heads.PATIENCE if tls else None
        self.servers.append(
            await asyncio.get_running_loop().create_server(
                lambda: heads.Prompt(self.config, self.server_state, {}),
                sock=sock,
                backlog=self.config.backlog,
                ssl=tls,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.log.event("ending")
        notify(self._state.environ, "STOPPING=1")
        cancelled = set(self._state.tasks)
        for task in cancelled:
            task.cancel()
        await super().shutdown(sockets)
        for task in self._state.tasks - cancelled:  # of requests that were still being answered
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)


def _config(app: ASGIApp, serving: Serving, log: Log) -> uvicorn.Config:
    logger = logging.getLogger("uvicorn.error")
    told = FromUvicorn(log)
    told.addFilter(Seldom())
    logger.handlers, logger.propagate = [told], False
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=heads.Prompt,
        ws=heads.Socket,
        ws_max_size=MOST_FRAME,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=GRACE,
        ssl_certfile=serving.tls_cert,
        ssl_keyfile=str(serving.tls_key) if serving.tls_key else None,
    )


class Seldom(logging.Filter):
    """Lets a warning through once a minute, and each error."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, text = time.monotonic(), str(record.msg)
        if record.levelno >= logging.ERROR:
            return True
        if now - self._told.get(text, -SELDOM) < SELDOM:
            return False
        self._told[text] = now
        return True


def notify(environ: Mapping[str, str], word: str) -> None:
    """To systemd, where that waits for it."""
    path = environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.sendto(word.encode(), f"\0{path[1:]}" if path[0] == "@" else path)
