"""The person's settings over a real socket: policy, reach, secrets, clients, agents, doctor."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.programs.registry import registry
from tests.server.conftest import Server, serving
from tests.server.listening import Message, listening
from tests.server.shop import Shop, eventually, opened, problem

CANARY = "canary-5e77ab"
SECRETS = f"""
[[secret]]
name = "api"
env = "API_KEY"
secret_store = "api"
host = "api.example.org"

[[secret]]
name = "db"
env = "DB"
from_env = "MY_DB"
host = "db.example.org"
port = 8443

[[secret]]
name = "pw"
env = "PW"
command = ["/usr/bin/printf", "{CANARY}"]
host = "pw.example.org"
"""
POLICY = "domains:\n  - api.example.org\ndeny:\n  - bad.example.org\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Shop]:
    with opened(tmp_path / "shop") as made:
        yield made


def policy_of(shop: Shop) -> Path:
    return shop.server.home / ".config/ags/policy.yaml"


def write(shop: Shop, text: str, file: Path | None = None) -> None:
    file = file or policy_of(shop)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(text)


def save(shop: Shop, text: str, client: str = "default") -> Any:
    seen = shop.get(f"/settings/policy?client={client}")["revision"]
    asked = {"text": text, "revision": seen}
    return shop.told("PUT", f"/settings/policy?client={client}", asked)


# Policy


def test_a_policy_that_nobody_wrote_is_empty_and_can_be_begun(fresh: Shop) -> None:
    told = fresh.get("/settings/policy")
    assert told["text"] == "" and not told["there"] and told["file"] == str(policy_of(fresh))
    saved = save(fresh, POLICY)
    assert policy_of(fresh).read_text() == POLICY and saved["there"]
    assert policy_of(fresh).stat().st_mode & 0o777 == 0o600
    again = fresh.get("/settings/policy")
    assert again["text"] == POLICY and again["revision"] == saved["revision"]


def test_a_policy_is_saved_as_it_was_typed_with_its_comments(fresh: Shop) -> None:
    write(fresh, POLICY)
    text = f"# why: the API is ours\n{POLICY}\nask: true\n"
    assert save(fresh, text)["text"] == text
    assert policy_of(fresh).read_text() == text


def test_a_policy_with_a_mistake_is_refused_by_its_line_and_the_file_stays(fresh: Shop) -> None:
    write(fresh, POLICY)
    seen = fresh.get("/settings/policy")["revision"]
    for text, line in (
        ("domains:\n  - api.example.org\n  - '*'\n", "line 3"),
        ("domians: [api.example.org]\n", "line 1"),
        ("domains: [\n", "line"),
        ("", ""),
    ):
        asked = {"text": text, "revision": seen}
        told = fresh.refused(422, "PUT", "/settings/policy", asked)
        assert line in told["errors"][0]["where"] and told["errors"][0]["what"]
        assert policy_of(fresh).read_text() == POLICY


def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(fresh: Shop) -> None:
    write(fresh, POLICY)
    seen = fresh.get("/settings/policy")["revision"]
    theirs = "domains: [other.example.org]\n"
    write(fresh, theirs)
    mine = {"text": POLICY + "ask: true\n", "revision": seen}
    told = fresh.refused(409, "PUT", "/settings/policy", mine)
    assert "changed since" in told["detail"] and told["hint"]
    assert policy_of(fresh).read_text() == theirs
    mine["revision"] = fresh.get("/settings/policy")["revision"]
    fresh.told("PUT", "/settings/policy", mine)
    assert policy_of(fresh).read_text() == mine["text"]


def test_of_many_who_save_at_once_one_wins(fresh: Shop) -> None:
    write(fresh, POLICY)
    seen = fresh.get("/settings/policy")["revision"]

    def put(number: int) -> int:
        text = f"domains: [n{number}.example.org]\n"
        asked = {"text": text, "revision": seen}
        return fresh.server.call("PUT", "/settings/policy", json=asked).status

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(put, range(8))) == [200, *[409] * 7]


def test_a_policy_that_others_can_write_is_neither_shown_nor_replaced(fresh: Shop) -> None:
    write(fresh, POLICY)
    seen = fresh.get("/settings/policy")["revision"]
    policy_of(fresh).chmod(0o666)
    fresh.refused(409, "GET", "/settings/policy")
    asked = {"text": "ask: true\n", "revision": seen}
    fresh.refused(409, "PUT", "/settings/policy", asked)
    assert policy_of(fresh).read_text() == POLICY


def test_a_client_has_a_policy_of_its_own(fresh: Shop) -> None:
    write(fresh, POLICY)
    save(fresh, "domains: [acme.example.org]\n", "acme")
    own = policy_of(fresh).parent / "clients/acme/policy.yaml"
    assert own.read_text() == "domains: [acme.example.org]\n"
    assert fresh.get("/settings/policy?client=default")["text"] == POLICY
    assert [each["name"] for each in fresh.get("/settings/clients")["items"]] == ["acme"]


@pytest.mark.parametrize("name", ["..", "a/b", "ACME", "-x", "a" * 60, "%00"])
def test_a_client_whose_name_is_none_is_refused(shop: Shop, name: str) -> None:
    shop.refused(422, "GET", f"/settings/policy?client={name}")
    asked = {"text": POLICY, "revision": "0" * 64}
    shop.refused(422, "PUT", f"/settings/policy?client={name}", asked)
    assert not (policy_of(shop).parent / "clients").exists()


def test_a_draft_is_checked_and_nothing_is_written(fresh: Shop) -> None:
    good = fresh.told("POST", "/settings/policy/check", {"text": POLICY})
    assert good["ok"] and not good["problems"] and good["ask"] is None
    assert [rule["host"] for rule in good["rules"]] == ["api.example.org"]
    assert [rule["host"] for rule in good["deny"]] == ["bad.example.org"]
    bad = fresh.told("POST", "/settings/policy/check", {"text": "ask: maybe\n"})
    assert not bad["ok"] and bad["problems"][0]["line"] == 1
    assert not policy_of(fresh).exists()


def test_a_draft_too_long_for_a_page_is_refused(shop: Shop) -> None:
    long = {"text": "# " + "x" * (1 << 16)}
    shop.refused(422, "POST", "/settings/policy/check", long)


def test_runs_at_work_hold_to_a_policy_as_soon_as_it_is_saved(fresh: Shop) -> None:
    """The origin is nobody, so an allowed request fails otherwise than a refused one."""
    goal = (
        "echo at work; while ! [ -e go ]; do"
        " curl -s -m 20 -o /dev/null -w '<%{http_code}>\\n' http://late.example/; sleep 0.2; done"
    )
    write(fresh, POLICY)
    with fresh.working(goal) as name:
        eventually(lambda: "<403>" in fresh.log(name))
        upstream = "upstreams:\n  late.example: {address: 127.0.0.1, port: 1}\n"
        saved = save(fresh, f"domains: [late.example]\n{upstream}")
        assert saved["reloaded"] == [name] and saved["unmoved"] == []
        eventually(lambda: any(last_code(fresh, name) == code for code in ("<000>", "<502>")))
        unchanged = save(fresh, policy_of(fresh).read_text())
        assert unchanged["reloaded"] == []


def last_code(shop: Shop, name: str) -> str:
    return next(line for line in reversed(shop.log(name).split()) if line.startswith("<"))


# Reach


def hosts(told: Any, layer: str | None = None) -> list[str]:
    return [each["host"] for each in told["rules"] if layer in (None, each["layer"])]


def test_what_a_run_would_reach_is_told_layer_by_layer(fresh: Shop) -> None:
    write(fresh, POLICY)
    write(
        fresh, "domains: [acme.example.org]\n", policy_of(fresh).parent / "clients/acme/policy.yaml"
    )
    told = fresh.get("/reach?agent=claude&client=acme&allow=a.example.net,%20b.example.net")
    assert "api.anthropic.com" in hosts(told, "built-in")
    assert hosts(told, "user") == ["api.example.org"]
    assert hosts(told, "client") == ["acme.example.org"]
    assert hosts(told, "run") == ["a.example.net", "b.example.net"]
    assert told["network"] and not told["ask"]
    assert "acme.example.org" not in hosts(fresh.get("/reach?agent=claude"))


def test_what_is_denied_is_not_told_as_reachable(fresh: Shop) -> None:
    write(fresh, "domains: [a.example.org, '*.x.example.org']\n")
    before = hosts(fresh.get("/reach?agent=shell"))
    assert {"a.example.org", "*.x.example.org", "github.com"} <= set(before)
    write(fresh, "domains: [a.example.org, '*.x.example.org']\ndeny: ['*']\n")
    assert hosts(fresh.get("/reach?agent=shell")) == []


def test_a_project_tells_whose_work_it_is(fresh: Shop) -> None:
    write(
        fresh, "domains: [acme.example.org]\n", policy_of(fresh).parent / "clients/acme/policy.yaml"
    )
    wanted = {"url": str(fresh.project.folder), "client": "acme"}
    project = fresh.told("POST", "/projects", wanted, 201)["id"]
    told = fresh.get(f"/reach?agent=shell&project={project}")
    assert told["client"] == "acme" and "acme.example.org" in hosts(told)
    fresh.refused(404, "GET", "/reach?agent=shell&project=project-" + "0" * 20)


def test_a_package_tool_is_not_run_to_tell_what_is_reached(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    tool = tmp_path / "bin/npm"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ntouch {marker}\necho http://registry.example.org/\n")
    tool.chmod(0o755)
    with serving(tmp_path / "served", env={"PATH": f"{tool.parent}:/usr/bin:/bin"}) as server:
        shop = Shop(server, None)  # type: ignore[arg-type]
        write(shop, "services: [npm]\n")
        told = shop.get("/reach?agent=shell")
        assert told["pending"] == ["npm"] and not marker.exists()
        (server.home / ".npmrc").write_text("registry=https://mirror.example.org/\n")
        told = shop.get("/reach?agent=shell")
        assert told["pending"] == [] and "mirror.example.org" in hosts(told)
        assert not marker.exists()


@pytest.mark.parametrize("query", ["agent=nobody", "allow=*", "allow=http://x/", "client=.."])
def test_a_question_that_cannot_be_meant_is_refused(shop: Shop, query: str) -> None:
    shop.refused(422, "GET", f"/reach?{query}")


def test_a_policy_with_a_mistake_is_told_to_who_asks_what_is_reached(fresh: Shop) -> None:
    write(fresh, "domains: [api.example.org]\nask: maybe\n")
    told = fresh.refused(409, "GET", "/reach?agent=shell")
    assert told["subject"].endswith("policy.yaml:2")
    # And it can be looked at and repaired.
    assert "maybe" in fresh.get("/settings/policy")["text"]
    save(fresh, POLICY)
    fresh.get("/reach?agent=shell")


# Secrets and clients


def test_secrets_are_told_by_name_and_never_by_value(fresh: Shop) -> None:
    home = fresh.server.home
    fresh.get("/settings/secrets")  # which writes the settings that everybody begins with
    config = home / ".config/ags/config.toml"
    config.write_text(SECRETS)
    folder = fresh.server.ags_home / "secrets"
    folder.mkdir(mode=0o700)
    for name in ("api", "ANTHROPIC_API_KEY", "spare"):
        (folder / f"{name}.file").write_text(CANARY)
        (folder / f"{name}.file").chmod(0o600)
    answer = fresh.server.call("GET", "/settings/secrets")
    assert CANARY not in answer.text
    found = {each["name"]: each for each in answer.json()["items"]}
    assert list(found) == ["api", "db", "pw", "ANTHROPIC_API_KEY", "spare"]
    assert found["api"]["hosts"] == ["api.example.org"] and found["api"]["kept"] == "file"
    assert found["db"]["hosts"] == ["db.example.org:8443"] and "MY_DB" in found["db"]["where"]
    assert found["pw"]["where"] == "what /usr/bin/printf prints"
    assert found["ANTHROPIC_API_KEY"]["hosts"] == ["api.anthropic.com"]
    assert found["spare"]["hosts"] == [] and found["spare"]["env"] is None


def test_secrets_of_a_client_are_not_those_of_others(fresh: Shop) -> None:
    for folder in ("secrets", "secrets/acme"):
        place = fresh.server.ags_home / folder
        place.mkdir(mode=0o700)
        (place / f"of-{place.name}.file").write_text(CANARY)
    own = fresh.get("/settings/secrets")["items"]
    theirs = fresh.get("/settings/secrets?client=acme")["items"]
    assert [each["name"] for each in own] == ["of-secrets"]
    assert [each["name"] for each in theirs] == ["of-acme"]
    (client,) = fresh.get("/settings/clients")["items"]
    assert client["name"] == "acme" and client["secrets"] == ["of-acme"]


def test_clients_are_told_with_their_runs(fresh: Shop) -> None:
    assert fresh.get("/settings/clients")["items"] == []
    with fresh.working(client="acme"):
        (client,) = fresh.get("/settings/clients")["items"]
        assert (client["name"], client["runs"], client["working"]) == ("acme", 1, 1)
    eventually(lambda: fresh.get("/settings/clients")["items"][0]["working"] == 0)


# Agents


@contextlib.contextmanager
def with_registry(folder: Path) -> Iterator[tuple[Shop, Any]]:
    with registry() as shelf, serving(folder) as server:
        (server.home / ".npmrc").write_text(f"registry={shelf.url}/\nfetch-retries=0\n")
        yield Shop(server, None), shelf  # type: ignore[arg-type]


def claude(shop: Shop, query: str = "") -> Any:
    items = shop.get(f"/settings/agents{query}")["items"]
    return next(each for each in items if each["name"] == "claude")


def test_agents_are_told_and_those_that_every_sandbox_has_are_ready(shop: Shop) -> None:
    choices = {each["name"]: each for each in shop.get("/agents")["items"]}
    assert choices["shell"]["ready"] and choices["demo"]["ready"]
    assert not choices["claude"]["ready"] and choices["claude"]["installed"] is None
    names = [each["name"] for each in shop.get("/settings/agents")["items"]]
    assert names == ["claude", "codex", "gemini", "opencode", "pi"]


def test_an_agent_is_installed_while_others_are_served(tmp_path: Path) -> None:
    with with_registry(tmp_path / "served") as (shop, shelf):
        shelf.publish_claude("1.0.0")
        shelf.stalls = ".tgz"
        begun = shop.told("POST", "/settings/agents/claude/install", {}, 202)
        assert begun["installing"] and begun["installed"] is None
        assert shelf.stalled.wait(60)
        eventually(lambda: "fetching" in claude(shop)["installing"])
        shop.refused(409, "POST", "/settings/agents/claude/install")
        shop.get("/runs")
        assert not shelf.over.is_set()
        shelf.stalls = ""
        shelf.over.set()
        eventually(lambda: claude(shop)["installing"] is None)
        found = claude(shop)
        assert found["installed"] == "1.0.0" and found["failed"] is None and found["size"]
        choices = {each["name"]: each for each in shop.get("/agents")["items"]}
        assert choices["claude"] == {"name": "claude", "installed": "1.0.0", "ready": True}
        assert shop.server.threads() == 1


def test_the_board_tells_how_an_installation_goes(tmp_path: Path) -> None:
    with with_registry(tmp_path / "served") as (shop, shelf):
        shelf.publish_claude("1.0.0")
        shelf.stalls = ".tgz"  # else the board might only have time for what comes after
        with listening(shop.server, "/stream") as board:
            board.next()
            shop.told("POST", "/settings/agents/claude/install", {}, 202)
            board.until(lambda each: each.event == "agent" and "fetching" in stage(each))
            shelf.stalls = ""
            shelf.over.set()
            told = board.until(lambda each: each.event == "agent" and not stage(each)).json()
        assert told == claude(shop) and told["installed"] == "1.0.0"


def stage(message: Message) -> str:
    """How far an installation is; nothing once it is over."""
    return message.json()["installing"] or ""


def test_the_newest_version_is_asked_for_only_when_it_is_wanted(tmp_path: Path) -> None:
    with with_registry(tmp_path / "served") as (shop, shelf):
        shelf.publish_claude("1.0.0")
        assert claude(shop)["newest"] is None and shelf.log == []
        assert claude(shop, "?check=true")["newest"] == "1.0.0" and shelf.log


def test_an_installation_that_fails_says_why(tmp_path: Path) -> None:
    with with_registry(tmp_path / "served") as (shop, shelf):
        shelf.publish_claude("1.0.0", script="#!/bin/sh\nexit 3\n")
        shop.told("POST", "/settings/agents/claude/install", {}, 202)
        eventually(lambda: claude(shop)["installing"] is None)
        found = claude(shop)
        assert found["installed"] is None and "ended with 3" in found["failed"]["cause"]
        shelf.publish_claude("1.0.1")
        shop.told("POST", "/settings/agents/claude/install", {}, 202)
        assert claude(shop)["failed"] is None
        eventually(lambda: claude(shop)["installed"] == "1.0.1")


def test_what_cannot_be_installed_is_refused(shop: Shop) -> None:
    path = "/settings/agents/{}/install"
    shop.refused(404, "POST", path.format("nobody"))
    shop.refused(404, "POST", path.format("--version"))
    shop.refused(409, "POST", path.format("shell"))
    shop.refused(422, "POST", path.format("claude"), {"version": "--help"})
    shop.refused(422, "POST", path.format("claude"), {"versions": "1.0.0"})
    assert claude(shop)["installing"] is None


def test_a_server_that_ends_takes_an_installation_with_it(tmp_path: Path) -> None:
    with with_registry(tmp_path / "served") as (shop, shelf):
        shelf.publish_claude("1.0.0")
        shelf.stalls = ".tgz"
        shop.told("POST", "/settings/agents/claude/install", {}, 202)
        assert shelf.stalled.wait(60)
        assert shop.server.end() == 0
        eventually(lambda: not verbs_of(shop.server))


def verbs_of(server: Server) -> list[str]:
    """Command lines of `ags update-agents` for this very home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            if b"update-agents" in words and str(server.ags_home).encode() in environ:
                found.append(words.decode())
    return found


# Doctor


def test_the_doctor_says_the_same_as_on_the_command_line(fresh: Shop) -> None:
    told = fresh.get("/settings/doctor")
    said = json.loads(fresh.server.ags("doctor", "--json").stdout)
    assert told["ok"] == said["ok"]
    wanted = [(each["section"], each["name"], each["status"]) for each in said["findings"]]
    assert [(each["section"], each["name"], each["level"]) for each in told["items"]] == wanted
    assert fresh.server.threads() == 1


def test_the_doctor_finds_what_is_wrong(fresh: Shop) -> None:
    write(fresh, "ask: maybe\n")
    told = fresh.get("/settings/doctor")
    (found,) = (each for each in told["items"] if each["name"] == "policy")
    assert not told["ok"] and found["level"] == "fail" and found["hint"]


def test_others_are_served_while_the_doctor_looks(shop: Shop) -> None:
    # Again, should this process itself have slept meanwhile.
    assert any(served_beside_the_doctor(shop) > 3 for _ in range(10))


def served_beside_the_doctor(shop: Shop) -> int:
    """How many were; had they to wait, it were one or two."""
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(shop.get, "/settings/doctor")
        served = 0
        while not looking.done():
            shop.get("/runs?limit=1")
            served += 1
        assert looking.result()["items"]
    return served


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/settings/policy"),
        ("PUT", "/settings/policy"),
        ("POST", "/settings/policy/check"),
        ("GET", "/reach"),
        ("GET", "/settings/secrets"),
        ("GET", "/settings/clients"),
        ("GET", "/settings/agents"),
        ("POST", "/settings/agents/claude/install"),
        ("GET", "/settings/doctor"),
        ("GET", "/agents"),
    ],
)
def test_nothing_is_told_without_a_token(shop: Shop, method: str, path: str) -> None:
    sent: object = {} if method in ("PUT", "POST") else None
    problem(shop.server.call(method, path, token=None, json=sent), 401)
