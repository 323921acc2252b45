"""Where the settings file is, how it comes to be, and whose word is taken."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.config.load import EXAMPLE, MAX_BYTES, create, load, read, settings_folder
from ags.config.schema import Settings
from ags.errors import ConfigError

STRANGER = 54321


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def file(home: Path) -> Path:
    """The default settings file, in a folder that is there already."""
    folder = home / ".config" / "ags"
    folder.mkdir(parents=True, mode=0o700)
    return folder / "config.toml"


def written(file: Path, text: str = '[sandbox]\nhostname = "mine"\n', mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_settings_folder_is_where_the_xdg_specification_has_it() -> None:
    home = Path("/home/ada")
    assert settings_folder({"HOME": "/home/bob"}, home) == home / ".config/ags"
    assert settings_folder({"HOME": "/home/bob"}) == Path("/home/bob/.config/ags")
    assert settings_folder({"XDG_CONFIG_HOME": "/etc/x"}, home) == Path("/etc/x/ags")
    assert settings_folder({"XDG_CONFIG_HOME": ""}, home) == home / ".config/ags"
    assert settings_folder({"XDG_CONFIG_HOME": "relative"}, home) == home / ".config/ags"


def test_the_first_use_leaves_the_example_for_the_person_alone(home: Path) -> None:
    with umask(0):
        found = load(None, {}, home)
    file = home / ".config/ags/config.toml"
    assert found == Settings(source=file)
    assert file.read_bytes() == EXAMPLE.read_bytes()
    assert (mode(file), mode(file.parent), mode(home / ".config")) == (0o600, 0o700, 0o700)
    assert os.listdir(file.parent) == ["config.toml"]


def test_what_is_there_is_read_and_left_as_it_is(file: Path, home: Path) -> None:
    written(file)
    for _ in range(2):
        assert load(None, {}, home).sandbox.hostname == "mine"
    create(file)
    assert load(None, {}, home).sandbox.hostname == "mine"
    assert os.listdir(file.parent) == ["config.toml"]


def test_a_link_to_nowhere_is_not_written_through(file: Path, home: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    file.symlink_to(victim)
    create(file)
    assert not victim.exists()
    with pytest.raises(ConfigError, match="no such file"):
        load(None, {}, home)
    assert not victim.exists()
    assert os.listdir(file.parent) == ["config.toml"]

    file.unlink()
    create(file)
    assert file.is_file() and not file.is_symlink()


def test_a_link_to_a_file_is_not_written_through_but_read(
    file: Path, home: Path, tmp_path: Path
) -> None:
    own = written(tmp_path / "dotfiles.toml")
    before = own.read_bytes()
    file.symlink_to(own)
    create(file)
    assert own.read_bytes() == before
    assert load(None, {}, home).sandbox.hostname == "mine"


def test_a_folder_that_is_a_link_to_nowhere_is_an_error(home: Path, tmp_path: Path) -> None:
    (home / ".config").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError):
        load(None, {}, home)
    assert not (tmp_path / "gone").exists()


def test_processes_that_race_for_the_first_use_all_read_the_whole_file(home: Path) -> None:
    # Each waits for the gate, then loads; a reader of half a file would see other settings.
    script = (
        "import sys; from pathlib import Path; from ags.config.load import load, EXAMPLE\n"
        "home = Path(sys.argv[1]); print('ready', flush=True); sys.stdin.readline()\n"
        "found = load(None, {}, home)\n"
        "assert found.source.read_bytes() == EXAMPLE.read_bytes()\n"
        "print(found.source.stat().st_ino)\n"
    )
    for attempt in range(5):
        place = home / str(attempt)
        place.mkdir()
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(place)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={"PYTHONPATH": os.pathsep.join(sys.path)},
            )
            for _ in range(2)
        ]
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        inodes = {racer.communicate("go\n")[0] for racer in racers}
        assert [racer.returncode for racer in racers] == [0, 0]
        assert len(inodes) == 1, "the second took the first one's place"
        assert os.listdir(place / ".config/ags") == ["config.toml"]


def test_a_folder_that_comes_up_while_ours_is_made_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_make = Path.mkdir

    def be_overtaken(folder: Path, mode: int) -> None:
        really_make(folder, mode)
        really_make(folder, mode)

    monkeypatch.setattr(Path, "mkdir", be_overtaken)
    assert load(None, {}, home).source == home / ".config/ags/config.toml"


def test_a_file_that_comes_up_while_ours_is_written_wins(
    file: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_sync = os.fsync

    def sync_and_be_overtaken(descriptor: int) -> None:
        really_sync(descriptor)
        written(file)

    monkeypatch.setattr(os, "fsync", sync_and_be_overtaken)
    assert load(None, {}, home).sandbox.hostname == "mine"
    assert os.listdir(file.parent) == ["config.toml"]


def test_a_disk_that_fails_leaves_nothing_behind(
    file: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match="no space left on device"):
        load(None, {}, home)
    assert os.listdir(file.parent) == []


def test_another_file_can_be_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = written(home / "other.toml")
    assert load(other, {}, home).source == other
    monkeypatch.chdir(home)
    assert load(Path("other.toml"), {}, home).source == other
    assert not (home / ".config").exists()


def test_a_file_that_was_named_must_be_there(home: Path) -> None:
    missing = home / "missing.toml"
    with pytest.raises(ConfigError, match="no such file or directory") as caught:
        load(missing, {}, home)
    assert caught.value.file == str(missing)
    assert "--config" in caught.value.hint
    assert not missing.exists()


def test_only_a_regular_file_is_read(home: Path) -> None:
    pipe, folder, plug = home / "pipe", home / "folder", home / "socket"
    os.mkfifo(pipe)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(plug))
        for odd in (folder, pipe, Path("/dev/null"), Path("/dev/zero")):
            with pytest.raises(ConfigError, match="is not a regular file"):
                load(odd, {}, home)
        with pytest.raises(ConfigError):
            load(plug, {}, home)


def test_a_file_has_an_end(home: Path) -> None:
    fits = written(home / "fits.toml", "#" * MAX_BYTES)
    assert load(fits, {}, home) == Settings(source=fits)
    with pytest.raises(ConfigError, match="more than 1 MiB"):
        load(written(home / "huge.toml", "#" * (MAX_BYTES + 1)), {}, home)


def test_bytes_that_are_no_text_are_reported_with_their_line(file: Path, home: Path) -> None:
    written(file)
    file.write_bytes(b"# \xc3\xa9\n\n# caf\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load(None, {}, home)
    assert caught.value.line == 3


@pytest.mark.parametrize("open_to", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(file: Path, home: Path, open_to: int) -> None:
    written(file, mode=open_to)
    with pytest.raises(ConfigError, match="other users can write to it") as caught:
        load(None, {}, home)
    subprocess.run(caught.value.hint, shell=True, check=True)
    assert load(None, {}, home).sandbox.hostname == "mine"


@pytest.mark.parametrize("open_to", [0o400, 0o600, 0o644, 0o755])
def test_a_file_that_others_can_only_read_is_fine(file: Path, home: Path, open_to: int) -> None:
    written(file, mode=open_to)
    assert load(None, {}, home).sandbox.hostname == "mine"


def test_a_folder_in_which_others_can_swap_the_file_is_refused(file: Path, home: Path) -> None:
    file.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write to it"):
        load(None, {}, home)
    assert not file.exists()
    written(file)
    with pytest.raises(ConfigError, match="other users can write to it") as caught:
        load(None, {}, home)
    assert caught.value.file == str(file.parent)
    file.parent.chmod(0o1777)  # with this bit, as in /tmp, only the owner can
    assert load(None, {}, home).sandbox.hostname == "mine"


def test_a_file_or_folder_of_another_user_is_refused(
    file: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(file)
    assert load(None, {}, home).sandbox.hostname == "mine"
    if os.geteuid() == 0:
        for foreign in (file, file.parent):
            os.chown(foreign, STRANGER, STRANGER)
            with pytest.raises(ConfigError, match=f"another user .uid {STRANGER}.") as caught:
                load(None, {}, home)
            subprocess.run(caught.value.hint, shell=True, check=True)
            assert load(None, {}, home).sandbox.hostname == "mine"
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
        with pytest.raises(ConfigError, match="belongs to another user"):
            load(None, {}, home)


def test_what_belongs_to_root_is_good_enough_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert "root" in read(Path("/etc/passwd"))


def test_loading_brings_along_nothing_slow() -> None:
    script = (
        "import sys, ags.config.load\n"
        "print(*sorted({'tomllib', 'difflib', 'pydantic', 'asyncio', 'click', 'rich'} "
        "& set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert answer.stdout == "\n"
