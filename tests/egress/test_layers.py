"""From files and flags to the policy of one run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ags.egress import tools
from ags.egress.layers import Whole, layers, pending, policy_file, whole
from ags.egress.model import Decision, Request
from ags.egress.policy import Policy, decide
from ags.egress.registries import rules_for
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
    found = rules_for(["https://packages.example/"])
    filled = built(tmp_path, user="services: [npm]", defaults={"npm": found})
    assert judged(filled, "packages.example").allowed and pending(filled) == ()
    assert pending(built(tmp_path, user="services: [npm: {access: none}]")) == ()


def test_the_whole_policy_has_the_tools_default_and_where_its_index_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    async def answer(names: tuple[str, ...], *_: object) -> object:
        asked.append(names)
        return {"npm": rules_for(["https://user:word@packages.example/npm/?token=x"])}

    monkeypatch.setattr(tools, "tool_defaults", answer)
    (tmp_path / "user.yaml").write_text("services: [npm, pip]")
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip/pip.conf").write_text("[global]\nindex-url=https://own.example/simple\n")

    def made() -> Whole:
        file = tmp_path / "user.yaml"
        return asyncio.run(whole("shell", file, None, (), {}, tmp_path, apart=()))

    found = made()
    assert asked == [("npm",)]
    assert judged(found.policy, "packages.example").allowed
    assert dict(found.indexes) == {
        "npm": ("https://packages.example/npm/",),
        "pip": ("https://own.example/simple",),
    }
    (tmp_path / "user.yaml").write_text("services: [github, npm: {access: none}]")
    assert made().indexes == {} and len(asked) == 1


@pytest.mark.parametrize("way", ["itself", "a link to it", "a link to its folder"])
@pytest.mark.parametrize("named", [False, True])
def test_a_policy_that_the_run_can_write_is_not_read(tmp_path: Path, way: str, named: bool) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    file = workspace / "policy.yaml"
    file.write_text("domains: [a.example]")
    if way == "a link to it":
        file = tmp_path / "link.yaml"
        file.symlink_to(workspace / "policy.yaml")
    elif way == "a link to its folder":
        (tmp_path / "way").symlink_to(workspace)
        file = tmp_path / "way/policy.yaml"
    user, run = (tmp_path / "none", file) if named else (file, None)

    def made(*written: Path) -> Whole:
        home = tmp_path / "home"
        return asyncio.run(whole("shell", user, run, (), {}, home, apart=(), written=written))

    with pytest.raises(ConfigError, match="where the run writes"):
        made(workspace)
    assert judged(made(tmp_path / "other").policy, "a.example").allowed


def test_the_persons_file_is_beside_their_settings(tmp_path: Path) -> None:
    assert policy_file({}, tmp_path) == tmp_path / ".config/ags/policy.yaml"
    assert policy_file({"XDG_CONFIG_HOME": "/x"}, tmp_path) == Path("/x/ags/policy.yaml")


def client(home: Path, name: str, text: str) -> Path:
    file = home / f"{name}.yaml"
    file.write_text(text)
    return file


def test_a_clients_policy_is_on_top_of_the_persons_and_below_the_flags(tmp_path: Path) -> None:
    file = client(tmp_path, "acme", "domains: [b.example]\nask: true")
    policy = built(tmp_path, user="domains: [a.example]", allow=("c.example",), client_file=file)
    found = [judged(policy, host).layer for host in ("a.example", "b.example", "c.example")]
    assert found == ["user", "client", "run"] and policy.ask
    assert not built(tmp_path, client_file=file, ask=False).ask


def test_what_a_client_may_reach_another_may_not(tmp_path: Path) -> None:
    acme = client(tmp_path, "acme", "domains: [acme.example]")
    beta = client(tmp_path, "beta", "domains: [beta.example]")
    for file, mine, theirs in (
        (acme, "acme.example", "beta.example"),
        (beta, "beta.example", "acme.example"),
    ):
        policy = built(tmp_path, client_file=file)
        assert judged(policy, mine).allowed and not judged(policy, theirs).allowed
    own = built(tmp_path)
    assert not judged(own, "acme.example").allowed and not judged(own, "beta.example").allowed


def test_what_a_client_denies_holds_against_all_other_layers(tmp_path: Path) -> None:
    file = client(tmp_path, "acme", "deny: [a.example]")
    for where in ("user", "run"):
        given: dict[str, Any] = {where: "domains: [a.example]"}
        policy = built(tmp_path, allow=("a.example",), client_file=file, **given)
        assert judged(policy, "a.example").reason == "denied"
        assert judged(built(tmp_path, allow=("a.example",), **given), "a.example").allowed


def test_a_client_without_a_policy_is_none_and_with_a_bad_one_an_error(tmp_path: Path) -> None:
    assert built(tmp_path, client_file=tmp_path / "none.yaml").layers == built(tmp_path).layers
    with pytest.raises(ConfigError):
        built(tmp_path, client_file=client(tmp_path, "acme", "domain: []"))
    (tmp_path / "lost.yaml").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError):
        built(tmp_path, client_file=tmp_path / "lost.yaml")


def test_a_clients_policy_that_the_run_can_write_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    file = client(tmp_path / "project", "acme", "domains: [a.example]")

    def made(*written: Path) -> Whole:
        user, home = tmp_path / "none", tmp_path / "home"
        how: dict[str, Any] = {"apart": (), "written": written, "client_file": file}
        return asyncio.run(whole("shell", user, None, (), {}, home, **how))

    with pytest.raises(ConfigError, match="where the run writes"):
        made(tmp_path / "project")
    assert judged(made().policy, "a.example").layer == "client"
