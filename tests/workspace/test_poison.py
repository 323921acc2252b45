"""Repositories whose settings run programs: nothing of ours, on the host, ever runs one.

The mark is outside of what the sandbox sees, so only a program on the host can leave it. Each
poison is shown to work first, with the person's plain git.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace import git
from tests.workspace.agent import Agent, done, project, sh
from tests.workspace.scene import Scene, by_everyone

HOOKS = (
    "reference-transaction post-index-change post-checkout pre-commit post-commit post-merge "
    "fsmonitor-watchman update pre-auto-gc post-rewrite proc-receive"
)
# What is done to a repository, with $mark as the command, and the plain git command that obeys.
# The scripts run in the work tree, with $dir as its git directory.
POISONS = {
    "file system monitor": ('git config core.fsmonitor "$mark"', "git status"),
    "hooks": (
        f"for h in {HOOKS}; do printf '#!/bin/sh\\n%s\\n' \"$mark\" > $dir/hooks/$h; "
        "chmod +x $dir/hooks/$h; done",
        "git update-ref refs/heads/control HEAD",
    ),
    "a folder of hooks": (
        "mkdir $dir/other; printf '#!/bin/sh\\n%s\\n' \"$mark\" > $dir/other/post-index-change; "
        "chmod +x $dir/other/*; git config core.hooksPath $dir/other",
        "git read-tree HEAD",
    ),
    "filters": (
        'git config filter.p.clean "$mark; cat"; git config filter.p.smudge "$mark; cat"; '
        "echo '* filter=p' > $dir/info/attributes",
        "rm file; git checkout-index -f file",
    ),
    "a filter process": (
        'git config filter.p.process "$mark"; echo "* filter=p" > $dir/info/attributes',
        "rm file; git checkout-index -f file",
    ),
    "text conversion": (
        'git config diff.p.textconv "$mark; cat"; echo "* diff=p" > $dir/info/attributes',
        "git show HEAD",
    ),
    "an external diff": (
        'git config diff.external "$mark"',
        "echo c >> file; git diff; git checkout file",
    ),
    "a diff driver": (
        'git config diff.p.command "$mark"; echo "* diff=p" > $dir/info/attributes',
        "echo c >> file; git diff; git checkout file",
    ),
    "a merge driver": (
        'git config merge.p.driver "$mark"; echo "* merge=p" > $dir/info/attributes',
        "git checkout -qb a; echo a > file; git commit -qam a; git checkout -qb b HEAD~; "
        "echo b > file; git commit -qam b; git merge -q a || true; git reset -q --hard; "
        "git checkout -q main",
    ),
    "included settings": (
        'git config --file $dir/more core.fsmonitor "$mark"; git config include.path more',
        "git status",
    ),
    "settings of a worktree": (
        'git config extensions.worktreeConfig true; git config --worktree core.fsmonitor "$mark"',
        "git status",
    ),
    "signing": (
        'printf "#!/bin/sh\\n%s\\n" "$mark" > $dir/sign; chmod +x $dir/sign; '
        "git config gpg.program $dir/sign; git config commit.gpgSign true",
        "git commit --allow-empty -m signed || true",
    ),
    "a command for refs of alternates": (
        "env -u GIT_WORK_TREE GIT_DIR=$dir/alt git init -q --bare; "
        "cp -r $dir/objects/?? $dir/alt/objects || true; "
        'echo "$dir/alt/objects" > $dir/objects/info/alternates; '
        'git config core.alternateRefsCommand "$mark; :"',
        "git fetch -q $second HEAD",
    ),
}


def poisoned(scene: Scene, name: str, work_tree: Path, git_dir: Path) -> Path:
    """Poison a repository, and see that the person's own git would fall for it."""
    poison, control = POISONS[name]
    mark = scene.outside / "mark"
    # The objects that a private git directory borrows are elsewhere on the host.
    borrowed = f"export GIT_ALTERNATE_OBJECT_DIRECTORIES={scene.root}/.git/objects;"
    names = (
        f"mark='touch {mark}' dir={git_dir} second={scene.outside}/second; mkdir -p $dir/hooks;"
        f"export GIT_DIR=$dir GIT_WORK_TREE={work_tree}; {borrowed}"
    )
    sh(scene, f"{names} cd {work_tree}; {poison}")
    sh(scene, f"{names} cd {work_tree}; {control}", check=False)
    assert mark.exists(), "the control has no effect"
    mark.unlink()
    return mark


def second(scene: Scene) -> None:
    sh(scene, f"git init -q {scene.outside}/second; cd {scene.outside}/second; echo s > s; "
       "git add s; git commit -qm s")  # fmt: skip


@by_everyone
@pytest.mark.parametrize("name", POISONS)
def test_a_poisoned_project_runs_nothing_on_the_host(scene: Scene, name: str) -> None:
    project(scene)
    second(scene)
    mark = poisoned(scene, name, scene.root, scene.root / ".git")
    agent = Agent(scene)
    agent.does("echo more >> file; echo new > new")
    agent.does("git add new; git commit -qm new", check=name != "a filter process")
    agent.collect()
    for command in ("status", f"diff {agent.commit} {agent.branch}", "log -p --all"):
        done(git.run(agent.repository, *command.split()))
    assert not mark.exists()
    if name != "a filter process":  # which breaks off, so that nothing with a filter is collected
        assert agent.changes() >= {"M file", "A new"}


@by_everyone
@pytest.mark.parametrize("name", POISONS)
def test_what_an_agent_poisons_runs_nothing_on_the_host(scene: Scene, name: str) -> None:
    project(scene)
    second(scene)
    agent = Agent(scene)
    # Outside of the sandbox, so that the very same poison can be shown to work.
    mark = poisoned(scene, name, agent.workspace, agent.private.git_dir)
    if name != "a command for refs of alternates":  # whose alternates are a path of the host's
        agent.does("echo more >> file; git add file; git commit -qm more || true", check=False)
    agent.does("git config --unset extensions.worktreeConfig; echo new > new", check=False)
    try:
        agent.collect()
    except AgsError as error:
        assert "nothing is lost" in error.hint
    assert not mark.exists()


@pytest.mark.parametrize("name", ["file system monitor", "filters", "included settings"])
def test_a_poisoned_repository_within_the_workspace_runs_nothing(scene: Scene, name: str) -> None:
    project(scene)
    agent = Agent(scene)
    nested = agent.workspace / "nested"
    sh(scene, f"git init -q {nested}; cd {nested}; echo f > file; git add file; git commit -qm n")
    mark = poisoned(scene, name, nested, nested / ".git")
    agent.does("echo new > new; rm -f new2; ls -a nested/.git > /dev/null")
    found = agent.collect()
    assert found.left_out == ("nested/: a repository of its own",)
    assert agent.changes() == {"A new"}
    assert not mark.exists()
