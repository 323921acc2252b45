"""What a repository brings for agents is used only after the person approved just that."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ags.config import trust
from ags.config.trust import Supplied
from ags.errors import AgsError

WANTED = (".claude", ".mcp.json")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / ".claude/skills").mkdir(parents=True)
    (made / ".claude/settings.json").write_text("{}")
    (made / ".claude/skills/a.md").write_text("a skill")
    (made / "app/.claude").mkdir(parents=True)
    (made / "app/.claude/settings.json").write_text('{"hooks": {}}')
    (made / "src").mkdir()
    return made


def found(repository: Path, folder: str = ".") -> Supplied:
    return trust.supplied(repository, WANTED, folder)


def test_all_that_is_there_is_named_from_the_root_to_where_it_starts(repository: Path) -> None:
    own = (".claude/settings.json", ".claude/skills/a.md")
    assert found(repository).files == own
    assert found(repository, "src").files == own
    assert found(repository, "app").files == (*own, "app/.claude/settings.json")


def test_a_repository_that_brings_nothing_needs_no_approval(tmp_path: Path) -> None:
    assert trust.approved(tmp_path, "", tmp_path, trust.supplied(tmp_path, WANTED))


def test_what_was_approved_holds_for_that_client_and_project_alone(
    repository: Path, tmp_path: Path
) -> None:
    home = tmp_path / "ags"
    home.mkdir()
    here = found(repository)
    assert not trust.approved(home, "acme", repository, here)
    trust.approve(home, "acme", repository, here)
    assert trust.approved(home, "acme", repository, here)
    assert not trust.approved(home, "", repository, here)
    assert not trust.approved(home, "other", repository, here)
    assert not trust.approved(home, "acme", tmp_path / "elsewhere", here)
    assert trust.forget(home, "acme", repository)
    assert not trust.approved(home, "acme", repository, here)
    assert not trust.forget(home, "acme", repository)


def relinked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda top: (top / ".claude/settings.json").write_text("{ }"),
    "a new file": lambda top: (top / ".claude/new").write_text(""),
    "a new place": lambda top: (top / ".mcp.json").write_text("{}"),
    "another name": lambda top: os.rename(top / ".claude/skills/a.md", top / ".claude/skills/b.md"),
    "a link instead": lambda top: relinked(top / ".claude/settings.json"),
    "a linked folder": lambda top: (top / ".claude/more").symlink_to("/etc"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_ends_the_approval(
    repository: Path, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    trust.approve(tmp_path, "", repository, found(repository))
    change(repository)
    assert not trust.approved(tmp_path, "", repository, found(repository))


def test_a_link_that_leads_out_is_judged_by_what_it_says_and_not_followed(
    repository: Path,
) -> None:
    (repository / ".mcp.json").symlink_to("/etc/shadow")
    files = found(repository).files
    assert ".mcp.json" in files and not any("shadow" in file for file in files)


def test_what_a_link_leads_to_in_the_repository_is_judged_with_it(
    repository: Path, tmp_path: Path
) -> None:
    (repository / "conf/inner").mkdir(parents=True)
    (repository / "conf/inner/hook").write_text("one")
    (repository / "conf/again").symlink_to("inner")
    (repository / ".claude/more").symlink_to("../conf")
    files = found(repository).files
    assert {".claude/more", "conf/again", "conf/inner/hook"} <= set(files)
    assert len(set(files)) == len(files)
    trust.approve(tmp_path, "", repository, found(repository))
    assert trust.approved(tmp_path, "", repository, found(repository))
    (repository / "conf/inner/hook").write_text("two")
    assert not trust.approved(tmp_path, "", repository, found(repository))


@pytest.mark.parametrize("to", ["..", "../..", "/", "../.git/hooks"])
def test_a_link_to_the_repository_itself_is_an_error(repository: Path, to: str) -> None:
    (repository / ".git/hooks").mkdir(parents=True)
    (repository / ".claude/more").symlink_to(to)
    with pytest.raises(AgsError, match="leads to the repository itself"):
        found(repository)


def test_links_in_a_circle_end(repository: Path) -> None:
    (repository / ".claude/self").symlink_to(".")
    (repository / ".claude/one").symlink_to("two")
    (repository / ".claude/two").symlink_to("one")
    assert {".claude/one", ".claude/two", ".claude/self"} <= set(found(repository).files)


def test_a_folder_without_a_bottom_is_an_error(repository: Path) -> None:
    os.makedirs(repository / ".claude" / "/".join("d" * 900))
    with pytest.raises(AgsError, match="too much"):
        found(repository)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}'])
def test_a_damaged_record_of_approvals_is_an_error_and_no_approval(
    repository: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / trust.FILE).write_text(text)
    with pytest.raises(AgsError, match="see what you approved"):
        trust.approved(tmp_path, "", repository, found(repository))


def test_a_checkout_without_some_of_the_approved_files_needs_no_further_approval(
    repository: Path, tmp_path: Path
) -> None:
    trust.approve(tmp_path, "", repository, found(repository, "app"))
    (repository / ".claude/skills/a.md").unlink()
    assert trust.approved(tmp_path, "", repository, found(repository))
