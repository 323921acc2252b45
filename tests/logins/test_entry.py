"""A log-in made in a sandbox is kept for its client, and its tokens never were inside."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ags.egress.desk import Answer, Asked
from ags.egress.inject import Hidden
from ags.errors import AgsError
from ags.logins.entry import Entry
from ags.logins.state import found
from tests.logins.run import asked, real, to, wired
from tests.logins.vendor import CLIENT, Vendor

CODE = {"grant_type": "authorization_code", "code": "the-code", "client_id": CLIENT}
CODE |= {"code_verifier": "v", "redirect_uri": "http://localhost:1/cb", "state": "s"}


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    (tmp_path / "ags").mkdir(mode=0o700)
    return Entry("claude", "acme", tmp_path / "ags")


def entered(entry: Entry, vendor: Vendor, status: int = 200) -> tuple[int, dict[str, Any]]:
    """Trade a code for tokens, as an agent inside does."""
    seen: list[bytes] = []

    async def post(request: Asked) -> Answer:
        seen.append(bytes(request.body))
        told = {"access_token": vendor.access, "refresh_token": vendor.refresh}
        return Answer(status, Hidden(json.dumps({**told, "expires_in": 60}).encode()))

    body = json.dumps(CODE).encode()
    answer = asyncio.run(entry.answer(asked(entry, body), post))
    assert seen == [body]
    return answer.status, json.loads(bytes(answer.body))


def written(told: dict[str, Any]) -> bytes:
    """As the agent writes it then."""
    login = {"accessToken": told["access_token"], "refreshToken": told["refresh_token"]}
    return json.dumps({"claudeAiOauth": {**login, "expiresAt": 5000}}).encode()


def test_what_the_agent_wrote_becomes_the_real_file(entry: Entry, tmp_path: Path) -> None:
    vendor = Vendor()
    status, told = entered(entry, vendor)
    assert status == 200 and not any(token in json.dumps(told) for token in vendor.issued)
    stands = {each.text: each.secret_id for each in entry.placeholders}
    assert entry.lookup(stands[told["access_token"]]) == vendor.access, "for its first questions"
    path = entry.adopt(written(told))
    assert (real(path)["accessToken"], real(path)["refreshToken"]) == (
        vendor.access,
        vendor.refresh,
    )
    assert found("claude", tmp_path, tmp_path / "ags", "acme", {}).where == "kept"
    made = wired(tmp_path, path, client="acme")
    assert made.file["claudeAiOauth"] == json.loads(written(told))["claudeAiOauth"]


def test_a_code_that_is_no_good_gives_nothing(entry: Entry) -> None:
    vendor = Vendor()
    status, told = entered(entry, vendor, 400)
    assert status == 400 and entry.placeholders == ()
    assert not any(token in json.dumps(told) for token in vendor.issued)


def test_a_file_with_tokens_that_nobody_gave_is_not_kept(entry: Entry) -> None:
    _, told = entered(entry, Vendor())
    for name in ("access_token", "refresh_token"):
        with pytest.raises(AgsError, match="nobody gave"):
            entry.adopt(written({**told, name: "sk-ant-oat01-of-somebody-else-0123456789"}))
    with pytest.raises(AgsError, match="no log-in"):
        entry.adopt(b"{}")


def test_anything_else_is_refused_here_too(entry: Entry) -> None:
    vendor = Vendor()
    _, told = entered(entry, vendor)
    for body in (
        {**CODE, "resource": "x"},
        {**CODE, "state": told["refresh_token"]},
        {**CODE, "grant_type": "password"},
    ):
        answer = asyncio.run(entry.answer(asked(entry, json.dumps(body).encode()), to(vendor)))
        assert answer.status == 403 and vendor.renewals == []


def test_a_run_does_not_make_log_ins(tmp_path: Path) -> None:
    from tests.logins.run import Agent, host_login

    vendor = Vendor()
    desk = Agent(wired(tmp_path, host_login(tmp_path, vendor))).desk
    answer = asyncio.run(desk.answer(asked(desk, json.dumps(CODE).encode()), to(vendor)))
    assert (answer.status, answer.reason) == (403, "log-in") and vendor.renewals == []
