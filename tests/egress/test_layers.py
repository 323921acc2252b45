"""From files and flags to the policy of one run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags import proc
from ags.egress.layers import layers, pending, policy_file, tool_defaults
from ags.egress.model import Decision, Request
from ags.egress.policy import Policy, Rule, decide
from ags.errors import ConfigError


def built(
    home: Path,
    agent: str = "shell",
    *,
    user: str | None = None,
    run: str | None = None,
    allow: tuple[str, ...] = (),
    **more: object,
) -> Policy:
    files = {}
    for name, text in (("user", user), ("run", run)):
        files[name] = home / f"{name}.yaml"
        if text is not None:
            files[name].write_text(text)
    run_file = None if run is None else files["run"]
    return layers(agent, files["user"], run_file, allow, {}, home, **more)  # type: ignore[arg-type]


def judged(policy: Policy, host: str, port: int = 443) -> Decision:
    return decide(policy, Request(host, port, "tls", "GET", "/"))


def test_without_any_file_an_agent_reaches_its_model_and_reads_github(tmp_path: Path) -> None:
    policy = built(tmp_path, "claude")
    assert judged(policy, "api.anthropic.com").layer == "built-in"
    assert judged(policy, "github.com").allowed
    assert not judged(policy, "api.openai.com").allowed
    assert not decide(policy, Request("github.com", 443, "tls", "POST", "/x")).allowed
    assert not judged(built(tmp_path, "shell"), "api.anthropic.com").allowed


def test_each_rule_is_known_by_the_layer_it_came_from(tmp_path: Path) -> None:
    policy = built(tmp_path, user="domains: [a.example]", allow=("b.example",))
    found = [judged(policy, host).layer for host in ("github.com", "a.example", "b.example")]
    assert found == ["built-in", "user", "run"]


def test_a_file_named_for_the_run_takes_the_place_of_the_persons(tmp_path: Path) -> None:
    policy = built(tmp_path, user="domains: [a.example]", run="domains: [c.example]")
    assert not judged(policy, "a.example").allowed
    assert judged(policy, "c.example").layer == "run"
    assert judged(built(tmp_path, user="domains: [a.example]"), "a.example").allowed


def test_a_denial_of_the_persons_holds_against_flags(tmp_path: Path) -> None:
    policy = built(tmp_path, user="deny: [b.example]", allow=("b.example",))
    assert judged(policy, "b.example").reason == "denied"


@pytest.mark.parametrize("text", ["", "# nothing", "domains: a.example", "domain: []"])
def test_a_file_that_cannot_be_meant_is_an_error_and_no_policy(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        built(tmp_path, user=text)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        layers("shell", tmp_path / "none", tmp_path / "no-such", (), {}, tmp_path)
    assert layers("shell", tmp_path / "none", None, (), {}, tmp_path).layers
    (tmp_path / "none").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError):
        layers("shell", tmp_path / "none", None, (), {}, tmp_path)


def test_asking_is_the_flags_before_the_files(tmp_path: Path) -> None:
    assert built(tmp_path, user="ask: true").ask
    assert not built(tmp_path, user="ask: true", ask=False).ask
    assert built(tmp_path, ask=True).ask


def test_hosts_with_a_secret_have_their_tls_ended(tmp_path: Path) -> None:
    for secrets, intercept in (((), False), ((("a.example", 443),), True)):
        policy = built(tmp_path, user="domains: [a.example]", secrets=secrets)
        assert judged(policy, "a.example").intercept is intercept


def test_a_listed_package_tool_opens_what_the_persons_settings_name(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("registry = https://packages.example/npm/\n")
    assert not judged(built(tmp_path), "packages.example").allowed
    policy = built(tmp_path, user="services: [npm]")
    decision = judged(policy, "packages.example")
    assert (decision.allowed, decision.layer, pending(policy)) == (True, "user", ())


def test_without_settings_the_tools_own_default_is_used(tmp_path: Path) -> None:
    policy = built(tmp_path, user="services: [npm]")
    assert pending(policy) == ("npm",)
    rule = Rule("packages.example", (443,), "tls", ("GET", "HEAD"))
    filled = built(tmp_path, user="services: [npm]", defaults={"npm": (rule,)})
    assert judged(filled, "packages.example").allowed and pending(filled) == ()
    assert pending(built(tmp_path, user="services: [npm: {access: none}]")) == ()


def test_a_tool_is_asked_outside_of_any_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "npm"
    tool.write_text(f"#!/bin/sh\npwd > {tmp_path}/where\necho https://packages.example/\n")
    tool.chmod(0o755)
    monkeypatch.setattr(proc, "find", lambda name: str(tool) if name == "npm" else None)
    monkeypatch.chdir(tmp_path)
    found = asyncio.run(tool_defaults(("npm", "pip", "github"), {"HOME": str(tmp_path)}))
    assert [rule.host for rule in found["npm"]] == ["packages.example"]
    assert list(found) == ["npm"] and (tmp_path / "where").read_text() == "/\n"


def test_a_tool_that_fails_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "find", lambda name: "/bin/false")
    assert asyncio.run(tool_defaults(("npm",), {})) == {}


def test_the_persons_file_is_beside_their_settings(tmp_path: Path) -> None:
    assert policy_file({}, tmp_path) == tmp_path / ".config/ags/policy.yaml"
    assert policy_file({"XDG_CONFIG_HOME": "/x"}, tmp_path) == Path("/x/ags/policy.yaml")
