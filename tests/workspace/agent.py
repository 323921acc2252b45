"""A project of the person's, and an agent at work on it in a separate workspace."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ags.backends.base import Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.model import Ending, Plan
from ags.workspace import collect, git, private, separate
from ags.workspace.collect import Collected, Work
from ags.workspace.git import Repository
from ags.workspace.private import Private
from tests.box import Box, Outcome
from tests.workspace.scene import Scene

T = TypeVar("T")
RUN = "0123456789abcdef"
AUTHOR = {"user.name": "Pat Person", "user.email": "pat@example.org"}


def done(work: Coroutine[object, object, T]) -> T:
    return asyncio.run(work)


def sh(scene: Scene, script: str, cwd: Path | None = None, *, check: bool = True) -> str:
    """A shell of the person's, in the project, with no settings but the project's own."""
    become = scene.owner.uid != os.geteuid()
    home = scene.outside / "home"
    with scene.person():
        home.mkdir(exist_ok=True)
    ran = subprocess.run(
        ("/bin/sh", "-ec", script),
        cwd=cwd or scene.root,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{role}_NAME": "Pat Person" for role in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{role}_EMAIL": "pat@example.org" for role in ("AUTHOR", "COMMITTER")},
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        user=scene.owner.uid if become else None,
        group=scene.owner.gid if become else None,
        extra_groups=[] if become else None,
        check=False,
    )
    text = ran.stdout.decode(errors="surrogateescape")
    assert not check or ran.returncode == 0, text
    return text


def project(scene: Scene, script: str = "", *, init: str = "") -> None:
    """A repository with one commit at the scene's root, made by the script."""
    sh(scene, f"git init -q -b main {init} .; echo one > file; mkdir d; echo two > d/two")
    sh(scene, f"{script}\ngit add -A; git commit -qm first")


@dataclass
class Agent:
    """A run on the project at `root`, from its workspace to its branch."""

    scene: Scene
    name: str = "try"
    root: Path | None = None
    base: str = "HEAD"
    backend: Bubblewrap = field(default_factory=Bubblewrap)
    repository: Repository = field(init=False)
    commit: str = field(init=False)
    private: Private = field(init=False)
    workspace: Path = field(init=False)

    def __post_init__(self) -> None:
        done(self._start())

    async def _start(self) -> None:
        # Started as root for another, the folder must be one which that other can reach.
        state = self.scene.state
        worktrees = state / "worktrees"
        worktrees.mkdir(mode=0o755, exist_ok=True)
        self.repository = await git.find(self.root or self.scene.root)
        self.commit = await git.resolve(self.repository, self.base)
        self.workspace = worktrees / self.name
        self.private = await private.build(
            self.repository,
            into=state / f"git-{self.name}",
            branch=self.branch,
            base=self.commit,
            run=f"{RUN}-{self.name}",
            workspace=self.workspace,
            home=self.scene.outside / "home",
        )
        await separate.create(
            self.repository,
            name=self.name,
            base=self.commit,
            worktrees=worktrees,
            git_dir=self.private.git_dir,
        )
        if await separate.wants_filters(self.repository, self.workspace, self.private.git_dir):
            await separate.apply_filters(self.run_inside, self.plan("true"), self.workspace)

    @property
    def branch(self) -> str:
        return f"agent--{self.name}"

    @property
    def box(self) -> Box:
        return Box(self.workspace, self.scene.outside / "home", self.backend)

    async def run_inside(self, plan: Plan, stdin: int, stdout: int, stderr: int) -> Ending:
        sandbox = await self.backend.launch(plan, Streams(stdin, stdout, stderr))
        await sandbox.release()
        return await sandbox.wait()

    def plan(self, *command: str) -> Plan:
        return self.box.plan(*command, protections=self.private.steps)

    def does(self, script: str, *, check: bool = True) -> str:
        """What the agent's shell printed."""
        settled = "git config --global init.defaultBranch main\n"
        identity = (
            "git config --global user.name Agent; git config --global user.email a@example.org\n"
        )
        outcome: Outcome = self.box.run(
            *("/bin/bash", "-ec", settled + identity + script), protections=self.private.steps
        )
        assert not check or outcome.code == 0, outcome.out + outcome.err
        return outcome.out + outcome.err

    @property
    def work(self) -> Work:
        return Work(
            self.repository,
            self.workspace,
            self.private.git_dir,
            self.branch,
            self.commit,
            AUTHOR,
        )

    def collect(self, expected: str | None = None, most: int = collect.MOST_BUNDLE) -> Collected:
        return done(
            collect.collect(
                self.work,
                self.run_inside,
                self.plan("true"),
                output=self.scene.state / f"{self.name}.bundle",
                expected=expected,
                most=most,
            )
        )

    def changes(self) -> set[str]:
        """The person's view of what came back, as git itself tells it."""
        told = sh(
            self.scene,
            f"git diff --name-status --no-renames -z {self.commit} {self.branch}",
            self.root,
        )
        words = told.split("\0")
        return {f"{kind} {path}" for kind, path in zip(words[::2], words[1::2], strict=False)}
