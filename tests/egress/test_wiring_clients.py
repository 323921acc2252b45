"""Which secrets a client's run has: its own, and never another's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ags import clients, secrets
from ags.config.schema import SecretConfig
from ags.egress.wiring import Wiring, wire
from ags.errors import AgsError

KEPT = SecretConfig("k", "K", secret_store="k", host="api.example")
EXPORTED = SecretConfig("e", "E", from_env="MINE", host="api.example")
KEY = "ANTHROPIC_API_KEY"
VALUES = {"acme": "acme-canary-1", "beta": "beta-canary-2", "": "own-canary-3"}


def keep(home: Path, client: str, name: str = "k") -> None:
    store = secrets.store(clients.secrets(home, client), {}, client)
    asyncio.run(store.set(name, VALUES[client]))


def wired(
    home: Path,
    *configured: SecretConfig,
    client: str = "",
    agent: str = "shell",
    own: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Wiring:
    return asyncio.run(wire(configured, agent, environ or {}, home, client, own_settings=own))


@pytest.mark.parametrize("client", VALUES)
def test_each_has_the_value_that_was_kept_for_it(tmp_path: Path, client: str) -> None:
    for each in VALUES:
        keep(tmp_path, each)
    found = wired(tmp_path, KEPT, client=client)
    assert found.lookup("k") == VALUES[client] and found.left_out == ()
    others = set(VALUES.values()) - {VALUES[client]}
    known = {value.reveal() for _, value in (*found.values, *found.exposed)}
    assert not known & others
    assert not any(value in text for value in others for text in found.inside().values())


def test_placeholders_of_one_are_unknown_to_the_other(tmp_path: Path) -> None:
    keep(tmp_path, "acme")
    keep(tmp_path, "beta")
    one, other = (wired(tmp_path, KEPT, client=name).inside()["K"] for name in ("acme", "beta"))
    assert one != other


@pytest.mark.parametrize("client", ["acme", "beta"])
def test_what_is_kept_for_others_is_left_out_and_told(tmp_path: Path, client: str) -> None:
    keep(tmp_path, "")
    keep(tmp_path, "beta" if client == "acme" else "acme")
    found = wired(tmp_path, KEPT, client=client)
    assert found == Wiring(left_out=("k",))
    keep(tmp_path, client)
    assert wired(tmp_path, KEPT, client=client).lookup("k") == VALUES[client]


def test_in_settings_of_its_own_a_missing_one_is_an_error_that_says_how(tmp_path: Path) -> None:
    keep(tmp_path, "")
    with pytest.raises(AgsError) as caught:
        wired(tmp_path, KEPT, client="acme", own=True)
    assert caught.value.hint == "`ags secret set --client acme k`"
    assert "acme" in caught.value.cause


def test_files_and_commands_of_the_persons_settings_are_not_for_clients(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(VALUES[""])
    file.chmod(0o600)
    by_file = SecretConfig("f", "F", from_file=file, host="api.example")
    by_command = SecretConfig("c", "C", command=("/bin/cat", str(file)), host="api.example")
    for each in (by_file, by_command):
        assert wired(tmp_path, each, client="acme") == Wiring(left_out=(each.name,))
        assert wired(tmp_path, each).lookup(each.name) == VALUES[""]
        assert wired(tmp_path, each, client="acme", own=True).lookup(each.name) == VALUES[""]


def test_what_is_exported_is_there_for_every_client(tmp_path: Path) -> None:
    exported = {"MINE": "x" * 20, KEY: "y"}
    for client in ("", "acme"):
        found = wired(tmp_path, EXPORTED, client=client, agent="claude", environ=exported)
        assert (found.lookup("e"), found.lookup(f"env:{KEY}")) == ("x" * 20, "y")


def test_an_agents_key_that_was_kept_is_used_without_settings(tmp_path: Path) -> None:
    for client in VALUES:
        assert wired(tmp_path, client=client, agent="claude") == Wiring()
        keep(tmp_path, client, KEY)
    for client, value in VALUES.items():
        found = wired(tmp_path, client=client, agent="claude")
        assert found.lookup(f"env:{KEY}") == value and list(found.inside()) == [KEY]


def test_a_clients_own_key_goes_before_exported_ones_for_the_same_host(tmp_path: Path) -> None:
    keep(tmp_path, "acme", KEY)
    exported = {KEY: "y", "CLAUDE_CODE_OAUTH_TOKEN": "z", "OPENAI_API_KEY": "o"}
    found = wired(tmp_path, client="acme", agent="claude", environ=exported)
    assert found.lookup(f"env:{KEY}") == VALUES["acme"] and list(found.inside()) == [KEY]
    assert list(wired(tmp_path, client="acme", agent="pi", environ=exported).inside()) == [
        KEY, "OPENAI_API_KEY",
    ]  # fmt: skip
    other = wired(tmp_path, client="beta", agent="claude", environ=exported)
    assert other.lookup(f"env:{KEY}") == "y"


def test_for_the_person_what_is_exported_goes_before_what_is_kept(tmp_path: Path) -> None:
    keep(tmp_path, "", KEY)
    assert wired(tmp_path, agent="claude", environ={KEY: "y"}).lookup(f"env:{KEY}") == "y"


def test_a_key_that_settings_send_elsewhere_never_goes_to_the_makers_host(tmp_path: Path) -> None:
    gateway = replace(KEPT, name="gateway", env=KEY, secret_store="gateway", host="gw.example")
    found = wired(tmp_path, gateway, client="acme", agent="claude", environ={KEY: "y"})
    assert found.injections == () and found.left_out == ("gateway",)
    keep(tmp_path, "acme", KEY)
    found = wired(tmp_path, gateway, client="acme", agent="claude", environ={KEY: "y"})
    assert found.lookup(f"env:{KEY}") == VALUES["acme"]
