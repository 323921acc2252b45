"""From a request to runs at work. Everything is judged for all attempts before the first starts."""

from __future__ import annotations

import hashlib
import itertools
import os
from dataclasses import replace
from pathlib import Path

from ags import clients, projects, runs, wishes
from ags.config.limits import limited
from ags.config.load import load
from ags.egress.load import from_flags
from ags.engine import Engine, Wish
from ags.errors import AgsError, ConfigError, Missing, Unfit
from ags.prepare import limits_here
from ags.projects import Project
from ags.runs import Order, Run
from ags.server import keys
from ags.server.fetching import REDO
from ags.server.keys import Key, Named
from ags.server.schema import NewRun
from ags.workspace import git
from ags.workspace.git import Repository

TURNS = 20
"""How often names are made anew for runs that nobody named. Of those who start one goal at the same
moment, each turn gives one its names."""


class Partly(AgsError):
    """Some attempts were started, then one could not be."""

    def __init__(self, error: AgsError, started: tuple[str, ...]) -> None:
        self.started = started
        told = f"{error.cause} (started before that: {', '.join(started)})"
        super().__init__(error.what, subject=error.subject, cause=told, hint=error.hint)


async def create(engine: Engine, asked: NewRun, key: str | None) -> tuple[list[Run], bool]:
    """The runs, and whether any of them is new."""
    with keys.opened(engine.ags_home, key, _hashed(asked)) as held:
        if held is not None and await _recalled(engine, held):
            return await _completed(engine, asked, held), False
        try:
            return await _begun(engine, asked, held), True
        except AgsError:
            if held is not None:
                _forget(engine, held)
            raise


def _hashed(asked: NewRun) -> str:
    return hashlib.sha256(asked.model_dump_json().encode()).hexdigest()


async def _wish(engine: Engine, asked: NewRun) -> Wish:
    """All that the attempts have in common, and nothing in it that would be refused later."""
    folder, client = _place(engine, asked)
    config = clients.settings_file(engine.environ, engine.home, client)
    settings = limited(load(config, engine.environ, engine.home), asked.limits.model_dump())
    order = Order(
        backend=asked.backend,
        config=config,
        network=asked.network,
        allow=_rules(asked.allow),
        ask=asked.ask,
        publish=tuple(asked.publish),
        client=client,
        model="" if asked.model is None else wishes.model(asked.model),
    )
    wish = Wish(
        name="",
        goal=asked.goal,
        agent=asked.agent,
        folder=folder,
        limits=limits_here(settings),
        base=asked.base,
        order=order,
    )
    wishes.check(engine, wish)
    await wishes.ready(engine, asked.agent)
    return wish


def _place(engine: Engine, asked: NewRun) -> tuple[Path, str]:
    """The repository, and whose work it is."""
    client = None if asked.client is None else clients.checked_name(asked.client)
    if not asked.project.startswith("/"):
        project = projects.get(engine.ags_home, asked.project)
        return _repository(project), _client(project, client)
    folder = _folder(asked.project)
    found = projects.find_by_folder(engine.ags_home, folder, client or "")
    if found is not None:
        return _repository(found), _client(found, client)
    if Path(os.path.realpath(engine.ags_home)) in (folder, *folder.parents):
        cause = "it lies in the state folder, where the work of all clients is"
        hint = "name the project by its id, or a repository elsewhere"
        raise Unfit("use the project", subject=asked.project, cause=cause, hint=hint)
    return folder, client or ""


def _folder(path: str) -> Path:
    try:
        folder = Path(os.path.realpath(path))
        if folder.is_dir():
            return folder
    except OSError:  # a name too long, a folder that is not ours to look into
        pass
    cause = "there is no such folder on the server"
    hint = "give its whole path there, or add it as a project by its address"
    raise Missing("use the project", subject=path, cause=cause, hint=hint)


def _repository(project: Project) -> Path:
    if project.state in ("cloning", "failed"):
        cause = project.error or "it is still being cloned"
        hint = REDO if project.state == "failed" else "wait until it is there"
        raise AgsError("use the project", subject=project.name, cause=cause, hint=hint)
    return project.folder


def _client(project: Project, client: str | None) -> str:
    """Nobody else's work is done on a client's project."""
    if client is not None and client != project.client:
        whose = f"a project of {project.client}" if project.client else "a project of nobody's"
        cause = f"it is {whose}, and this run is for {client or 'nobody'}"
        hint = "add the repository as a project of that client too"
        raise Unfit("use the project", subject=project.name, cause=cause, hint=hint)
    return project.client


def _rules(allow: list[str]) -> tuple[str, ...]:
    for domain in allow:
        try:
            from_flags((domain,))
        except (AgsError, ConfigError) as error:
            raise Unfit("allow this", subject=domain, cause=error.cause, hint=error.hint) from error
    return tuple(allow)


async def _check_branches(project: Repository, names: tuple[str, ...]) -> None:
    refs = [f"refs/heads/agent--{name}" for name in names]
    found = await git.run(project, "for-each-ref", "--count=1", "--format=%(refname)", *refs)
    if branch := found.text.strip().removeprefix("refs/heads/"):
        raise AgsError(
            "start a run of this name",
            subject=branch.removeprefix("agent--"),
            cause=f"the project has a branch {branch} already",
            hint="choose another name",
        )


async def _begun(engine: Engine, asked: NewRun, held: Key | None) -> list[Run]:
    wish = await _wish(engine, asked)
    project = await git.find(wish.folder)
    await git.resolve(project, asked.base)
    names = await _names(engine, project, asked)
    for turn in itertools.count(1):
        wanted = _attempts(wish, names, asked)
        chosen = tuple(Named(each.name, each.id) for each in wanted)
        if held is not None:
            held.keep(chosen)
        try:
            return await _started(engine, wanted, held)
        except AgsError:
            if asked.name is not None or turn == TURNS or _are_there(engine, chosen):
                raise
            lost, names = names, await _names(engine, project, asked)
            if names == lost:  # they are free: it was something else
                raise
    raise AssertionError


async def _names(engine: Engine, project: Repository, asked: NewRun) -> tuple[str, ...]:
    made = await wishes.names(engine, project, asked.name, asked.goal, asked.attempts)
    if asked.name is not None:
        await _check_branches(project, made)
    return made


def _attempts(wish: Wish, names: tuple[str, ...], asked: NewRun) -> list[Wish]:
    stem = names[0].removesuffix("-1") if asked.attempts > 1 else ""
    return [
        replace(wish, name=name, group=stem, id=run_id)
        for name, run_id in zip(names, _ids(len(names)), strict=True)
    ]


def _ids(count: int) -> list[str]:
    """In the order of the names: lists go by them, and they tell milliseconds apart, no less."""
    at = runs.now()
    return [runs.new_id(replace(at, wall=at.wall + 0.002 * number)) for number in range(count)]


async def _started(engine: Engine, wanted: list[Wish], held: Key | None) -> list[Run]:
    made: list[Run] = []
    for wish in wanted:
        try:
            made.append(await engine.start(wish))
            if held is not None:
                held.note(Named(wish.name, wish.id))
        except AgsError as error:
            if not made:
                raise
            raise Partly(error, tuple(run.name for run in made)) from error
    return made


async def _recalled(engine: Engine, held: Key) -> bool:
    """Note what was made just before the server was killed; whether the key has made any run."""
    if held.record is None:
        return False
    noted = {each.id for each in held.record.begun}
    for each in (each for each in held.record.chosen if each.id not in noted):
        try:
            run = engine.find(each.id)
        except Missing:
            continue
        if run.state == "interrupted" and run.started is None:
            await engine.restart(run.id)  # killed before it had a supervisor
        held.note(each)
    return bool(held.record.begun)


async def _completed(engine: Engine, asked: NewRun, held: Key) -> list[Run]:
    """What the same request began before, and whatever of it a crash left undone."""
    record = held.record
    assert record is not None
    begun = {each.name: each for each in record.begun}
    if begun.keys() != set(record.names):
        wanted = _attempts(await _wish(engine, asked), record.names, asked)
        held.keep(tuple(begun.get(each.name, Named(each.name, each.id)) for each in wanted))
        await _started(engine, [each for each in wanted if each.name not in begun], held)
    assert held.record is not None
    found = [run for each in held.record.begun if (run := _there(engine, each.id))]
    if not found:
        cause = "all that this request started was removed since"
        raise AgsError("start the runs", cause=cause, hint="use another Idempotency-Key")
    return found


def _forget(engine: Engine, held: Key) -> None:
    """Of a request that was refused and made nothing: the next one has names of its own."""
    record = held.record
    if record is not None and not record.begun and not _are_there(engine, record.chosen):
        held.drop()


def _are_there(engine: Engine, chosen: tuple[Named, ...]) -> bool:
    """Whether any is, be it damaged, or without a supervisor as its start went wrong."""
    return any(runs.directory(engine.ags_home, each.id).is_dir() for each in chosen)


def _there(engine: Engine, run_id: str) -> Run | None:
    try:
        return runs.load(runs.directory(engine.ags_home, run_id))
    except AgsError:
        return None
