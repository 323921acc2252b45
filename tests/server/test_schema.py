"""The OpenAPI document is true: whatever it allows or forbids, no answer breaks its word.

AGS_FUZZ=200 looks for longer: that many guesses for each operation, and every edge of its values.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from schemathesis.core.parameters import ParameterLocation

from ags.server.auth import Keys
from tests.server.hunting import Case, Hunt, is_bad
from tests.server.listening import listening
from tests.server.shop import HOLDS, Shop, eventually, opened
from tests.workspace.repositories import Checkout, checkout

ENDLESS = "board_stream"
ASKS = f"echo at work; curl -s -m 600 http://new.example/; {HOLDS}"
NOWHERE = "upstreams:\n  new.example: {address: 127.0.0.1, port: 9}\n"
NOBODY = "nobody-of-that-name"
RUNS = {
    "restart_run": "again", "tell_run": "again", "stop_run": "stopped", "remove_run": "brief",
    "publish_port": "held", "list_ports": "held", "asks_of_run": "held", "answer_ask": "held",
    "allow_refused": "refused",
}  # fmt: skip
"""Which run an operation is tried on, where that is not `there`."""
FEW = {
    "restart_run": 3,
    "tell_run": 3,
    "stop_run": 3,
    "create_runs": 2,
    "add_project": 2,
    "install_agent": 2,
}
"""How often what costs is really done."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        policy = made.server.home / ".config/ags/policy.yaml"
        policy.parent.mkdir(parents=True)
        policy.write_text(NOWHERE)
        # Where nobody listens: what is looked for in a registry must not leave this machine.
        (made.server.home / ".npmrc").write_text("registry=http://127.0.0.1:9/\nfetch-retries=0\n")
        for name in ("there", "again", "brief"):
            made.start(name=name)
        made.start("curl -s -m 60 http://other.example/", name="refused", client="acme")
        for name in ("there", "again", "brief", "refused"):
            made.until(name, lambda run: "remove" in run["left"])
        with made.working(ASKS, name="held", ask=True), made.working(name="stopped"):
            eventually(lambda: made.get("/runs/held/asks")["items"])
            yield made


class Fitting:
    """Gives cases real names; and takes from them what would cost, or reach beyond this machine."""

    def __init__(self, shop: Shop, origin: Checkout) -> None:
        self._shop = shop
        self._keys = Keys(shop.server.ags_home)
        self._origin = origin
        self._sent: Counter[str] = Counter()
        self._really: Counter[str] = Counter()
        project = shop.told("POST", "/projects", {"url": str(shop.project.folder)}, 201)
        self._project = project["id"]
        eventually(lambda: shop.get(f"/projects/{self._project}")["state"] == "ready")
        (ask,) = shop.get("/runs/held/asks")["items"]
        self._ask = ask["id"]

    def __call__(self, name: str, case: Case) -> Mapping[str, str]:
        self._sent[name] += 1
        # One in four stays as it is.
        if self._sent[name] % 4 and not is_bad(case, ParameterLocation.PATH):
            self._name(name, case.path_parameters)
        if name == "raw_file" and not is_bad(case, ParameterLocation.QUERY):
            case.query["path"] = "a.txt"
        if name in ("save_policy", "withdraw_rule") and not is_bad(case, ParameterLocation.QUERY):
            case.query["client"] = "acme"  # the person's own is what the runs at work ask by
        if isinstance(case.body, dict) and (fit := getattr(self, f"_{name}", None)):
            fit(case.body)
        if name == "log_out" and self._is_due(name, 1):
            token = self._keys.session_for(self._keys.new_code())
            return {"Authorization": f"Bearer {token}"}
        return {}

    def _name(self, name: str, parameters: dict[str, Any]) -> None:
        if "run" in parameters:
            due = self._is_due(name, FEW.get(name))
            if name == "tell_run" and due:  # it may still be at what it was restarted for
                eventually(lambda: "tell" in self._shop.get("/runs/again")["left"])
            parameters["run"] = RUNS.get(name, "there") if due else NOBODY
        if "project" in parameters:
            parameters["project"] = self._project
        if "number" in parameters:
            parameters["number"] = 1
        if "ask" in parameters:
            parameters["ask"] = self._ask
        if name == "install_agent":
            parameters["name"] = "claude" if self._is_due(name, FEW[name]) else NOBODY

    def _is_due(self, name: str, most: int | None) -> bool:
        self._really[name] += 1
        return most is None or self._really[name] <= most

    def _log_in(self, body: dict[str, Any]) -> None:
        if is_good(body, "code") and self._is_due("log_in", 1):
            body["code"] = self._keys.new_code()

    def _create_runs(self, body: dict[str, Any]) -> None:
        """With a base that is not there, all else is judged and nothing is started."""
        if not (is_good(body, "project") and is_good(body, "goal", 0)):
            return
        body["project"] = str(self._shop.project.folder)
        if body.keys() <= {"project", "goal"} and self._is_due("create_runs", FEW["create_runs"]):
            body |= {"agent": "shell", "goal": "true", "attempts": 2}
        elif isinstance(body.get("base", ""), str):
            body["base"] = "nowhere"

    def _tell_run(self, body: dict[str, Any]) -> None:
        if is_good(body, "text", 0):
            body["text"] = "true"

    def _add_project(self, body: dict[str, Any]) -> None:
        if is_good(body, "url", 1, 4096):
            due = self._is_due("add_project", FEW["add_project"])
            path = body["url"].replace(":", "")[:1000].lstrip("/")
            body["url"] = str(self._origin.folder) if due else f"/nowhere/{path}"

    def _save_policy(self, body: dict[str, Any]) -> None:
        if is_good(body, "text", 0, 1 << 16) and is_good(body, "revision", 64, 64):
            body["text"] = f"ask: true\n# {self._sent['save_policy']}\n"
            body["revision"] = self._shop.get("/settings/policy?client=acme")["revision"]

    def _allow_refused(self, body: dict[str, Any]) -> None:
        if is_good(body, "revision", 64, 64):
            body["revision"] = self._shop.get("/settings/policy?client=acme")["revision"]

    def _withdraw_rule(self, body: dict[str, Any]) -> None:
        if is_good(body, "rule", 1, 2000) and is_good(body, "revision", 64, 64):
            path = "/runs/refused/egress/1/allow"
            told = self._shop.server.call("POST", path, json={"verdict": "always"}).json()
            body |= {"rule": told["rule"] or body["rule"], "revision": told["revision"]}

    def _apply_run(self, body: dict[str, Any]) -> None:
        if is_good(body, "remote"):
            body["remote"] = "origin"

    def _publish_port(self, body: dict[str, Any]) -> None:
        """Only a few, and none that another program would want."""
        if type(port := body.get("port")) is int and 1 <= port <= 65535:
            body["port"] = 61000 + port % 8
        if type(port := body.get("host_port")) is int and 1 <= port <= 65535:
            body["host_port"] = 61100 + port % 8


def is_good(body: dict[str, Any], name: str, shortest: int = 1, longest: int = 200) -> bool:
    return isinstance(text := body.get(name), str) and shortest <= len(text) <= longest


@pytest.fixture(scope="module")
def hunt(shop: Shop) -> Hunt:
    origin = checkout(shop.server.home / "origin")
    origin.write("a.txt", "hello\n")
    origin.commit("first")
    made = Hunt(shop.server, Fitting(shop, origin))
    for name, operation in sorted(made.operations(), key=lambda each: _turn(each[0])):
        if name != ENDLESS:
            made.search(name, operation)
    return made


def _turn(name: str) -> int:
    """No ask waits for as long as all of this may take; and what takes away comes last."""
    return 0 if name == "answer_ask" else 2 if name.startswith("remove") else 1


def test_no_answer_breaks_the_word_of_the_document(hunt: Hunt) -> None:
    assert not hunt.failures, "\n\n".join(hunt.failures)


def test_a_document_that_lies_is_noticed(shop: Shop, hunt: Hunt) -> None:
    document = copy.deepcopy(hunt.document)
    document["components"]["schemas"]["Health"]["properties"]["status"]["enum"] = ["never"]
    del document["paths"]["/api/v1/projects/{project}"]["get"]["responses"]["404"]
    lying = Hunt(shop.server, lambda name, case: {}, document)
    for name, operation in lying.operations():
        if name in ("health", "show_project", "list_asks"):
            lying.search(name, operation)
    assert {failure.partition(":")[0] for failure in lying.failures} == {"health", "show_project"}


def test_every_operation_succeeded_at_least_once(hunt: Hunt) -> None:
    """Else the search would have looked at nothing but doors that are closed."""
    never = [name for name, seen in hunt.answers.items() if not any(n < 300 for n in seen)]
    assert not never, {name: dict(hunt.answers[name]) for name in never}
    names = {name for name, _ in hunt.operations()}
    assert names - hunt.answers.keys() == {ENDLESS}


def test_the_stream_of_all_runs_is_as_documented(shop: Shop, hunt: Hunt) -> None:
    documented = dict(hunt.operations())[ENDLESS].definition.raw["responses"]["200"]["content"]
    with listening(shop.server, "/stream") as listener:
        kind = listener.response.headers["content-type"].partition(";")[0]
        assert (listener.status, [kind]) == (200, list(documented))
        first = listener.next()
    assert first is not None and first.event == "snapshot"


def test_the_server_has_one_thread_after_all_that(shop: Shop, hunt: Hunt) -> None:
    assert shop.server.threads() == 1
    assert '"level": "error"' not in shop.server.log.read_text()
