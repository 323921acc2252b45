"""One method for each thing that the API can do."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ags.client import address, shapes
from ags.client.again import insist
from ags.client.fit import fit
from ags.client.following import PATIENCE, follow
from ags.client.link import Link, Request
from ags.errors import AgsError, Missing
from ags.text import utf8

if TYPE_CHECKING:
    from ags.client.websocket import Terminal

T = TypeVar("T")
LONG = 900.0
"""Seconds for what has to wait for a run, for git or for a repository."""
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")


class Client:
    """A server of AGS. What it refuses is raised in its own words, as an AgsError."""

    def __init__(
        self, url: str, token: str, *, ca: Path | None = None, timeout: float = 60.0
    ) -> None:
        """`ca` has the authority to believe, if it is none that the system knows."""
        self._link = Link(address.parse(url), token, ca, timeout)

    def __repr__(self) -> str:
        return f"Client({str(self._link.address)!r})"

    # Runs

    def runs(
        self,
        *,
        state: Sequence[str] = (),
        agent: str | None = None,
        project: str | None = None,
        client: str | None = None,
        asking: bool | None = None,
        group: str | None = None,
        words: str | None = None,
        order: str = "newest",
        limit: int = 100,
        offset: int = 0,
    ) -> shapes.Rows:
        asked = {
            "state": state,
            "agent": agent,
            "project": project,
            "client": client,
            "asking": asking,
            "group": group,
            "words": words,
            "order": order,
            "limit": limit,
            "offset": offset,
        }
        return self._link.json(Request("GET", "/runs", query=asked), shapes.Rows)

    def run(self, run: str) -> shapes.Run:
        return self._link.json(Request("GET", _of_run(run)), shapes.Run)

    def start(
        self,
        *,
        project: str,
        goal: str,
        agent: str = "claude",
        name: str | None = None,
        base: str = "HEAD",
        client: str | None = None,
        model: str | None = None,
        backend: str | None = None,
        limits: Mapping[str, str] | None = None,
        network: bool = True,
        allow: Sequence[str] = (),
        ask: bool | None = None,
        publish: Sequence[int] = (),
        attempts: int = 1,
    ) -> list[shapes.Row]:
        """Once, even where the answer got lost on the way, and is asked for until it comes."""
        wish = {
            "project": project,
            "goal": goal,
            "agent": agent,
            "name": name,
            "base": base,
            "client": client,
            "model": model,
            "backend": backend,
            "limits": limits or None,
            "network": network,
            "allow": list(allow),
            "ask": ask,
            "publish": list(publish),
            "attempts": attempts,
        }
        key = {"Idempotency-Key": secrets.token_urlsafe(24)}
        request = Request("POST", "/runs", body=_given(wish), headers=key, timeout=LONG)
        return insist(self._link, request, shapes.Rows)["items"]

    def stop(self, run: str, *, now: bool = False) -> shapes.Run:
        """Returns once it has ended."""
        return self._do(run, "stop", {"now": now})

    def restart(self, run: str) -> shapes.Run:
        return self._do(run, "restart", {})

    def tell(self, run: str, text: str) -> shapes.Run:
        return self._do(run, "tell", {"text": text})

    def remove(self, run: str, *, force: bool = False) -> None:
        self._link.nothing(Request("DELETE", _of_run(run), query={"force": force}, timeout=LONG))

    def _do(self, run: str, verb: str, body: Mapping[str, object]) -> shapes.Run:
        path = f"{_of_run(run)}/{verb}"
        return self._link.json(Request("POST", path, body=body, timeout=LONG), shapes.Run)

    # What a run did

    def diff(self, run: str) -> shapes.Diff:
        return self._link.json(Request("GET", f"{_of_run(run)}/diff", timeout=LONG), shapes.Diff)

    def patch(self, run: str) -> bytes:
        return self._link.data(Request("GET", f"{_of_run(run)}/diff.patch", timeout=LONG))

    def apply(
        self,
        run: str,
        *,
        how: shapes.How = "merge",
        into: str | None = None,
        expected: str | None = None,
        remote: str | None = None,
    ) -> shapes.Done:
        """`expected` is the commit that was looked at: another one is not applied."""
        wish = {"how": how, "into": into, "expected": expected, "remote": remote}
        path = f"{_of_run(run)}/apply"
        return self._link.json(Request("POST", path, body=_given(wish), timeout=LONG), shapes.Done)

    def undo(self, run: str) -> shapes.Done:
        path = f"{_of_run(run)}/undo"
        return self._link.json(Request("POST", path, body={}, timeout=LONG), shapes.Done)

    def files(self, run: str, path: str = "", *, at: shapes.Side = "workspace") -> shapes.File:
        asked = {"path": path, "at": at}
        return self._link.json(Request("GET", f"{_of_run(run)}/files", query=asked), shapes.File)

    def raw(self, run: str, path: str, *, at: shapes.Side = "workspace") -> bytes:
        return self._link.data(
            Request("GET", f"{_of_run(run)}/files/raw", query={"path": path, "at": at})
        )

    def log(self, run: str) -> str:
        return self._link.data(Request("GET", f"{_of_run(run)}/log")).decode("utf-8", "replace")

    def page(
        self, run: str, after: int = 0, *, limit: int = 500, kind: str | None = None
    ) -> shapes.Events:
        """Events that are there already."""
        asked = {"after": after, "limit": limit, "kind": kind}
        return self._link.json(Request("GET", f"{_of_run(run)}/events", query=asked), shapes.Events)

    def events(
        self, run: str, after: int = 0, *, patience: float = PATIENCE
    ) -> Iterator[shapes.Event]:
        """Each event once, in order, as it comes, until the run has ended."""
        last = str(after) if after else ""
        for sent in follow(self._link, f"{_of_run(run)}/stream", last, patience):
            if sent.event == "end":
                return
            if sent.event == "gone":
                raise Missing("follow the run", subject=run, cause="it was removed")
            event = self._read(sent.data, shapes.Event)
            if event["seq"] > after:
                after = event["seq"]
                yield event

    def egress(
        self, run: str, after: int = 0, *, limit: int = 500, denied: bool | None = None
    ) -> list[dict[str, Any]]:
        asked = {"after": after, "limit": limit, "denied": denied}
        found = self._link.json(Request("GET", f"{_of_run(run)}/egress", query=asked), shapes.Lines)
        return found["items"]

    def attach(
        self, run: str, *, rows: int, columns: int, shell: bool = False, term: str | None = None
    ) -> AbstractAsyncContextManager[Terminal]:
        """The run's terminal, or a shell of one's own beside it, for a terminal called `term`."""
        from ags.client import websocket  # only here is there anything asynchronous

        size = {"rows": rows, "columns": columns}
        asked = {**size, "shell": 1, "term": term} if shell else size
        return websocket.connect(self._link, self._link.target(f"{_of_run(run)}/terminal", asked))

    # What runs ask, and what they serve

    def asks(self, run: str | None = None) -> list[shapes.Ask]:
        path = "/asks" if run is None else f"{_of_run(run)}/asks"
        return self._link.json(Request("GET", path), shapes.Asks)["items"]

    def answer(
        self,
        run: str,
        ask: str,
        verdict: shapes.Verdict,
        *,
        seconds: float | None = None,
        uses: int | None = None,
    ) -> shapes.Ask:
        wish = {"verdict": verdict, "seconds": seconds, "uses": uses}
        path = f"{_of_run(run)}/asks/{_segment(ask, 'answer this', 'nobody asks this')}"
        return self._link.json(Request("POST", path, body=_given(wish)), shapes.Ask)

    def ports(self, run: str) -> list[shapes.Port]:
        return self._link.json(Request("GET", f"{_of_run(run)}/ports"), shapes.Ports)["items"]

    def publish(self, run: str, port: int, *, host_port: int = 0) -> shapes.Port:
        body = {"port": port, "host_port": host_port}
        return self._link.json(Request("POST", f"{_of_run(run)}/ports", body=body), shapes.Port)

    # Projects

    def projects(self, *, client: str | None = None) -> list[shapes.Project]:
        """All of them, however many the server tells at once."""
        found: list[shapes.Project] = []
        while True:
            asked = {"client": client, "limit": 500, "offset": len(found)}
            page = self._link.json(Request("GET", "/projects", query=asked), shapes.Projects)
            found += page["items"]
            if not page["items"] or len(found) >= page["total"]:
                return found

    def project(self, project: str) -> shapes.Project:
        return self._link.json(Request("GET", _of_project(project)), shapes.Project)

    def add_project(
        self, url: str, *, client: str | None = None, link: bool = False
    ) -> shapes.Project:
        """Returns while it is being cloned; a known one as it is. `link`: a folder of the server's
        machine, used as it is."""
        body = _given({"url": url, "client": client, "link": link or None})
        return self._link.json(Request("POST", "/projects", body=body), shapes.Project)

    def pull(self, project: str) -> shapes.Project:
        """Returns while it goes on."""
        return self._link.json(
            Request("POST", f"{_of_project(project)}/pull", body={}), shapes.Project
        )

    def branches(self, project: str) -> list[shapes.Branch]:
        path = f"{_of_project(project)}/branches"
        return self._link.json(Request("GET", path), shapes.Branches)["items"]

    def remove_project(self, project: str, *, force: bool = False) -> None:
        asked = {"force": force}
        self._link.nothing(Request("DELETE", _of_project(project), query=asked, timeout=LONG))

    # The server

    def health(self) -> shapes.Health:
        return self._link.json(Request("GET", "/health"), shapes.Health)

    def board(self, *, patience: float = PATIENCE) -> Iterator[shapes.Change]:
        """All that changes anywhere, first as it stands. Without end."""
        for sent in follow(self._link, "/stream", patience=patience):
            yield {"event": sent.event, "data": self._read(sent.data, object)}

    def _read(self, data: str, shape: type[T]) -> T:
        try:
            return fit(json.loads(data), shape)
        except (ValueError, RecursionError) as error:
            raise AgsError(
                "follow the server",
                subject=self._link.address,
                cause=f"it sends what is no event: {str(error)[:200]}",
            ) from error


def _given(wish: Mapping[str, object]) -> dict[str, object]:
    """What is None is for the server to choose."""
    return {name: each for name, each in wish.items() if each is not None}


def _of_run(run: str) -> str:
    return f"/runs/{_segment(run, 'find the run', 'there is no run of this name')}"


def _of_project(project: str) -> str:
    return f"/projects/{_segment(project, 'find the project', 'there is no such project')}"


def _segment(text: str, what: str, cause: str) -> str:
    """Part of a path; what cannot be one is no name of anything either."""
    if not _SEGMENT.fullmatch(text):
        raise Missing(what, subject=utf8(ascii(text)[:60]), cause=cause)
    return text
