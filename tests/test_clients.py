"""Clients: their names, where what is theirs lies, and how all of it goes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ags import clients, homes, secrets
from ags.agents import AGENTS
from ags.clients import Cabinet, Kept
from ags.config import trust
from ags.config.trust import Supplied
from ags.errors import AgsError
from ags.logins.state import kept_path

BAD = (
    "", "-", "-x", "--yes", "x-", ".", "..", "../x", "a/b", "/x", "a b", "A", "Acme", "é", "a.b",
    "a_b", "a:b", "a\n", "a\0", "x" * 49, "a\x1b[2J", "~", "$HOME",
)  # fmt: skip


@pytest.mark.parametrize("name", ["a", "7", "acme", "acme-2", "a--b", "x" * 48])
def test_a_plain_name_is_one(name: str) -> None:
    assert clients.checked_name(name) == name


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_be_a_path_or_an_option_is_none(name: str) -> None:
    with pytest.raises(AgsError) as caught:
        clients.checked_name(name)
    assert str(caught.value.subject).isprintable()


def test_default_is_the_persons_own_work() -> None:
    assert clients.checked_name("default") == ""


@pytest.mark.parametrize("name", [name for name in BAD if name])
def test_such_a_name_never_becomes_a_path_even_if_a_record_has_it(
    tmp_path: Path, name: str
) -> None:
    def own(ags_home: Path, client: str) -> object:
        return homes.folder(ags_home, client, "claude")

    def policy(home: Path, client: str) -> object:
        return clients.policy_file({}, home, client)

    def settings(home: Path, client: str) -> object:
        return clients.settings_file({}, home, client)

    for made in (own, policy, settings, clients.secrets, clients.logins):
        with pytest.raises(AgsError):
            made(tmp_path, name)


def test_each_client_has_places_of_its_own(tmp_path: Path) -> None:
    def all_of(name: str) -> set[Path | None]:
        return {
            homes.folder(tmp_path, name, "claude"),
            clients.secrets(tmp_path, name),
            clients.logins(tmp_path, name),
            clients.policy_file({}, tmp_path, name),
        }

    one, other, own = all_of("acme"), all_of("beta"), all_of("")
    assert len(one | other) == 8 and not one & own
    for mine in one:
        assert mine and not any(theirs and mine.is_relative_to(theirs) for theirs in other)


def test_log_ins_lie_where_the_broker_keeps_them(tmp_path: Path) -> None:
    assert kept_path("claude", tmp_path, "acme").parent == clients.logins(tmp_path, "acme")


def test_homes_are_below_the_folder_that_the_environment_names(tmp_path: Path) -> None:
    elsewhere = {clients.DATA: str(tmp_path / "data")}
    for name, folder in (("acme", "acme"), ("", "default")):
        found = homes.folder(tmp_path / "ags", name, "claude", elsewhere)
        assert found == tmp_path / "data/homes" / folder / "claude"
    usual = tmp_path / "ags/homes/acme/claude"
    for unset in ({}, {clients.DATA: ""}):
        assert homes.folder(tmp_path / "ags", "acme", "claude", unset) == usual


def test_a_relative_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgsError, match="absolute"):
        homes.folder(tmp_path, "acme", "claude", {clients.DATA: "data"})


@pytest.mark.parametrize("seen", ["data", "data/homes", "data/homes/acme", ".", "link", "up/data"])
def test_a_folder_that_shows_the_homes_of_all_clients_is_refused(tmp_path: Path, seen: str) -> None:
    (tmp_path / "data/homes/acme").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "up").symlink_to(".")
    environ = {clients.DATA: str(tmp_path / "data")}
    with pytest.raises(AgsError, match="homes of all clients"):
        clients.check_apart(tmp_path / "ags", environ, [tmp_path / "other", tmp_path / seen])
    clients.check_apart(tmp_path / "ags", environ, [tmp_path / "other"])
    clients.check_apart(tmp_path / "ags", {}, [tmp_path / seen])


class Office:
    """Two clients with something of every kind."""

    def __init__(self, place: Path) -> None:
        self.state, self.home = place / "ags", place / "home"
        self.environ = {clients.DATA: str(place / "data")}
        self.cabinet = Cabinet(self.state, self.environ, self.home)
        self.project = place / "project"
        self.project.mkdir()
        (self.project / ".mcp.json").write_text("{}")
        for name in ("acme", "beta", ""):
            self.furnish(name)

    def supplied(self) -> Supplied:
        return trust.supplied(self.project, (".mcp.json",))

    def furnish(self, name: str) -> None:
        home = homes.folder(self.state, name, "claude", self.environ)
        own = clients.settings(self.environ, self.home, name)
        for folder in (home, own, clients.logins(self.state, name)):
            folder.mkdir(parents=True, exist_ok=True)
        (home / "history.jsonl").write_text(f"{name or 'own'}\n")
        if name:
            (own / "policy.yaml").write_text("domains: [a.example]\n")
            (own / "config.toml").write_text("")
            (clients.logins(self.state, name) / "claude.json").write_text("{}")
        store = secrets.store(clients.secrets(self.state, name), self.environ, name)
        asyncio.run(store.set("k", f"value-of-{name or 'own'}"))
        trust.approve(self.state, name, self.project, self.supplied())

    def kept(self, name: str) -> Kept:
        return self.cabinet.kept(name, AGENTS)

    def remove(self, name: str) -> tuple[Path, ...]:
        return asyncio.run(self.cabinet.remove(self.kept(name)))

    def files(self, word: str) -> list[Path]:
        """All below the place that have to do with it, by name or content."""
        top = self.state.parent
        found = [path for path in top.rglob("*") if not path.is_dir()]
        return sorted(p for p in found if word in f"{p.relative_to(top)} {p.read_text()}")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_whoever_has_anything_is_known(office: Office) -> None:
    assert office.cabinet.names() == ("acme", "beta")
    assert office.cabinet.names(["gamma", ""]) == ("acme", "beta", "gamma")
    (office.state / "homes").mkdir()
    (office.state / "homes/No Client").mkdir()
    assert office.cabinet.names() == ("acme", "beta")


def test_all_of_a_client_goes_and_nothing_of_another(office: Office) -> None:
    others = office.files("beta")
    own = office.files("own")
    assert office.files("acme") and others and own
    assert office.remove("acme") == ()
    assert office.files("acme") == [] and office.cabinet.names() == ("beta",)
    assert office.files("beta") == others and office.files("own") == own
    assert office.kept("beta").approved == (office.project,)


def test_an_approval_ends_with_its_client_and_not_with_another(office: Office) -> None:
    def approved(name: str) -> bool:
        return trust.approved(office.state, name, office.project, office.supplied())

    assert approved("acme") and not approved("gamma")
    office.remove("acme")
    assert not approved("acme") and approved("beta") and approved("")


def test_what_ags_did_not_make_stays_and_is_told(office: Office) -> None:
    mine = clients.settings(office.environ, office.home, "acme") / "notes.txt"
    other = homes.folder(office.state, "acme", "claude", office.environ).parent / "photos"
    mine.write_text("mine")
    other.mkdir()
    assert set(office.remove("acme")) == {mine.parent, other.parent}
    assert mine.exists() and other.exists()


def test_a_link_in_the_place_of_a_home_is_not_followed(office: Office, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    place = homes.folder(office.state, "acme", "codex", office.environ)
    place.symlink_to(precious)
    with pytest.raises(AgsError):
        office.remove("acme")
    place.unlink()
    inner = homes.folder(office.state, "acme", "claude", office.environ)
    inner.mkdir(parents=True, exist_ok=True)
    os.symlink(precious, inner / "out")
    office.remove("acme")
    assert (precious / "file").read_text() == "keep" and "acme" not in office.cabinet.names()


def test_the_persons_own_is_never_removed(office: Office) -> None:
    for name in ("default", ""):
        with pytest.raises(AgsError):
            asyncio.run(office.cabinet.remove(Kept(name)))
    assert office.files("own")


def test_secrets_in_a_keyring_go_first_or_nothing_goes(office: Office) -> None:
    folder = clients.secrets(office.state, "acme")
    (folder / "locked.keyring").write_text("")
    with pytest.raises(AgsError, match="keyring"):
        office.remove("acme")
    assert office.kept("acme").homes and office.kept("acme").settings
