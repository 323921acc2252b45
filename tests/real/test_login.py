"""Claude Code with a subscription: its tokens are renewed outside, and never come in."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.internet.certificates import Authority
from tests.models import ModelServer, Say, Script, tools
from tests.people import Person
from tests.real import installed
from tests.real.stage import TIMEOUT_S, LoggedIn, first_project, identify, lead_there
from tests.real.terminal import terminal
from tests.real.vendor import Vendor

MODEL, ACCOUNTS = "api.anthropic.com", "platform.claude.com"


@dataclass(frozen=True, slots=True)
class Subscribed(LoggedIn):
    vendor: Vendor
    accounts: ModelServer

    @property
    def own(self) -> Path:
        """The log-in of the person's own Claude Code."""
        return self.home / ".claude/.credentials.json"

    def log_in(self, left: float) -> None:
        token = {
            "accessToken": self.vendor.access,
            "refreshToken": self.vendor.refresh,
            "expiresAt": int((time.time() + left) * 1000),
            "scopes": ["user:inference", "user:profile"],
            "subscriptionType": "max",
        }
        self.own.parent.mkdir()
        self.own.write_text(json.dumps({"claudeAiOauth": token, "mcpOAuth": {"kept": "as it is"}}))
        self.own.chmod(0o600)

    def secrets(self) -> list[str]:
        return self.vendor.secrets()


@pytest.fixture
def claude(programs: Path, person: Person, own_network: None) -> Iterator[Subscribed]:
    with subscribed(programs, person) as made:
        yield made


@contextmanager
def subscribed(programs: Path, person: Person) -> Iterator[Subscribed]:
    installed.give(programs, "claude", person)
    project = first_project(person)
    authority, script, vendor = Authority(), Script(), Vendor()
    model = tools.model("claude", script)
    with (
        ModelServer(vendor, model, tls=identify(MODEL, authority)) as server,
        ModelServer(vendor, tls=identify(ACCOUNTS, authority)) as accounts,
    ):
        made = Subscribed("claude", person, project, script, server, vendor, accounts)
        lead_there(made, authority, {MODEL: server.port, ACCOUNTS: accounts.port})
        yield made


def test_two_runs_renew_one_log_in_once_and_the_persons_own_is_still_good(
    claude: Subscribed,
) -> None:
    """Each used refresh token is void, and a second use of one would void them all."""
    claude.log_in(left=-10)
    names = ("one", "two")
    claude.script.extend(
        [(claude.write("new.txt", "x\n", name), Say("writing")) for name in names]
        + [Say("Done.")] * 2
    )
    runs = [claude.begin("start", name, "write a file", "--agent", "claude") for name in names]
    said = [run.communicate(timeout=TIMEOUT_S) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    vendor = claude.vendor
    assert vendor.renewed == 1 and not vendor.void and vendor.refused == []
    kept = json.loads(claude.own.read_text())
    assert kept["claudeAiOauth"]["refreshToken"] == vendor.refresh
    assert kept["claudeAiOauth"]["accessToken"] == vendor.access
    assert kept["mcpOAuth"] == {"kept": "as it is"}
    claude.check_tokens_stayed_outside()


def test_the_next_turn_uses_what_was_renewed_meanwhile(claude: Subscribed) -> None:
    claude.log_in(left=3600)
    claude.script.extend([Say("First."), Say("Second.")])
    assert claude.start("try", "say something").returncode == 0, claude.told()
    vendor = claude.vendor
    vendor.renewed += 1  # by the person's own agent, on the host
    vendor.access, vendor.refresh = vendor._pair()
    claude.own.unlink()
    claude.own.parent.rmdir()
    claude.log_in(left=3600)
    ran = claude.ags("tell", "try", "go on")
    assert ran.returncode == 0 and "Second." in ran.stdout, claude.told()
    assert vendor.refused == [] and not vendor.void
    claude.check_tokens_stayed_outside()


def test_a_log_in_made_by_ags_auth_is_kept_outside_and_used(claude: Subscribed) -> None:
    with terminal(claude) as at:
        before = at.prompt()
        at.enter("ags auth claude")
        shown = "".join(at.wait(r"Paste code here", visible=True).string.splitlines())
        state = re.search(r"state=([\w-]+)", shown)
        assert state is not None, shown
        at.type(f"thecode#{state.group(1).removesuffix('Paste')}")
        at.press("Enter")
        assert at.done(before).code == 0, at.visible()
        assert "kept by ags: anthropic" in at.visible()
    (asked,) = claude.vendor.asked
    assert asked["grant_type"] == "authorization_code" and asked["code"] == "thecode"
    claude.check_tokens_stayed_outside()
    (kept,) = (claude.state / "logins").rglob("*.json")
    assert kept.stat().st_mode & 0o077 == 0 and claude.vendor.refresh in kept.read_text()
    claude.script.extend([Say("I am in.")])
    ran = claude.start("try", "say something")
    assert ran.returncode == 0 and "I am in." in ran.stdout, claude.told()
    assert claude.vendor.refused == []
    claude.check_tokens_stayed_outside()
