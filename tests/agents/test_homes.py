"""What agents find in their homes and in /etc, and what becomes of what was there before."""

from __future__ import annotations

import json
import tomllib
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.agents import AGENTS, agent, prompt
from ags.agents.base import PROMPT_FILE, Bring, Facts, HomeFile
from ags.agents.merge import brought, joined, merged
from ags.agents.toml import toml
from ags.egress.services import service_names
from ags.egress.wiring import AGENT_KEYS
from ags.hooks import managed

REAL = ("claude", "codex", "gemini", "opencode", "pi")
CWD = '/home/person/a "quoted" project.d'
PLACEHOLDER = "sk-placeholder-" + "0123456789" * 4


def facts(name: str, **more: object) -> Facts:
    keys = {key.variable: PLACEHOLDER for key in AGENT_KEYS.get(name, ())}
    return Facts("/home/person", CWD, keys, "You are in a sandbox.", **more)  # type: ignore[arg-type]


def home(name: str, had: dict[str, str] | None = None, **more: object) -> dict[str, Any]:
    """The files as they are then; those in JSON, read."""
    files = dict(had or {})
    for file in agent(name).files(facts(name, **more)):
        files[file.path] = merged(files.get(file.path), file)
    return {path: json.loads(t) if path.endswith(".json") else t for path, t in files.items()}


def etc(name: str, **more: object) -> dict[str, str]:
    return {file.path: file.text for file in agent(name).etc(facts(name, **more))}


@pytest.mark.parametrize("name", AGENTS)
def test_paths_stay_where_they_belong(name: str) -> None:
    inside = [file.path for file in agent(name).files(facts(name))]
    for path in (*inside, *agent(name).keeps, *(b.path for b in agent(name).brings)):
        assert not path.startswith("/") and ".." not in PurePosixPath(path).parts
    assert all(path.startswith(("/etc/", "/ags/")) for path in etc(name))


@pytest.mark.parametrize("name", REAL)
def test_every_real_agent_has_hosts_and_keys_of_its_own(name: str) -> None:
    assert name in service_names() and AGENT_KEYS[name]


@pytest.mark.parametrize("name", REAL)
def test_log_ins_and_conversations_are_kept_and_settings_are_not(name: str) -> None:
    kept = agent(name).keeps
    assert ".mcp-auth" in kept
    assert not any("settings" in path or path.endswith("config.toml") for path in kept)
    brought_along = {bring.path for bring in agent(name).brings if not bring.keys}
    assert not brought_along & set(kept), "what is copied in anew must not come back"


def test_claude_asks_nothing_at_its_first_start() -> None:
    found = home("claude")
    state = found[".claude.json"]
    assert state["hasCompletedOnboarding"] is True
    assert state["projects"][CWD]["hasTrustDialogAccepted"] is True
    assert state["customApiKeyResponses"]["approved"] == [PLACEHOLDER[-20:]]
    assert found[".claude/settings.json"]["skipDangerousModePermissionPrompt"] is True


def test_what_claude_knew_before_stays() -> None:
    had = {
        "theme": "light",
        "projects": {"/other": {"x": 1}, CWD: {"history": ["a"]}},
        "customApiKeyResponses": {"approved": ["older"], "rejected": ["r"]},
    }
    state = home("claude", {".claude.json": json.dumps(had)})[".claude.json"]
    assert state["theme"] == "light"
    assert state["projects"]["/other"] == {"x": 1}
    assert state["projects"][CWD] == {"history": ["a"], "hasTrustDialogAccepted": True}
    assert state["customApiKeyResponses"]["approved"] == ["older", PLACEHOLDER[-20:]]
    assert state["customApiKeyResponses"]["rejected"] == ["r"]


def test_codex_gets_the_placeholder_where_it_looks_for_it() -> None:
    assert home("codex")[".codex/auth.json"]["OPENAI_API_KEY"] == PLACEHOLDER
    only = Facts("/home/person", CWD, {"OPENAI_API_KEY": PLACEHOLDER})
    assert agent("codex").environment(only) == {"CODEX_API_KEY": PLACEHOLDER}
    none = Facts("/home/person", CWD, {})
    assert agent("codex").environment(none) == {} and agent("codex").files(none) == ()


def test_a_key_for_codex_does_not_end_a_log_in() -> None:
    had = {"auth_mode": "chatgpt", "tokens": {"refresh_token": "r"}, "OPENAI_API_KEY": "old"}
    state = home("codex", {".codex/auth.json": json.dumps(had)})[".codex/auth.json"]
    assert state == {**had, "OPENAI_API_KEY": PLACEHOLDER}


def test_the_settings_of_codex_are_toml_that_it_cannot_change() -> None:
    settings = tomllib.loads(etc("codex")["/etc/codex/config.toml"])
    assert settings["features"]["daemon_auto_start"] is False
    assert settings["projects"][CWD]["trust_level"] == "trusted"
    assert settings["developer_instructions"] == "You are in a sandbox."


def test_gemini_takes_the_key_without_asking_and_keeps_other_names_of_instructions() -> None:
    had = {"context": {"fileName": "AGENTS.md"}, "mcpServers": {"a": {"command": "b"}}}
    found = home("gemini", {".gemini/settings.json": json.dumps(had)})
    settings = found[".gemini/settings.json"]
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert settings["context"]["fileName"] == ["AGENTS.md", "GEMINI.md", "AGS.md"]
    assert settings["mcpServers"] == had["mcpServers"]
    assert found[".gemini/AGS.md"] == "You are in a sandbox."


def test_gemini_without_a_key_keeps_the_log_in_it_has() -> None:
    files = agent("gemini").files(Facts("/home/person", CWD, {}))
    assert all("security" not in (file.values or {}) for file in files)


def test_what_gemini_is_told_of_hooks_is_fixed() -> None:
    """It would take no word from /etc: in a sandbox, nobody there is root."""
    assert all(file.fixed for file in agent("gemini").files(facts("gemini")))


def test_opencode_finds_the_key_under_its_own_name() -> None:
    environment = agent("opencode").environment(facts("opencode"))
    assert environment["GOOGLE_GENERATIVE_AI_API_KEY"] == PLACEHOLDER


@pytest.mark.parametrize("name", REAL)
def test_each_is_told_where_it_is(name: str) -> None:
    texts = [*etc(name).values(), *(str(text) for text in home(name).values())]
    assert any("You are in a sandbox." in text for text in texts)


ASKING = {
    "claude": managed.FORWARD,
    "codex": managed.FORWARD,
    "gemini": managed.FORWARD,
    "opencode": managed.PLUGIN,
    "pi": managed.SOCKET,
}
"""What its settings name, or for pi the extension that is always loaded."""


@pytest.mark.parametrize("name", REAL)
def test_each_is_made_to_ask_the_hooks_and_only_if_there_are_any(name: str) -> None:
    for python in ("/usr/bin/python3", ""):
        found = etc(name, python=python)
        found.pop(str(managed.FORWARD), None)
        texts = (*found.values(), json.dumps(home(name, python=python)))
        assert any(str(ASKING[name]) in text for text in texts) is bool(python)


def test_hooks_are_commands_in_the_form_each_maker_reads() -> None:
    python = "/usr/bin/python3"
    claude = json.loads(etc("claude", python=python)[str(managed.CLAUDE_SETTINGS)])["hooks"]
    codex = tomllib.loads(etc("codex", python=python)[str(managed.CODEX_REQUIREMENTS)])["hooks"]
    gemini = home("gemini", python=python)[".gemini/settings.json"]["hooks"]
    for name, hooks, event in (
        ("claude", claude, "PreToolUse"),
        ("codex", codex, "PreToolUse"),
        ("gemini", gemini, "BeforeTool"),
    ):
        (entry,) = hooks[event]
        assert entry["hooks"][0]["command"] == managed.command(name, event, python)


def test_hooks_of_a_stranger_do_not_run_in_claude() -> None:
    for trusted in (True, False):
        text = etc("claude", trusted=trusted)[str(managed.CLAUDE_SETTINGS)]
        assert json.loads(text).get("allowManagedHooksOnly", False) is not trusted


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON)


@given(had=OBJECTS, given_=OBJECTS)
def test_merging_twice_is_merging_once(had: dict[str, Any], given_: dict[str, Any]) -> None:
    once = joined(had, given_)
    assert joined(once, given_) == once
    assert set(once) == set(had) | set(given_)
    assert {k: v for k, v in once.items() if k not in given_} == {
        k: v for k, v in had.items() if k not in given_
    }


@given(had=OBJECTS, given_=OBJECTS)
def test_gently_means_that_no_text_or_number_changes(
    had: dict[str, Any], given_: dict[str, Any]
) -> None:
    made = joined(had, given_, gently=True)
    for key, value in had.items():
        if isinstance(value, bool | int) or (isinstance(value, str) and key not in given_):
            assert made[key] == value or isinstance(given_.get(key), list)


@given(text=st.text())
def test_a_file_that_is_no_json_is_replaced(text: str) -> None:
    made = json.loads(merged(text, HomeFile("a.json", {"ours": 1})))
    assert made["ours"] == 1


def test_deep_json_in_a_home_is_replaced_too() -> None:
    assert json.loads(merged('{"a":' * 100_000, HomeFile("a.json", {"b": 1}))) == {"b": 1}


def test_a_text_is_put_there_whole_and_gently_only_where_none_is() -> None:
    assert merged("old", HomeFile("a.md", text="new")) == "new"
    assert merged("old", HomeFile("a.md", text="new", gently=True)) == "old"
    assert merged(None, HomeFile("a.md", text="new", gently=True)) == "new"


SERVERS = {"docs": {"command": "npx", "args": ["docs"], "env": {"TOKEN": "secret-1"}},
           "web": {"url": "https://mcp.example", "headers": {"authorization": "secret-2"},
                   "http_headers": {"x": "secret-3"}, "bearer_token": "secret-4"}}  # fmt: skip


def test_servers_come_along_without_their_secrets_and_nothing_else_does() -> None:
    own = {"mcpServers": SERVERS, "oauthAccount": {"email": "secret-5"}, "history": ["secret-6"]}
    made = brought(json.dumps(own), Bring(".claude.json", ("mcpServers",)))
    assert "secret" not in made
    assert json.loads(made) == {
        "mcpServers": {
            "docs": {"command": "npx", "args": ["docs"]},
            "web": {"url": "https://mcp.example"},
        }
    }


def test_servers_come_along_from_toml() -> None:
    made = brought(toml({"mcp_servers": SERVERS, "model": "x"}), Bring("c.toml", ("mcp_servers",)))
    assert "secret" not in made
    assert tomllib.loads(made)["mcp_servers"]["docs"] == {"command": "npx", "args": ["docs"]}


@given(text=st.text())
def test_of_a_damaged_file_nothing_comes_along(text: str) -> None:
    for path in ("a.json", "a.toml"):
        assert brought(text, Bring(path, ("mcpServers",))) in ("",)


SETTINGS = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner)
    ),
    max_leaves=10,
)


@given(values=st.dictionaries(st.text(st.characters(codec="utf-8")), SETTINGS))
def test_our_toml_is_read_back_as_it_was_meant(values: dict[str, object]) -> None:
    assert tomllib.loads(toml(values)) == values


def test_the_prompt_says_what_an_agent_must_know() -> None:
    made = prompt.text(allowed=("github",), host_services=(5432,), ask=True)
    for words in ("sandbox", "github", "403", "host.containers.internal", "5432", "--no-sandbox",
                  "placeholder", "guard", "being asked"):  # fmt: skip
        assert words in made
    assert PROMPT_FILE not in made


def test_without_a_network_the_prompt_speaks_of_none() -> None:
    made = prompt.text(network=False, host_services=(5432,))
    assert "no network" in made and "403" not in made and "5432" not in made


def test_where_files_are_the_persons_the_prompt_says_so() -> None:
    assert "person's own files" in prompt.text(inplace=True)
    assert "person's own files" not in prompt.text()
