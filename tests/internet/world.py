"""The test's side of the fake internet."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeVar

from tests.internet import repositories, ssh
from tests.internet.certificates import Authority
from tests.internet.place import CLONE_NEWNET
from tests.internet.seen import Packet, Query, Seen, Visit

T = TypeVar("T")
Kin = TypeVar("Kin", bound="Origin")
ROOT = Path(__file__).resolve().parent.parent.parent
CABLE = "net0"
NAMESERVER = "11.0.0.53"
LAN, METADATA = "10.0.0.5", "169.254.169.254"
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", "HOME": "/tmp"}
IN_FOLDER = ("/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh")

# No special range, so that a fence that refuses those lets origins be reached.
OUTSIDE = f"""\
link set lo up
link set {CABLE} up
addr add 11.0.0.2/30 dev {CABLE}
addr add 2c0f::2/64 dev {CABLE} nodad
route add default via 11.0.0.1
route add default via 2c0f::1
"""
# Every address is the world's own, but for the one at the other end of the cable.
WORLD = f"""\
link set lo up
link set {CABLE} up
addr add 11.0.0.1/30 dev {CABLE}
addr add 2c0f::1/64 dev {CABLE} nodad
rule add pref 10 to 11.0.0.2/32 lookup main
rule add pref 100 lookup local
rule del pref 0
route add local default dev lo table local
"""
WORLD6 = """\
rule add pref 10 to 2c0f::2/128 lookup main
rule add pref 20 to fe80::/10 lookup main
rule add pref 100 lookup local
rule del pref 0
route add local default dev lo table local
"""

Kind = Literal["http", "postgres", "echo", "git"]


class Origin:
    """A server somewhere in the world, and what it saw."""

    def __init__(self, world: Internet, number: int, name: str, address: str, port: int) -> None:
        self.world, self.number = world, number
        self.name, self.address, self.port = name, address, port
        self.scheme = "http"

    def url(self, path: str = "/") -> str:
        usual = {"http": 80, "https": 443}[self.scheme] == self.port
        return f"{self.scheme}://{self.name}{'' if usual else f':{self.port}'}{path}"

    @property
    def requests(self) -> list[Seen]:
        """In the order in which they began to arrive."""
        return self.world.ask(list[Seen], "requests", site=self.number)

    @property
    def visits(self) -> list[Visit]:
        """Every connection, be it to nobody's use."""
        return self.world.ask(list[Visit], "visits", site=self.number)

    @property
    def hellos(self) -> list[str | None]:
        """The name in every ClientHello, also of handshakes that came to nothing."""
        return self.world.ask(list[str | None], "hellos", site=self.number)


class GitOrigin(Origin):
    root: Path

    def repository(self, path: str, files: Mapping[str, str]) -> Path:
        """A bare repository with one commit on `main`. It can be pushed to."""
        return repositories.make(self.root / path, files)


class There:
    """Where the fence's outside half runs, as seen from the test."""

    def __init__(self, helper: socket.socket, turn: threading.Lock) -> None:
        self._helper = helper
        self._turn = turn

    def open(
        self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0
    ) -> socket.socket:
        """It lives there, whatever this process does with it."""
        _, fds = self._ask(do="socket", family=family, kind=kind, protocol=protocol)
        return socket.socket(family, kind, protocol, fileno=fds[0])

    def lookup(self, host: str, port: int = 0) -> list[tuple[int, str]]:
        """What a resolver there says: pairs of family and address."""
        answer, _ = self._ask(do="lookup", host=host, port=port)
        return [(family, address) for family, address in answer["found"]]

    def connect(self, host: str, port: int, timeout: float = 60) -> socket.socket:
        family, address = self.lookup(host, port)[0]
        made = self.open(family)
        made.settimeout(timeout)
        try:
            made.connect((address, port))
        except BaseException:
            made.close()
            raise
        return made

    def _ask(self, **what: object) -> tuple[dict[str, Any], list[int]]:
        with self._turn:
            self._helper.send(json.dumps(what).encode())
            data, fds, _, _ = socket.recv_fds(self._helper, 1 << 16, 1)
        answer: dict[str, Any] = json.loads(data)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer, fds


class Internet:
    """The fake internet. Root only: it takes network namespaces."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._asking, self._entering = threading.Lock(), threading.Lock()
        self._made = 0
        self._addresses: dict[str, str] = {}
        self._authority = Authority()
        self.ca = self._authority.certificate

    def __enter__(self) -> Internet:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _build(self) -> None:
        held = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ags-internet-"))
        self.folder = Path(held)
        self.folder.chmod(0o755)
        self.ca_file = self.folder / "ca.pem"
        self.ca_file.write_bytes(self.ca)
        resolver = f"nameserver {NAMESERVER}\noptions timeout:30 attempts:1\n"
        (self.folder / "resolv.conf").write_text(resolver)
        (self.folder / "nsswitch.conf").write_text(
            "passwd: files\ngroup: files\nhosts: files dns\n"
        )
        self._start_helpers()
        self._connect_cable()
        self.ask(None, "begin", cable=CABLE)
        self.lan = self.origin("printer.lan", address=LAN)
        self.metadata = self.origin("metadata.lan", address=METADATA)

    def _start_helpers(self) -> None:
        script = str(Path(__file__).with_name("place.py"))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._there = self._stack.enter_context(ours)
        given = ("-I", "-S", script, str(theirs.fileno()), str(self.folder))
        self.outside = self._helper(theirs, *given)
        world, for_world = socket.socketpair()
        self._control = self._stack.enter_context(Connection(world.detach()))
        module = ("-m", "tests.internet.serve", str(for_world.fileno()), str(self.folder))
        self.inside = self._helper(for_world, *module)
        if self._there.recv(16) != b"ready" or self._control.recv() != "ready":
            raise RuntimeError("the fake internet did not start")

    def _helper(self, control: socket.socket, *arguments: str) -> int:
        """It ends when the other end of `control` is closed, so with this process at the latest."""
        with control:
            process = subprocess.Popen(
                (sys.executable, *arguments),
                cwd=ROOT,
                env={**ENVIRONMENT, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
                pass_fds=[control.fileno()],
                start_new_session=True,
            )
        self._stack.callback(_end, process)
        return process.pid

    def _connect_cable(self) -> None:
        """From one namespace to the other: it never passes through the host's."""
        one, other = ("netns", str(self.outside)), ("netns", str(self.inside))
        peer = ("type", "veth", "peer", "name", CABLE, *other)
        subprocess.run(("ip", "link", "add", "name", CABLE, *one, *peer), check=True)
        for pid, script in ((self.outside, OUTSIDE), (self.inside, WORLD), (self.inside, WORLD6)):
            family = ("-6",) if script is WORLD6 else ()
            command = ("nsenter", f"--net=/proc/{pid}/ns/net", "ip", *family, "-batch", "-")
            subprocess.run(command, input=script, text=True, check=True)

    def ask(self, _: type[T] | None, verb: str, **given: object) -> T:
        with self._asking:
            self._control.send((verb, given))
            error, value = self._control.recv()
        if error:
            raise RuntimeError(error)
        answer: T = value
        return answer

    def origin(
        self,
        name: str,
        *,
        tls: bool = False,
        port: int | None = None,
        address: str | None = None,
        ipv6: str | None = None,
        certificate: str | None = None,
        trusted: bool = True,
        lasts: timedelta = timedelta(days=1),
        kind: Kind = "http",
    ) -> Origin:
        """A server that DNS knows by this name; see `http.PATHS` for what it does.

        A second one of the same name has the same address. `certificate` is the name in its
        certificate if it lies, `trusted=False` takes one of another CA, and `lasts` may be over.
        """
        chain = self._chain(certificate or name, trusted, lasts) if tls else None
        return self._open(Origin, name, kind, address, ipv6, port or (443 if tls else 80), chain)

    def postgres(self, name: str, port: int = 5432) -> Origin:
        return self._open(Origin, name, "postgres", None, None, port, None)

    def git(self, name: str, *, tls: bool = True, credentials: str | None = None) -> GitOrigin:
        """git over HTTP; `credentials` are `user:password`."""
        root = self.folder / f"git-{self._made}"
        root.mkdir()
        chain = self._chain(name, True, timedelta(days=1)) if tls else None
        options = {"root": str(root), "credentials": credentials}
        port = 443 if tls else 80
        origin = self._open(GitOrigin, name, "git", None, None, port, chain, **options)
        origin.root = root
        return origin

    def ssh(self, name: str) -> ssh.Server:
        """git over ssh, if there is an sshd on this machine."""
        address = self._address(name)
        self.answers(name, [address])
        folder = self.folder / f"ssh-{self._made}"
        return self._stack.enter_context(ssh.serving(name, address, folder, self.inside))

    def _chain(self, name: str, trusted: bool, lasts: timedelta) -> str:
        authority = self._authority if trusted else Authority("somebody else")
        path = self.folder / f"chain-{self._made}.pem"
        path.write_bytes(authority.issue(name, lasts))
        return str(path)

    def _open(
        self,
        cls: type[Kin],
        name: str,
        kind: Kind,
        address: str | None,
        ipv6: str | None,
        port: int,
        chain: str | None,
        **options: object,
    ) -> Kin:
        where = self._address(name, address)
        addresses = [where, *([ipv6] if ipv6 else [])]
        given = {"name": name, "kind": kind, "addresses": addresses, "port": port, "chain": chain}
        number = self.ask(int, "open", **given, **options)
        self.answers(name, addresses)
        origin = cls(self, number, name, where, port)
        origin.scheme = "https" if chain else "http"
        return origin

    def _address(self, name: str, wanted: str | None = None) -> str:
        self._made += 1
        made = f"11.1.{self._made // 250}.{self._made % 250 + 1}"
        return self._addresses.setdefault(name, wanted or made)

    def answers(self, name: str, *sets: Sequence[str]) -> None:
        """What DNS says of a name: to the first query the first set, and so on; the last one stays.

        Queries are counted for each record type. What is no address in a set is a CNAME; no set
        at all means that the name exists and has no records.
        """
        self.ask(None, "set_answers", name=name, sets=[list(each) for each in sets])

    @property
    def queries(self) -> list[Query]:
        """Every DNS query that reached any address of the world."""
        return self.ask(list[Query], "queries")

    @property
    def packets(self) -> list[Packet]:
        """Every first packet that came over the cable, wherever it was for."""
        return self.ask(list[Packet], "packets")

    def clear(self) -> None:
        """Forget what was seen."""
        self.ask(None, "clear")

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = "/",
        input: str | None = None,
        timeout: float = 180,
        user: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """To its end, where the fence's outside half runs. `env` adds to a small environment."""
        return subprocess.run(
            self.command(argv, cwd, user),
            env={**ENVIRONMENT, **(env or {})},
            input=input,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )

    def command(
        self, argv: Sequence[str | Path], cwd: str | Path = "/", user: int | None = None
    ) -> list[str]:
        """Arguments that start a program there: with its network and its resolver."""
        become = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        words = (*IN_FOLDER, cwd, *(become if user is not None else ()), *argv)
        return ["nsenter", "-t", str(self.outside), "--net", "--mount", *map(str, words)]

    @contextlib.contextmanager
    def enter(self) -> Iterator[There]:
        """Open sockets there, from here."""
        yield There(self._there, self._entering)

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """The calling thread's network, and that of threads it starts, is the one there.

        The resolver's settings stay the host's, but whichever server they name is the world's.
        """
        with _namespace("/proc/thread-self/ns/net") as before:
            with _namespace(f"/proc/{self.outside}/ns/net") as there:
                _set_namespace(there)
            try:
                yield
            finally:
                _set_namespace(before)


@contextlib.contextmanager
def _namespace(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _set_namespace(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
