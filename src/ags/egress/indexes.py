"""Where a package index keeps its files, if not with itself: learnt from a page of that index.

The page is fetched out here, by the fence's own way out, from an index of the person's own
settings. It is about the tool's own package: one that an agent names could be an agent's friend's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import h11

from ags.egress import policy, registries
from ags.egress.fence import Fence
from ags.egress.hosts import address_of
from ags.egress.link import Plain
from ags.egress.model import Request
from ags.egress.policy import Policy, Rule
from ags.egress.tls import Session, Stream
from ags.errors import AgsError
from ags.model import KIB

Learnt = Mapping[str, tuple[Rule, ...]]
"""File hosts, by the tool's name."""
Indexes = Mapping[str, tuple[str, ...]]
"""Addresses of indexes, by the tool's name."""

MOST_INDEXES = 4
MOST_HOSTS = 8
MOST_PAGE = 512 * KIB
PAGE_TIMEOUT = 5.0
TIMEOUT = 15.0

PAGES = {"pip": ("/pip/", "/setuptools/", ""), "npm": ("/npm/latest",)}
"""Below an index; the first that is there. A list of links for pip is a page itself."""
_ACCEPT = {"pip": "text/html", "npm": "application/json"}


async def learn(fence: Fence, indexes: Indexes, within: float = TIMEOUT) -> Learnt:
    """What can be learnt in a short time, in seconds. Whatever fails teaches nothing."""
    tasks = {
        tool: asyncio.gather(*(_files(fence, tool, each) for each in addresses[:MOST_INDEXES]))
        for tool, addresses in indexes.items()
        if tool in PAGES
    }
    learnt: dict[str, tuple[Rule, ...]] = {}
    try:
        async with asyncio.timeout(within):
            for tool, task in tasks.items():
                found = dict.fromkeys(rule for rules in await task for rule in rules)
                learnt[tool] = tuple(found)[:MOST_HOSTS]
    except TimeoutError:
        pass
    finally:
        for task in tasks.values():
            task.cancel()
    return {tool: rules for tool, rules in learnt.items() if rules}


def extended(current: Policy, learnt: Learnt) -> Policy:
    """With these for reading, in each layer that opens the tool itself."""
    layers = []
    for layer in current.layers:
        opened = {rule.service for rule in layer.allow}
        more = (
            replace(rule, service=tool)
            for tool, rules in learnt.items()
            for rule in rules
            if tool in opened
        )
        known = set(layer.allow)
        added = tuple(rule for rule in more if rule not in known)
        layers.append(replace(layer, allow=(*layer.allow, *added)))
    return replace(current, layers=tuple(layers))


async def _files(fence: Fence, tool: str, index: str) -> tuple[Rule, ...]:
    for end in PAGES[tool]:
        address = index.rstrip("/") + end if end else index
        page = await _fetched(fence, address, _ACCEPT[tool])
        if page is not None:
            return file_hosts(tool, page, address)
    return ()


def file_hosts(tool: str, page: str, address: str) -> tuple[Rule, ...]:
    """Where the files of this page are, as far as that is elsewhere, by name and no less safe."""
    found = registries.linked(page, address) if tool == "pip" else _tarball(page)
    (own,) = registries.rules_for([address]).rules
    return tuple(
        rule
        for rule in found.rules
        if rule != own
        and address_of(rule.host) is None
        and (rule.protocol == "tls" or own.protocol == "http")
    )[:MOST_HOSTS]


def _tarball(page: str) -> registries.Found:
    try:
        address = json.loads(page)["dist"]["tarball"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return registries.Found()
    return registries.rules_for([address] if isinstance(address, str) else [])


async def _fetched(fence: Fence, address: str, accept: str) -> str | None:
    """The beginning of the page, if there is one. No redirect is followed."""
    parts = urlsplit(address)
    (rule,) = registries.rules_for([address]).rules
    (port,) = rule.ports
    request = Request(rule.host, port, rule.scheme(port), "GET", parts.path or "/")
    if not policy.decide(fence.policy, request).allowed:
        return None
    try:
        async with asyncio.timeout(PAGE_TIMEOUT):
            return await _page(fence, request, parts.netloc, accept)
    except (AgsError, OSError, TimeoutError, h11.ProtocolError):
        return None


async def _page(fence: Fence, request: Request, authority: str, accept: str) -> str | None:
    link, _ = await fence.dial(request)
    try:
        talk: Plain | Stream = Plain(link)
        if request.scheme == "tls":
            talk = Stream(Session(fence.verified(request.host), request.host), link, link)
            await talk.shake()
        return await _asked(talk, request.path or "/", authority, accept)
    finally:
        link.close()


async def _asked(talk: Plain | Stream, path: str, authority: str, accept: str) -> str | None:
    said = h11.Connection(h11.CLIENT)
    headers = {"Host": authority, "Accept": accept, "Accept-Encoding": "identity"}
    headers |= {"User-Agent": "ags", "Connection": "close"}
    asking = h11.Request(method="GET", target=path, headers=list(headers.items()))
    await talk.write(b"".join(filter(None, map(said.send, (asking, h11.EndOfMessage())))))
    page = bytearray()
    while len(page) < MOST_PAGE:
        event = said.next_event()
        if event is h11.NEED_DATA:
            said.receive_data(await talk.read())
        elif isinstance(event, h11.Response) and event.status_code != 200:
            return None
        elif isinstance(event, h11.Data):
            page += event.data
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    return bytes(page).decode("utf-8", "replace")


def told(learnt: Learnt) -> Iterable[str]:
    """For a person to read."""
    for tool, rules in learnt.items():
        hosts = ", ".join(rule.host for rule in rules)
        yield f"{tool}: files are at {hosts}, which may be read too"
