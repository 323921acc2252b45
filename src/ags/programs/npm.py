"""npm on the host: asks the person's registry, and fetches. It unpacks and runs nothing here.

The person's own npm settings hold, so that a company's registry, its log-in and its CA work, and
stay outside. Settings of a project do not: npm works in a folder of ours.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from pathlib import Path

from ags import proc, records
from ags.egress.registries import setting_files
from ags.errors import AgsError
from ags.frozen import frozen
from ags.programs.node import NETWORK, Node
from ags.programs.release import Document, Release, read

ASK_TIMEOUT, LOCK_TIMEOUT, FETCH_TIMEOUT = 90.0, 600.0, 3600.0
LOCK_FILE = "package-lock.json"
CPUS = {"x86_64": "x64", "aarch64": "arm64", "i686": "ia32", "armv7l": "arm"}
MOST_PACKAGES = 5000

# Said on the command line, because these go before whatever the person's settings say. A dependency
# from git would be cloned, and its own settings obeyed: there is no git for npm.
OURS = (
    "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress",
    "--loglevel=error", "--git=/bin/false", "--no-global", "--no-dry-run", "--include=optional",
    "--package-lock=true", "--lockfile-version=3", "--install-strategy=hoisted",
    "--no-bin-links", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=10000",
)  # fmt: skip
_NAME = r"(?:@[A-Za-z0-9~][\w.~-]{0,213}/)?[A-Za-z0-9~_][\w.~-]{0,213}"
_VERSION = r"[0-9][0-9A-Za-z.+-]{0,127}"
_VARIABLE = re.compile(r"\$\{(\w{1,128})\??\}", re.ASCII)
_REASONS = (
    (r"code E40[13]\b", "the registry refuses it", "log in to your registry: `npm login`"),
    (r"code E404\b", "the registry has no such package", "see [update] in your settings"),
    (r"code (ETARGET|ENOVERSIONS)\b", "no version of it, or of what it needs, is old enough",
     "`--version V` takes one that is younger; [update] minimum_release_age is the rule"),
    (r"code EINTEGRITY\b", "what was fetched is not what the registry announced",
     "try again; if it stays so, do not use this version"),
    (r"\bENOSPC\b|no space left", "the disk is full", "make room, then try again"),
    (r"CERT|self.signed|issuer certificate", "the registry's certificate is not trusted",
     "name your company's CA by `npm config set cafile PATH`, or NODE_EXTRA_CA_CERTS"),
    (r"ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET|network",
     "the registry cannot be reached", "check the network, and `npm config get registry`"),
)  # fmt: skip


@frozen
class Package:
    """One that has to be there, as the lock file names it."""

    name: str
    version: str


@frozen
class Npm:
    """A Node's npm, under the person's settings for registries."""

    node: Node
    environment: tuple[tuple[str, str], ...]
    lock: int | None = None
    """Of the place that is worked on: npm holds it too."""

    async def view(self, package: str, folder: Path) -> Document:
        """Which versions there are. `folder` is an empty one of ours."""
        words = ("view", "--json", package, "time", "versions", "dist-tags")
        cached = (*words, f"--cache={folder}/cache")
        said = await self._run(folder, f"look for {package}", cached, ASK_TIMEOUT)
        try:
            return read(package, json.loads(said))
        except (ValueError, RecursionError):
            cause = "what the registry said cannot be read"
            raise AgsError("look for a package", subject=package, cause=cause) from None

    async def resolve(
        self, tree: Path, cache: Path, package: str, spec: str, chosen: Release
    ) -> None:
        """Settle the version and checksum of all that it needs, without any of it."""
        wanted = {"name": "agent", "private": True, "dependencies": {package: spec}}
        (tree / "package.json").write_text(json.dumps(wanted))
        before = chosen.before and chosen.before.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        words = ("install", "--package-lock-only", "--no-omit-lockfile-registry-resolved")
        dated = (f"--before={before}",) if before else ()
        words = (*words, f"--cache={cache}", *dated)
        await self._run(tree, f"resolve {package}@{chosen.version}", words, LOCK_TIMEOUT)

    async def fetch(self, folder: Path, cache: Path, packages: Iterable[Package]) -> None:
        """Into npm's cache, by which each is known by its checksum."""
        named = (f"{each.name}@{each.version}" for each in packages)
        words = ("cache", "add", "--prefer-offline", f"--cache={cache}", *named)
        await self._run(folder, "fetch the packages", words, FETCH_TIMEOUT)

    async def _run(self, folder: Path, what: str, words: tuple[str, ...], timeout: float) -> str:
        argv = ("/usr/bin/env", f"--chdir={folder}", *self.node.command(), words[0], *OURS)
        try:
            done = await proc.run(
                (*argv, f"--prefix={folder}", *words[1:]),
                env=dict(self.environment),
                stdin=b"" if self.lock is None else self.lock,
                timeout=timeout,
            )
        except proc.ProcessError as error:
            raise _explained(what, error) from error
        return done.text


def npm(node: Node, environ: Mapping[str, str], home: Path, lock: int | None = None) -> Npm:
    """With what npm needs of the person's environment and nothing else."""
    own = {name for name in environ if name.lower().startswith("npm_config_")}
    named = set(_mentioned(setting_files("npm", home, environ)))
    kept = {name: environ[name] for name in (*sorted(own | named), *NETWORK) if name in environ}
    path = f"{node.program.parent}:{proc.SYSTEM_PATH}"
    ours = {"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8"}
    return Npm(node, tuple({**kept, **ours}.items()), lock)


def _mentioned(files: Iterable[Path]) -> Iterator[str]:
    """The variables that the person's settings refer to, such as one with a token."""
    for file in files:
        try:
            text = file.read_text(errors="replace")[: 1 << 20]
        except OSError:
            continue
        yield from _VARIABLE.findall(text)


def _explained(what: str, error: proc.ProcessError) -> AgsError:
    lines = [line for line in error.said.splitlines() if re.match(r"npm (error|ERR!)", line)]
    told = [re.sub(r"^npm (error|ERR!) ?", "", line) for line in lines]
    told = [line for line in told if line.strip() and "complete log" not in line][:6]
    tail = "\n".join(told) if told else error.cause
    for pattern, cause, hint in _REASONS:
        if re.search(pattern, error.said, re.IGNORECASE):
            return AgsError(what, cause=f"{cause}\n{tail}", hint=hint)
    return AgsError(what, cause=tail)


def needed(tree: Path, is_here: Callable[[Mapping[str, object]], bool]) -> tuple[Package, ...]:
    """What the lock file lists for this machine. It is made from what strangers wrote."""
    try:
        told = json.loads(records.read_file(tree / LOCK_FILE)[0])
        listed = [(path, entry) for path, entry in told["packages"].items() if path]
        found = [_package(path, entry) for path, entry in listed if is_here(entry)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        cause = "npm's lock file is not of the kind that is known"
        raise AgsError("read what it needs", subject=tree / LOCK_FILE, cause=cause) from error
    if len(found) > MOST_PACKAGES:
        raise AgsError("install it", cause=f"it needs more than {MOST_PACKAGES} packages")
    return tuple(dict.fromkeys(found))


def _package(path: str, entry: Mapping[str, object]) -> Package:
    name = str(entry.get("name") or path.rpartition("node_modules/")[2])
    version, resolved = str(entry.get("version")), str(entry.get("resolved"))
    plain = re.fullmatch(_NAME, name) and re.fullmatch(_VERSION, version)
    strange = entry.get("link") or any(map(_is_elsewhere, _specs(entry)))
    if not plain or strange or not resolved.startswith(("https://", "http://")):
        raise AgsError("install it", subject=name, cause="it needs what is in no registry")
    if not str(entry.get("integrity")).startswith("sha"):
        raise AgsError("install it", subject=name, cause="the registry gives no checksum of it")
    return Package(name, version)


def _specs(entry: Mapping[str, object]) -> Iterator[str]:
    for kind in ("dependencies", "optionalDependencies"):
        found = entry.get(kind)
        yield from map(str, found.values() if isinstance(found, dict) else ())


def _is_elsewhere(spec: str) -> bool:
    """Whether it means an address, a folder or a repository: nobody says how old these are."""
    return re.search(r"[:/]", re.sub(rf"^npm:{_NAME}@", "", spec)) is not None


def for_this_machine(entry: Mapping[str, object]) -> bool:
    """Whether npm would install it here."""
    libc = "glibc" if platform.libc_ver()[0] == "glibc" else "musl"
    here = {"os": "linux", "cpu": CPUS.get(os.uname().machine, ""), "libc": libc}
    return all(_fits(entry.get(key), value) for key, value in here.items())


def _fits(wanted: object, value: str) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []
    allowed = [name for name in names if not str(name).startswith("!")]
    return f"!{value}" not in names and (not allowed or value in allowed or "any" in allowed)
