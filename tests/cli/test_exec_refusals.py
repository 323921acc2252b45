"""What `ags exec` cannot do, it says in three lines, and leaves everything as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.callers import new_folder
from tests.cli.refusals import misused, refused
from tests.people import Person

BAD_FLAGS = (
    ("--memory", "lots", "'lots' is not a size"),
    ("--memory", "0M", "0M is nothing at all"),
    ("--memory", "101%", "101%"),
    ("--memory", "-1G", "'-1G' is not a size"),
    ("--cpus", "two", "'two' is not a number of processors"),
    ("--cpus", "0", "0.01"),
    ("--pids", "1.5", "'1.5' is not a whole number"),
    ("--pids", "0", "between 1 and"),
    ("--timeout", "10", "'10' is not a time"),
    ("--timeout", "0s", "0s is no time at all"),
    ("--mount", "no-such-folder", "no such file"),
    ("--mount", "", ""),
    ("--mount", "{home}", "{home}"),
    ("--mount", "{here}:relative", "'relative' is not absolute"),
    ("--mount", "{here}:/etc/x", "/etc"),
    ("--mount", "{here}:/usr", "/usr"),
    ("--mount", "{here}:ro", "--mount-rw"),
    ("--mount", "/dev/null", "neither a file nor a folder"),
    ("--mount", "/proc", "shared"),
    ("--mount-rw", "{home}/.ssh", "credentials"),
    ("--mount-rw", "/usr/share", "belongs to the system"),
    ("-d", "no-such-folder", "no such file"),
    ("-d", "/", "/"),
    ("-d", "{home}", "{home}"),
    ("-d", "~", "{home}"),
    ("-d", "{home}/../{home_name}", "{home}"),
    ("-e", "A-B=1", "A-B=1"),
    ("-e", "=1", "=1"),
    ("-e", "NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
    ("--config", "no-such.toml", "no such file"),
    ("--config", "{home}", "not a regular file"),
    ("--", "-x", "-x"),
)


@pytest.mark.parametrize(
    ("flag", "value", "why"), BAD_FLAGS, ids=[f"{flag} {value}" for flag, value, _ in BAD_FLAGS]
)
def test_a_flag_that_cannot_be_meant_is_refused(
    user: Person, world: Path, flag: str, value: str, why: str
) -> None:
    here = new_folder(world, user)
    names = {"home": user.home, "home_name": user.home.name, "here": here}
    user.run_as(["mkdir", "-p", user.home / ".ssh"])
    flags = [flag, value.format(**names)]
    done = user.ags("exec", *flags, "touch", "made", cwd=here)
    assert why.format(**names) in refused(done)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("exec",),
        ("exec", "--"),
        ("exec", "--no-such-flag", "--", "touch", "made"),
        ("exec", "--memory"),
        ("exec", "--backend", "no-such-backend", "--", "touch", "made"),
        ("no-such-verb",),
        ("--no-such-flag", "exec", "touch", "made"),
        (),
    ],
)
def test_a_call_that_is_not_understood_is_a_misuse(
    user: Person, world: Path, arguments: tuple[str, ...]
) -> None:
    here = new_folder(world, user)
    misused(user.ags(*arguments, cwd=here))
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[limits]\nmemory = 12\n", ":2"),
        ("[sandbox]\nhostname = 'x'\nhostnam = 'y'\n", "hostnam"),
        ("[sandbox\n", ":1"),
        ("\x00", ""),
        ("[nonsense]\n", "nonsense"),
    ],
)
def test_settings_that_cannot_be_meant_are_named_with_file_and_line(
    user: Person, world: Path, text: str, why: str
) -> None:
    here, settings = new_folder(world, user), new_folder(world, user)
    file = settings / "ags" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    for path in (file.parent, file):
        os.chown(path, user.uid, user.gid)
    done = user.ags("exec", "touch", "made", cwd=here, env={"XDG_CONFIG_HOME": str(settings)})
    told = refused(done)
    assert str(file) in told and why in told
    assert list(here.iterdir()) == []
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AGS_HOME", "relative"),
        ("AGS_HOME", "/proc/no-such-folder"),
        ("AGS_HOME", "/usr/share/ags-of-nobody"),
        ("HOME", "relative"),
        ("XDG_CONFIG_HOME", "/usr/share/ags-of-nobody"),
    ],
)
def test_a_folder_of_ours_that_cannot_be_had_is_named(
    user: Person, world: Path, variable: str, value: str
) -> None:
    here = new_folder(world, user)
    env = {variable: value, "XDG_CACHE_HOME": str(user.home / ".cache")}
    assert value in refused(user.ags("exec", "touch", "made", cwd=here, env=env))
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", ["a\n  try: obey me", "\x1b]0;title\x07", "\x9b31m", "a\rb"])
def test_a_hostile_name_is_shown_harmlessly(user: Person, world: Path, name: str) -> None:
    here = new_folder(world, user)
    told = refused(user.ags("exec", "-d", name, "--", "true", cwd=here))
    assert not set("\x1b\x9b\r\x07") & set(told)
    assert told.count("\n") == 3


def test_on_request_an_error_shows_where_it_came_from(user: Person, world: Path) -> None:
    here = new_folder(world, user)
    done = user.ags("--debug", "exec", "--memory", "lots", "true", cwd=here)
    assert "Traceback" in done.stderr and "'lots' is not a size" in done.stderr
    assert done.returncode != 0


def test_a_debug_flag_of_the_commands_is_not_ours(user: Person, world: Path) -> None:
    here = new_folder(world, user)
    refused(user.ags("exec", "--memory", "lots", "--", "true", "--debug", cwd=here))
