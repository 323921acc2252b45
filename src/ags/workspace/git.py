"""The only place that calls git. What an agent could have touched never configures it.

Git obeys what a repository's own configuration names: programs for filters, diffs, hooks and
more. So git never sees that file here. Each call gets a git directory made for it: a
configuration of ours, and links to the repository's objects and refs. Of the repository's own
settings only those in `KEPT` come along, none of which names a program or another file.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ags import proc
from ags.errors import AgsError, Missing
from ags.frozen import frozen
from ags.workspace import temporary
from ags.workspace.tree import Owner, acting_as, shown

MOST_OUTPUT = proc.MOST_OUTPUT

KEPT = re.compile(
    r"core\.(repositoryformatversion|autocrlf|eol|safecrlf|filemode|symlinks|ignorecase"
    r"|precomposeunicode|sparsecheckout|sparsecheckoutcone|sharedrepository|bigfilethreshold"
    r"|protecthfs|protectntfs|logallrefupdates)"
    r"|extensions\.(objectformat|refstorage|preciousobjects)"
    r"|user\.(name|email)|merge\.(conflictstyle|renames|renamelimit)|diff\.(renames|renamelimit)"
    r"|index\.(version|sparse)"
)
# Without these the repository reads the same, only its missing objects are missed.
UNNEEDED_EXTENSIONS = {"partialclone", "worktreeconfig", "noop", "noop-v1", "relativeworktrees"}

# What a repository's git directories share, and nothing that names a program.
SHARED = (
    *("objects", "refs", "packed-refs", "reftable", "logs", "shallow"),
    *("info/exclude", "info/attributes"),
)
ENVIRONMENT = proc.MINIMAL_ENVIRONMENT | {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "GIT_SEQUENCE_EDITOR": "/bin/false",
    "GIT_SSH_COMMAND": "/bin/false",
    "GIT_PAGER": "cat",
}
SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.alternateRefsCommand": "true",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.checkStat": "minimal",
    "commit.gpgSign": "false",
    "fetch.fsckObjects": "true",
    "transfer.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
}


class NotARepository(AgsError):
    """There is no repository here, which for some callers is no error."""


@frozen
class Repository:
    """A repository of the person's, as `find` found it."""

    git_dir: Path
    work_tree: Path | None = None
    common_dir: Path | None = None
    """Where a linked worktree has its objects and refs."""
    settings: tuple[tuple[str, str], ...] = ()
    """Of its own configuration what passed `KEPT`."""

    @property
    def common(self) -> Path:
        return self.common_dir or self.git_dir

    @property
    def object_format(self) -> str:
        return dict(self.settings).get("extensions.objectformat", "sha1")

    @property
    def is_partial(self) -> bool:
        """Whether objects may be missing, to be fetched when wanted: which we never do."""
        return any((self.common / "objects/pack").glob("*.promisor"))

    @property
    def owner(self) -> Owner:
        """Whose files these are: as root, git acts as them, or it would leave files of root's."""
        try:
            return _owner(self.git_dir)
        except FileNotFoundError as error:  # since it was found: projects can be removed
            cause = "the repository is gone"
            raise Missing("use the repository", subject=self.git_dir, cause=cause) from error


async def find(folder: Path) -> Repository:
    """The repository that `folder` is in: plain, bare, or a linked worktree."""
    questions = ("--absolute-git-dir", "--git-common-dir", "--is-bare-repository")
    try:
        owner = _owner(folder)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise NotARepository("use the repository", subject=folder, cause=cause) from error
    found = await _ask(folder, owner, "rev-parse", "--path-format=absolute", *questions)
    if found.code != 0:
        raise _not_found(folder, found.stderr.decode(errors="replace"))
    git_dir, common, bare = os.fsdecode(found.stdout).rstrip("\n").rsplit("\n", 2)
    work_tree = None
    if bare == "false":
        top = await _ask(folder, owner, "rev-parse", "--show-toplevel")
        if top.code != 0:
            raise NotARepository(
                "use the repository", subject=folder, cause="this is inside its git directory"
            )
        work_tree = Path(os.fsdecode(top.stdout).removesuffix("\n"))
    repository = Repository(Path(git_dir), work_tree, None if git_dir == common else Path(common))
    settings = await configuration(repository)
    _check_belongs(repository, settings)
    return replace(repository, settings=_kept(repository, settings))


def _not_found(folder: Path, said: str) -> NotARepository:
    cause, hint = shown(said.strip().removeprefix("fatal: ")), ""
    if "dubious ownership" in said:
        # Git's own way out, an exception in the settings, is not read here.
        cause = "it, or a part of it, belongs to somebody else (git: dubious ownership)"
        hint = "start ags as its owner, or work on a clone of yours, which `safe.directory` allows"
    return NotARepository("use the repository", subject=folder, cause=cause, hint=hint)


async def find_bare(common: Path) -> Repository:
    """The repository whose objects and refs are here, whatever work trees it has."""
    repository = Repository(common)
    settings = await configuration(repository)
    return replace(repository, settings=_kept(repository, settings))


async def create(folder: Path, message: str) -> Repository:
    """A new repository of what is in a folder of ours, with one commit."""
    made = await _ask(folder, _owner(folder), "init", "--quiet", "--template=", "-b", "main", ".")
    if made.code != 0:
        said = made.stderr.decode(errors="replace").strip()
        raise AgsError("make a repository", subject=folder, cause=shown(said))
    repository = await find(folder)
    roles = ("AUTHOR", "COMMITTER")
    names = {f"GIT_{role}_NAME": "AGS" for role in roles}
    addresses = {f"GIT_{role}_EMAIL": "ags@localhost" for role in roles}
    await run(repository, "add", "--all")
    await run(repository, "commit", "--quiet", "-m", message, env=names | addresses)
    return repository


def _owner(path: Path) -> Owner:
    facts = path.stat()
    return Owner(facts.st_uid, facts.st_gid)


async def configuration(repository: Repository) -> tuple[tuple[str, str], ...]:
    """The repository's own settings as they are written, with no other file included."""
    settings = await _settings(repository.common / "config", repository.owner)
    if dict(settings).get("extensions.worktreeconfig", "").lower() in ("true", "yes", "on", "1"):
        settings += await _settings(repository.git_dir / "config.worktree", repository.owner)
    return settings


async def _settings(file: Path, owner: Owner) -> tuple[tuple[str, str], ...]:
    if not os.path.isfile(file):  # noqa: ASYNC240
        return ()
    read = await _ask(
        Path("/"), owner, "config", "--file", str(file), "--no-includes", "--null", "--list"
    )
    if read.code != 0:
        cause = read.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        raise AgsError("read the repository's settings", subject=file, cause=shown(cause))
    entries = (entry.partition("\n") for entry in os.fsdecode(read.stdout).split("\0") if entry)
    # A key without `=` is git's way to write true.
    return tuple((key, value if equals else "true") for key, equals, value in entries)


async def effective(repository: Repository, home: Path) -> tuple[tuple[str, str, str], ...]:
    """Scope, key and value of all that a git of the person's would obey here: to choose from.

    Reading runs nothing, but a repository can include any file: no error of this is shown.
    """
    own = {"HOME": str(home), "GIT_DIR": str(repository.git_dir)}
    kept = {key: value for key, value in ENVIRONMENT.items() if not key.startswith("GIT_CONFIG_")}
    read = await _run(
        (program(), "-C", "/", "config", "--includes", "--null", "--show-scope", "--list"),
        env=kept | own,
        owner=repository.owner,
        check=False,
    )
    words = os.fsdecode(read.stdout).split("\0")
    pairs = zip(words[::2], (entry.partition("\n") for entry in words[1::2]), strict=False)
    return tuple((scope, key, value if end else "true") for scope, (key, end, value) in pairs)


async def run(
    repository: Repository,
    *arguments: str,
    stdin: bytes | int = b"",
    check: bool = True,
    timeout: float = 120,
    most: int = MOST_OUTPUT,
    env: Mapping[str, str] | None = None,
    protocols: Sequence[str] = (),
) -> proc.Result:
    """Run git on the repository as its owner. `most` bytes of output, or it is an error.

    `stdin` is what it reads, or an open descriptor that it reads from.

    `HEAD` and the index can be read and the index written, but HEAD itself cannot be moved by
    this: move the branch that it names.
    """
    with viewed(repository) as view:
        given = _environment(repository, view) | {"GIT_ALLOW_PROTOCOL": ":".join(protocols)}
        start = repository.work_tree or Path("/")
        return await _run(
            (program(), "-C", str(start), *arguments),
            env=given | dict(env or {}),
            owner=repository.owner,
            stdin=stdin,
            check=check,
            timeout=timeout,
            most=most,
        )


async def resolve(repository: Repository, revision: str) -> str:
    """The full id of the commit that a person's word stands for."""
    asked = await run(
        repository,
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
        check=False,
    )
    if asked.code != 0:
        empty = revision == "HEAD"
        raise AgsError(
            "find the commit",
            subject=shown(revision),
            cause="the repository has no commit yet" if empty else "there is no such commit",
            hint="make a first commit" if empty else "`git log` shows which there are",
        )
    return asked.text.strip()


async def identity(home: Path) -> dict[str, str]:
    """`user.name` and `user.email` as the person's own global settings have them."""
    if (git := proc.find("git")) is None:
        return {}
    environment = proc.MINIMAL_ENVIRONMENT | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    found = await proc.run(
        (git, "-C", "/", "config", "--global", "--null", "--get-regexp", r"^user\.(name|email)$"),
        env=environment,
        check=False,
    )
    return dict(entry.split("\n", 1) for entry in found.text.split("\0") if "\n" in entry)


def config_text(settings: Mapping[str, str]) -> str:
    """As a git configuration file, with every value quoted."""
    return "".join(config_entry(key, value) for key, value in settings.items())


def config_entry(key: str, value: str) -> str:
    """One setting. The middle of a key may hold anything but a line's end."""
    section, _, rest = key.partition(".")
    middle, dot, name = rest.rpartition(".")
    header = f'[{section} "{_quoted(middle)}"]' if dot else f"[{section}]"
    return f'{header}\n\t{name} = "{_quoted(value)}"\n'


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _kept(
    repository: Repository, settings: Sequence[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    kept = tuple((key, value) for key, value in settings if KEPT.fullmatch(key))
    known = {key for key, _ in kept}
    for key, _ in settings:
        section, _, name = key.partition(".")
        if section == "extensions" and key not in known and name not in UNNEEDED_EXTENSIONS:
            raise AgsError(
                "use the repository",
                subject=repository.git_dir,
                cause=f"it uses the extension {shown(name)!r}, which ags does not know",
            )
    return kept


def _check_belongs(repository: Repository, settings: Sequence[tuple[str, str]]) -> None:
    """A `.git` file or `commondir` can name any repository: that one must know this worktree."""
    git_dir, top = repository.git_dir, repository.work_tree
    linked = repository.common_dir is not None
    if linked and git_dir.parent != repository.common / "worktrees":
        raise _stranger(repository)
    if top is None or _same(top / ".git", git_dir):
        return
    if linked:
        back = _first_line(git_dir / "gitdir")
        known = bool(back) and _same(git_dir / back, top / ".git")
    else:
        back = dict(settings).get("core.worktree", "")
        known = bool(back) and _same(git_dir / back, top)
    if not known:
        raise _stranger(repository)


def _stranger(repository: Repository) -> AgsError:
    return AgsError(
        "use the repository",
        subject=repository.work_tree or repository.git_dir,
        cause=f"it leads to {repository.common}, which knows nothing of it",
        hint="`git worktree repair`, or set core.worktree in the repository it leads to",
    )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _first_line(file: Path) -> str:
    try:
        with file.open("rb") as lines:
            return os.fsdecode(lines.readline(4096)).rstrip("\n")
    except OSError:
        return ""


@contextlib.contextmanager
def viewed(repository: Repository) -> Iterator[Path]:
    """A git directory for one call, which leads to the repository's data but not its settings."""
    with temporary.folder("git", repository.owner) as view:
        with acting_as(repository.owner):
            _furnish(view, repository)
        yield view


def _furnish(view: Path, repository: Repository) -> None:
    (view / "info").mkdir()
    for name in SHARED:
        (view / name).symlink_to(repository.common / name)
    (view / "info/sparse-checkout").symlink_to(repository.git_dir / "info/sparse-checkout")
    for shared_index in repository.git_dir.glob("sharedindex.*"):
        (view / shared_index.name).symlink_to(shared_index)
    # A copy, as git takes no link for a HEAD.
    (view / "HEAD").write_bytes((repository.git_dir / "HEAD").read_bytes())
    own = {"core.bare": "true" if repository.work_tree is None else "false"}
    if not (repository.common / "logs").is_dir():
        own["core.logallrefupdates"] = "false"  # git cannot make a folder through a link
    settings = config_text(dict(repository.settings) | own)
    (view / "config").write_bytes(os.fsencode(settings))


def _environment(repository: Repository, view: Path) -> dict[str, str]:
    places = {"GIT_DIR": str(view), "GIT_INDEX_FILE": str(repository.git_dir / "index")}
    if repository.work_tree is not None:
        places["GIT_WORK_TREE"] = str(repository.work_tree)
    return ENVIRONMENT | as_environment(SETTINGS) | places


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    made = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        made |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return made


def program() -> str:
    if (git := proc.find("git")) is None:
        raise AgsError("use git", cause="there is none", hint="install git 2.38 or newer")
    return git


async def _ask(folder: Path, owner: Owner, *arguments: str) -> proc.Result:
    """Git with discovery or on no repository at all: only for what runs nothing it could find."""
    return await _run(
        (program(), "-C", str(folder), *arguments),
        env=ENVIRONMENT | as_environment(SETTINGS) | {"GIT_ALLOW_PROTOCOL": ""},
        owner=owner,
        check=False,
    )


async def _run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    owner: Owner,
    stdin: bytes | int = b"",
    check: bool = True,
    timeout: float = 120,
    most: int = MOST_OUTPUT,
) -> proc.Result:
    user = (owner.uid, owner.gid) if os.geteuid() == 0 and owner.uid != 0 else None
    return await proc.run(
        argv, env=env, stdin=stdin, check=check, timeout=timeout, most=most, user=user
    )
