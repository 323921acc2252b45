"""Whatever a file or an answer holds, no real token is in what goes inside."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ags.logins import document, grant
from ags.logins.base import ANSWERED, Form, Held, Kind
from ags.logins.document import BadFile, Leak
from ags.logins.forms import FORMS
from ags.logins.stands import Stands
from tests.logins.vendor import web_token

KEY = b"k" * 32
ACCESS, REFRESH = "sk-ant-oat01-REALaccessREAL0123456789", "sk-ant-ort01-REALrefreshREAL012345678"
WEB = web_token({"exp": 2_000_000_000, "https://x": {"plan": "y"}}, "REALsignature" + "Ab3" * 12)
IDENTITY = web_token(
    {"https://api.openai.com/auth": {"chatgpt_plan_type": "pro"}}, "REALidentity" + "Cd4" * 12
)
ALL = (ACCESS, REFRESH, WEB, IDENTITY)

FILES: dict[str, dict[str, Any]] = {
    "claude": {
        "claudeAiOauth": {"accessToken": ACCESS, "refreshToken": REFRESH, "expiresAt": 5000},
    },
    "codex": {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {
            "id_token": IDENTITY,
            "access_token": WEB,
            "refresh_token": REFRESH,
            "account_id": "acc",
        },
        "last_refresh": "2026-01-01T00:00:00Z",
    },
    "gemini": {
        "access_token": ACCESS,
        "refresh_token": REFRESH,
        "id_token": IDENTITY,
        "scope": "a b",
        "token_type": "Bearer",
        "expiry_date": 5000,
    },
    "opencode": {
        "openai": {"type": "oauth", "access": WEB, "refresh": REFRESH, "expires": 5000},
        "anthropic": {"type": "api", "key": ACCESS},
        "elsewhere": {"type": "oauth", "access": "REALelsewhere0123456789", "refresh": "REALx"},
    },
    "pi": {"anthropic": {"type": "oauth", "access": ACCESS, "refresh": REFRESH, "expires": 5000}},
}


def inside(form: Form, content: object) -> dict[str, object]:
    data = json.dumps(content).encode()
    return document.inside(form, data, Stands(form.agent, "", KEY).text)


@pytest.mark.parametrize("agent", sorted(FORMS))
def test_each_agent_finds_a_file_of_its_own_form(agent: str) -> None:
    form, content = FORMS[agent], FILES[agent]
    made = inside(form, content)
    assert "REAL" not in json.dumps(made)
    for held in document.read(form, json.dumps(content).encode()):
        theirs: Any = content
        ours: Any = made
        for name in held.account.within:
            theirs, ours = theirs[name], ours[name]
        for kind, name in held.account.tokens:
            if held.token(kind):
                assert len(ours[name]) == len(theirs[name]) and ours[name] != theirs[name]
        if held.account.expiry:
            assert ours[held.account.expiry] == theirs[held.account.expiry]


def test_what_is_not_known_stays_out() -> None:
    made = inside(FORMS["opencode"], FILES["opencode"])
    assert sorted(made) == ["anthropic", "openai"]


def test_a_web_token_keeps_what_the_agent_reads_in_it() -> None:
    made: Any = inside(FORMS["codex"], FILES["codex"])
    for name, token in (("access_token", WEB), ("id_token", IDENTITY)):
        shown = made["tokens"][name]
        assert shown.split(".")[:2] == token.split(".")[:2] and shown != token
    assert made["auth_mode"] == "chatgpt" and made["last_refresh"] == "2026-01-01T00:00:00Z"
    (held,) = document.read(FORMS["codex"], json.dumps(FILES["codex"]).encode())
    assert held.expires == 2_000_000_000 and held.plan == "pro"


def test_a_renewed_file_differs_in_nothing_else() -> None:
    form = FORMS["codex"]
    data = json.dumps({**FILES["codex"], "other": [1, {"x": "ü"}]}).encode()
    (held,) = document.read(form, data)
    after = json.loads(document.renewed(form, data, held.account, {"access": "NEW" * 9}, 7.0))
    assert after.pop("last_refresh") > "2026-01-01T00:00:00Z"
    assert after["tokens"].pop("access_token") == "NEW" * 9
    before = json.loads(data)
    before.pop("last_refresh")
    before["tokens"].pop("access_token")
    assert after == before


@pytest.mark.parametrize(
    "spelled",
    [
        REFRESH,
        f"x{REFRESH}y",
        base64.b64encode(REFRESH.encode()).decode(),
        base64.b64encode(f"ab{REFRESH}c".encode()).decode(),
        quote(f"{REFRESH}", safe=""),
    ],
)
def test_a_token_in_a_harmless_field_stops_it(spelled: str) -> None:
    login = {**FILES["claude"]["claudeAiOauth"], "subscriptionType": spelled}
    with pytest.raises(Leak):
        inside(FORMS["claude"], {"claudeAiOauth": login})
    with pytest.raises(Leak):
        inside(
            FORMS["claude"],
            {"claudeAiOauth": {**login, "subscriptionType": "", "scopes": [spelled]}},
        )


values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(ALL),
        st.sampled_from([base64.b64encode(token.encode()).decode() for token in ALL]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(ALL), st.text(max_size=4)), inner, max_size=3),
    ),
    max_leaves=6,
)


def _fields(form: Form) -> list[str]:
    names = {*form.plain, form.stamp}
    for account in form.accounts:
        names |= {*account.plain, account.expiry, account.scopes, account.plan}
        names |= {name for _, name in account.tokens}
    return sorted(names - {""})


@st.composite
def files(draw: st.DrawFn) -> tuple[Form, dict[str, Any]]:
    """A file of one of the agents with anything at all in some of its fields."""
    form = FORMS[draw(st.sampled_from(sorted(FORMS)))]
    content = json.loads(json.dumps(FILES[form.agent]))
    for _ in range(draw(st.integers(0, 4))):
        spots = [content, *(each for each in content.values() if isinstance(each, dict))]
        spot = spots[draw(st.integers(0, len(spots) - 1))]
        spot[draw(st.one_of(st.sampled_from(_fields(form)), st.text(max_size=4)))] = draw(values)
    return form, content


@settings(max_examples=400)
@given(files())
def test_whatever_a_file_holds_no_token_goes_inside(file: tuple[Form, dict[str, Any]]) -> None:
    form, content = file
    data = json.dumps(content).encode()
    try:
        logins = document.read(form, data)
        shown = json.dumps(inside(form, content))
    except (BadFile, Leak):
        return
    held = {secret.reveal() for login in logins for _, secret in login.tokens}
    for token in held:
        assert token not in shown
        assert base64.b64encode(token.encode()).decode().rstrip("=") not in shown


@settings(max_examples=400)
@given(st.sampled_from(sorted(FORMS)), st.dictionaries(st.text(max_size=5), values, max_size=3))
def test_whatever_an_answer_holds_no_token_goes_inside(agent: str, more: dict[str, Any]) -> None:
    form = FORMS[agent]
    held = document.read(form, json.dumps(FILES[agent]).encode())[0]
    for name in (*ANSWERED.values(), "expires_in", "scope", "account", "error", "message"):
        more.setdefault(name, next(iter(more.values()), WEB))
    body = json.dumps(more).encode()
    stands = Stands(agent, "", KEY)
    stands.learn(held)
    told = grant.failed(body, stands.secrets).decode()
    with contextlib.suppress(grant.BadAnswer, Leak):
        given = grant.given(held.account.maker, body, 1000.0)
        after = _after(form, held, given)
        told += grant.answered(after, given.passed, 1000.0, stands.text, stands.secrets).decode()
    known = {secret.reveal() for secret in stands.secrets}
    assert not any(token in told for token in known.union(ALL))


def test_the_words_that_programs_look_for_pass() -> None:
    body = {"error": {"code": "refresh_token_reused", "message": "it was invalidated_by_the_user"}}
    assert json.loads(grant.failed(json.dumps(body).encode(), ())) == body


def _after(form: Form, held: Held, given: grant.Given) -> Held:
    data = json.dumps(FILES[form.agent]).encode()
    new = document.renewed(form, data, held.account, given.tokens, given.expires)
    return next(each for each in document.read(form, new) if each.account == held.account)


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=200), values.map(lambda v: json.dumps(v).encode())))
def test_any_bytes_are_a_log_in_or_a_bad_file(data: bytes) -> None:
    for form in FORMS.values():
        with contextlib.suppress(BadFile):
            assert document.read(form, data)


@settings(max_examples=300)
@given(
    st.sampled_from((grant.JSON, grant.FORM, "text/plain")),
    st.one_of(st.binary(max_size=200), values.map(lambda v: json.dumps(v).encode())),
)
def test_any_bytes_are_a_renewal_or_odd(kind: str, body: bytes) -> None:
    with contextlib.suppress(grant.Odd):
        assert grant.read(kind, body).refresh


@pytest.mark.parametrize("kind", ["access", "refresh"])
def test_without_the_replacement_the_check_notices(kind: Kind) -> None:
    def itself(held: Held, wanted: Kind) -> str:
        secret = held.token(wanted)
        assert secret is not None
        return secret.reveal() if wanted == kind else "x" * 30

    with pytest.raises(Leak):
        document.inside(FORMS["claude"], json.dumps(FILES["claude"]).encode(), itself)


def test_a_log_in_is_in_no_word_about_it(tmp_path: Path) -> None:
    held = document.read(FORMS["claude"], json.dumps(FILES["claude"]).encode())
    assert "REAL" not in repr(held)
    with pytest.raises(BadFile) as caught:
        document.read(FORMS["claude"], b'{"claudeAiOauth": "REAL')
    assert caught.value.__context__ is None and "REAL" not in str(caught.value)
