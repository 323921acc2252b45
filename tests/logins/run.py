"""A log-in file on the host, and runs that use it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ags.egress.desk import Answer, Asked, Post
from ags.egress.inject import Hidden, Scanner
from ags.egress.model import Request
from ags.logins.desk import Desk
from ags.logins.state import Wired, wire
from tests.logins.vendor import CLIENT, Vendor

TOKEN = Request("platform.claude.com", 443, "tls", "POST", "/v1/oauth/token")
MODEL = Request("api.anthropic.com", 443, "tls", "POST", "/v1/messages")
JSON = b"application/json"
Posting = Callable[[Asked], Awaitable[Answer]]


def asked(desk: Desk, body: bytes, kind: bytes = JSON, request: Request = TOKEN) -> Asked:
    headers = ((b"Content-Type", kind), (b"User-Agent", b"agent/1"))
    return Asked(request, "/v1/oauth/token", headers, Hidden(body), Scanner(desk.placeholders).look)


def to(vendor: Vendor) -> Post:
    """The vendor, as if it were reached."""

    async def post(request: Asked) -> Answer:
        status, told = vendor.renew(request.first(b"content-type"), request.body)
        return Answer(status, Hidden(json.dumps(told).encode()))

    return post


def host_login(folder: Path, vendor: Vendor, expires: float | None = None) -> Path:
    path = folder / "home" / ".claude" / ".credentials.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(vendor.claude_file(expires))
    path.chmod(0o600)
    return path


def wired(folder: Path, path: Path, agent: str = "claude", client: str = "") -> Wired:
    home = folder / "ags"
    home.mkdir(mode=0o700, exist_ok=True)
    return wire(agent, path, client, home)


class Agent:
    """What an agent inside knows and does: it has the file, and renews by it."""

    def __init__(self, made: Wired) -> None:
        self.desk = made.desk
        self.login: dict[str, Any] = dict(made.file["claudeAiOauth"])  # type: ignore[call-overload]
        self.seen = [json.dumps(dict(made.file))]

    def request(self, **more: object) -> bytes:
        fields = {"grant_type": "refresh_token", "refresh_token": self.login["refreshToken"]}
        return json.dumps({**fields, "client_id": CLIENT, **more}).encode()

    async def renew(self, post: Post) -> tuple[int, dict[str, Any]]:
        answer = await self.desk.answer(asked(self.desk, self.request()), post)
        self.seen.append(answer.body.decode())
        told = json.loads(bytes(answer.body))
        if answer.status == 200:
            self.login |= {"accessToken": told["access_token"]}
            self.login |= {"refreshToken": told.get("refresh_token", self.login["refreshToken"])}
            self.login["life"] = told["expires_in"]
        return answer.status, told

    def sent(self) -> str | None:
        """What the fence makes of its access token now."""
        known = {each.text: each.secret_id for each in self.desk.placeholders}
        return self.desk.lookup(known[self.login["accessToken"]])


def real(path: Path) -> dict[str, Any]:
    login: dict[str, Any] = json.loads(path.read_bytes())["claudeAiOauth"]
    return login
