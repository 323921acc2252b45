"""`ags up`: the page and the API, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from ags import places, proc
from ags.cli.invocation import Invocation, tell
from ags.errors import AgsError
from ags.text import one_line

if TYPE_CHECKING:
    from socket import socket

    from ags.server.auth import Keys
    from ags.server.serve import Part, Serving
    from ags.server.state import State

F = TypeVar("F", bound=Callable[..., Any])

WEB_PORT, API_PORT = 8080, 8000
OPENING = 30.0
"""Seconds for a browser to read the file that leads it to the page."""


def reach_options(function: F) -> F:
    """How a server is to be reached; the same for all that serve."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    for option in (
        click.option("--dev", is_flag=True, help="Read the page's files for each request."),
        click.option(
            "--log",
            type=click.Choice(["text", "json"]),
            help="How to log; by default as text on a terminal.",
        ),
        click.option("--public-url", metavar="URL", default="", help="The address people use."),
        click.option("--behind-proxy", is_flag=True, help="A proxy in front of it speaks TLS."),
        click.option("--tls-key", type=file, metavar="FILE", help="The key of that certificate."),
        click.option("--tls-cert", type=file, metavar="FILE", help="Speak TLS, with this."),
        click.option(
            "--host",
            default="127.0.0.1",
            metavar="ADDRESS",
            help="Where to listen. Beyond loopback it takes TLS or a proxy, and --public-url.",
        ),
    ):
        function = option(function)
    return function


@click.command(short_help="Start the page and the API, and open the page.")
@click.option("--port", default=WEB_PORT, metavar="N", help="Of the page. Default: 8080.")
@click.option("--api-port", default=API_PORT, metavar="N", help="Of the API. Default: 8000.")
@click.option("--open/--no-open", "opens", default=None, help="Whether to open a browser.")
@click.option("--link", is_flag=True, help="Print a log-in link for the one that runs.")
@reach_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    port: int,
    api_port: int,
    opens: bool | None,
    link: bool,
    **reach: Any,  # noqa: ANN401
) -> None:
    """Start the page and the API on this machine, and open the page in a browser.

    \b
      ags up
      ags up --port 9090 --no-open
      ags up --link

    Ends with Ctrl-C; runs go on. A link logs one browser in, once, within ten minutes. If it runs
    already, that is said, with a new link.
    """
    if link:
        print(fresh_link(invocation, "web"))
        return
    run(invocation, {"web": port, "api": api_port}, reach, opens=opens)


def run(
    invocation: Invocation,
    ports: dict[Part, int],
    reach: dict[str, Any],
    *,
    opens: bool | None = False,
) -> None:
    """Serve the parts that nobody serves yet; the first of them is what the person wants."""
    from ags.server import serve

    reach["log"] = reach["log"] or ("text" if sys.stderr.isatty() else "json")
    serving = serve.Serving(ports=ports, **reach)
    serve.check(serving)
    wanted = next(iter(ports))
    places.check_state_folder(invocation.ags_home, written=True)
    with serve.seats(invocation.ags_home, list(ports)) as taken:
        if wanted in taken:
            _serve(invocation, serving, taken, opens=opens)
            return
    _tell_running(invocation, wanted)


def _serve(
    invocation: Invocation, serving: Serving, taken: dict[Part, int], *, opens: bool | None
) -> None:
    from ags.server import serve
    from ags.server.log import Log
    from ags.server.state import State

    with serve.listening(invocation.ags_home, serving, taken) as sockets:
        log = Log(serving.log)
        state = State(invocation.environ, invocation.home, invocation.ags_home, log)
        _sweep(state.keys.folder)
        urls = serve.urls(serving, sockets)
        _announce(serving, urls, state.keys)
        shown = urls.get("web") if opens or (opens is None and sys.stdout.isatty()) else None
        asyncio.run(_until_told(invocation, state, serving, sockets, shown))


def _announce(serving: Serving, urls: Mapping[Part, str], keys: Keys) -> None:
    for part in serving.ports:
        if part in urls:
            print(f"{_NAMES[part]}: {urls[part]}")
        else:
            tell(f"note: the {_NAMES[part]} is served already, by another ags")
    if "web" not in urls:
        print(f"token: in {one_line(str(keys.folder / 'token'))}")
    elif sys.stdout.isatty():
        print(f"log in: {_link(keys, urls['web'])}")
    else:  # that may be a log, and a code in it would be read by others
        print("log in: `ags up --link` prints a link")
    sys.stdout.flush()


async def _until_told(
    invocation: Invocation,
    state: State,
    serving: Serving,
    sockets: Mapping[Part, socket],
    shown: str | None,
) -> None:
    from ags.server import serve

    opening = asyncio.create_task(show_page(invocation, state.keys, shown)) if shown else None
    try:
        await serve.serve(state, serving, sockets)
    finally:
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)


_NAMES: dict[Literal["api", "web"], str] = {"web": "page", "api": "API"}


def _tell_running(invocation: Invocation, part: Part) -> None:
    from ags.server import serve

    found = serve.running(invocation.ags_home, part)
    if found is None:
        raise AgsError("start the server", cause="another one is just ending", hint="try again")
    print(f"{_NAMES[part]}: {found.url} (runs already, process {found.pid})")
    if unused := _unused():
        tell(
            f"note: not used: {', '.join(unused)}; end the one that runs first: `kill {found.pid}`"
        )
    if part == "web":
        print(f"log in: {fresh_link(invocation, part)}")


def _unused() -> list[str]:
    """The options of this call that only one that starts can heed."""
    ctx = click.get_current_context()
    given = [
        each
        for each in ctx.command.params
        if ctx.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
    ]
    return [each.opts[0] for each in given if each.name != "opens"]


def fresh_link(invocation: Invocation, part: Part) -> str:
    """One that logs in, once, at the server that runs."""
    from ags.server import serve
    from ags.server.auth import Keys

    found = serve.running(invocation.ags_home, part)
    if found is None:
        raise AgsError("make a link", cause="no page is served", hint="start it with `ags up`")
    return _link(Keys(invocation.ags_home), found.url)


def _link(keys: Keys, url: str) -> str:
    # After the sign: a browser keeps that part to itself.
    return f"{url}/login#{keys.new_code()}"


# The browser


async def show_page(invocation: Invocation, keys: Keys, url: str) -> None:
    """Lead a browser to the page, if there is one.

    Everybody on the machine can read the words a program was started with, so the link goes
    through a file that only the person may read.
    """
    program = browser(invocation.environ)
    if program is None:
        return
    with _leading(keys.folder, _link(keys, url)) as file, _nothing() as nothing:
        try:
            descriptors = {0: nothing, 1: nothing, 2: nothing}
            proc.spawn((program, str(file)), env=invocation.environ, descriptors=descriptors)
        except AgsError as error:
            tell(f"note: no browser could be opened: {error.cause}")
            return
        await asyncio.sleep(OPENING)


def browser(environ: Mapping[str, str]) -> str | None:
    """What opens a page, where there is a screen for it."""
    is_seen = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return proc.find("xdg-open") if is_seen else None


@contextlib.contextmanager
def _leading(folder: Path, link: str) -> Iterator[Path]:
    file = folder / f"open-{secrets.token_hex(8)}.html"
    safe = html.escape(link, quote=True)
    text = f'<!doctype html><meta http-equiv="refresh" content="0;url={safe}"><title>AGS</title>\n'
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(file, flags, 0o600), "w") as opened:
            opened.write(text)
        yield file
    finally:
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def _nothing() -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """What a server that was killed left."""
    for file in folder.glob("open-*.html"):
        file.unlink(missing_ok=True)
