"""What is mounted, and what the command finds in its environment: from values to a Plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path, PurePath, PurePosixPath

from ags.frozen import frozen
from ags.host import Entry, Host
from ags.model import (
    Bind,
    Cover,
    Dev,
    Directory,
    Identity,
    Limits,
    Link,
    Mask,
    MountStep,
    Plan,
    Proc,
    ReadOnly,
    Text,
    Tmpfs,
    Weakening,
)


@frozen
class Sizes:
    """Room in memory for what is thrown away at the end."""

    tmp: int
    home: int
    shm: int


@frozen
class Network:
    """What a command finds of the fence. Without one there is no network at all."""

    nameserver: str
    bundle: bytes
    """Trusted CAs, the fence's own among them, as PEM ..."""
    truststore: bytes
    """... and as Java has them."""
    covers: tuple[PurePosixPath, ...] = ()
    """Files of the system that the bundle takes the place of."""
    environment: tuple[tuple[str, str], ...] = ()


BUNDLE, TRUSTSTORE = PurePosixPath("/etc/ags/ca.pem"), PurePosixPath("/etc/ags/cacerts")


@frozen
class Spec:
    """What is asked for, with every path already judged and resolved."""

    run: str
    command: tuple[str, ...]
    cwd: Path
    identity: Identity
    limits: Limits
    sizes: Sizes
    binds: tuple[Bind, ...]
    """The workspace and all that the person's settings and flags add."""
    toolchains: tuple[MountStep, ...] = ()
    protections: tuple[MountStep, ...] = ()
    """What covers parts of the writable binds, such as editor settings."""
    path: tuple[str, ...] = ("/usr/local/bin", "/usr/bin", "/bin")
    environment: tuple[tuple[str, str], ...] = ()
    gitconfig: str = ""
    hostname: str = "ags"
    ptrace: bool = False
    network: Network | None = None
    home: Bind | None = None
    """A folder that is the run's home. Without one it is in memory, and gone afterwards."""
    given: tuple[MountStep, ...] = ()
    """What an agent has that is neither the system's nor the person's: its program, its orders."""
    weakenings: tuple[Weakening, ...] = ()


def build(spec: Spec, host: Host) -> Plan:
    """Pure: the same spec on the same host is the same plan."""
    return Plan(
        run=spec.run,
        command=spec.command,
        cwd=PurePosixPath(spec.cwd),
        environment=tuple(_environment(spec, host)),
        mounts=tuple(_mounts(spec, host)),
        identity=spec.identity,
        limits=spec.limits,
        hostname=spec.hostname,
        ptrace=spec.ptrace,
        weakenings=(*spec.weakenings, *_ptrace_weakening(spec)),
    )


def _mounts(spec: Spec, host: Host) -> Iterator[MountStep]:
    """Later covers earlier: first the system, then the person's, then what protects it."""
    yield from _system(host)
    yield from _etc(spec, host)
    yield from _kernel_folders(spec, host)
    yield from _scratch(spec)
    yield from spec.toolchains
    # Parents first: a read-only folder must not cover a writable one below it, nor the reverse.
    yield from sorted(spec.binds, key=lambda bind: len(bind.target.parts))
    yield from spec.protections
    yield from spec.given
    yield ReadOnly(PurePosixPath("/"))


def _system(host: Host) -> Iterator[MountStep]:
    yield Bind(Path("/usr"), PurePosixPath("/usr"))
    yield from map(_entry, host.root)


def _entry(entry: Entry) -> MountStep:
    target = PurePosixPath(entry.path)
    if entry.link is not None:
        return Link(target, entry.link)
    if entry.content is not None:
        return Text(target, entry.content)
    return Bind(entry.path, target)


def _etc(spec: Spec, host: Host) -> Iterator[MountStep]:
    who, etc = spec.identity, PurePosixPath("/etc")
    shell = host.shell
    yield Directory(etc)
    yield Text(
        etc / "passwd",
        f"{who.name}:x:{who.uid}:{who.gid}:{who.name}:{home_of(who)}:{shell}\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n".encode(),
    )
    yield Text(etc / "group", f"{who.name}:x:{who.gid}:\nnogroup:x:65534:\n".encode())
    yield Text(
        etc / "hosts",
        f"127.0.0.1 localhost {spec.hostname}\n::1 localhost {spec.hostname}\n".encode(),
    )
    yield Text(etc / "hostname", f"{spec.hostname}\n".encode())
    yield Text(etc / "resolv.conf", _resolver(spec.network))
    yield Text(
        etc / "nsswitch.conf",
        b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
        b"networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n",
    )
    if spec.gitconfig:
        yield Text(etc / "gitconfig", spec.gitconfig.encode())
    yield from map(_entry, host.etc)
    if (network := spec.network) is not None:
        yield Text(BUNDLE, network.bundle)
        yield Text(TRUSTSTORE, network.truststore)
        yield from (Cover(path, network.bundle) for path in network.covers)


def _resolver(network: Network | None) -> bytes:
    if network is None:
        return b"# The sandbox has no network.\n"
    return f"nameserver {network.nameserver}\noptions timeout:2 attempts:2\n".encode()


def _kernel_folders(spec: Spec, host: Host) -> Iterator[MountStep]:
    yield Proc()
    for path in host.proc_read_only:
        yield Bind(path, PurePosixPath(path))
    # bwrap's own process inside. Whoever writes to its memory is no longer set to die with us; and
    # its `exe` leads to the host's bwrap, whose mode its owner could change through it.
    yield Mask(PurePosixPath("/proc/1"), "dir")
    for path, kind in host.proc_masks:
        yield Mask(PurePosixPath(path), kind)
    dev = PurePosixPath("/dev")
    yield Dev(dev)
    yield Tmpfs(dev / "shm", spec.sizes.shm, 0o1777)
    # Without this /dev would be writable memory without a limit.
    yield ReadOnly(dev)


def _scratch(spec: Spec) -> Iterator[MountStep]:
    yield Tmpfs(PurePosixPath("/tmp"), spec.sizes.tmp, 0o1777)
    yield Directory(PurePosixPath("/var"))
    yield Link(PurePosixPath("/var/tmp"), "/tmp")
    home = home_of(spec.identity)
    yield (
        Tmpfs(home, spec.sizes.home, 0o700)
        if spec.home is None
        else replace(spec.home, target=home)
    )


def home_of(who: Identity) -> PurePosixPath:
    """At its own path, since toolchains remember theirs; the root is no home."""
    return PurePosixPath("/home/agent") if who.home == Path("/") else PurePosixPath(who.home)


def _environment(spec: Spec, host: Host) -> Iterator[tuple[str, str]]:
    who = spec.identity
    given = {
        "HOME": str(home_of(who)),
        "USER": who.name,
        "LOGNAME": who.name,
        "SHELL": host.shell,
        "PATH": ":".join(spec.path),
        "AGS_RUN": spec.run,
    }
    network = dict(spec.network.environment) if spec.network else {}
    yield from (given | dict(host.environment) | network | dict(spec.environment)).items()


def _ptrace_weakening(spec: Spec) -> Iterator[Weakening]:
    if spec.ptrace:
        yield Weakening("ptrace", "processes inside may debug one another")


def described(plan: Plan) -> bytes:
    """As JSON for a person to look at; of variables and made-up files only their names."""
    known = {
        "command": plan.command,
        "cwd": str(plan.cwd),
        "environment": [name for name, _ in plan.environment],
        "mounts": [_step(step) for step in plan.mounts],
        "hostname": plan.hostname,
        "ptrace": plan.ptrace,
    }
    return json.dumps(known, indent=1).encode() + b"\n"


def _step(step: MountStep) -> dict[str, object]:
    shown = {each.name: getattr(step, each.name) for each in fields(step)}
    shown.pop("content", None)
    return {"step": type(step).__name__.lower()} | {
        name: str(value) if isinstance(value, PurePath) else value
        for name, value in shown.items()
        if value is not None
    }
