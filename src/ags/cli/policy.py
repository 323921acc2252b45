"""`ags policy`: what runs may reach, what they tried to, and how to change it."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

import click

from ags import asking, runs
from ags.cli import options
from ags.cli.decisions import shown
from ags.cli.effective import Holding, effective, holding, policy_file
from ags.cli.invocation import Invocation, tell, telling
from ags.cli.question import agreed
from ags.config.values import parse_duration
from ags.control import client as control
from ags.egress import audit, edit, layers, trail
from ags.egress.hosts import canonical_host
from ags.egress.learn import learn as learned
from ags.egress.model import Request, Scheme
from ags.egress.policy import Layer, Policy, Rule, decide, explain
from ags.egress.registries import QUESTIONS
from ags.errors import AgsError
from ags.paint import Paint, as_json, exact_time, heading, paint_for
from ags.runs import FINAL, NEXT
from ags.shelf import Shelf
from ags.store import Filter
from ags.text import one_line

SCHEMES: dict[str, tuple[Scheme, int | None]] = {
    "https": ("tls", 443),
    "wss": ("tls", 443),
    "http": ("http", 80),
    "ws": ("http", 80),
}

REACH = "reach the run"

agent_option = click.option("--agent", metavar="NAME", default="", help="For runs of this agent.")
client_option = options.client_option("For this client's runs.")


@click.group(short_help="Show and change what runs may reach, and see what they tried.")
def command() -> None:
    """Show and change what runs may reach, and see what they tried.

    \b
      ags policy show --agent claude
      ags policy add api.example.org npm
      ags policy check https://api.example.org/v1
      ags policy log fix-login --denied

    Your rules are in ~/.config/ags/policy.yaml. Without that file an agent reaches its own model
    and reads GitHub, and nothing else.
    """


@command.command(short_help="Show what holds, and where each rule comes from.")
@agent_option
@client_option
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show(invocation: Invocation, agent: str, client: str | None, as_object: bool) -> None:
    """Show what holds for a run, layer by layer. What any layer denies stays denied.

    \b
      ags policy show
      ags policy show --agent claude --json
      ags policy show --client acme

    Where a package tool is open, its index is asked where it keeps its files, as at the start of
    a run.
    """
    whose = options.client(client)
    found = holding(invocation, agent, whose)
    files = {"user": policy_file(invocation)}
    if whose:
        files["client"] = policy_file(invocation, whose)
    if as_object:
        print(as_json(_as_object(found, agent, whose, files), indent=1))
        return
    paint = paint_for(sys.stdout, invocation.environ)
    for layer in found.policy.layers:
        if lines := list(_lines(layer, found.learnt, paint)):
            where = f"  {one_line(str(files[layer.name]))}" if layer.name in files else ""
            print(heading(layer.name) + paint(where, "dim"))
            print("\n".join(lines))
    there = {layer.name for layer in found.policy.layers}
    for name in (each for each in files if each not in there):
        owner = "yours" if name == "user" else f"{whose}'s"
        print(paint(f"no rules of {owner}: {one_line(str(files[name]))} is not there", "dim"))
    if not agent:
        print(paint("with `--agent NAME`, that agent's own hosts too", "dim"))


def _lines(layer: Layer, learnt: Collection[Rule], paint: Paint) -> Iterator[str]:
    for rule in layer.deny:
        yield f"  {paint('deny ', 'red')}  {one_line(str(rule))}"
    for rule in layer.allow:
        why = paint("  its index keeps files there", "dim") if rule in learnt else ""
        yield f"  {paint('allow', 'green')}  {one_line(str(rule))}{why}"
    for name, _ in layer.pending:
        yield f"  {paint('none ', 'yellow')}  {name}: your settings of it name no host"
    for upstream in layer.upstreams:
        fixed = f" port {upstream.port}" if upstream.port else ""
        yield f"  dial   {upstream.host} at {upstream.address}{fixed}"
    for port in layer.host_services:
        yield f"  {paint('allow', 'green')}  port {port} of this machine"
    if layer.ask is not None:
        yield f"  ask    {'yes' if layer.ask else 'no'}"


def _as_object(
    found: Holding, agent: str, client: str, files: Mapping[str, Path]
) -> dict[str, object]:
    return {
        "agent": agent or None,
        "client": client or None,
        "file": str(files["user"]),
        "client_file": _path(files.get("client")),
        "ask": found.policy.ask,
        "ports": sorted(found.policy.ports),
        "layers": [_as_layer(layer, found.learnt) for layer in found.policy.layers],
    }


def _as_layer(layer: Layer, learnt: Collection[Rule]) -> dict[str, object]:
    return {
        "name": layer.name,
        "allow": [asdict(rule) | {"learnt": rule in learnt} for rule in layer.allow],
        "deny": [asdict(rule) for rule in layer.deny],
        "services": layer.services,
        "without_hosts": [name for name, _ in layer.pending],
        "ask": layer.ask,
        "upstreams": [asdict(each) | {"ca": _path(each.ca)} for each in layer.upstreams],
        "host_services": layer.host_services,
    }


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


@command.command(short_help="Allow domains or services.")
@client_option
@click.argument("names", nargs=-1, required=True, metavar="DOMAIN|SERVICE...")
@click.pass_obj
def add(invocation: Invocation, names: tuple[str, ...], client: str | None) -> None:
    """Allow domains or services, by a line each in your policy.yaml, or in a client's.

    \b
      ags policy add api.example.org "*.cdn.example.org"
      ags policy add db.example.org:5432
      ags policy add npm pip
      ags policy add --client acme api.acme.example

    `*.x` is every name below x, not x itself. All else in the file stays as you wrote it.
    """
    entries = [edit.entry(name) for name in names]
    whose = options.client(client)
    file = policy_file(invocation, whose)
    before, after = asyncio.run(
        edit.rewrite(file, lambda text: edit.with_entries(text, file, invocation.home, entries))
    )
    _told_change(invocation, file, before, after, "it allows them already")
    policy = effective(invocation, client=whose)
    for each in entries:
        if not isinstance(each, str) and not each.host.startswith("*"):
            port = each.ports[0]
            decision = decide(policy, Request(each.host, port, each.scheme(port)))
            if not decision.allowed:
                tell(f"note: {each.host} is still denied by `{decision.rule}` ({decision.layer})")
    for name in sorted(set(layers.pending(policy)) & set(names)):
        tell(f"note: {name} opens nothing: neither your settings of it nor {name} name a host")
    for name in sorted(set(QUESTIONS) & set(names)):
        rules = (rule for layer in policy.layers for rule in layer.allow)
        if hosts := sorted({rule.host for rule in rules if rule.service == name}):
            print(f"{name} opens {', '.join(hosts)}")


@command.command(short_help="Take domains or services out of your policy.yaml.")
@client_option
@click.argument("names", nargs=-1, required=True, metavar="DOMAIN|SERVICE...")
@click.pass_obj
def remove(invocation: Invocation, names: tuple[str, ...], client: str | None) -> None:
    """Take domains or services out of your policy.yaml, or out of a client's.

    \b
      ags policy remove api.example.org
      ags policy remove npm

    A domain goes with all its rules; with a port (`x:8443`), only those for that port. What is
    built in is closed by `deny:` in the file.
    """
    entries = [edit.entry(name) for name in names]
    file = policy_file(invocation, options.client(client))
    before, after = asyncio.run(
        edit.rewrite(file, lambda text: edit.without(text, file, invocation.home, entries))
    )
    _told_change(invocation, file, before, after, "nothing to remove")


@command.command(short_help="Say whether a request would go out, and by which rule.")
@agent_option
@client_option
@click.option("--method", metavar="M", default="GET", help="Such as POST. [default: GET]")
@click.argument("url")
@click.pass_obj
def check(invocation: Invocation, url: str, method: str, agent: str, client: str | None) -> int:
    """Say whether a request to URL would go out, and which rule says so. Nothing is sent there.

    \b
      ags policy check https://api.example.org/v1
      ags policy check --method POST --agent claude https://api.example.org/
      ags policy check --client acme db.example.org:5432

    What no rule allows may be where an index of an open package tool keeps its files: then that
    index is asked.

    Exit code: 0 if it is allowed, 1 if not, 2 if that cannot be said.
    """
    try:
        whose = options.client(client)
        found = Holding(effective(invocation, agent, whose))
        request = request_for(url, method, found.policy)
        if decide(found.policy, request).reason not in ("allowed", "denied"):
            found = holding(invocation, agent, whose)
            request = request_for(url, method, found.policy)
    except AgsError as error:
        error.exit_code = 2  # a script must not take a mistake for a refusal
        raise
    first, *others = explain(found.policy, request)
    allowed = decide(found.policy, request).allowed
    paint = paint_for(sys.stdout, invocation.environ)
    print(paint(one_line(first), "green" if allowed else "red"))
    for line in others:
        print(f"  {one_line(line)}")
    for tool in found.untold if not allowed else ():
        tell(f"note: the index of {tool} named no further host for its files, or did not answer")
    return 0 if allowed else 1


def request_for(url: str, method: str, policy: Policy) -> Request:
    """What a program that is given this URL would want."""
    if not re.fullmatch(r"[A-Za-z-]{1,20}", method, re.ASCII):
        cause, hint = "it is no method of HTTP", "such as GET or POST"
        raise AgsError("use --method", subject=one_line(method)[:40], cause=cause, hint=hint)
    scheme, separator, rest = url.partition("://")
    # urlsplit leaves out line breaks and tabs in silence; what is sent then is another URL.
    if not url.isprintable() or " " in url or (separator and not rest):
        raise _no_url(url, "it is no URL")
    try:
        parts = urlsplit(url if separator else f"//{url}")
        port = parts.port
    except ValueError:
        raise _no_url(url, "it has no port or host that can be read") from None
    if "@" in parts.netloc:
        raise _no_url(url, "a name or password in it is never sent", "leave out all before the @")
    host = canonical_host(
        (parts.hostname or "") if "[" not in parts.netloc else f"[{parts.hostname}]"
    )
    known, usual = SCHEMES.get(scheme.lower(), ("raw", None)) if separator else ("tls", 443)
    if port is None:
        port = usual
    if port is None:
        raise _no_url(
            url, f"{one_line(scheme)} has no port that is known here", "add it: HOST:PORT"
        )
    spoken = known if separator else policy.scheme(host, port)
    if spoken == "raw":
        return Request(host, port, spoken)
    return Request(host, port, spoken, method, parts.path or "/")


def _no_url(url: str, cause: str, hint: str = "https://HOST/PATH, or HOST:PORT") -> AgsError:
    return AgsError("check this URL", subject=one_line(url)[:80], cause=cause, hint=hint)


@command.command(short_help="Show what a run asked for on the network.")
@click.option("-f", "--follow", "following", is_flag=True, help="Go on until the run has ended.")
@click.option("--denied", is_flag=True, help="Only what was refused.")
@click.option("--json", "as_lines", is_flag=True, help="Print the lines as they are kept.")
@click.option("--verify", is_flag=True, help="Say whether the log is whole, and nothing else.")
@click.argument("name", required=False)
@click.pass_obj
def log(
    invocation: Invocation,
    name: str | None,
    following: bool,
    denied: bool,
    as_lines: bool,
    verify: bool,
) -> int:
    """Show what the run NAME asked for on the network, and what was decided. Without NAME, of the
    newest run.

    \b
      ags policy log fix-login --denied
      ags policy log -f
      ags policy log fix-login --verify

    Each line is sealed with a hash over the one before it: --verify finds any that was changed,
    added or cut off, and ends with 1 if there is one.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        run_dir = shelf.run_dir(name) if name else _newest(shelf)
        if verify:
            return _verify(run_dir)
        paint = paint_for(sys.stdout, invocation.environ)
        told = 0
        with contextlib.suppress(KeyboardInterrupt):
            alive = (lambda: runs.is_alive(run_dir)) if following else (lambda: False)
            for record in trail.read(run_dir / trail.LOG, alive):
                if not denied or record.get("allowed") is False:
                    print(as_json(record) if as_lines else shown(record, paint), flush=following)
                    told += 1
        if not told:
            tell(_why_empty(run_dir, denied))
    return 0


def _why_empty(run_dir: Path, denied: bool) -> str:
    if not runs.load(run_dir).egress_count:
        return "it asked for nothing on the network"
    if denied and (run_dir / trail.LOG).exists():
        return "nothing was refused"
    return "its log is gone"


def _newest(shelf: Shelf) -> Path:
    found = shelf.listing(limit=1).runs
    if not found:
        raise AgsError("show the log", cause="there are no runs yet")
    return shelf.run_dir(found[0].id)


def _verify(run_dir: Path) -> int:
    alive = runs.is_alive(run_dir)  # first: of a run that ends meanwhile, the record is whole
    run = runs.load(run_dir)
    path, last = run_dir / trail.LOG, run.egress_last or audit.START
    verdict = audit.verify(path, run.egress_count, last, growing=alive)
    if verdict.whole:
        print(f"{run.name}: whole, {verdict.lines} lines")
        return 0
    print(f"{run.name}: not whole: line {verdict.bad}: {one_line(verdict.cause)}")
    return 1


@command.command(short_help="Propose rules for what a run was refused.")
@click.option("--yes", is_flag=True, help="Write them to the file.")
@click.argument("name")
@click.pass_obj
def learn(invocation: Invocation, name: str, yes: bool) -> None:
    """Propose the smallest change to your policy.yaml that would allow what the run NAME was
    refused, as a diff. Of a client's run, to the client's.

    \b
      ags policy learn fix-login
      ags policy learn fix-login --yes

    The run chose these names, or whoever misled it. Read them before you say yes.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        run_dir = shelf.run_dir(name)
        run = runs.load(run_dir)
    policy = effective(invocation, run.agent, run.order.client)
    lesson = learned(policy, trail.read(run_dir / trail.LOG))
    for where, why in lesson.left:
        tell(f"left out: {where}: {why}")
    if not lesson.rules:
        print("nothing to learn: your policy allows all of it, or cannot be made to")
        return
    file = policy_file(invocation, run.order.client)

    def change(text: str) -> str:
        return edit.with_entries(text, file, invocation.home, lesson.rules)

    before = edit.current(file)
    _print_diff(file, before, change(before), paint_for(sys.stdout, invocation.environ))
    asked = sys.stdin.isatty() and sys.stdout.isatty()
    if yes or (asked and agreed("write it?")):
        before, after = asyncio.run(edit.rewrite(file, change))
        _told_change(invocation, file, before, after, "it allows them already")
    else:
        tell("nothing was written; `--yes` writes it")


def _print_diff(file: Path, before: str, after: str, paint: Paint) -> None:
    name = one_line(str(file))
    styles = {"+": ("green",), "-": ("red",)}
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")
    for line in lines:
        print(paint(one_line(line), *styles.get(line[:1], ())))


@command.command(short_help="Allow domains in one run at work, for a time.")
@click.option("--for", "time", metavar="TIME", default="1h", help="Such as 30m. [default: 1h]")
@click.argument("name")
@click.argument("domains", nargs=-1, required=True, metavar="DOMAIN...")
@click.pass_obj
def grant(invocation: Invocation, name: str, domains: tuple[str, ...], time: str) -> None:
    """Allow domains in the run NAME, which is at work, for a time. Nothing is written down, and
    what your policy denies stays denied.

    \b
      ags policy grant fix-login api.example.org
      ags policy grant fix-login db.example.org:5432 --for 30m
    """
    seconds = parse_duration(time, "--for")
    rules = [edit.spelled(_granted(domain)) for domain in domains]
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        run_dir = shelf.at_work(name, REACH)
        for rule in rules:
            asyncio.run(asking.granted(run_dir, rule, seconds))
            print(f"allowed for {exact_time(seconds)} in {one_line(name)}: {rule}")


def _granted(domain: str) -> Rule:
    found = edit.entry(domain)
    if isinstance(found, str):
        cause, hint = "it is a service", f"`ags policy add {found}`, then `ags policy reload`"
        raise AgsError("allow this for a time", subject=found, cause=cause, hint=hint)
    return found


@command.command(short_help="Bring policy and secrets as they are now to runs at work.")
@click.argument("name", required=False)
@click.pass_obj
def reload(invocation: Invocation, name: str | None) -> int:
    """Bring the policy and secrets as they are now to the run NAME, or to all that are at work.

    \b
      ags policy reload
      ags policy reload fix-login

    A file with a mistake or a secret that cannot be read is told of, and runs keep what they have.

    Exit code: 1 if any of them did not take it.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        effective(invocation)
        found = [name] if name else at_work(shelf)
        if not found:
            print("no run is at work")
        return asyncio.run(_reload(shelf, found))


async def _reload(shelf: Shelf, names: Sequence[str]) -> int:
    from ags.cli.main import show as show_error

    code = 0
    for name in names:
        try:
            answer = await control.ask(shelf.at_work(name, REACH), "reload")
            print(f"reloaded {one_line(name)}")
            notes = answer.get("notes")
            for note in notes if isinstance(notes, list) else ():
                tell(f"note: {one_line(str(note))}")
        except AgsError as error:
            show_error(error)
            code = 1
    return code


def at_work(shelf: Shelf) -> list[str]:
    going = tuple(state for state in NEXT if state not in FINAL)
    return [run.name for run in shelf.listing(Filter(states=going)).runs]


def _told_change(invocation: Invocation, file: Path, before: str, after: str, same: str) -> None:
    if before == after:
        print(f"unchanged {one_line(str(file))}: {same}")
        return
    print(f"changed {one_line(str(file))}")
    if at_work(Shelf(invocation.ags_home)):
        tell("runs at work keep what they have until `ags policy reload`")
