"""Git over the network, on the host, as the person.

Private repositories are reached by the person's own git settings: credential helpers, keys, proxies
and `insteadOf` of their global and system configuration count here, and nowhere else. What a
repository itself has to say does not: its configuration is out of sight, and no hook runs.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ags import identity, proc, records
from ags.errors import AgsError, Missing, Unfit
from ags.frozen import frozen
from ags.proc import ProcessError
from ags.text import one_line, plain
from ags.workspace import git
from ags.workspace.address import Url as Url
from ags.workspace.address import checked_branch as checked_branch
from ags.workspace.address import checked_url as checked_url
from ags.workspace.collect import is_ancestor
from ags.workspace.git import Repository

Progress: TypeAlias = Callable[[str, int | None], None]
"""Told the stage, such as `receiving objects`, and the percentage, where there is one."""

MOST_SECONDS = 6 * 3600
HEADS, TRACKED, OWN = "refs/heads/", "refs/remotes/origin/", "agent--"

# Faults of old programs' commits and trees, which are in many an honest history. They touch who
# and when, or how a mode is written, and nothing that is ever checked out or run.
FORGIVEN = (
    *("badDate", "badDateOverflow", "badEmail", "badTimezone", "missingEmail"),
    *("missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail"),
    *("multipleAuthors", "zeroPaddedDate", "zeroPaddedFilemode"),
)
SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.alternateRefsCommand": "true",
    "clone.defaultRemoteName": "origin",
    "credential.interactive": "false",
    "fetch.fsckObjects": "true",
    "fetch.pruneTags": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "300",
    "init.defaultRefFormat": "files",
    "init.templateDir": "",
    "maintenance.auto": "false",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
    "transfer.fsckObjects": "true",
    **{f"fetch.fsck.{fault}": "warn" for fault in FORGIVEN},
}
# The person's own GIT_... that say how to reach others. All else of that name, a GIT_DIR above
# all, is about some repository they happen to be in.
KEPT = {
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_HTTP_PROXY_AUTHMETHOD"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY"),
}
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # nor a window, neither git's nor ssh's: nobody may be there to see it
    "GCM_INTERACTIVE": "never",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
SSH = "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=30"

# The other side of a repository on this machine is a git as well, and obeys that repository.
GUARDED = (
    "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.alternateRefsCommand=true"
    " -c receive.autogc=false -c receive.denyCurrentBranch=refuse"
)
RECEIVING_HOOKS = (
    *("pre-receive", "update", "post-receive", "post-update", "reference-transaction"),
    *("proc-receive", "push-to-checkout"),
)

STAGE = re.compile(
    r"(?:remote: )?((?:Enumerating|Counting|Compressing|Receiving|Writing) objects"
    r"|Resolving deltas|Checking connectivity): +(?:([0-9]{1,3})% )?"
)
PAUSE = 0.1
"""Seconds between two words on progress."""


@frozen
class Person:
    """Whose settings, helpers and keys count."""

    environ: Mapping[str, str]
    home: Path


@frozen
class Pulled:
    """Names of branches."""

    updated: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    diverged: tuple[str, ...] = ()
    """They hold commits which the remote's do not, and stay as they are."""
    gone: tuple[str, ...] = ()
    """The remote has them no more; they stay as they are."""


def unheard(stage: str, percent: int | None) -> None:
    """For whom progress is no matter."""


async def url_of(repository: Repository, remote: str = "origin") -> Url:
    """Where a remote of the repository's is pushed to, judged like any address."""
    checked_branch(remote)
    written = await git.configuration(repository)
    for key in (f"remote.{remote}.pushurl", f"remote.{remote}.url"):
        if found := [value for name, value in written if name == key]:
            return checked_url(found[0], repository.work_tree or repository.git_dir)
    cause = "the repository has no remote of this name"
    hint = "`git remote -v` shows which there are"
    raise Missing("find the remote", subject=one_line(remote), cause=cause, hint=hint)


async def clone(url: Url, into: Path, person: Person, progress: Progress = unheard) -> Repository:
    """A bare repository with the remote's branches, both as its own and as `origin/`.

    Whatever ends this before its end, `into` is gone again.
    """
    try:
        given = ("clone", "--bare", "--no-local", "--no-recurse-submodules", "--template=")
        serving = await _serving(url)
        words = (*given, *serving, "--progress", "--", url.url, str(into))
        await _run("clone the repository", url, person, words, progress=progress)
        repository = await git.find(into)
        _configure(repository, url)
        await _spread(repository)
        await settle_head(repository)
        return repository
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


def _configure(repository: Repository, url: Url) -> None:
    """In the place of what git wrote: only what is meant."""
    extended = {k: v for k, v in repository.settings if k.startswith("extensions.")}
    settings = {
        "core.repositoryformatversion": "1" if extended else "0",
        "core.bare": "true",
        "core.logallrefupdates": "false",
        **extended,
        "remote.origin.url": url.url,
        "remote.origin.fetch": f"+{HEADS}*:{TRACKED}*",
    }
    records.replace_file(repository.git_dir / "config", os.fsencode(git.config_text(settings)))


async def _spread(repository: Repository) -> None:
    """Each branch is the remote's as well; and no remote's can pass for that of a run."""
    heads = await _refs(repository, HEADS)
    lines = [f"create {TRACKED}{name} {commit}" for name, commit in heads.items()]
    lines += [f"delete {HEADS}{name}" for name in heads if name.startswith(OWN)]
    await _update(repository, lines)


async def settle_head(repository: Repository) -> None:
    """A repository of ours: where its HEAD leads nowhere, to a branch that there is."""
    file = repository.git_dir / "HEAD"
    written = os.fsdecode(file.read_bytes()).strip()
    heads = {n: c for n, c in (await _refs(repository, HEADS)).items() if not n.startswith(OWN)}
    branch = written.removeprefix(f"ref: {HEADS}")
    detached = not written.startswith("ref: ")
    if branch in heads:
        return
    choice = [n for n, c in sorted(heads.items()) if not detached or c == written]
    usual = [name for name in ("main", "master") if name in choice]
    if chosen := [*usual, *choice]:
        records.replace_file(file, os.fsencode(f"ref: {HEADS}{chosen[0]}\n"))
    elif not detached and branch.startswith(OWN):
        records.replace_file(file, os.fsencode(f"ref: {HEADS}main\n"))


async def fetch(
    repository: Repository,
    url: Url,
    person: Person,
    progress: Progress = unheard,
    missed: Collection[str] = (),
) -> Pulled:
    """What is new at the remote. Branches follow as far as nothing of them is lost.

    `missed` are those that were gone from the remote before: they are told of as long as they are.
    For a bare repository of ours: where a branch is checked out, its files would stay behind.
    """
    before = {*missed, *await _refs(repository, TRACKED)}
    flags = ("--prune", "--tags", "--force", "--no-write-fetch-head", "--no-recurse-submodules")
    words = ("fetch", *flags, *await _serving(url), "--progress", "--", url.url)
    await _run(
        "pull",
        url,
        person,
        (*words, f"+{HEADS}*:{TRACKED}*"),
        repository=repository,
        progress=progress,
    )
    pulled = await _follow(repository, before)
    await settle_head(repository)
    return pulled


async def _follow(repository: Repository, before: Collection[str]) -> Pulled:
    heads, tracked = await _refs(repository, HEADS), await _refs(repository, TRACKED)
    new: list[str] = []
    updated: list[str] = []
    diverged: list[str] = []
    for name, commit in tracked.items():
        if name.startswith(OWN) or name == "HEAD" or (local := heads.get(name)) == commit:
            continue
        if local is not None and not await is_ancestor(repository, local, commit):
            # One that is ahead of the remote's has not parted from it.
            if not await is_ancestor(repository, commit, local):
                diverged.append(name)
            continue
        try:
            old = local or "0" * len(commit)
            await _update(repository, [f"update {HEADS}{name} {commit} {old}"])
        except ProcessError:  # moved meanwhile, or `a` is there and this is `a/b`
            diverged.append(name)
        else:
            (new if local is None else updated).append(name)
    lost = (name for name in before if name in heads and name not in tracked)
    gone = sorted(name for name in lost if not name.startswith(OWN))
    return Pulled(tuple(updated), tuple(new), tuple(diverged), tuple(gone))


async def push(repository: Repository, url: Url, commit: str, branch: str, person: Person) -> None:
    """One commit to one branch of the remote's, which must be behind it or absent."""
    checked_branch(branch)
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise Unfit("push", subject=one_line(commit)[:80], cause="this is no commit's full id")
    words = ("push", *await _receiving(url), "--", url.url, f"{commit}:{HEADS}{branch}")
    await _run("push", url, person, words, repository=repository)


async def _serving(url: Url) -> tuple[str, ...]:
    if url.folder is None:
        return ()
    await _local(url)
    return (f"--upload-pack={GUARDED} upload-pack",)


async def _receiving(url: Url) -> tuple[str, ...]:
    if url.folder is None:
        return ()
    target = await _local(url)
    settings = dict(await git.configuration(target))
    hooks = (target.common / "hooks" / name for name in RECEIVING_HOOKS)
    if "core.hookspath" in settings or any(os.access(hook, os.X_OK) for hook in hooks):
        cause = "it is on this machine and has hooks, which ags does not run"
        raise AgsError("push", subject=url.shown, cause=cause, hint="push it with git itself")
    return (f"--receive-pack={GUARDED} receive-pack",)


async def _local(url: Url) -> Repository:
    assert url.folder is not None
    repository = await git.find(url.folder)
    if url.folder not in (repository.work_tree, repository.git_dir):
        cause = "it is a folder in a repository, and not one itself"
        hint = f"name {repository.work_tree or repository.git_dir}"
        raise AgsError("use the repository", subject=url.shown, cause=cause, hint=hint)
    if repository.is_partial:
        cause = "it lacks objects, which only a remote of its own has"
        raise AgsError("use the repository", subject=url.shown, cause=cause, hint="name that one")
    return repository


async def _refs(repository: Repository, prefix: str) -> dict[str, str]:
    listed = await git.run(
        repository, "for-each-ref", "--format=%(objectname) %(refname)", prefix.rstrip("/")
    )
    pairs = (line.split(" ", 1) for line in os.fsdecode(listed.stdout).splitlines())
    return {ref.removeprefix(prefix): commit for commit, ref in pairs}


async def _update(repository: Repository, lines: Sequence[str]) -> None:
    if lines:
        given = os.fsencode("".join(f"{line}\n" for line in lines))
        await git.run(repository, "update-ref", "--stdin", stdin=given)


async def _run(
    what: str,
    url: Url,
    person: Person,
    words: Sequence[str],
    *,
    repository: Repository | None = None,
    progress: Progress = unheard,
) -> None:
    """Git as the person: on a view of the repository, or on none at all."""
    owner = None
    if repository is not None and os.geteuid() == 0 and repository.owner.uid != 0:
        owner = (repository.owner.uid, repository.owner.gid)
        home = identity.resolve(os.stat(repository.git_dir), person.home).home
        # Root's own environment is not the owner's to see.
        person = Person(proc.MINIMAL_ENVIRONMENT, home)
    environment = await _environment(url, person, owner)
    try:
        if repository is None:
            await _call(words, environment, owner, progress)
        else:
            with git.viewed(repository) as view:
                await _call(words, environment | {"GIT_DIR": str(view)}, owner, progress)
    except ProcessError as error:
        raise _failed(what, url, error) from error


async def _call(
    words: Sequence[str],
    environment: Mapping[str, str],
    owner: tuple[int, int] | None,
    progress: Progress,
) -> None:
    await proc.run(
        (git.program(), "-C", "/", *words),
        env=environment,
        timeout=MOST_SECONDS,
        user=owner,
        heard=Ear(progress),
    )


async def _environment(url: Url, person: Person, owner: tuple[int, int] | None) -> dict[str, str]:
    ours = ("GIT_", "AGS_")
    kept = {k: v for k, v in person.environ.items() if not k.startswith(ours) or k in KEPT}
    # The system's own programs first: a workspace may be on the person's path.
    theirs = (each for each in kept.get("PATH", "").split(":") if each.startswith("/"))
    path = ":".join(dict.fromkeys((*proc.SYSTEM_PATH.split(":"), *theirs)))
    made = kept | ENVIRONMENT | {"PATH": path, "HOME": str(person.home)}
    plain_text = url.url.startswith("http://")
    settings = SETTINGS | ({"http.followRedirects": "false"} if plain_text else {})
    if not {"GIT_SSH", "GIT_SSH_COMMAND"} & made.keys():
        settings |= await _ssh(made, owner)
    protocols = "https:ssh:file" + (":http" if plain_text else "")
    return made | git.as_environment(settings) | {"GIT_ALLOW_PROTOCOL": protocols}


async def _ssh(environment: Mapping[str, str], owner: tuple[int, int] | None) -> dict[str, str]:
    """The person's own command, if they have one, does as it likes."""
    asked = await proc.run(
        (git.program(), "-C", "/", "config", "--get", "core.sshCommand"),
        env={**environment, "GIT_DIR": "/dev/null"},
        check=False,
        user=owner,
    )
    return {} if asked.code == 0 else {"core.sshCommand": SSH}


class Ear:
    """Hears stages and percentages in what git says, and tells them on, not too often."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._rest = ""
        self._told: tuple[str, int | None] = ("", None)
        self._at = 0.0

    def __call__(self, part: bytes) -> None:
        *lines, rest = re.split(r"[\r\n]", self._rest + part.decode(errors="replace"))
        self._rest = rest[-400:]
        for line in lines:
            if found := STAGE.match(line):
                self._tell(found[1].lower(), min(int(found[2]), 100) if found[2] else None)

    def _tell(self, stage: str, percent: int | None) -> None:
        at = time.monotonic()
        if (stage, percent) == self._told or (stage == self._told[0] and at < self._at + PAUSE):
            return
        self._told, self._at = (stage, percent), at
        self._progress(stage, percent)


HINTS = (
    (
        r"could not read (Username|Password)|Authentication failed|terminal prompts disabled"
        r"|HTTP Basic: Access denied|Invalid username or",
        "let git keep your credentials: `git config --global credential.helper store`, then"
        " `git ls-remote {url}` asks for them once",
    ),
    (
        r"Permission denied \(|Host key verification failed|Could not resolve hostname",
        "`git ls-remote {url}` must work without a question: load your key with `ssh-add`, and"
        " log in to the host once by hand",
    ),
    (r"dubious ownership", "if you trust it: `git config --global safe.directory {url}`"),
    (
        r"\[rejected\]|non-fast-forward|fetch first",
        "push to another branch, or bring in first what is new there",
    ),
    (r"No space left on device|Disk quota exceeded", "make room on that disk, then try again"),
)


def _failed(what: str, url: Url, error: ProcessError) -> AgsError:
    said = error.said
    hint = next((text for pattern, text in HINTS if re.search(pattern, said)), "")
    hint = hint or "`git ls-remote {url}` tells whether you can reach it"
    cause = _words(said) or error.cause.partition("\n")[0]
    return AgsError(what, subject=url.shown, cause=cause, hint=hint.format(url=url.shown))


def _words(said: str) -> str:
    """What git and the remote said, without progress and without credentials."""
    lines = (line.strip().removeprefix("fatal: ") for line in re.split(r"[\r\n]+", said))
    kept = [line for line in lines if line and not STAGE.match(line)]
    kept = [line for line in kept if not line.startswith(("Cloning into", "hint: "))]
    return plain(re.sub(r"://[^/@\s]*@", "://", "\n".join(kept[-10:])))
