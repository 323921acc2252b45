"""`ags auth`: an agent's log-in, made in a sandbox, whose tokens stay outside of it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import click

from ags import homes, identity, network, plan, programs
from ags.agents import AGENTS, agent, merge
from ags.agents.base import AGENT_DIR, Agent, Facts, Wish
from ags.cli import options
from ags.cli.exec import Refusals, accompanied
from ags.cli.invocation import Invocation
from ags.cli.question import agreed
from ags.cli.update_agents import installer
from ags.config.load import load, settings_folder
from ags.egress import layers
from ags.egress.fence import Terms
from ags.egress.wiring import Wiring
from ags.errors import AgsError
from ags.logins import state as logins
from ags.logins.entry import Entry
from ags.logins.forms import FORMS
from ags.logins.room import room, sweep
from ags.model import Bind, MountStep, Text
from ags.places import make_state_folder
from ags.prepare import Preparer, Request
from ags.workspace.tree import Owner


@click.command(short_help="Log an agent in, and keep its tokens out of sandboxes.")
@click.argument("name", type=click.Choice([name for name in AGENTS if agent(name).program]))
@click.option("--client", metavar="NAME", help="For this client's runs.")
@click.option("--status", is_flag=True, help="Only say which log-in there is.")
@click.option("--forget", is_flag=True, help="Remove the log-in that AGS keeps.")
@click.pass_obj
def command(
    invocation: Invocation, name: str, client: str | None, status: bool, forget: bool
) -> int:
    """Log the agent NAME in, by its own way of doing that. You open the address it shows.

    \b
      ags auth claude
      ags auth codex --client acme
      ags auth claude --status

    gemini and pi have no command for it: they start, you log in there (pi: /login), and leave with
    /quit. It runs in a sandbox without a workspace. The tokens that it is given stay outside:
    inside there are stand-ins, which AGS exchanges on the wire, and renews when they expire. The
    log-in is kept for the client's runs, apart from the one of your own agent, which is used if
    there is no other.

    Exit code: 0 if there is a log-in, 1 if not.
    """
    whose = options.client(client)
    if forget:
        kept = logins.kept_path(name, invocation.ags_home, whose)
        print(f"{name}: {'forgotten' if kept.exists() else 'there was none'}")
        kept.unlink(missing_ok=True)
        return 0
    if not status:
        asyncio.run(programs.ensure(installer(invocation), name, agreed))
        asyncio.run(_log_in(invocation, agent(name), whose))
    given = (invocation.home, invocation.ags_home, whose, invocation.environ)
    found = logins.found(name, *given)
    print(f"{name}: {found}")
    return 0 if found.where != "none" and not found.trouble else 1


async def _log_in(invocation: Invocation, program: Agent, client: str) -> None:
    make_state_folder(invocation.ags_home)
    sweep(invocation.ags_home)
    with room(invocation.ags_home) as place:
        (place / "work").mkdir(mode=0o700)
        entry = Entry(program.name, client, invocation.ags_home)
        made = await _in_sandbox(invocation, program, entry, place)
        entry.adopt(_read(made / FORMS[program.name].path))


async def _in_sandbox(invocation: Invocation, program: Agent, entry: Entry, place: Path) -> Path:
    """Its home, when the agent has ended."""
    environ, home = invocation.environ, invocation.home
    settings = load(invocation.config, environ, home)
    who = identity.resolve(os.stat(place / "work"), home)
    logged_in = frozenset((program.name,))
    facts = Facts(str(plan.home_of(who)), str(place / "work"), {}, logins=logged_in)
    lent = homes.Home({}, place, Owner(who.host_uid, who.host_gid))
    lent.lend(lambda folder: _furnish(folder, program, facts))
    wiring = Wiring(desk=entry)
    policy = await layers.whole(
        program.name,
        user_file=layers.policy_file(environ, home),
        run_file=None,
        allow=(),
        environ=environ,
        home=home,
        apart=(),
        secrets=wiring.hosts,
    )
    fence = network.Network(
        place.name,
        Terms(policy.policy, desk=entry),
        environ=environ,
        extra=network.extra_roots(settings.network.ca),
        record=Refusals().record,
    )
    request = _request(invocation, program, facts, place, lent.files)
    folder = settings_folder(environ, home)
    preparer = Preparer(environ, home, invocation.ags_home, settings, folder)
    await accompanied(
        preparer,
        replace(request, network=fence.plan()),
        settings.sandbox.backend,
        fence,
        interactive=True,
        debug=invocation.debug,
    )
    await entry.settle()
    return lent.files


def _request(
    invocation: Invocation, program: Agent, facts: Facts, place: Path, home: Path
) -> Request:
    installed = programs.current(invocation.ags_home, program.name)
    assert installed is not None and program.program is not None
    node = programs.node_for_inside(installed.node)
    steps: list[MountStep] = [Bind(installed.folder, PurePosixPath(AGENT_DIR)), *node.steps]
    for each in program.etc(facts):
        steps.append(Text(PurePosixPath(each.path), each.text.encode()))
    return Request(
        run=place.name,
        command=_begun(program),
        cwd=place / "work",
        workspace=place / "work",
        # There is no browser inside: gemini then shows the address and asks for the code.
        environment=(*program.environment(facts).items(), ("NO_BROWSER", "true")),
        path=(node.path,) if node.path else (),
        home=home,
        given=tuple(steps),
    )


def _begun(program: Agent) -> tuple[str, ...]:
    assert program.program is not None
    if program.login:
        return (program.program.inside, *program.login)
    return program.interactive(Wish())


def _furnish(home: Path, program: Agent, facts: Facts) -> None:
    for file in program.files(facts):
        place = home / file.path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write_text(merge.merged(place.read_text() if place.exists() else None, file))


def _read(path: Path) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(1 << 20)
    except OSError as error:
        cause = "the agent left no log-in behind"
        raise AgsError("log in", subject=path.name, cause=cause) from error
