"""`ags secret`: values that runs can use and never see."""

from __future__ import annotations

import asyncio
import getpass
import sys

import click

from ags import clients, runs, secrets
from ags.cli import options
from ags.cli.invocation import Invocation, tell
from ags.errors import AgsError
from ags.paint import as_json
from ags.secrets import Store

PLACES = {"keyring": "your keyring", "file": "a file that only you can read"}


@click.group(short_help="Keep secrets that runs can use but not see.")
def command() -> None:
    """Keep secrets that runs can use but not see.

    \b
      ags secret set company-api
      ags secret list

    Those of a client (`--client NAME`) are for its runs alone, and its runs get no others.

    A `[[secret]]` in ~/.config/ags/config.toml says which host a secret is for. Inside there is
    only a placeholder; the value is put in its place on the way out.
    """


@command.command("set", short_help="Keep or replace a secret.")
@options.client_option("For the runs of this client.")
@click.argument("name")
@click.pass_obj
def set_(invocation: Invocation, name: str, client: str | None) -> None:
    """Keep a secret under NAME, or replace the one that is there. The value is asked for without
    showing it, or read from standard input.

    \b
      ags secret set company-api
      pass show company/api | ags secret set company-api
      ags secret set --client acme ANTHROPIC_API_KEY
    """
    secrets.checked_name(name)
    store = store_of(invocation, client)
    value = getpass.getpass(f"value of {name}: ") if sys.stdin.isatty() else _piped(name)
    kept = asyncio.run(store.set(name, value))
    print(f"kept {name} in {PLACES[kept]}")
    if kept == "file":
        tell(f"note: no keyring is in reach; the file is in {store.folder}")
    _told_of_runs(invocation)


def _piped(name: str) -> str:
    data = sys.stdin.buffer.read(4 * secrets.MOST + 1)
    # A decoding error would carry the bytes with it.
    text = data.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    if "\ufffd" in text:
        raise AgsError("keep the secret", subject=name, cause="it is not text")
    return text


@command.command("list", short_help="List the names of the secrets that are kept.")
@options.client_option("Those of this client.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def list_(invocation: Invocation, as_array: bool, client: str | None) -> None:
    """List the names of the secrets that are kept, and where. Values are never shown.

    \b
      ags secret list
    """
    found = store_of(invocation, client).list()
    if as_array:
        print(as_json([{"name": name, "kept": kept} for name, kept in found], indent=1))
        return
    width = max((len(name) for name, _ in found), default=0)
    for name, kept in found:
        print(f"{name:<{width}}  {PLACES[kept]}")
    if not found:
        whose = f"--client {client} " if client else ""
        print(f"no secrets yet: `ags secret set {whose}NAME`")


@command.command(short_help="Remove secrets.")
@options.client_option("Those of this client.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_obj
def remove(invocation: Invocation, names: tuple[str, ...], client: str | None) -> None:
    """Remove secrets. Runs at work keep what they were given until `ags policy reload`.

    \b
      ags secret remove company-api
    """
    store = store_of(invocation, client)
    for name in dict.fromkeys(names):
        asyncio.run(store.remove(name))
        print(f"removed {name}")
    _told_of_runs(invocation)


def _told_of_runs(invocation: Invocation) -> None:
    if any(runs.is_alive(folder) for folder in (invocation.ags_home / "runs").glob("*")):
        tell("runs at work keep what they have until `ags policy reload`")


def store_of(invocation: Invocation, client: str | None) -> Store:
    name = options.client(client)
    return secrets.store(clients.secrets(invocation.ags_home, name), invocation.environ, name)
