"""What an agent is given before it starts, and what is taken back when it has ended.

Its program, a home of its own, what it is told, and a way to ask the hooks: all of it read-only but
for the home.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ags import homes, identity, plan, programs
from ags.agents import merge, prompt
from ags.agents.base import MCP_LOGINS, Agent, Bring, Facts, HomeFile, Wish
from ags.agents.shell import BIN, commands, folder, members
from ags.config import trust
from ags.config.schema import MountConfig
from ags.config.trust import Supplied
from ags.errors import AgsError
from ags.events import Writer
from ags.hooks import managed, person
from ags.hooks.channel import Channel
from ags.hooks.decide import Ask, Bench, Decider
from ags.hooks.model import Ground
from ags.logins.state import Wired
from ags.model import (
    KIB,
    MIB,
    Bind,
    Cover,
    Identity,
    MountStep,
    ReadOnly,
    Text,
    Tmpfs,
    Weakening,
)
from ags.prepare import Request
from ags.programs import Installed
from ags.supervisor.covers import Covers
from ags.supervisor.site import Site
from ags.workspace.tree import Owner, acting_as, shown

FIXED = "fixed"
"""Beside a run's home: what of it cannot be changed inside."""
MOST_BROUGHT = 64 * MIB
SMALL = 64 * KIB
NO_SCRIPTS = {"npm_config_ignore_scripts": "true", "YARN_ENABLE_SCRIPTS": "false"}
"""npm and pnpm, and yarn: what a package brings runs when the project's own scripts call it."""


class Outfit:
    """Of one agent, for one turn of its run."""

    def __init__(
        self,
        site: Site,
        agent: Agent,
        request: Request,
        keys: Mapping[str, str],
        logins: Mapping[str, Wired],
        log: Writer,
        ask: Ask,
    ) -> None:
        """`ask` is for what hooks leave to the person."""
        self._site, self._agent, self._request = site, agent, request
        self._logins, self._log, self._ask = logins, log, ask
        self._who: Identity = identity.resolve(os.stat(request.cwd), site.home)
        self._inner_home = plan.home_of(self._who)
        run, supplied = site.run, self._repository_settings()
        self._trusted = trust.approved(site.ags_home, run.order.client, run.project, supplied)
        self.covers = Covers.over(self._root, () if self._trusted else supplied.files)
        self._python = managed.interpreter()
        self._facts = Facts(
            home=str(self._inner_home),
            cwd=str(request.cwd),
            keys=keys,
            prompt=self._told(),
            client=run.order.client,
            trusted=self._trusted,
            python=self._python.path,
            logins=frozenset(logins),
        )
        owner = Owner(self._who.host_uid, self._who.host_gid)
        self._home = homes.Home(self._lives_on(), site.home_folder, owner)
        self._fixed: dict[str, str] = {}
        """What of its home cannot be changed, as it was when the home was made."""
        self._channel: Channel | None = None
        self._closing = contextlib.ExitStack()

    async def open(self) -> None:
        """Make its home, if this is the first turn, and listen to its hooks."""
        self._home.lend(self._furnish)
        self._fix()
        for login in self._logins.values():
            # Each turn anew: what stood for a token that was renewed meanwhile is worth nothing.
            self._home.put(login.path, json.dumps(login.file, indent=2).encode())
        self._channel = await Channel.open(
            self._site.held.run_dir, self._decider().hear, owner=self._who.host_uid
        )

    def given(self) -> Request:
        """The request, with all of it."""
        installed = {folder(self._agent, each): self._held(each) for each in members(self._agent)}
        nodes = [programs.node_for_inside(each.node) for each in installed.values()]
        own_commands = (BIN,) if self._agent.program is None else ()
        ways = (*own_commands, *(node.path for node in nodes if node.path))
        own = dict(self._agent.environment(self._facts))
        if not self._site.preparer.settings.sandbox.package_scripts:
            own |= NO_SCRIPTS
        return replace(
            self._request,
            command=self._command(),
            environment=(*own.items(), *self._request.environment),
            path=(*dict.fromkeys(ways), *self._request.path),
            home=self._home.files,
            given=(
                *(Bind(each.folder, PurePosixPath(at)) for at, each in installed.items()),
                # Of two that were tried with a Node of their own, the first one's serves both.
                *{step.target: step for node in reversed(nodes) for step in node.steps}.values(),
                *self._steps(),
            ),
            weakenings=(*self._request.weakenings, *self._weakenings()),
        )

    def _held(self, agent: Agent) -> Installed:
        installed = programs.current(self._site.ags_home, agent.name)
        if installed is None:
            raise missing(agent.name)
        self._closing.enter_context(programs.held(installed))
        return installed

    async def close(self) -> None:
        """What the agent keeps is kept."""
        if self._channel is not None:
            await self._channel.close()
        self._closing.close()
        for note in self._home.give_back():
            self._site.tell(f"left in the run's own home: {note}")

    def _command(self) -> tuple[str, ...]:
        run, order = self._site.run, self._site.run.order
        wish = replace(
            self._manner,
            goal=run.wanted,
            model=order.model,
            session=run.session if run.turn else order.session,
            arguments=order.arguments,
        )
        if run.mode == "inplace":
            return self._agent.interactive(wish)
        return self._agent.headless(wish)

    @property
    def _manner(self) -> Wish:
        """What holds for every start of an agent in this run."""
        order = self._site.run.order
        return Wish(defaults=order.defaults, yolo=order.yolo, trusted=self._trusted)

    def _steps(self) -> Iterator[MountStep]:
        assert self._channel is not None
        yield Bind(self._channel.path, managed.SOCKET)
        yield from self._python.binds
        for each in self._agent.etc(self._facts):
            yield Text(PurePosixPath(each.path), each.text.encode())
        for each in commands(self._agent, self._manner):
            yield Text(PurePosixPath(each.path), each.text.encode(), 0o555)
        for path, text in self._fixed.items():
            yield Cover(self._inner_home / path, text.encode())
        yield from self.covers.steps
        yield from self._wanted()

    def _wanted(self) -> Iterator[MountStep]:
        """In the person's own folder an absent folder of settings is held by an empty one."""
        for path in self._agent.wants if self._site.run.mode == "inplace" else ():
            folder = PurePosixPath(self._root / path).parent
            if not os.path.isdir(folder) or not os.listdir(folder):
                yield Tmpfs(folder, SMALL)
                yield Text(PurePosixPath(self._root / path), b"")
                yield ReadOnly(folder)

    def _decider(self) -> Decider:
        site, order = self._site, self._site.run.order
        mounts = [mount for _, mount in site.preparer.list_mounts(self._request)]
        writable = [self._root, *(mount.host for mount in mounts if mount.writable)]
        bench = Bench(
            run=site.run.name,
            ground=Ground(
                workspace=str(self._root),
                home=str(self._inner_home),
                writable=tuple(_inner_path(mount) for mount in mounts if mount.writable),
                readable=tuple(_inner_path(mount) for mount in mounts if not mount.writable),
            ),
            home=site.home,
            hooks=person.find(site.preparer.settings_folder / "hooks", writable),
            guard=not order.yolo,
            writable=tuple(writable),
        )
        return Decider(bench, self._note, self._ask)

    def _note(self, fields: Mapping[str, object]) -> None:
        self._log.write("hook", **fields)

    def _weakenings(self) -> Iterator[Weakening]:
        if self._site.run.order.yolo:
            yield Weakening("yolo", "the guard on the agent's tool calls is off")

    def _told(self) -> str:
        run = self._site.run
        return prompt.text(
            network=run.order.network,
            ask=run.order.ask is True,
            inplace=run.mode == "inplace",
        )

    @property
    def _root(self) -> Path:
        run = self._site.run
        return run.workspace or run.project

    def _repository_settings(self) -> Supplied:
        return trust.supplied(self._root, self._agent.settings, str(self._site.run.order.folder))

    def _lives_on(self) -> dict[str, Path]:
        """Each with where it is kept. A run with a goal begins a conversation of its own, which
        stays in its own home."""
        site, found = self._site, dict[str, Path]()
        for each in (self._agent, *members(self._agent)):
            given = (site.ags_home, site.run.order.client, each.name, site.preparer.environ)
            for path in each.keeps:
                if site.run.mode == "inplace" or path == MCP_LOGINS:
                    found.setdefault(path, homes.folder(*given))
        return found

    def _furnish(self, home: Path) -> None:
        brought = [path for bring in self._agent.brings for path in self._brought(bring, home)]
        if brought:
            self._site.tell(
                f"of your own settings it has a copy of: {', '.join(map(shown, brought))}"
            )
        for file in self._agent.files(self._facts):
            _merge(home, file)
        for path in self._to_fix():
            place = self._site.home_folder / FIXED / path
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.write_bytes((home / path).read_bytes())

    def _to_fix(self) -> tuple[str, ...]:
        return tuple({file.path: None for file in self._agent.files(self._facts) if file.fixed})

    def _fix(self) -> None:
        """Kept outside the home: what an earlier turn left there is not to be read."""
        for path in self._to_fix():
            place = self._site.home_folder / FIXED / path
            self._fixed[path] = place.read_text() if place.is_file() else self._anew(path)

    def _anew(self, path: str) -> str:
        """What was not fixed when the home was made, such as by an older AGS."""
        text: str | None = None
        for file in self._agent.files(self._facts):
            if file.path == path:
                text = merge.merged(text, file)
        return text or ""

    def _brought(self, bring: Bring, home: Path) -> Iterator[str]:
        """With the rights of whose home it is: there may be links in it that lead elsewhere."""
        found: dict[str, bytes] = {}
        with acting_as(Owner(self._who.host_uid, self._who.host_gid)):
            try:
                found = dict(_read(self._who.home, bring))
            except OSError as error:
                self._site.tell(f"{bring.path} of yours is not there for it: {error.strerror}")
        for path, data in found.items():
            target = home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        if found:
            yield bring.path


def _inner_path(mount: MountConfig) -> str:
    """Where it is inside: without a path of its own, where links to it lead."""
    return str(mount.container or os.path.realpath(mount.host))


def missing(agent: str) -> AgsError:
    hint = f"`ags update-agents {agent}` installs it"
    return AgsError("start the agent", subject=agent, cause="it is not installed", hint=hint)


def _merge(home: Path, file: HomeFile) -> None:
    place = home / file.path
    had = place.read_text(errors="replace") if place.is_file() else None
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.write_text(merge.merged(had, file))
    place.chmod(0o600)


def _read(home: Path, bring: Bring) -> Iterator[tuple[str, bytes]]:
    """By their paths below the home."""
    top, left = home / bring.path, MOST_BROUGHT
    files = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
    for path in files:
        left -= path.stat().st_size
        if left < 0:
            raise OSError(0, "it is too large")
        text = path.read_bytes()
        if bring.keys:
            text = merge.brought(text.decode(errors="replace"), bring).encode()
        if text:
            yield str(path.relative_to(home)), text
