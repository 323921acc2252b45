"""What stands over a repository's own settings for agents, until the person approved them.

The agent finds an empty file in each one's place, and git finds what the repository has: inside it
is told to leave those files alone, and whatever of ours looks at the tree does so without covers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ags.frozen import frozen
from ags.model import Cover, Plan
from ags.supervisor.site import Site

NOTHING = b"{}\n"
"""No settings, no hooks, and a program that ends."""

# Those that git knows: at one that is in no commit, update-index gives up on all the others.
LEAVE_ALONE = (
    'cd "$1" && xargs -0 git --literal-pathspecs ls-files -z -- | '
    "git update-index --skip-worktree -z --stdin || true"
)


@frozen
class Covers:
    """Of one workspace; mounted after it."""

    steps: tuple[Cover, ...] = ()

    @classmethod
    def over(cls, root: Path, files: Iterable[str]) -> Covers:
        # Nothing can stand over a link; what it leads to is among the files.
        places = (root / file for file in files if not (root / file).is_symlink())
        return cls(tuple(Cover(PurePosixPath(each), _nothing(each.name)) for each in places))

    def lifted(self, plan: Plan) -> Plan:
        """As it is without them."""
        return replace(plan, mounts=tuple(step for step in plan.mounts if step not in self.steps))

    async def hide_from_git(self, site: Site, plan: Plan) -> None:
        """To the agent's git, what is covered is as it was: or it would commit what it sees there.

        `plan` is one without covers.
        """
        root = site.run.workspace
        if not self.steps or root is None:
            return
        paths = b"".join(bytes(step.target.relative_to(root)) + b"\0" for step in self.steps)
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
            asked.write(paths)
            asked.seek(0)
            made = replace(plan, command=("/bin/sh", "-c", LEAVE_ALONE, "sh", str(root)))
            await site.run_inside(made, asked.fileno(), said.fileno(), said.fileno())


def _nothing(name: str) -> bytes:
    """For TOML that is an empty file: codex ends at once over one that it cannot read."""
    return b"" if name.endswith(".toml") else NOTHING
