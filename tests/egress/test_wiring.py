"""From settings and agent to what is inside and what goes on the wire."""

from __future__ import annotations

import asyncio
import stat
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from ags import secrets
from ags.config.schema import SecretConfig
from ags.egress.inject import Injection, Swapped, swap
from ags.egress.model import Request
from ags.egress.wiring import AGENT_KEYS, Wiring, placeholder_key, renewed, source_of, wire
from ags.errors import AgsError
from ags.model import Weakening
from ags.secrets import FromCommand, FromEnvironment, FromFile, FromStore

VALUE = "sk-ant-api03-" + "Zq7" * 20
BOUND = SecretConfig("k", "K", "MINE", host="api.example")


def wired(
    home: Path, *configured: SecretConfig, agent: str = "shell", client: str = "", **environ: str
) -> Wiring:
    return asyncio.run(wire(configured, agent, environ, home, client))


def test_inside_there_is_a_placeholder_of_the_same_shape(tmp_path: Path) -> None:
    found = wired(tmp_path, BOUND, MINE=VALUE)
    inside = found.inside()
    assert list(inside) == ["K"] and inside["K"] != VALUE
    assert len(inside["K"]) == len(VALUE) and inside["K"].startswith("sk-ant-api03-")
    assert found.injections == (
        Injection("k", "api.example", 443, "tls", "Authorization", "Bearer {}"),
    )
    assert found.hosts == {("api.example", 443)} and found.weakenings == ()
    assert found.lookup("k") == VALUE and found.lookup("other") is None


def test_the_value_is_in_nothing_that_is_printed(tmp_path: Path) -> None:
    shown = SecretConfig("e", "E", "MINE", deliver="env")
    assert VALUE not in repr(wired(tmp_path, BOUND, shown, MINE=VALUE))


def test_the_fence_swaps_what_is_inside_for_the_value_and_only_at_its_host(tmp_path: Path) -> None:
    found = wired(tmp_path, BOUND, MINE=VALUE)
    stands = {each.secret_id: each for each in found.placeholders}
    headers = ((b"Authorization", b"Bearer " + found.inside()["K"].encode()),)

    def sent(host: str) -> object:
        request = Request(host, 443, "tls", "GET", "/")
        return swap(headers, "/", request, found.injections, stands, found.lookup)

    good = sent("api.example")
    assert isinstance(good, Swapped)
    assert (b"Authorization", f"Bearer {VALUE}".encode()) in good.headers
    assert not isinstance(sent("other.example"), Swapped)


@pytest.mark.parametrize(
    ("agent", "variable", "host", "header", "template"),
    [
        ("claude", "ANTHROPIC_API_KEY", "api.anthropic.com", "x-api-key", "{}"),
        ("claude", "ANTHROPIC_AUTH_TOKEN", "api.anthropic.com", "authorization", "Bearer {}"),
        ("claude", "CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com", "authorization", "Bearer {}"),
        ("codex", "CODEX_API_KEY", "api.openai.com", "authorization", "Bearer {}"),
        ("gemini", "GEMINI_API_KEY", "generativelanguage.googleapis.com", "x-goog-api-key", "{}"),
        ("pi", "OPENAI_API_KEY", "api.openai.com", "authorization", "Bearer {}"),
        ("opencode", "ANTHROPIC_API_KEY", "api.anthropic.com", "x-api-key", "{}"),
    ],
)
def test_an_agents_own_key_is_wired_if_it_is_exported(
    tmp_path: Path, agent: str, variable: str, host: str, header: str, template: str
) -> None:
    found = wired(tmp_path, agent=agent, **{variable: VALUE})
    assert found.injections == (Injection(f"env:{variable}", host, 443, "tls", header, template),)
    assert found.inside().keys() == {variable} and VALUE not in found.inside().values()
    assert wired(tmp_path, agent="shell", **{variable: VALUE}) == Wiring()
    assert wired(tmp_path, agent=agent, **{variable: ""}) == Wiring()


def test_codex_is_given_either_key() -> None:
    """It would ignore the second; `agents/codex.py` hands it on under the first one's name."""
    assert [key.variable for key in AGENT_KEYS["codex"]] == ["CODEX_API_KEY", "OPENAI_API_KEY"]


def test_the_settings_go_before_what_is_known_of_an_agent(tmp_path: Path) -> None:
    gateway = SecretConfig("gate", "ANTHROPIC_API_KEY", "MINE", host="gate.example")
    found = wired(tmp_path, gateway, agent="claude", MINE=VALUE, ANTHROPIC_API_KEY="sk-other-key")
    assert [each.host for each in found.injections] == ["gate.example"]
    assert found.lookup("gate") == VALUE


def test_a_value_goes_inside_only_as_a_weakening_that_is_told(tmp_path: Path) -> None:
    found = wired(tmp_path, SecretConfig("k", "K", "MINE", deliver="env"), MINE=VALUE)
    assert found.inside() == {"K": VALUE}
    assert (found.injections, found.placeholders, found.lookup("k")) == ((), (), None)
    assert found.weakenings == (Weakening("secret inside", "the value of k is in K"),)


def test_a_secret_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AgsError, match="MINE"):
        wired(tmp_path, BOUND)
    with pytest.raises(AgsError, match="no secret of this name"):
        wired(tmp_path, SecretConfig("k", "K", host="api.example"))


def test_a_secret_is_found_in_the_store_under_its_own_name_or_another(tmp_path: Path) -> None:
    asyncio.run(secrets.store(tmp_path / "secrets", {}).set("k", VALUE))
    for config in (
        SecretConfig("k", "K", host="api.example"),
        SecretConfig("other", "K", secret_store="k", host="api.example"),
    ):
        assert wired(tmp_path, config).lookup(config.name) == VALUE


def test_each_source_is_the_one_that_was_written() -> None:
    host = "api.example"
    assert source_of(BOUND) == FromEnvironment("MINE")
    assert source_of(SecretConfig("k", "K", from_file=Path("/f"), host=host)) == FromFile(
        Path("/f")
    )
    assert source_of(SecretConfig("k", "K", command=("c", "d"), host=host)) == FromCommand(
        ("c", "d")
    )
    assert source_of(SecretConfig("k", "K", host=host)) == FromStore("k")


def test_a_placeholder_stays_with_the_home_the_client_and_the_secret(tmp_path: Path) -> None:
    def stands(home: str, client: str = "", value: str = VALUE) -> str:
        return wired(tmp_path / home, BOUND, client=client, MINE=value).inside()["K"]

    first = stands("a")
    assert stands("a") == first and stands("a", value=VALUE[:-1] + "x") == first
    assert len({first, stands("b"), stands("a", "client-b")}) == 3


def test_the_key_is_private_and_made_once(tmp_path: Path) -> None:
    with ThreadPool(8) as pool:
        found = pool.map(lambda _: placeholder_key(tmp_path / "home"), range(16))
    assert len(set(found)) == 1 and len(found[0]) == 32
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["placeholder.key"]
    assert stat.S_IMODE((tmp_path / "home/placeholder.key").stat().st_mode) == 0o600


def test_without_secrets_no_key_is_made(tmp_path: Path) -> None:
    wired(tmp_path, agent="claude")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("content", "mode"), [(b"short", 0o600), (b"x" * 32, 0o644)])
def test_a_key_that_is_not_ours_alone_is_refused(tmp_path: Path, content: bytes, mode: int) -> None:
    (tmp_path / "placeholder.key").write_bytes(content)
    (tmp_path / "placeholder.key").chmod(mode)
    with pytest.raises(AgsError) as caught:
        placeholder_key(tmp_path)
    assert "remove" in caught.value.hint


def test_a_renewed_secret_keeps_its_placeholder_whatever_its_shape(tmp_path: Path) -> None:
    old = wired(tmp_path, BOUND, MINE=VALUE)
    found, notes = renewed(old, wired(tmp_path, BOUND, MINE="short"))
    assert found.lookup("k") == "short" and notes == ()
    assert found.placeholders == old.placeholders and found.environment == old.environment


def test_a_secret_that_is_gone_is_looked_for_and_has_no_value(tmp_path: Path) -> None:
    old = wired(tmp_path, BOUND, MINE=VALUE)
    found, _ = renewed(old, wired(tmp_path))
    assert found.lookup("k") is None
    assert found.placeholders == old.placeholders and found.hosts == old.hosts


def test_a_secret_that_goes_elsewhere_now_goes_there_alone(tmp_path: Path) -> None:
    moved = SecretConfig("k", "K", "MINE", host="new.example")
    found, _ = renewed(wired(tmp_path, BOUND, MINE=VALUE), wired(tmp_path, moved, MINE=VALUE))
    assert found.hosts == {("new.example", 443)}


def test_what_cannot_be_changed_inside_is_told(tmp_path: Path) -> None:
    other = SecretConfig("o", "O", "MINE", host="api.example")
    _, notes = renewed(wired(tmp_path), wired(tmp_path, other, MINE=VALUE))
    assert len(notes) == 1 and "secret o is new" in notes[0]
    shown = SecretConfig("e", "E", "MINE", deliver="env")
    old = wired(tmp_path, shown, MINE=VALUE)
    found, notes = renewed(old, wired(tmp_path, shown, MINE="other"))
    assert len(notes) == 1 and "env" in notes[0] and found.inside() == {"E": VALUE}
    assert renewed(old, wired(tmp_path, shown, MINE=VALUE))[1] == ()
    assert "other" not in repr(notes)
    assert len(renewed(old, wired(tmp_path))[1]) == 1
