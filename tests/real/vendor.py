"""A maker's accounts: each token is renewed once, and all are void after a misuse."""

from __future__ import annotations

import threading
from typing import Any

from tests.models import Request
from tests.models.script import Reply

TOKEN, PROFILE = "/v1/oauth/token", "/api/oauth/profile"
LASTS = 3600


class Vendor:
    """Stands before a scripted model, as one of its models."""

    def __init__(self) -> None:
        self.renewed = 0
        self.void = False
        self.asked: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self._lock = threading.Lock()
        self.access, self.refresh = self._pair()

    def _pair(self) -> tuple[str, str]:
        mark = chr(ord("a") + self.renewed)
        return f"sk-ant-oat01-{mark * 80}AA", f"sk-ant-ort01-{mark * 80}AA"

    def secrets(self) -> list[str]:
        """All tokens that there ever were."""
        marks = [chr(ord("a") + number) for number in range(self.renewed + 1)]
        return [mark * 80 for mark in marks]

    def answer(self, request: Request) -> Reply | None:
        with self._lock:
            if request.route == TOKEN:
                return self._granted(request.asked)
            if request.route == PROFILE:
                return Reply.json(ACCOUNT)
            if request.route == "/v1/messages":
                return self._let_in(request.header("authorization") or "")
        return None

    def _granted(self, asked: dict[str, Any]) -> Reply:
        self.asked.append(asked)
        if asked.get("grant_type") == "refresh_token":
            if asked.get("refresh_token") != self.refresh or self.void:
                self.void = True  # somebody has a token that was used before: nobody is trusted
                return Reply.json({"error": "invalid_grant"}, 400)
            self.renewed += 1
            self.access, self.refresh = self._pair()
        return Reply.json(
            {
                "access_token": self.access,
                "refresh_token": self.refresh,
                "expires_in": LASTS,
                "token_type": "Bearer",
                "scope": "user:inference user:profile",
            }
        )

    def _let_in(self, authorization: str) -> Reply | None:
        if authorization == f"Bearer {self.access}" and not self.void:
            return None
        self.refused.append(authorization)
        error = {"type": "authentication_error", "message": "this token is void"}
        return Reply.json({"type": "error", "error": error}, 401)


ACCOUNT = {
    "account": {"uuid": "u", "email": "ada@example.com", "has_claude_max": True},
    "organization": {"uuid": "o", "organization_type": "claude_max"},
}
