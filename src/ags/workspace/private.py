"""The git directory that an agent has instead of the person's own.

It starts without objects and borrows the project's through a read-only mount. Because that mount
is read-only, git inside writes a copy of its own even of an object the project happens to have,
so nothing the agent makes hangs on what a `git gc` on the host might take away. What it only
reads does: the base commit is held by a ref of ours, the person's other branches by their own
refs, until the person deletes one *and* prunes while the run is on.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from ags.errors import AgsError
from ags.model import MIB, Bind, Mask, MountStep
from ags.workspace import git
from ags.workspace.git import Repository
from ags.workspace.tree import Owner, closing, descend, parts, shown

INSIDE = PurePosixPath("/ags/git")
BORROWED = PurePosixPath("/ags/base")
BRANCH = re.compile(r"agent--[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?")
RUN_ID = re.compile(r"[0-9a-z][0-9a-z-]{0,63}")
MOST_FILE = 256 * MIB
MOST_STORES = 8
"""Git itself follows alternates of alternates five deep."""

# Settings that are carried in: of these none is more than a word, a name or a number ...
CARRIED = re.compile(
    r"core\.(autocrlf|eol|safecrlf|filemode|symlinks|ignorecase|precomposeunicode|sparsecheckout"
    r"|sparsecheckoutcone|bigfilethreshold)|extensions\.(objectformat|refstorage)"
    r"|core\.repositoryformatversion|user\.(name|email)|index\.(version|sparse)"
    r"|init\.defaultbranch|branch\..*\.(remote|merge)|remote\..*\.fetch|submodule\..*\.url"
    r"|lfs\.repositoryformatversion"
    # ... except filters, which are commands, and run inside only.
    r"|filter\..*\.(clean|smudge|process|required)"
)
REMOTE = re.compile(r"remote\..*\.(url|pushurl)")
NEVER = {
    "core.hookspath": "hooks",
    "core.fsmonitor": "the file system monitor",
    "core.sshcommand": "the ssh command",
    "gpg": "signing",
    "credential": "credential helpers",
    "alias": "aliases",
    "include": "included settings",
    "includeif": "included settings",
    "diff": "diff drivers",
    "merge": "merge drivers",
}
STORE_ENTRY = re.compile(r"[0-9a-f]{2}|pack|info|tmp_.*|incoming-.*|loose-object-idx|\.nfs.*")


@dataclass(frozen=True, slots=True)
class Private:
    """A private git directory, ready to be mounted over a workspace's `.git`."""

    git_dir: Path
    steps: tuple[MountStep, ...]
    """To come after the workspace's own mounts and protections."""
    left_out: tuple[str, ...]
    """What the agent's git does without, each a short sentence."""


@dataclass(frozen=True, slots=True)
class Position:
    """What is checked out."""

    ref: str | None
    """None when no branch is."""
    commit: str | None

    @property
    def head(self) -> bytes:
        """As a file HEAD has it."""
        return os.fsencode(f"ref: {self.ref}\n" if self.ref else f"{self.commit}\n")


async def position(repository: Repository) -> Position:
    """Where the person is."""
    asked = await git.run(repository, "symbolic-ref", "--quiet", "HEAD", check=False)
    found = await git.run(repository, "rev-parse", "--verify", "--quiet", "HEAD", check=False)
    ref = os.fsdecode(asked.stdout).rstrip("\n") if asked.code == 0 else None
    return Position(ref, found.text.strip() if found.code == 0 else None)


async def staged(repository: Repository, index: Path) -> str | None:
    """A hash of what an index holds; None when there is none.

    Not of the file itself, which git writes anew when somebody asks for the status.
    """
    if not os.path.exists(index):  # noqa: ASYNC240
        return None
    given = {"GIT_INDEX_FILE": str(index)}
    listed = await git.run(repository, "ls-files", "--stage", "-z", env=given)
    return hashlib.sha256(listed.stdout).hexdigest()


async def build(
    repository: Repository,
    *,
    into: Path,
    branch: str,
    base: str | None,
    run: str,
    workspace: Path,
    home: Path,
    index: bool = False,
    head: bytes | None = None,
) -> Private:
    """Make `into`, and pin `base` in the project. With `index`, the person's own comes along.

    `workspace` is the folder that the agent will work in, `home` the one of the person whose
    global settings count. `head` is for HEAD, if not the run's branch is to be checked out.
    """
    _check_names(branch, run)
    stores = tuple(_stores(repository))
    settings, refs, _ = await asyncio.gather(
        git.effective(repository, home), _refs(repository, branch, base), pin(repository, run, base)
    )
    is_file = (workspace / ".git").is_file()
    inside = INSIDE if is_file else PurePosixPath(workspace / ".git")
    files = {
        "HEAD": head if head is not None else f"ref: refs/heads/{branch}\n".encode(),
        "config": os.fsencode(_config(repository, settings, inside)),
        "packed-refs": refs.packed,
        "objects/info/alternates": b"".join(f"{_place(n)}\n".encode() for n in range(len(stores))),
        "info/global-exclude": _personal(settings, home, "core.excludesfile", "ignore"),
        "info/global-attributes": _personal(settings, home, "core.attributesfile", "attributes"),
        **refs.symbolic,
        **dict(_taken(repository, index=index)),
    }
    _write(into, files, repository.owner)
    if index:
        _keep_times(repository, into / "git")
    lfs = _lfs(repository)
    return Private(
        into / "git",
        tuple(_steps(into, workspace, stores, lfs, is_file=is_file)),
        tuple(dict.fromkeys(_left_out(repository, settings))),
    )


def mounts(repository: Repository, *, into: Path, workspace: Path) -> tuple[MountStep, ...]:
    """The steps again, for a private directory that was built earlier."""
    is_file = (workspace / ".git").is_file()
    stores = tuple(_stores(repository))
    return tuple(_steps(into, workspace, stores, _lfs(repository), is_file=is_file))


async def pin(repository: Repository, run: str, commit: str | None, what: str = "base") -> None:
    """Keep the base commit of a run, if it has one, or another of it from being pruned."""
    if commit is not None:
        await git.run(repository, "update-ref", f"refs/ags/{what}/{run}", commit)


def _check_names(branch: str, run: str) -> None:
    if not BRANCH.fullmatch(branch):
        raise AgsError("use the branch", subject=shown(branch), cause="it is not one of a run's")
    if not RUN_ID.fullmatch(run):
        raise AgsError("use the run", subject=shown(run), cause="that is not a run's id")


@dataclass(frozen=True, slots=True)
class _Refs:
    packed: bytes
    symbolic: dict[str, bytes]


async def _refs(repository: Repository, branch: str, base: str | None) -> _Refs:
    """All the person's refs but ours, in one file, with the run's branch at its base."""
    listed = await git.run(
        repository,
        *("for-each-ref", "--format=%(refname)%00%(objectname)%00%(*objectname)%00%(symref)"),
    )
    own = f"refs/heads/{branch}"
    found = {} if base is None else {own: (base, "")}
    symbolic = {}
    for line in os.fsdecode(listed.stdout).split("\n")[:-1]:
        name, target, peeled, points_to = line.split("\0")
        if name.startswith("refs/ags/") or name == own:
            continue
        if points_to:
            symbolic[name] = os.fsencode(f"ref: {points_to}\n")
        else:
            found[name] = (target, peeled)
    lines = ["# pack-refs with: peeled fully-peeled sorted \n"]
    for name in sorted(found, key=os.fsencode):
        target, peeled = found[name]
        lines += [f"{target} {name}\n", *([f"^{peeled}\n"] if peeled else [])]
    return _Refs(os.fsencode("".join(lines)), symbolic)


def _config(
    repository: Repository, settings: Sequence[tuple[str, str, str]], inside: PurePosixPath
) -> str:
    """Values that may be given several times stay so; the last one counts for the others."""
    lines = [git.config_entry("core.repositoryformatversion", "0")]
    for _, key, value in settings:
        if "\n" in key:
            continue
        if CARRIED.fullmatch(key):
            lines.append(git.config_entry(key, value))
        elif REMOTE.fullmatch(key) and (address := without_credentials(value)):
            lines.append(git.config_entry(key, address))
    own = {
        "core.bare": "false",
        "core.checkStat": "minimal",
        "core.logAllRefUpdates": "true",
        "core.excludesFile": f"{inside}/info/global-exclude",
        "core.attributesFile": f"{inside}/info/global-attributes",
        "gc.auto": "0",
        "maintenance.auto": "false",
    }
    return "".join(lines) + git.config_text(own)


def without_credentials(address: str) -> str:
    """An address as others may see it; empty for one that is a command."""
    if "::" in address.split("/", 1)[0]:
        return ""
    scheme, mark, _ = address.partition("://")
    if not mark:
        return address  # a path, or the form host:path, whose user is part of the address
    try:
        split = urlsplit(address)
    except ValueError:
        return ""
    user, at, host = split.netloc.rpartition("@")
    if scheme.lower() in ("ssh", "git+ssh", "ssh+git"):
        host = f"{user.partition(':')[0]}{at}{host}"
    return f"{scheme}://{host}{split.path}"


def _personal(
    settings: Sequence[tuple[str, str, str]], home: Path, key: str, default: str
) -> bytes:
    """A file that the person's settings name. A repository's settings could name any: not asked."""
    named = [value for scope, k, value in settings if k == key and scope in ("global", "system")]
    file = Path(named[-1].replace("~", str(home), 1)) if named else home / ".config/git" / default
    try:
        if file.is_absolute() and file.stat().st_size <= MOST_FILE:
            return file.read_bytes()
    except OSError:
        pass
    return b""


def _taken(repository: Repository, *, index: bool) -> Iterator[tuple[str, bytes]]:
    common = {"info/exclude", "info/attributes", "shallow"}
    own = {"info/sparse-checkout"}
    if index:
        own |= {"index", *(path.name for path in repository.git_dir.glob("sharedindex.*"))}
    for folder, names in ((repository.common, common), (repository.git_dir, own)):
        for name in sorted(names):
            if (found := content(folder, name)) is not None:
                yield name, found


def content(top: Path, path: str) -> bytes | None:
    """A file of a git directory. A link there could lead to anything of the person's."""
    *leading, name = parts(path)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with (
            closing(os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as start,
            closing(descend(start, leading)) as folder,
            open(os.open(name, flags, dir_fd=folder), "rb") as file,
        ):
            facts = os.fstat(file.fileno())
            if stat.S_ISREG(facts.st_mode) and facts.st_size <= MOST_FILE:
                return file.read()
    except OSError:
        pass
    return None


def _stores(repository: Repository) -> Iterator[Path]:
    """The project's objects, and those that it borrows itself."""
    pending = [repository.common / "objects"]
    seen: set[Path] = set()
    while pending:
        store = pending.pop(0).resolve()
        if store in seen:
            continue
        seen.add(store)
        _check_store(store)
        if len(seen) > MOST_STORES:
            raise AgsError(
                "borrow the project's objects", subject=store, cause="it borrows from too many"
            )
        yield store
        listed = content(store, "info/alternates") or b""
        lines = (line for line in listed.split(b"\n") if line and not line.startswith(b"#"))
        pending += [store / os.fsdecode(line) for line in lines]


def _check_store(store: Path) -> None:
    """A repository can name any folder as a place of objects, and it would be seen inside."""
    try:
        strangers = [name for name in os.listdir(store) if not STORE_ENTRY.fullmatch(name)]
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("borrow the project's objects", subject=store, cause=cause) from error
    if strangers:
        raise AgsError(
            "borrow the project's objects",
            subject=store,
            cause=f"{shown(strangers[0])!r} is there, so it is no folder of git objects",
            hint="look at objects/info/alternates in the git directory",
        )


def _lfs(repository: Repository) -> Path | None:
    folder = repository.common / "lfs" / "objects"
    if folder.is_symlink() or folder.parent.is_symlink() or not folder.is_dir():
        return None
    return folder.resolve()


def _place(number: int) -> PurePosixPath:
    return BORROWED / ("objects" if number == 0 else f"{number}/objects")


def _steps(
    into: Path, workspace: Path, stores: Sequence[Path], lfs: Path | None, *, is_file: bool
) -> Iterator[MountStep]:
    place = PurePosixPath(workspace / ".git")
    if is_file:
        yield Bind(into / "git", INSIDE, writable=True)
        yield Bind(into / "git-file", place)
    else:
        yield Bind(into / "git", place, writable=True)
    for number, store in enumerate(stores):
        yield Bind(store, _place(number))
        if (store / "info/alternates").exists():
            # Its paths are the host's; ours are all in the private directory's own list.
            yield Mask(_place(number) / "info/alternates", "file")
    if lfs is not None:
        yield Bind(lfs, BORROWED / "lfs/objects")


def _write(into: Path, files: dict[str, bytes], owner: Owner) -> None:
    try:
        into.mkdir(mode=0o700)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("make the private git directory", subject=into, cause=cause) from error
    folders = {"objects/pack", "refs/heads", "refs/tags"} | {
        str(PurePosixPath(name).parent) for name in files
    }
    for folder in folders:
        (into / "git" / folder).mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (into / "git" / name).write_bytes(data)
    (into / "git-file").write_text(f"gitdir: {INSIDE}\n")
    if os.geteuid() == 0:
        for path in (into, *into.rglob("*")):
            os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def _keep_times(repository: Repository, git_dir: Path) -> None:
    """By the time of its index git knows which files it cannot tell by theirs."""
    for name in _names(git_dir):
        if name == "index" or name.startswith("sharedindex."):
            facts = (repository.git_dir / name).lstat()
            os.utime(git_dir / name, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _left_out(repository: Repository, settings: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    keys = {key for scope, key, _ in settings if scope in ("local", "worktree")}
    sections = keys | {key.partition(".")[0] for key in keys}
    driver = re.compile(r"(diff|merge)\..*\.(command|textconv|driver)")
    for key, what in NEVER.items():
        if key in ("diff", "merge"):
            present = any(driver.fullmatch(each) and each.startswith(key) for each in keys)
        else:
            present = key in sections
        if present:
            yield f"{what} of the repository's settings: not there inside"
    if any(not name.endswith(".sample") for name in _names(repository.common / "hooks")):
        yield "the repository's hooks: they do not run for an agent"
    if repository.is_partial:
        yield "objects this partial clone has not fetched yet: they are missing inside"
    if _names(repository.common / "modules"):
        yield "submodules: their repositories are not there inside"


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
