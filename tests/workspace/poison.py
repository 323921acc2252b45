"""A repository whose settings and attributes run a program wherever git would let them."""

from __future__ import annotations

from pathlib import Path

from tests.workspace.repositories import Checkout

HOOKS = (
    *("reference-transaction", "post-checkout", "post-merge", "pre-commit", "commit-msg"),
    *("post-commit", "post-rewrite", "post-index-change", "pre-merge-commit", "prepare-commit-msg"),
)


def poisoned(project: Checkout, marks: Path) -> None:
    """From now on, whoever obeys the repository leaves a file named `ran-...` in `marks`."""

    def program(name: str, then: str = "") -> str:
        path = marks / f"poison-{name}"
        path.write_text(f"#!/bin/sh\ntouch '{marks}/ran-{name}'\n{then}\n")
        path.chmod(0o755)
        return str(path)

    for hook in HOOKS:
        (project.folder / ".git/hooks").mkdir(exist_ok=True)
        (project.folder / ".git/hooks" / hook).symlink_to(program(f"hook-{hook}"))
    settings = {
        "core.fsmonitor": program("fsmonitor"),
        "core.pager": program("pager"),
        "core.editor": program("editor"),
        "core.sshCommand": program("ssh"),
        "core.gitProxy": program("proxy"),
        "core.alternateRefsCommand": program("alternate-refs"),
        "diff.external": program("external-diff"),
        "diff.evil.command": program("diff-command"),
        "diff.evil.textconv": program("textconv", 'cat "$1"'),
        "filter.evil.clean": program("clean", "cat"),
        "filter.evil.smudge": program("smudge", "cat"),
        "merge.evil.driver": program("merge-driver") + " %O %A %B",
        "merge.default": "evil",
        "merge.tool": "evil",
        "gpg.program": program("gpg"),
        "commit.gpgSign": "true",
        "merge.verifySignatures": "false",
        "credential.helper": f"!{program('credential')}",
        "alias.merge-tree": f"!{program('alias')}",
        "uploadpack.packObjectsHook": program("pack-objects"),
        "rerere.enabled": "true",
        "include.path": str(marks / "included"),
    }
    (marks / "included").write_text(f'[diff "more"]\n\ttextconv = {program("included")}\n')
    for key, value in settings.items():
        project.git("config", key, value)
    info = project.folder / ".git/info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("*.txt diff=evil merge=evil\n")
    project.write(
        ".gitattributes", "*.txt diff=evil merge=evil\n*.bin diff=more\n*.flt filter=evil\n"
    )
    # The person's own git, used by the tests themselves, must still be able to commit.
    project.git("config", "commit.gpgSign", "false")


def ran(marks: Path) -> set[str]:
    """What ran since the last look."""
    found = {path.name.removeprefix("ran-") for path in marks.glob("ran-*")}
    for path in marks.glob("ran-*"):
        path.unlink()
    return found
