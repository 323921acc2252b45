"""Runs with a log-in, behind real fences in a fake internet: nobody inside ever has a token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.attack.conftest import shared_bwrap
from tests.egress.behind import PATHS as PYTHONPATH
from tests.egress.behind import Outcome, Running
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.internet.world import ENVIRONMENT
from tests.logins.run import host_login, real
from tests.logins.site import ENDPOINT, MODEL, Site, serving
from tests.logins.vendor import Vendor

__all__ = ["internet", "shared_bwrap", "the_internet"]
AGENT = Path(__file__).with_name("agent.py").read_text()
DRIVER = (sys.executable, "-m", "tests.logins.fenced")
QUICK = {"logins.broker.ENOUGH": 0.3, "logins.broker.QUIET": 0}
LIFE = 3


class Scene:
    def __init__(self, world: Internet, bwrap: str, folder: Path, site: Site, policy: str) -> None:
        self.world, self.bwrap, self.folder, self.site = world, bwrap, folder, site
        self.policy = folder / "policy.yaml"
        self.policy.write_text(policy)
        self.login = host_login(folder, site.vendor)
        (folder / "ags").mkdir(mode=0o700)

    @contextmanager
    def started(self, name: str, script: str) -> Iterator[Running]:
        workspace = self.folder / name / "workspace"
        workspace.mkdir(parents=True)
        (self.folder / name / "home").mkdir()
        code = f"{AGENT}\n{script}\nprint(json.dumps(told))"
        login = {"path": str(self.login), "client": "", "ags_home": str(self.folder / "ags")}
        told: dict[str, Any] = {"command": ["/usr/bin/python3", "-I", "-c", code], "login": login}
        told |= {"workspace": str(workspace), "policy": str(self.policy), "settings": QUICK}
        told |= {"roots": [self.world.ca_file.read_text()], "bwrap": self.bwrap, "mutation": None}
        driver = subprocess.Popen(
            self.world.command(DRIVER),
            env=ENVIRONMENT | PYTHONPATH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert driver.stdin is not None
            with driver.stdin as stdin:
                json.dump(told, stdin)
            driver.stdin = None
            yield Running(driver)
        finally:
            driver.kill()
            driver.wait()

    def run(self, script: str) -> tuple[Outcome, dict[str, Any]]:
        with self.started("run", script) as running:
            return _told(running.ended())


def _told(ended: Outcome) -> tuple[Outcome, dict[str, Any]]:
    assert ended.code == 0, ended.err
    told: dict[str, Any] = json.loads(ended.out)
    return ended, told


@pytest.fixture
def scene(internet: Internet, shared_bwrap: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ags-logins-"))
        os.chmod(folder, 0o755)
        site, policy = stack.enter_context(serving(internet, Vendor(life=LIFE, slack=600)))
        yield Scene(internet, shared_bwrap, Path(folder), site, policy)


def no_token(site: Site, ended: Outcome, told: Mapping[str, object]) -> bool:
    shown = json.dumps(told) + ended.out + ended.err + json.dumps(ended.audit) + ended.log
    return not any(token in shown for token in site.vendor.issued)


def appears(path: Path) -> None:
    until = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.05)


TAKES_OVER = """
work(3)
open("worked", "w").close()
while not os.path.exists("go"): time.sleep(0.05)
renew()
ask_model()
search()
"""


def test_two_runs_and_a_renewal_in_the_middle(scene: Scene) -> None:
    vendor = scene.site.vendor
    with ExitStack() as stack:
        runs = [stack.enter_context(scene.started(name, TAKES_OVER)) for name in ("one", "two")]
        for name in ("one", "two"):
            appears(scene.folder / name / "workspace/worked")
        # However late one of them is: what the other has renewed by then is good.
        vendor.life = 3600
        for name in ("one", "two"):
            (scene.folder / name / "workspace/go").touch()
        ended = [_told(run.ended()) for run in runs]
    assert len(vendor.renewals) >= 2 and not vendor.revoked
    for outcome, told in ended:
        assert {status for status, _ in told["model"]} == {200}, told
        assert {status for status, _ in told["renewals"]} == {200}
        assert all(json.loads(text)["echo"].strip("*") == "" for _, text in told["model"])
        assert told["found"][0] == 0 and told["found"][1] > 0, "no token, but its stand-in"
        assert no_token(scene.site, outcome, told)
    both = sum(len(told["renewals"]) for _, told in ended)
    assert len(vendor.renewals) < both, "one run took over what the other had renewed"
    assert set(scene.site.bearers) <= vendor.issued and len(set(scene.site.bearers)) >= 3
    login = real(scene.login)
    assert (login["accessToken"], login["refreshToken"]) == (vendor.access, vendor.refresh)
    status, _ = vendor.renew("application/json", _as_the_host_does(login))
    assert status == 200, "the person's own log-in is as good as before"


def test_placeholders_are_refused_as_credentials_and_pass_as_text(scene: Scene) -> None:
    script = f"""
told["cases"] = {{}}
def case(name, *given, **headers):
    told["cases"][name] = post(*given, **headers)[0]
access, refresh = login["accessToken"], login["refreshToken"]
case("as text elsewhere", "https://{ENDPOINT}/v1/oauth/revoke", {{"token": refresh}})
case("other path, nothing in it", "https://{ENDPOINT}/v1/oauth/hello", {{"token": "x"}})
case("as a bearer there", "https://{ENDPOINT}/v1/x", {{}}, Authorization="Bearer " + access)
case("refresh as bearer", "https://{MODEL}/v1/messages", {{}}, Authorization="Bearer " + refresh)
case("other header", "https://{MODEL}/v1/messages", {{}}, **{{"X-Api-Key": access}})
case("in the address", "https://{MODEL}/v1/messages?x=" + access, {{}})
case("a code", "https://{ENDPOINT}/v1/oauth/token", {{"grant_type": "authorization_code"}})
case("access as refresh", "https://{ENDPOINT}/v1/oauth/token",
     {{"grant_type": "refresh_token", "refresh_token": access}})
case("huge", "https://{ENDPOINT}/v1/oauth/token", b"x" * 100_000)
case("said to the model", "https://{MODEL}/v1/messages", {{"say": refresh + access}},
     Authorization="Bearer " + access)
"""
    ended, told = scene.run(script)
    allowed = {"as text elsewhere", "other path, nothing in it", "said to the model"}
    assert {name for name, status in told["cases"].items() if status == 200} == allowed
    assert scene.site.vendor.renewals == []
    reached = ["/v1/oauth/revoke", "/v1/oauth/hello", "/v1/messages"]
    assert [path for _, path, _ in scene.site.asked] == reached
    assert no_token(scene.site, ended, told)
    assert ended.reasons.count("log-in") == 1 and ended.reasons.count("placeholder") >= 5
    assert ended.reasons.count("placeholder-passed") == 2, "once for each host"
    assert not any(token.encode() in body for body in scene.site.bodies for token in _all(scene))


def test_an_echo_of_old_tokens_is_covered_too(scene: Scene) -> None:
    scene.site.tells_old = True
    ended, told = scene.run("ask_model(); renew(); status, text = ask_model()")
    assert [status for status, _ in told["model"]] == [200, 200]
    vendor = scene.site.vendor
    assert len(vendor.issued) == 4 and no_token(scene.site, ended, told)
    assert "*" * len(vendor.access) in told["model"][1][1]


def test_a_log_in_that_is_gone_is_refused_and_told(scene: Scene) -> None:
    script = "while not os.path.exists('gone'): time.sleep(0.05)\nask_model(); renew()"
    workspace = scene.folder / "run/workspace"
    with scene.started("run", script) as running:
        appears(workspace / "login.json")
        scene.login.unlink()
        (workspace / "gone").touch()
        ended, told = _told(running.ended())
    assert told["model"][0][0] == 403 and told["renewals"][0][0] == 503
    assert scene.site.asked == [] and "secret-gone" in ended.reasons


def _as_the_host_does(login: Mapping[str, str]) -> bytes:
    fields = {"grant_type": "refresh_token", "refresh_token": login["refreshToken"]}
    return json.dumps({**fields, "client_id": "the-agents-own-client-id"}).encode()


def _all(scene: Scene) -> set[str]:
    return scene.site.vendor.issued
