"""The other agents with a subscription: each log-in is renewed outside, and no token comes in."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.internet.certificates import Authority
from tests.models import ModelServer, Request, Say, Script
from tests.models.anthropic import Anthropic
from tests.models.gemini import Gemini
from tests.models.openai import OpenAI
from tests.models.script import Model, Reply
from tests.people import Person
from tests.real import installed
from tests.real.stage import LoggedIn, first_project, identify, lead_there

LASTS = 3600
Tokens = dict[str, str]


def web_token(claims: dict[str, object], signature: str) -> str:
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b".".join((*coded, signature.encode())).decode()


def opaque(mark: str, left: float) -> Tokens:
    return {"access_token": f"sk-ant-oat01-{mark}AA", "refresh_token": f"sk-ant-ort01-{mark}AA"}


def googles(mark: str, left: float) -> Tokens:
    """Google's refresh tokens stay good."""
    return {"access_token": f"ya29.{mark}", "refresh_token": f"1//0{'a' * 80}"}


OPENAI_CLAIMS = {
    "https://api.openai.com/auth": {
        "chatgpt_account_id": "acc-1",
        "chatgpt_user_id": "user-1",
        "chatgpt_plan_type": "plus",
    },
    "email": "ada@example.com",
}


def signed(mark: str, left: float) -> Tokens:
    claims = {**OPENAI_CLAIMS, "exp": int(time.time() + left)}
    return {
        "access_token": web_token({**claims, "aud": ["https://api.openai.com/v1"]}, mark),
        "id_token": web_token(claims, mark[::-1]),
        "refresh_token": f"rt_{mark}",
    }


class Accounts:
    """A maker's: the token endpoint, and a door before all that wants a token."""

    def __init__(self, make: Callable[[str, float], Tokens], answers: dict[str, object]) -> None:
        self._make, self._answers = make, answers
        self._lock = threading.Lock()
        self.renewed = 0
        self.refused: list[str] = []
        self.now = self._tokens(-10)

    def _tokens(self, left: float) -> Tokens:
        return self._make(chr(ord("a") + self.renewed) * 80, left)

    def secrets(self) -> list[str]:
        return [chr(ord("a") + number) * 80 for number in range(self.renewed + 1)]

    def answer(self, request: Request) -> Reply | None:
        with self._lock:
            if request.route in ("/v1/oauth/token", "/oauth/token", "/token"):
                return self._granted(_fields(request))
        if request.header("authorization") != f"Bearer {self.now['access_token']}":
            self.refused.append(f"{request.path} {request.header('authorization')}")
            return Reply.json({"error": {"message": "this token is void", "code": 401}}, 401)
        told = self._answers.get(request.route)
        return None if told is None else Reply.json(told)

    def _granted(self, asked: dict[str, Any]) -> Reply:
        if asked.get("refresh_token") != self.now["refresh_token"]:
            self.refused.append(str(asked.get("refresh_token")))
            return Reply.json({"error": "invalid_grant"}, 400)
        self.renewed += 1
        self.now = self._tokens(LASTS)
        return Reply.json({**self.now, "expires_in": LASTS, "token_type": "Bearer"})


def _fields(request: Request) -> dict[str, Any]:
    return request.asked or dict(parse_qsl(request.body.decode()))


class CodeAssist:
    """Gemini as a subscriber has it: the same, within an envelope."""

    def __init__(self, script: Script) -> None:
        self._inner = Gemini(script)

    def answer(self, request: Request) -> Reply | None:
        inner = json.dumps(request.asked.get("request", {})).encode()
        found = self._inner.answer(Request("POST", request.path, request.headers, inner))
        if found is None:
            return None
        if found.kind == "application/json":
            told = json.loads(found.chunks[0])
            return Reply.json({"response": told} if found.status == 200 else told, found.status)
        each = [json.loads(chunk.decode().partition("data: ")[2]) for chunk in found.chunks]
        return Reply.events(*(("", {"response": told}) for told in each))


@dataclass(frozen=True, slots=True)
class Case:
    """An agent with one maker's log-in."""

    agent: str
    hosts: tuple[str, ...]
    model: Callable[[Script], Model]
    tokens: Callable[[str, float], Tokens]
    path: str
    file: Callable[[Tokens], dict[str, object]]
    named: str = ""
    answers: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        return f"{self.agent}-{self.hosts[-1]}"


def _over() -> int:
    return int((time.time() - 10) * 1000)


def _both(provider: str) -> Callable[[Tokens], dict[str, object]]:
    """As opencode and pi write it."""

    def made(now: Tokens) -> dict[str, object]:
        tokens = {"access": now["access_token"], "refresh": now["refresh_token"]}
        more = {} if provider == "anthropic" else {"accountId": "acc-1"}
        other = {"type": "api", "key": "of-another-provider-" + "z" * 40}
        entry = {"type": "oauth", **tokens, "expires": _over(), **more}
        return {provider: entry, "elsewhere": other}

    return made


def _codex(now: Tokens) -> dict[str, object]:
    return {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {**now, "account_id": "acc-1"},
        "last_refresh": "2026-01-01T00:00:00.000000Z",
    }


def _gemini(now: Tokens) -> dict[str, object]:
    scope = "https://www.googleapis.com/auth/cloud-platform openid"
    return {**now, "scope": scope, "token_type": "Bearer", "expiry_date": _over()}


CHATGPT_HOSTS = ("auth.openai.com", "chatgpt.com")
CLAUDE_HOSTS = ("platform.claude.com", "api.anthropic.com")
ENTRY = {
    "id": "acc-1",
    "name": None,
    "structure": "personal",
    "plan_type": "plus",
    "profile_picture_url": None,
    "is_deactivated": False,
    "can_access_with_session": True,
    "sso_connection_name": None,
    "is_fedramp_compliant_workspace": False,
    "workspace_backend_origin": "https://chatgpt.com",
    "account_routing_override": "NO_CONSTRAINT",
}
CODEX = Case(
    "codex",
    CHATGPT_HOSTS,
    OpenAI,
    signed,
    ".codex/auth.json",
    _codex,
    answers=(
        (
            "/backend-api/wham/accounts/check",
            {"accounts": [ENTRY], "default_account_id": "acc-1", "account_ordering": ["acc-1"]},
        ),
    ),
)
GEMINI = Case(
    "gemini",
    ("oauth2.googleapis.com", "www.googleapis.com", "cloudcode-pa.googleapis.com"),
    CodeAssist,
    googles,
    ".gemini/oauth_creds.json",
    _gemini,
    answers=(
        ("/tokeninfo", {"scope": "openid", "expires_in": LASTS, "email": "ada@example.com"}),
        ("/oauth2/v2/userinfo", {"email": "ada@example.com"}),
        (
            "/v1internal:loadCodeAssist",
            {"currentTier": {"id": "free-tier"}, "cloudaicompanionProject": "project-1"},
        ),
        ("/v1internal:retrieveUserQuota", {"buckets": []}),
        ("/v1internal:listExperiments", {"experimentIds": [], "flags": []}),
    ),
)
PI = Case("pi", CLAUDE_HOSTS, Anthropic, opaque, ".pi/agent/auth.json", _both("anthropic"),
          "anthropic/claude-sonnet-4-5")  # fmt: skip
OPENCODE = Case(
    "opencode",
    CHATGPT_HOSTS,
    OpenAI,
    signed,
    ".local/share/opencode/auth.json",
    _both("openai"),
    "openai/gpt-5.5",
)
PI_CHATGPT = Case(
    "pi",
    CHATGPT_HOSTS,
    OpenAI,
    signed,
    ".pi/agent/auth.json",
    _both("openai-codex"),
    "openai-codex/gpt-5.5",
)


@dataclass(frozen=True, slots=True)
class Subscribed(LoggedIn):
    case: Case
    accounts: Accounts

    @property
    def model(self) -> tuple[str, ...]:
        return ("--model", self.case.named) if self.case.named else ()

    @property
    def own(self) -> Path:
        """The log-in of the person's own agent."""
        return self.home / self.case.path

    def log_in(self) -> None:
        self.own.parent.mkdir(parents=True)
        self.own.write_text(json.dumps(self.case.file(self.accounts.now)))
        self.own.chmod(0o600)

    def secrets(self) -> list[str]:
        return self.accounts.secrets()


@pytest.fixture
def subscribed(
    request: pytest.FixtureRequest, programs: Path, person: Person, own_network: None
) -> Iterator[Subscribed]:
    with _subscribed(request.param, programs, person) as made:
        yield made


@contextmanager
def _subscribed(case: Case, programs: Path, person: Person) -> Iterator[Subscribed]:
    installed.give(programs, case.agent, person)
    project = first_project(person)
    authority, script = Authority(), Script()
    accounts = Accounts(case.tokens, dict(case.answers))
    with ExitStack() as open_now:
        servers = {
            host: open_now.enter_context(
                ModelServer(accounts, case.model(script), tls=identify(host, authority))
            )
            for host in case.hosts
        }
        model = servers[case.hosts[-1]]
        made = Subscribed(case.agent, person, project, script, model, case, accounts)
        ports = {host: server.port for host, server in servers.items()}
        lead_there(made, authority, ports)
        made.log_in()
        yield made


def each(*cases: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("subscribed", cases, ids=str, indirect=True)


@each(CODEX, GEMINI, PI, PI_CHATGPT, OPENCODE)
def test_an_expired_log_in_is_renewed_outside_and_the_work_is_done(subscribed: Subscribed) -> None:
    subscribed.script.extend([(subscribed.run("echo x > new.txt"), Say("writing")), Say("Done.")])
    ran = subscribed.start("try", "write a file")
    assert ran.returncode == 0 and "Done." in ran.stdout, subscribed.told()
    assert subscribed.on_branch("new.txt") == "x\n"
    assert subscribed.refused() == set(), (subscribed.run_dir() / "egress.jsonl").read_text()
    accounts, kept = subscribed.accounts, subscribed.own.read_text()
    assert accounts.renewed == 1 and accounts.refused == []
    assert all(token in kept for token in _kept(accounts.now, subscribed.case))
    subscribed.check_tokens_stayed_outside()


def _kept(now: Tokens, case: Case) -> list[str]:
    """Those that its file has."""
    had = json.dumps(case.file({name: name for name in now}))
    return [token for name, token in now.items() if name in had]


@each(CODEX)
def test_the_next_turn_uses_what_was_renewed_in_the_first(subscribed: Subscribed) -> None:
    subscribed.script.extend([Say("First."), Say("Second.")])
    assert subscribed.start("try", "say something").returncode == 0, subscribed.told()
    ran = subscribed.ags("tell", "try", "go on")
    assert ran.returncode == 0 and "Second." in ran.stdout, subscribed.told()
    assert subscribed.accounts.renewed == 1 and subscribed.accounts.refused == []
    subscribed.check_tokens_stayed_outside()


@each(CODEX)
def test_the_token_opens_nothing_else_of_the_persons_account(subscribed: Subscribed) -> None:
    """The guard would not let it read the file; the fence holds without the guard too."""
    command = (
        'token=$(sed -n \'s/.*"access_token": "\\(.*\\)",*/\\1/p\' ~/.codex/auth.json); '
        "for path in conversations wham/usage; do "
        'curl -s -H "Authorization: Bearer $token" https://chatgpt.com/backend-api/$path; done'
    )
    subscribed.script.extend([(subscribed.run(command), Say("looking")), Say("Done.")])
    assert subscribed.start("try", "look around", "--yolo").returncode == 0, subscribed.told()
    assert subscribed.server.seen("/conversations") == []
    (let_through,) = subscribed.server.seen("/wham/usage")
    token = subscribed.accounts.now["access_token"]
    assert let_through.header("authorization") == f"Bearer {token}"
