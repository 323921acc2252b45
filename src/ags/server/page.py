"""The page: files of `ags/web`, held in memory. An address is looked up, never made into a path.

It is one program in the browser: what has an address within it is answered with `index.html`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
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
INDEX = "/index.html"
# As `routeOf` in web/store.js reads them.
VIEW = re.compile(
    r"/(|login|new|compare|settings(/(policy|secrets|clients|agents|doctor))?"
    r"|run/[a-z0-9][a-z0-9-]{0,47}(/(terminal|network|files|log|preview|review))?)",
    re.ASCII,
)
# What a browser is told in the page itself; it takes no import map from elsewhere.
IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


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
        return INDEX if VIEW.fullmatch(path) else path


def _read(folder: Path) -> Iterator[tuple[str, File]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in KINDS and path.is_file():
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            allowed = policy(_scripts(content)) if path.suffix == ".html" else None
            name = path.relative_to(folder).as_posix()
            yield f"/{name}", File(content, KINDS[path.suffix], etag, allowed)


def _scripts(content: bytes) -> tuple[str, ...]:
    """The one script that stands in the page itself, as a policy names it: by what it says."""
    return tuple(
        f"'sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}'"
        for found in IMPORT_MAP.finditer(content)
    )
