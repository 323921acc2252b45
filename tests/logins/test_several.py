"""Log-ins of several agents in one run: each stays its own, even those of one maker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ags.egress.desk import Answer, Asked
from ags.egress.inject import Hidden, Scanner
from ags.logins.several import Several
from ags.logins.state import Wired
from tests.logins.run import JSON, MODEL, TOKEN, host_login, to, wired
from tests.logins.vendor import CLIENT, Vendor


class Scene:
    """claude and opencode, each with a log-in of its own from the same maker."""

    def __init__(self, folder: Path) -> None:
        self.vendors = {"claude": Vendor(), "opencode": Vendor()}
        self.vendors["opencode"]._new()  # so that no token is of both
        own = self.vendors["opencode"]
        tokens = {"access": own.access, "refresh": own.refresh, "expires": 1}
        path = folder / "auth.json"
        path.write_text(json.dumps({"anthropic": {"type": "oauth", **tokens}}))
        path.chmod(0o600)
        self.made = {
            "claude": wired(folder, host_login(folder, self.vendors["claude"], 1.0)),
            "opencode": wired(folder, path, "opencode"),
        }
        self.desk = Several(tuple(each.desk for each in self.made.values()))

    def ask(self, refresh: str, vendor: Vendor) -> Answer:
        fields = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": CLIENT}
        body = Hidden(json.dumps(fields).encode())
        headers = ((b"Content-Type", JSON),)
        question = Asked(TOKEN, TOKEN.path or "", headers, body, self.look)
        return asyncio.run(self.desk.answer(question, to(vendor)))

    def look(self, data: bytes) -> str | None:
        return Scanner(self.desk.placeholders).look(data)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def tokens(made: Wired) -> tuple[str, str]:
    """Of the file inside: access and refresh."""
    (login,) = (each for each in made.file.values() if isinstance(each, dict))
    access = login.get("accessToken") or login["access"]
    return str(access), str(login.get("refreshToken") or login["refresh"])


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_each_is_renewed_by_its_own_token(scene: Scene, name: str) -> None:
    _, refresh = tokens(scene.made[name])
    own = scene.vendors[name]
    answer = scene.ask(refresh, own)
    assert answer.status == 200 and len(own.renewals) == 1
    assert not any(token in answer.body.decode() for token in own.issued)


def test_what_is_nobodys_is_renewed_by_none(scene: Scene) -> None:
    answer = scene.ask("sk-ant-ort01-of-somebody-else", scene.vendors["claude"])
    assert answer.status == 403
    assert all(vendor.renewals == [] for vendor in scene.vendors.values())


def test_every_stand_in_is_exchanged_for_the_token_of_its_own_agent(scene: Scene) -> None:
    known = {each.text: each.secret_id for each in scene.desk.placeholders}
    for name, made in scene.made.items():
        access, _ = tokens(made)
        assert scene.desk.lookup(known[access]) == scene.vendors[name].access
    assert scene.desk.lookup("login:pi:anthropic.anthropic:access:0") is None


def test_all_tokens_are_covered_and_only_access_tokens_are_sent(scene: Scene) -> None:
    covered = {bytes(each).decode() for each in scene.desk.covered()}
    assert all({vendor.access, vendor.refresh} <= covered for vendor in scene.vendors.values())
    everything = {each.secret_id for each in scene.desk.placeholders}
    assert len(everything) == 4
    assert scene.desk.serves(TOKEN) and not scene.desk.serves(MODEL)
    assert ("api.anthropic.com", 443) in scene.desk.hosts
    assert {each.secret_id for each in scene.desk.injections} < everything
