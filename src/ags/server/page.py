"""The page: files of `ags/web`, held in memory. An address is looked up, never made into a path.

It is one program in the browser: what has an address within it is answered with `index.html`, which
names all that its view is made of. Without that a browser would find the parts one by one, each
only when it has read the one before.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from ags.frozen import frozen
from ags.server.gate import policy

FOLDER = Path(__file__).resolve().parent.parent / "web"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
INDEX, PROGRAM = "/index.html", "/app.js"
RUN = r"run/[a-z0-9][a-z0-9-]{0,47}"
# As `routeOf` in web/store.js reads them.
VIEWS = {
    "board": r"/",
    "login": r"/login",
    "new": r"/new",
    "compare": r"/compare",
    "settings": r"/settings(/(policy|secrets|clients|agents|doctor))?",
    "run": rf"/{RUN}(/(terminal|network|files|log|preview))?",
    "review": rf"/{RUN}/review",
}
# What a browser is told in the page itself; it takes no import map from elsewhere.
IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
BEFORE = b'<script type="module"'
# Not `import("...")`, which is for what a view needs later or not at all.
IMPORTED = re.compile(
    rb'(?:^|;)(?:import|export)\b[^"\'();]*["\']([^"\']+)["\'](?=;)', re.MULTILINE
)


@frozen
class File:
    content: bytes
    kind: str
    etag: str
    policy: str | None
    """What it may load, where it is a page."""


class Page:
    """`dev` reads the files again for each request, for whoever works on them."""

    def __init__(self, folder: Path = FOLDER, *, dev: bool = False) -> None:
        self._folder = folder
        self._dev = dev
        self._files = dict(_read(folder))

    def has(self, path: str) -> bool:
        if self._dev:
            self._files = dict(_read(self._folder))
        return self._named(path) in self._files

    def answer(self, scope: Scope) -> Response:
        """For a path that is there; by GET or HEAD."""
        file = self._files[self._named(scope["path"])]
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if file.policy is not None:
            headers["Content-Security-Policy"] = file.policy
        if Headers(scope=scope).get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.kind)

    def _named(self, path: str) -> str:
        found = (view for view, paths in VIEWS.items() if re.fullmatch(paths, path, re.ASCII))
        return next(found, path)


def _read(folder: Path) -> Iterator[tuple[str, File]]:
    found = {
        f"/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in KINDS and path.is_file()
    }
    for name, content in found.items():
        yield name, _file(name, content)
    for view in VIEWS if INDEX in found else ():
        yield view, _file(INDEX, _index(view, found))


def _file(name: str, content: bytes) -> File:
    kind = posixpath.splitext(name)[1]
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return File(content, KINDS[kind], etag, policy(_scripts(content)) if kind == ".html" else None)


def _index(view: str, files: Mapping[str, bytes]) -> bytes:
    parts = dict.fromkeys((*_parts(PROGRAM, files), *_parts(f"/views/{view}.js", files)))
    links = "".join(f'<link rel="modulepreload" href="{name}">\n' for name in parts)
    return files[INDEX].replace(BEFORE, links.encode() + BEFORE, 1)


def _parts(name: str, files: Mapping[str, bytes]) -> list[str]:
    """A module and all that it needs to begin, the nearest first."""
    named = IMPORT_MAP.search(files[INDEX])
    short = json.loads(named[1])["imports"] if named else {}
    parts = [name] if name in files else []
    for part in parts:  # which grows meanwhile
        for found in IMPORTED.finditer(files[part]):
            wanted = found[1].decode()
            path = short.get(wanted) or posixpath.join(posixpath.dirname(part), wanted)
            if (path := posixpath.normpath(path)) in files and path not in parts:
                parts.append(path)
    return parts


def _scripts(content: bytes) -> tuple[str, ...]:
    """The one script that stands in the page itself, as a policy names it: by what it says."""
    return tuple(
        f"'sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}'"
        for found in IMPORT_MAP.finditer(content)
    )
