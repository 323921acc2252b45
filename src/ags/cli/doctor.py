"""`ags doctor`: what this machine can do, and the repairs that can be made from here."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count, groupby
from pathlib import Path

import click

from ags import doctor, proc
from ags.cli.invocation import Invocation
from ags.config import load
from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import probe
from ags.model import Finding
from ags.text import plain

WORDS = {"ok": "OK", "warn": "WARN", "fail": "FAIL", "unknown": "?"}
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "dim"}

FIXES = {
    "config": "moves a settings file that cannot be used aside and writes a fresh one",
    "home": "closes the state and settings folders to other users",
    "userns": "lets bwrap make user namespaces",
}

SYSCTL_FILE = "etc/sysctl.d/zz-ags-userns.conf"
PROFILES = "etc/apparmor.d"
PROFILE_FILE = f"{PROFILES}/ags-bwrap"
PARSER = "usr/sbin/apparmor_parser"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--fix", metavar="NAME", help=f"Make a repair: {', '.join(FIXES)}.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, fix: str | None) -> None:
    """Say what this machine can do, and how to repair what it cannot.

    Ends with 1 if something that a run needs is missing.
    """
    if fix is not None:
        changes = asyncio.run(repair(fix, places(ctx.obj)))
        click.echo(json.dumps({"ok": True, "changes": changes}) if as_json else "\n".join(changes))
        return
    found = asyncio.run(doctor.examine(places(ctx.obj)))
    if as_json:
        click.echo(json.dumps(report(found)))
    elif sys.stdout.isatty():
        _print_rich(found)
    else:
        click.echo("\n".join(lines(found)))
    if not doctor.healthy(found):
        ctx.exit(1)


def places(invocation: Invocation) -> doctor.Places:
    settings = load.settings_folder(invocation.environ, invocation.home)
    return doctor.Places(
        search=invocation.environ.get("PATH", ""),
        home=invocation.home,
        state=invocation.ags_home,
        settings=settings,
        file=invocation.config or settings / load.FILE_NAME,
        environ=invocation.environ,
    )


def report(found: tuple[Finding, ...]) -> dict[str, object]:
    return {"ok": doctor.healthy(found), "findings": [asdict(finding) for finding in found]}


def lines(found: Iterable[Finding]) -> Iterator[str]:
    """Aligned plain text, one finding per line, its repair below it."""
    found = tuple(found)
    width = max((len(finding.name) for finding in found), default=0)
    for section, members in groupby(found, lambda finding: finding.section):
        yield section
        for finding in members:
            text = plain(finding.text)
            yield f"  {WORDS[finding.status]:<4}  {finding.name:<{width}}  {text}"
            if finding.repair:
                yield f"        {'':<{width}}  → {plain(finding.repair)}"
    yield summary(found)


def summary(found: Iterable[Finding]) -> str:
    statuses = [str(finding.status) for finding in found]
    return ", ".join(f"{statuses.count(status)} {word}" for status, word in WORDS.items())


def _print_rich(found: tuple[Finding, ...]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    width = max(len(finding.name) for finding in found)
    for section, members in groupby(found, lambda finding: finding.section):
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=6)
        table.add_column(width=width)
        table.add_column(overflow="fold")
        for finding in members:
            # Text and not str: a bracket in a path is no markup.
            word = Text(f"  {WORDS[finding.status]}", STYLES[finding.status])
            table.add_row(word, Text(finding.name), Text(plain(finding.text)))
            if finding.repair:
                table.add_row("", "", Text(f"→ {plain(finding.repair)}", "cyan"))
        console.print(Text(section, "bold"))
        console.print(table)
    console.print(summary(found))


# Repairs. Each returns what it changed, a line each; what it may not change, it raises as commands.


async def repair(name: str, where: doctor.Places) -> tuple[str, ...]:
    if name not in FIXES:
        raise AgsError(
            "repair",
            subject=name,
            cause="there is no repair of that name",
            hint="\n".join(["one of:", *(f"  {fix:<8}{what}" for fix, what in FIXES.items())]),
            exit_code=2,
        )
    facts = await doctor.gather(where)
    if name == "home":
        return fix_home((facts.settings.state, facts.settings.folder), facts.uid)
    if name == "config":
        return fix_config(facts.settings)
    return await fix_userns(facts.backend.binary, facts.uid, works=_works(facts))


def _works(facts: doctor.Facts) -> bool:
    # Root's own success says nothing: these settings bind the ordinary users only.
    return facts.uid != 0 and facts.trials is not None and facts.trials.namespace.ok


def fix_home(folders: Iterable[probe.Folder], uid: int) -> tuple[str, ...]:
    there = [folder for folder in folders if folder.trouble or folder.mode is not None]
    for folder in there:
        if folder.trouble or folder.owner != uid:
            raise AgsError(
                "close the folder",
                subject=folder.path,
                cause=folder.trouble or f"it belongs to user {folder.owner}, and you are {uid}",
                hint=doctor.own(folder.path, uid) if not folder.trouble else doctor.ELSEWHERE,
            )
    open_ = [folder for folder in there if folder.mode != 0o700]
    for folder in open_:
        with _failing("close the folder", folder.path):
            folder.path.chmod(0o700)
    changes = tuple(f"{item.path}: mode {item.mode:04o} is now 0700" for item in open_)
    return changes or ("nothing to repair: the folders are closed to others",)


def fix_config(settings: doctor.Settings) -> tuple[str, ...]:
    file = settings.file
    if not settings.error:
        return (f"nothing to repair: {file} can be used",)
    if not settings.broken:
        raise AgsError("repair the settings", cause=settings.error, hint=settings.hint)
    names = (file.with_name(f"{file.name}.broken{number or ''}") for number in count())
    aside = next(name for name in names if not os.path.lexists(name))
    with _failing("move the settings aside", file):
        file.rename(aside)
    try:
        load.create(file)
    except AgsError:
        aside.rename(file)
        raise
    return (f"moved {file} to {aside}", f"wrote a fresh {file}")


@contextmanager
def _failing(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AgsError(what, subject=path, cause=error.strerror or str(error)) from error


@frozen
class Repair:
    """Files to write, then a command to run; paths are below some root, without leading slash."""

    writes: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()


async def fix_userns(
    binary: str, uid: int, *, works: bool, root: Path = probe.ROOT
) -> tuple[str, ...]:
    found = doctor.blockers(probe.namespace_switches(root))
    if works or not found:
        return ("nothing to repair: no setting of this kernel holds bwrap back",)
    plan = userns_repair(found, binary, attached(root, binary) if binary else None)
    if not plan.writes:
        return (f"nothing to repair: /{PROFILES} lets {binary} make user namespaces",)
    if uid != 0:
        commands = by_hand(plan, root)
        hint = f"run this, then `ags doctor` again:\n{commands}"
        raise _cannot("this takes root; nothing was changed", hint)
    return (*await carry_out(plan, root), *_caveat(plan, root / binary.lstrip("/")))


def _cannot(cause: str, hint: str) -> AgsError:
    return AgsError("let bwrap make user namespaces", cause=cause, hint=hint)


def _caveat(plan: Repair, binary: Path) -> tuple[str, ...]:
    owner = binary.stat().st_uid if plan.command else 0
    if owner == 0:
        return ()
    return (
        f"note: {binary} belongs to user {owner}, who could put another program in its place;"
        " with your distribution's `bubblewrap` installed instead, nobody can",
    )


def userns_repair(
    found: Iterable[doctor.Blocker], binary: str, profile: tuple[str, str] | None
) -> Repair:
    """`profile` is the file and text of one that concerns this binary already."""
    wanted = [(item.key, item.wanted) for item in found if item.wanted is not None]
    # What the kernel may refuse comes first, so that a refusal leaves nothing half done.
    writes = [(f"proc/sys/{key.replace('.', '/')}", f"{value}\n") for key, value in wanted]
    if wanted:
        writes.append((SYSCTL_FILE, "".join(f"{key} = {value}\n" for key, value in wanted)))
    excepted = profile is not None and re.search(r"\buserns\b", profile[1])
    if excepted or all(item.wanted is not None for item in found):
        return Repair(tuple(writes))
    if profile is not None:
        # Two profiles for one program are a conflict, and the kernel then applies neither.
        raise _cannot(
            f"/{profile[0]} is a profile for {binary} already, without that permission",
            f"add a line `userns,` to it, then `sudo apparmor_parser -r /{profile[0]}`",
        )
    return Repair((*writes, (PROFILE_FILE, apparmor_profile(binary))), (PARSER, "-r", PROFILE_FILE))


def apparmor_profile(binary: str) -> str:
    """Excepts one program; the switch for all the others stays as it is."""
    if not re.fullmatch(r"/[\w.+@/ -]+", binary):
        cause = f"{binary!r} is no path that an AppArmor profile can name"
        raise _cannot(cause, "install your distribution's `bubblewrap`")
    return (
        "# Written by `ags doctor --fix userns`: lets this program, and no other, make the user\n"
        "# namespaces that a sandbox is built of.\n"
        "abi <abi/4.0>,\n"
        "include <tunables/global>\n"
        "\n"
        f'profile ags-bwrap "{binary}" flags=(unconfined) {{\n'
        "  userns,\n"
        "}\n"
    )


def attached(root: Path, binary: str) -> tuple[str, str] | None:
    """The file and text of somebody else's profile for this program."""
    heading = re.compile(rf'^[^#\n]*(?<![^\s"]){re.escape(binary)}(?![^\s"]).*\{{', re.MULTILINE)
    for file in sorted((root / PROFILES).glob("*")):
        name = str(file.relative_to(root))
        text = probe.read(root, name)
        if name != PROFILE_FILE and heading.search(text):
            return name, text
    return None


def by_hand(plan: Repair, root: Path = probe.ROOT) -> str:
    """The same repair as commands of a shell."""
    writes = [
        f"sudo tee {shlex.quote(str(root / name))} >/dev/null <<'EOF'\n{text}EOF"
        for name, text in plan.writes
    ]
    return "\n".join(
        [*writes, *([f"sudo {shlex.join(_argv(plan, root))}"] if plan.command else [])]
    )


async def carry_out(plan: Repair, root: Path = probe.ROOT) -> tuple[str, ...]:
    for name, text in plan.writes:
        try:
            (root / name).write_text(text)
        except OSError as error:
            hint = f"as root of the machine itself:\n{by_hand(plan, root)}"
            raise _cannot(f"{root / name}: {error.strerror}", hint) from error
    if plan.command:
        try:
            await proc.run(_argv(plan, root))
        except proc.ProcessError as error:
            # One that does not load would be tried again at every boot.
            (root / plan.command[-1]).unlink()
            raise _cannot(error.cause, "install your distribution's `bubblewrap`") from error
    changes = [f"wrote {root / name}" for name, _ in plan.writes]
    return (*changes, *([f"ran {shlex.join(_argv(plan, root))}"] if plan.command else []))


def _argv(plan: Repair, root: Path) -> tuple[str, ...]:
    program, option, file = plan.command
    return str(root / program), option, str(root / file)
