"""`ags secret`: values that runs can use and never see."""

from __future__ import annotations

import asyncio
import getpass
import sys

import click

from ags import secrets
from ags.cli.invocation import Invocation, tell
from ags.cli.paint import as_json
from ags.egress.wiring import FOLDER
from ags.errors import AgsError
from ags.secrets import Store

PLACES = {"keyring": "your keyring", "file": "a file that only you can read"}


@click.group(short_help="Keep secrets that runs can use but not see.")
def command() -> None:
    """Keep secrets that runs can use but not see.

    \b
      ags secret set company-api
      ags secret list

    A `[[secret]]` in ~/.config/ags/config.toml says which host a secret is for. Inside there is
    only a placeholder; the value is put in its place on the way out.
    """


@command.command("set", short_help="Keep or replace a secret.")
@click.argument("name")
@click.pass_obj
def set_(invocation: Invocation, name: str) -> None:
    """Keep a secret under NAME, or replace the one that is there. The value is asked for without
    showing it, or read from standard input.

    \b
      ags secret set company-api
      pass show company/api | ags secret set company-api
    """
    secrets.checked_name(name)
    store = store_of(invocation)
    value = getpass.getpass(f"value of {name}: ") if sys.stdin.isatty() else _piped(name)
    kept = asyncio.run(store.set(name, value))
    print(f"kept {name} in {PLACES[kept]}")
    if kept == "file":
        tell(f"note: no keyring is in reach; the file is in {store.folder}")


def _piped(name: str) -> str:
    data = sys.stdin.buffer.read(4 * secrets.MOST + 1)
    # A decoding error would carry the bytes with it.
    text = data.decode(errors="replace").removesuffix("\n").removesuffix("\r")
    if "\ufffd" in text:
        raise AgsError("keep the secret", subject=name, cause="it is not text")
    return text


@command.command("list", short_help="List the names of the secrets that are kept.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def list_(invocation: Invocation, as_array: bool) -> None:
    """List the names of the secrets that are kept, and where. Values are never shown.

    \b
      ags secret list
    """
    found = store_of(invocation).list()
    if as_array:
        print(as_json([{"name": name, "kept": kept} for name, kept in found], indent=1))
        return
    width = max((len(name) for name, _ in found), default=0)
    for name, kept in found:
        print(f"{name:<{width}}  {PLACES[kept]}")
    if not found:
        print("no secrets yet: `ags secret set NAME`")


@command.command(short_help="Remove secrets.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_obj
def remove(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Remove secrets. Runs at work keep what they were given.

    \b
      ags secret remove company-api
    """
    store = store_of(invocation)
    for name in dict.fromkeys(names):
        asyncio.run(store.remove(name))
        print(f"removed {name}")


def store_of(invocation: Invocation) -> Store:
    return secrets.store(invocation.ags_home / FOLDER, invocation.environ)
