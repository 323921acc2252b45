"""The command line: finds the verb, and turns an error into what, why and what to do."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ags import __version__
from ags.cli import invocation
from ags.cli.standard import READER_LEFT, Output, open_streams
from ags.errors import AgsError
from ags.text import one_line, plain

# Imported only when called: a verb's dependencies are no burden to the others.
VERBS = {
    "demo": "See it work: an agent without a model, on a small project.",
    "start": "Give an agent a goal, on a branch of its own.",
    "list": "List the runs, newest first.",
    "show": "Tell everything about one run.",
    "logs": "Show what happened in a run, or follow it.",
    "attach": "Come back to the terminal of a run.",
    "shell": "Open a shell in the sandbox of a run at work.",
    "stop": "End a run in order; what it did so far is kept.",
    "diff": "Show what a run changed, and what of it deserves a second look.",
    "apply": "Bring a run's work onto a branch of yours.",
    "undo": "Take the last apply of a run back, or what it did in your folder.",
    "tell": "Give a run its next turn: same branch, same conversation.",
    "restart": "Give a run its goal again, from the same base.",
    "rm": "Remove runs; their branches stay.",
    "cleanup": "Remove the workspaces of runs that have ended.",
    "up": "Open the page in the browser: all runs, their work, and what they ask.",
    "server": "Serve the API alone.",
    "web": "Serve the page, and the API behind it.",
    "project": "Add repositories by their address, for runs to work on.",
    "policy": "Say what runs may reach, and see what they tried.",
    "secret": "Keep secrets that go on the wire and never inside.",
    "asks": "Show what runs at work wait to be allowed.",
    "allow": "Let a run do what it asks for.",
    "deny": "Refuse a run what it asks for.",
    "port": "Bring a port of a run's sandbox to this machine's loopback.",
    "client": "List and remove clients, whose work never meets.",
    "trust": "Approve what a repository brings for agents: settings, hooks, servers.",
    "auth": "Log an agent in, and keep its tokens out of sandboxes.",
    "agents": "List the agents: what is installed, and their log-ins.",
    "update-agents": "Install agents, or bring them up to date.",
    "exec": "Run one command in a sandbox on the current directory.",
    "doctor": "Say what this machine can do, and how to repair what it cannot.",
}
INTERACTIVE = "interactive"
"""The verb of `ags --agent NAME`, which has no name there."""
OURS = {
    **dict.fromkeys(("--config", "--server"), 1),
    **dict.fromkeys(("--debug", "-h", "--help", "-V", "--version"), 0),
}
"""The options that come before a verb, and how many words follow each."""
STATELESS = "ags.stateless"
"""Whether this call has to work whatever became of the state folder."""


class Verbs(click.Group):
    """A group whose commands live in one module each, `ags.cli.<verb>`, as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS and cmd_name != INTERACTIVE:
            return None
        module = cmd_name.replace("-", "_")
        if ctx.params.get("server") is not None:
            from ags.cli import remote  # here, for those who have no server

            remote.check(cmd_name)
            module = f"remote.{module}"
        command = importlib.import_module(f"ags.cli.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        asks_help = not {"-h", "--help"}.isdisjoint(before_dashes(found[2]))
        is_elsewhere = ctx.params.get("server") is not None
        ctx.meta[STATELESS] = asks_help or is_elsewhere or found[0] == "doctor"
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage("ags", "COMMAND [ARGS]...")
        formatter.write_usage("ags", "--agent NAME [OPTIONS] [DIR] [-- ARGS]...", "       ")


def named(arguments: Sequence[str]) -> list[str]:
    """Say `interactive` before the options of a call that has no verb."""
    at = 0
    while at < len(arguments) and (word := arguments[at].partition("="))[0] in OURS:
        at += 1 if word[1] else 1 + OURS[word[0]]
    unnamed = at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--"
    return [*arguments[:at], *([INTERACTIVE] if unnamed else []), *arguments[at:]]


def before_dashes(words: Sequence[str]) -> Sequence[str]:
    """What follows is another program's."""
    return words[: words.index("--")] if "--" in words else words


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`ags COMMAND --help` tells more about each, `ags --agent shell --help` about agents at"
    " your terminal. Settings: ~/.config/ags/config.toml.",
)
@click.version_option(__version__, "-V", "--version", message="ags %(version)s")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Use this settings file instead of ~/.config/ags/config.toml.",
)
@click.option(
    "--server",
    metavar="URL",
    envvar="AGS_SERVER",
    help="Have the server at this address do it, with the token in AGS_TOKEN. [env: AGS_SERVER]",
)
@click.option("--debug", is_flag=True, help="On an error, show where in AGS it came from.")
@click.pass_context
def cli(ctx: click.Context, config: Path | None, debug: bool, server: str | None) -> None:
    """Run AI coding agents, or any command, in a sandbox on your own machine."""
    ctx.obj = invocation.read(os.environ, config=config, debug=debug, server=server)
    if not ctx.meta[STATELESS]:
        from ags.places import check_state_folder  # here, for who only wants help

        check_state_folder(ctx.obj.ags_home)


def show(error: AgsError) -> None:
    """What failed, why, what to do: a line each, on stderr, with nothing a terminal would obey."""
    subject = f" ({one_line(error.subject)})" if error.subject else ""
    print(f"ags: cannot {one_line(error.what)}{subject}", file=sys.stderr)
    if error.cause:
        # Indented, so that a text from elsewhere cannot pass for a line of ours.
        cause = plain(error.cause).replace("\n", "\n       ")
        print(f"  why: {cause}", file=sys.stderr)
    if error.hint:  # is ours, and may be commands to copy
        print(f"  try: {plain(error.hint)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code; the only place on the command line where an error is caught."""
    output = open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in before_dashes(given)
    try:
        code = _outcome(given, output)
        return code if output is None else output.settle(code)
    except AgsError as error:
        if debug:
            raise
        show(error)
        return error.exit_code if output is None else output.settle(error.exit_code)


def _outcome(given: Sequence[str], output: Output | None) -> int:
    try:
        code = cli.main(args=named(given), prog_name="ags", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("ags: interrupted", file=sys.stderr)
        return 130
    except (BrokenPipeError, SystemExit):  # by which click ends a program whose reader has left
        return READER_LEFT
    except OSError:
        if output is None or output.failure is None:
            raise
        return 0  # but for that failure, which is told


if __name__ == "__main__":
    sys.exit(main())
