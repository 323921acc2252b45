"""What git would do to history, to other branches, to the workspace."""

from __future__ import annotations

from collections.abc import Iterator

from ags.frozen import frozen
from ags.hooks.deletes import why_not_delete
from ags.hooks.expand import is_known, is_open
from ags.hooks.model import Ground
from ags.hooks.program import Inner, Program, has, operands

_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env",
           "--super-prefix", "--attr-source")  # fmt: skip
_REWRITES = ("filter-branch", "filter-repo")


@frozen
class Git:
    """A git command, its own options read."""

    verb: str
    words: tuple[str, ...]
    settings: tuple[str, ...]
    folders: tuple[str, ...]


def read(program: Program) -> Git:
    words, settings, folders = list(program.words), [], []
    while words and words[0].startswith("-"):
        option = words.pop(0)
        name, equals, value = option.partition("=")
        if name in _VALUED and not equals:
            value = words.pop(0) if words else ""
        if name in ("-c", "--config-env"):
            settings.append(value)
        elif name in ("-C", "--work-tree"):
            folders.append(value)
    verb = words[0] if words else ""
    return Git(verb, tuple(words[1:]), tuple(settings), tuple(folders))


def nested(program: Program) -> Iterator[Inner | str]:
    """Commands that git would run."""
    git = read(program)
    for setting in git.settings:
        key, _, value = setting.partition("=")
        if key.lower() == f"alias.{git.verb.lower()}":
            yield from _alias(value, git.words)
        elif key.lower().startswith(("alias.", "core.", "diff.", "filter.", "credential.")):
            yield value.removeprefix("!")
    if git.verb == "submodule" and "foreach" in git.words:
        after = git.words[git.words.index("foreach") + 1 :]
        yield " ".join(word for word in after if word not in ("--recursive", "--quiet"))
    elif git.verb == "bisect" and git.words[:1] == ("run",):
        yield Inner(git.words[1:])
    elif git.verb == "rebase":
        yield from _executed(git.words)
    elif git.verb == "config":
        yield from (word[1:] for word in git.words if word.startswith("!"))


def _alias(value: str, words: tuple[str, ...]) -> Iterator[Inner | str]:
    if value.startswith("!"):
        yield " ".join((value[1:], *words))
    else:
        yield " ".join(("git", value, *words))


def _executed(words: tuple[str, ...]) -> Iterator[str]:
    for at, word in enumerate(words):
        if word in ("-x", "--exec"):
            yield from words[at + 1 : at + 2]
        elif word.startswith("--exec="):
            yield word.removeprefix("--exec=")
        elif word.startswith("-x"):
            yield word[2:]


def judge(program: Program, ground: Ground) -> str:
    git = read(program)
    words = git.words
    match git.verb:
        case "push":
            return _push(words, git.settings)
        case "filter-branch" | "filter-repo":
            return f"git {git.verb} rewrites the history"
        case "reflog" if words[:1] in (("expire",), ("delete",), ("drop",)):
            return f"git reflog {words[0]} throws away what can bring lost commits back"
        case "gc" if any(word.startswith("--pru") for word in words):
            value = next(word for word in words if word.startswith("--pru")).partition("=")[2]
            return "" if "week" in value or "month" in value else _PRUNED.format("gc --prune")
        case "prune" if not has(words, "n", "dry-run"):
            return _PRUNED.format("prune")
        case "update-ref" | "symbolic-ref" if has(words, "d", "delete", "stdin"):
            return f"git {git.verb} deletes refs past every safeguard"
        case "worktree" if words[:1] in (("prune",), ("remove",)):
            return f"git worktree {words[0]} may take away worktrees of others"
        case "clean" if not has(words, "n", "dry-run"):
            return _clean(git, program, ground)
        case "remote" if words[:1] == ("prune",):
            return ""
        case verb if is_open(verb) or not is_known(verb):
            return _push(words, git.settings) or _unknown(words)
    return ""


_PRUNED = "git {} throws away commits that are on no branch"


def _unknown(words: tuple[str, ...]) -> str:
    words_of_rewrites = {*_REWRITES, "expire", "prune", "--prune=now", "--stdin"}
    return "it cannot be seen what git would do" if words_of_rewrites & set(words) else ""


def _push(words: tuple[str, ...], settings: tuple[str, ...]) -> str:
    if has(words, "f", "force", "force-with-lease"):
        return "a forced push overwrites what others may have"
    if has(words, "d", "delete", "mirror", "prune"):
        return "this push deletes branches or tags of the remote"
    for word in operands(words):
        if word.startswith("+"):
            return "a refspec with + is a forced push"
        if word.startswith(":") and len(word) > 1:
            return "a refspec without a source deletes a branch of the remote"
    if any("=+" in setting for setting in settings):
        return "a refspec with + is a forced push"
    if any(is_open(word) for word in words):
        return "it cannot be seen what is pushed: write the branch out"
    return ""


def _clean(git: Git, program: Program, ground: Ground) -> str:
    paths = operands(git.words)
    if has(git.words, "xX") and not [path for path in paths if path not in (".", "./")]:
        return "git clean -x deletes ignored files, such as .env, which git cannot bring back"
    for folder in git.folders or (".",):
        if why := why_not_delete(f"{folder}/untracked", program.cwds, ground):
            return why
    return ""
