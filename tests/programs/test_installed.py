"""What is installed: whom it is trusted from, how long it stays, and its first use."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ags import programs
from ags.errors import AgsError
from ags.programs import Installed
from ags.programs.install import settle
from tests.programs.registry import CLAUDE
from tests.programs.shop import Shop


def spoil_mode(found: Installed) -> None:
    found.executable.chmod(0o777)


def spoil_folder(found: Installed) -> None:
    found.folder.parent.chmod(0o775)


def spoil_link(found: Installed) -> None:
    found.executable.unlink()
    found.executable.symlink_to("/bin/true")


def spoil_program(found: Installed) -> None:
    found.executable.unlink()


def spoil_facts(found: Installed) -> None:
    (found.folder / "ags.json").write_text("{}")


def spoil_owner(found: Installed) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(found.executable, 4242, 4242)


@pytest.mark.parametrize(
    "spoil", [spoil_mode, spoil_folder, spoil_link, spoil_program, spoil_facts, spoil_owner]
)
def test_what_somebody_could_have_changed_is_not_used(stocked: Shop, spoil: Any) -> None:
    spoil(stocked.current())
    with pytest.raises(AgsError, match="use the installed claude") as caught:
        stocked.current()
    assert "ags update-agents claude" in caught.value.hint


def test_what_is_damaged_is_made_anew_and_who_uses_it_keeps_it(stocked: Shop) -> None:
    found = stocked.current()
    with programs.held(found) as descriptor:
        found.executable.chmod(0o777)
        assert stocked.install().new and not stocked.current().executable.stat().st_mode & 0o022
        assert "node_modules" in os.listdir(descriptor)
    assert len(stocked.left()) == 1
    stocked.install()
    assert stocked.left() == []


def test_a_current_that_names_no_version_is_not_followed(shop: Shop, tmp_path: Path) -> None:
    place = shop.state / "agents/claude"
    place.mkdir(parents=True)
    (place / "current").symlink_to(tmp_path)
    with pytest.raises(AgsError, match="no version"):
        shop.current()


def test_an_old_version_stays_for_as_long_as_it_is_used(stocked: Shop) -> None:
    shop, old = stocked, stocked.current()
    shop.registry.publish_claude("1.1.0")
    shop.install()
    with programs.held(old):
        assert programs.remove_unused(shop.state) == ()
        assert old.executable.exists()
    assert programs.remove_unused(shop.state) == (old.folder,)
    assert not old.folder.exists() and shop.current().version == "1.1.0"
    assert shop.left() == []
    with pytest.raises(AgsError, match="removed"), programs.held(old):
        pass


def test_what_a_sandbox_wrote_is_made_harmless_or_refused(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, mode in (("run", 0o644), ("odd", 0o6777)):
        (tree / name).write_text("x")
        (tree / name).chmod(mode)
    (tree / "near").symlink_to("run")
    assert settle(tree, "run") == 2
    assert stat.S_IMODE((tree / "odd").stat().st_mode) == 0o755
    assert os.access(tree / "run", os.X_OK)
    with pytest.raises(AgsError, match="no such file"):
        settle(tree, "other")
    for leads in ("/etc/passwd", "../out"):
        (tree / "far").symlink_to(leads)
        with pytest.raises(AgsError, match="leads elsewhere"):
            settle(tree, "run")
        (tree / "far").unlink()
    os.mkfifo(tree / "pipe")
    with pytest.raises(AgsError, match="neither file nor folder"):
        settle(tree, "run")


def test_the_first_use_offers_to_install_and_does_it_only_if_wanted(shop: Shop) -> None:
    shop.registry.publish_claude("1.0.0")
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    for ask in (None, no):
        with pytest.raises(AgsError, match="not installed yet") as caught:
            asyncio.run(programs.ensure(shop.installer, "claude", ask))
        assert "`ags update-agents claude`" in caught.value.hint
    assert len(asked) == 1 and CLAUDE in asked[0] and shop.registry.log == []
    found = asyncio.run(programs.ensure(shop.installer, "claude", lambda question: True))
    assert found == asyncio.run(programs.ensure(shop.installer, "claude", None))
