"""Projects as the API tells of them, and the clones and pulls that go on without a request."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from starlette.requests import HTTPConnection

from ags import projects
from ags.errors import AgsError, Unfit
from ags.projects import Adding, Project
from ags.server.rows import Progress, project_row
from ags.server.state import State, state_of
from ags.store import Filter
from ags.workspace import remote
from ags.workspace.remote import Person, Url, checked_url

REDO = "remove the project, then add it again"
"""Of one that was never cloned whole."""


class Fetching:
    """What is under way in this process. What is done is in AGS_HOME."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._progress: dict[str, Progress] = {}
        self._tasks: dict[asyncio.Task[None], str] = {}
        """Each with its project, which may have several: of two pulls, one finds it locked."""

    @property
    def under_way(self) -> int:
        """Clones and pulls."""
        return len(self._tasks)

    def clone(self, adding: Adding) -> None:
        """Goes on by itself; how it ended is written down in the project."""
        person = Person(self._state.environ, self._state.home)
        id_ = adding.place.name
        self._begin(id_, adding.finish(person, self._heard(id_)), "clone")

    def pull(self, project: Project) -> None:
        id_ = project.id
        self._begin(id_, projects.pull(self._state.engine(), id_, self._heard(id_)), "pull")

    def _heard(self, id_: str) -> remote.Progress:
        def heard(stage: str, percent: int | None) -> None:
            self._progress[id_] = Progress(stage, percent)
            with contextlib.suppress(AgsError):
                self.tell(projects.get(self._state.ags_home, id_))

        return heard

    def _begin(self, id_: str, work: Coroutine[Any, Any, object], what: str) -> None:
        self._progress[id_] = Progress()
        task = asyncio.create_task(self._followed(id_, work, what))
        self._state.tasks.add(task)
        self._tasks[task] = id_
        task.add_done_callback(self._state.tasks.discard)

    async def cancel(self, id_: str) -> bool:
        """End a clone or pull that nobody wants to wait for any more; whether there was one here.

        A clone leaves nothing behind then.
        """
        if not (found := [task for task, of in self._tasks.items() if of == id_]):
            return False
        # Let them take their first step: of one that is cancelled before, not even what it would
        # do at its end is done, and a clone keeps its lock.
        await asyncio.sleep(0)
        for task in found:
            task.cancel()
        await asyncio.gather(*found, return_exceptions=True)
        return True

    async def _followed(self, id_: str, work: Coroutine[Any, Any, object], what: str) -> None:
        log = self._state.log
        try:
            await work
            log.event(what, project=id_)
        except AgsError as error:
            log.event(f"{what} failed", "warning", project=id_, cause=error.cause)
        except Exception as error:  # nobody waits for it: the log is all that can be told
            log.failure(error, f"{what} {id_}")
        finally:
            self._forget(id_)
            with contextlib.suppress(AgsError):
                self.tell(projects.get(self._state.ags_home, id_))

    def _forget(self, id_: str) -> None:
        """The task that this is called in, and nothing of another."""
        if (task := asyncio.current_task()) is not None:
            self._tasks.pop(task, None)
        if id_ not in self._tasks.values():
            self._progress.pop(id_, None)

    def tell(self, project: Project) -> None:
        """Everybody who follows the board, without waiting for git."""
        head = self._state.board.tips.told(project.id)
        self._state.board.project_changed(self._row(project, self._count(project), head))

    async def shown(self, project: Project) -> dict[str, Any]:
        head = await self._state.board.tips.of(project)
        return self._row(project, self._count(project), head)

    async def all_shown(self, found: tuple[Project, ...]) -> list[dict[str, Any]]:
        listed = self._state.engine().listing().runs
        runs = Counter((each.project, each.client) for each in listed)
        tips = self._state.board.tips
        return [
            self._row(each, runs[each.folder, each.client], await tips.of(each)) for each in found
        ]

    def _count(self, project: Project) -> int:
        where = Filter(project=project.folder, client=project.client)
        return self._state.engine().listing(where, limit=1).total

    def _row(self, project: Project, runs: int, head: str) -> dict[str, Any]:
        return project_row(project, runs, head, self._progress.get(project.id))


def meant(url: str) -> Url:
    """An address as a person elsewhere writes it: they do not know where the server stands."""
    try:
        made = checked_url(url, Path("/"))
    except OSError as error:  # a name too long, a folder that is not ours to look into
        cause = (error.strerror or str(error)).lower()
        raise Unfit("add the project", subject=url[:80], cause=cause) from error
    if made.folder is not None and not url.startswith(("/", "file:")):
        cause = "it is neither an address nor an absolute path"
        hint = "such as https://HOST/PATH, git@HOST:PATH or /FOLDER"
        raise Unfit("add the project", subject=url[:80], cause=cause, hint=hint)
    return made


async def fetching_of(connection: HTTPConnection) -> Fetching:
    """For `Depends`: the one of this process."""
    held = connection.app.state
    if not hasattr(held, "fetching"):
        held.fetching = Fetching(await state_of(connection))
    found = held.fetching
    assert isinstance(found, Fetching)
    return found
