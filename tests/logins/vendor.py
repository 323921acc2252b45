"""A scripted vendor of tokens: they expire, refresh tokens rotate, and one that is used twice
revokes all that came of the same log-in, as real ones do."""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

CLIENT = "the-agents-own-client-id"
SCOPES = "user:inference user:profile"


def web_token(claims: dict[str, object], signature: str) -> str:
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join((*coded, signature.encode())).decode()


@dataclass
class Vendor:
    """Answers as a token endpoint, and tells which access tokens are good."""

    life: float = 3600
    rotates: bool = True
    jwt: bool = False
    revoked: bool = False
    renewals: list[dict[str, str]] = field(default_factory=list)
    """Every request, as its fields."""
    issued: set[str] = field(default_factory=set)
    """Every token there ever was."""
    delay: float = 0
    slack: float = 0
    """Seconds for which a token is good beyond what is said of it, for an agent that is late."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._count = itertools.count(1)
        self._good: dict[str, float] = {}
        self.access = self.refresh = ""
        self._new()

    def _new(self) -> None:
        n = next(self._count)
        made = f"sk-ant-oat01-REAL-access-{n:04d}-ZkQ7xvWp2mRt9LsYb4Nc"
        if self.jwt:
            signature = f"REALsignature{n:04d}" + "x7Qz" * 8
            made = web_token({"exp": int(time.time() + self.life), "n": n}, signature)
        self.access = made
        self._good[made] = time.monotonic() + self.life + self.slack
        if self.rotates or not self.refresh:
            self.refresh = f"sk-ant-ort01-REAL-refresh-{n:04d}-HjU3kLm8PqRs5TvWx"
        self.issued |= {self.access, self.refresh}

    def good(self, access: str) -> bool:
        return not self.revoked and self._good.get(access, 0) > time.monotonic()

    def renew(self, content_type: str, body: bytes) -> tuple[int, dict[str, Any]]:
        time.sleep(self.delay)
        form = content_type.startswith("application/x-www-form-urlencoded")
        fields = dict(parse_qsl(body.decode())) if form else json.loads(body)
        with self._lock:
            self.renewals.append(fields)
            if fields.get("client_id") != CLIENT or fields.get("grant_type") != "refresh_token":
                return 400, {"error": "invalid_request"}
            if fields["refresh_token"] != self.refresh:
                self.revoked = self.revoked or fields["refresh_token"] in self.issued
            if self.revoked or fields["refresh_token"] != self.refresh:
                return 400, {"error": "invalid_grant", "error_description": "reused or unknown"}
            self._new()
            answer: dict[str, Any] = {"token_type": "Bearer", "access_token": self.access}
            answer |= {"expires_in": int(self.life), "scope": SCOPES}
            answer |= {"account": {"uuid": "0-1", "email": "a@b"}}
            return 200, answer | ({"refresh_token": self.refresh} if self.rotates else {})

    def claude_file(self, expires: float | None = None) -> bytes:
        until = time.time() + self.life if expires is None else expires
        login = {
            "accessToken": self.access,
            "refreshToken": self.refresh,
            "expiresAt": int(until * 1000),
            "scopes": SCOPES.split(),
            "subscriptionType": "max",
        }
        other = {"server": {"accessToken": "mcp-server-token-0123456789abcdef"}}
        return json.dumps({"claudeAiOauth": login, "mcpOAuth": other}).encode()
