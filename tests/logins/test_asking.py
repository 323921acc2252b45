"""Only the log-in's own renewal is carried out; all else that is asked of an endpoint is not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ags.egress.desk import Answer
from ags.egress.inject import Hidden
from ags.egress.model import Request
from tests.logins.run import MODEL, TOKEN, Agent, asked, host_login, to, wired
from tests.logins.vendor import CLIENT, Vendor

FORM = b"application/x-www-form-urlencoded; charset=utf-8"


class Scene:
    def __init__(self, folder: Path) -> None:
        self.vendor = Vendor()
        self.agent = Agent(wired(folder, host_login(folder, self.vendor, 1.0)))
        self.desk = self.agent.desk
        self.refresh = self.agent.login["refreshToken"]
        self.access = self.agent.login["accessToken"]
        self.fields = {"grant_type": "refresh_token", "refresh_token": self.refresh}
        self.fields |= {"client_id": CLIENT}

    def ask(
        self, body: bytes, kind: bytes = b"application/json", request: Request = TOKEN
    ) -> Answer:
        return asyncio.run(self.desk.answer(asked(self.desk, body, kind, request), to(self.vendor)))

    def refused(self, body: bytes, kind: bytes = b"application/json") -> str:
        answer = self.ask(body, kind)
        assert answer.status == 403 and self.vendor.renewals == []
        assert self.refresh not in answer.detail
        return answer.reason


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_as_json_and_as_a_form(scene: Scene) -> None:
    assert scene.ask(json.dumps(scene.fields).encode()).status == 200
    assert scene.vendor.renewals[0]["grant_type"] == "refresh_token"


def test_as_a_form(scene: Scene) -> None:
    more = {**scene.fields, "scope": "user:inference user:profile a+b/c="}
    assert scene.ask(urlencode(more).encode(), FORM).status == 200
    sent = scene.vendor.renewals[0]
    assert sent["scope"] == more["scope"] and sent["refresh_token"] in scene.vendor.issued


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", b"application/json"),
        (b"{", b"application/json"),
        (b"[]", b"application/json"),
        (b'"x"', b"application/json"),
        (b"[" * 60_000, b"application/json"),
        (b'{"grant_type": "refresh_token"}', b"application/json"),
        (b'{"grant_type": "authorization_code", "code": "x"}', b"application/json"),
        (b'{"grant_type": "refresh_token", "refresh_token": "other"}', b"application/json"),
        (b'{"grant_type": "refresh_token", "refresh_token": null}', b"application/json"),
        (b"\xff\xfe", b"application/json"),
        (b"grant_type=refresh_token&refresh_token=%FF", FORM),
        (b"grant_type=refresh_token&&x", FORM),
        (b"", FORM),
        (b"{}", b"text/plain"),
        (b"{}", b""),
    ],
)
def test_what_is_no_renewal_of_ours_is_refused(scene: Scene, body: bytes, kind: bytes) -> None:
    assert scene.refused(body, kind) == "log-in"


def test_whatever_has_the_placeholder_in_another_way_is_reported(scene: Scene) -> None:
    own = json.dumps(scene.refresh).encode()
    twice = b'{"grant_type":"refresh_token","refresh_token":%s,"refresh_token":%s}' % (own, own)
    assert scene.refused(twice) == "placeholder"
    cases: list[dict[str, object]] = [
        {**scene.fields, "client_id": scene.refresh},
        {**scene.fields, "client_secret": scene.access},
        {**scene.fields, "scope": f"user:inference user:profile {scene.access}"},
        {**scene.fields, "grant_type": "authorization_code"},
        {**scene.fields, "refresh_token": [scene.refresh]},
        {**scene.fields, "refresh_token": {"x": scene.refresh}},
        {**scene.fields, "refresh_token": scene.access},
        {**scene.fields, "refresh_token": f"{scene.refresh} "},
        {**scene.fields, "unknown": {"x": "y"}},
        {**scene.fields, "unknown": scene.access},
        {**scene.fields, scene.access: "x"},
        {**scene.fields, **{f"x{n}": "y" for n in range(40)}},
        {**scene.fields, "client_id": "a\nb"},
        {"inner": scene.fields},
    ]
    for case in cases:
        assert scene.refused(json.dumps(case).encode()) == "placeholder", case
    both = urlencode([*scene.fields.items(), ("refresh_token", scene.refresh)]).encode()
    assert scene.refused(both, FORM) == "placeholder"
    assert scene.refused(json.dumps(scene.fields).encode(), FORM) == "placeholder"
    assert scene.refused(urlencode(scene.fields).encode()) == "placeholder"


def test_what_is_not_known_is_not_sent_on(scene: Scene) -> None:
    more = {**scene.fields, "audience": "elsewhere", "refresh_reason": "expired"}
    assert scene.ask(json.dumps(more).encode()).status == 200
    assert scene.vendor.renewals[0].keys() == {*scene.fields, "refresh_reason"}


def test_a_renewal_that_asks_for_less_is_refused(scene: Scene) -> None:
    less = {**scene.fields, "scope": "user:profile"}
    assert scene.refused(json.dumps(less).encode()) == "log-in"
    more = {**scene.fields, "scope": "user:profile user:inference user:more"}
    assert scene.ask(json.dumps(more).encode()).status == 200


@pytest.mark.parametrize(
    "request_",
    [
        replace(TOKEN, host="platform.claude.com.evil.example"),
        replace(TOKEN, host="auth.openai.com", path="/oauth/token"),
        replace(TOKEN, path="/v1/oauth/token/"),
        replace(TOKEN, path="/v1/oauth//token"),
        replace(TOKEN, path="/v1/oauth/%74oken"),
        replace(TOKEN, path="/v1/oauth/revoke"),
        replace(TOKEN, port=8443),
        replace(TOKEN, scheme="http", port=80),
        replace(TOKEN, method="GET"),
        MODEL,
    ],
)
def test_the_desk_answers_for_the_endpoint_alone(scene: Scene, request_: Request) -> None:
    assert scene.desk.serves(TOKEN)
    assert not scene.desk.serves(request_)


def test_one_makers_refresh_token_goes_to_no_other(tmp_path: Path) -> None:
    vendor = Vendor()
    tokens = {"access": vendor.access, "refresh": vendor.refresh, "expires": 1}
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"openai": {"type": "oauth", **tokens}}))
    path.chmod(0o600)
    made = wired(tmp_path, path, "opencode")
    login: dict[str, str] = made.file["openai"]  # type: ignore[assignment]
    fields = {"grant_type": "refresh_token", "refresh_token": login["refresh"]}
    body = json.dumps({**fields, "client_id": CLIENT}).encode()
    own = replace(TOKEN, host="auth.openai.com", path="/oauth/token")
    for request, status in ((TOKEN, 403), (own, 200)):
        assert made.desk.serves(request)
        question = asked(made.desk, body, request=request)
        assert asyncio.run(made.desk.answer(question, to(vendor))).status == status
    assert len(vendor.renewals) == 1


def test_the_real_token_is_in_no_word_about_a_request(scene: Scene) -> None:
    told: list[str] = []

    async def post(request: object) -> Answer:
        told.append(repr(request))
        raise ConnectionError(repr(request))

    question = asked(scene.desk, json.dumps(scene.fields).encode())
    answer = asyncio.run(scene.desk.answer(question, post))
    assert told and answer.status == 502
    shown = "".join((*told, repr(answer), str(bytes(answer.body)), repr(scene.desk)))
    assert not any(token in shown for token in scene.vendor.issued)
    assert repr(Answer(200, Hidden(b"x"))).count("hidden") == 1
