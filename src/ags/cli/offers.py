"""What a run in this project will want to reach, said before it is refused."""

from __future__ import annotations

import os
from pathlib import Path

from ags import clients
from ags.cli.invocation import Invocation, tell
from ags.egress import layers, registries
from ags.egress.model import Request
from ags.egress.policy import Policy, decide
from ags.runs import Order
from ags.workspace.root import find_root

LOCK_FILES = {
    "npm": ("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"),
    "pip": ("requirements.txt", "poetry.lock", "Pipfile.lock", "uv.lock", "pdm.lock"),
}


def offer(invocation: Invocation, agent: str, folder: Path, order: Order) -> None:
    """One line about packages. A policy that cannot be read is an error here already, before there
    is a run to fail."""
    if not order.network:
        return
    policy = layers.layers(
        agent,
        user_file=layers.policy_file(invocation.environ, invocation.home),
        run_file=order.policy,
        client_file=clients.policy_file(invocation.environ, invocation.home, order.client),
        allow=order.allow,
        environ=invocation.environ,
        home=invocation.home,
    )
    root = find_root(folder, os.geteuid())
    found = {tool: _lock_file({folder, root}, names) for tool, names in LOCK_FILES.items()}
    wanted = [tool for tool, file in found.items() if file]
    if closed := [tool for tool in wanted if not _opened(invocation, policy, tool)]:
        files = ", ".join(found[tool] for tool in closed)
        tell(f"note: {files}: to let runs install packages, `ags policy add {' '.join(closed)}`")


def _lock_file(folders: set[Path], names: tuple[str, ...]) -> str:
    there = (name for name in names for folder in folders if (folder / name).is_file())
    return next(there, "")


def _opened(invocation: Invocation, policy: Policy, tool: str) -> bool:
    """Whether the person has said anything about it, be it by its hosts."""
    if any(tool in layer.services for layer in policy.layers):
        return True
    rules = registries.read_settings(tool, invocation.home, invocation.environ).rules
    wanted = (Request(rule.host, port, rule.scheme(port)) for rule in rules for port in rule.ports)
    return any(decide(policy, request).allowed for request in wanted)
