"""Sizes, times and paths as a person writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.config import values
from ags.config.schema import parse_mount_flag
from ags.config.values import Percent
from ags.errors import AgsError

HOME = Path("/home/ada")
UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def spelled(size: int) -> str:
    """In the largest unit that divides it."""
    unit, scale = max(
        ((unit, scale) for unit, scale in UNITS.items() if size % scale == 0), key=lambda u: u[1]
    )
    return f"{size // scale}{unit}"


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("8G", 8 << 30),
        ("1.5G", 3 << 29),
        ("512 MiB", 512 << 20),
        ("512MiB", 512 << 20),
        ("512m", 512 << 20),
        ("1P", 1 << 50),
        ("1024P", 1 << 60),
        ("7B", 7),
        ("0.001K", 1),
    ],
)
def test_a_size_is_read_as_bytes(written: str, size: int) -> None:
    assert values.parse_size(written) == size


@pytest.mark.parametrize(
    "written",
    [
        "", "8", "G", "-8G", "+8G", "0G", "0.0001B", "8GB", "8 G ", " 8G", "8  G", "8G\n", "8,5G",
        "1e3G", "1.G", ".5G", "0x8G", "٨G", "inf", "nan", "none", "50%", "1025P",
        "9999999999999999999P", "9" * 5000 + "G",
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_with_a_hint(written: str) -> None:
    with pytest.raises(AgsError) as caught:
        values.parse_size(written, "--memory")
    assert str(caught.value).startswith("cannot use this size (--memory): ")
    assert '"8G"' in caught.value.hint
    assert len(str(caught.value)) < 200


@given(st.integers(1, values.MAX_SIZE))
def test_every_size_that_can_be_meant_can_be_written(size: int) -> None:
    assert values.parse_size(spelled(size)) == size


@given(st.integers(values.MAX_SIZE + 1, 1 << 70))
def test_every_size_beyond_all_machines_is_refused(size: int) -> None:
    with pytest.raises(AgsError):
        values.parse_size(spelled(size))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400), ("0.5s", 0.5), ("1.5 h", 5400)],
)
def test_a_time_is_read_as_seconds(written: str, seconds: float) -> None:
    assert values.parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "90", "90S", "-1s", "0s", "0.0001s", "1h30m", "10 min", "367d", "none", "1s\n"]
)
def test_what_is_no_time_is_refused_with_a_hint(written: str) -> None:
    with pytest.raises(AgsError) as caught:
        values.parse_duration(written, "--timeout")
    assert str(caught.value).startswith("cannot use this time (--timeout): ")
    assert '"10m"' in caught.value.hint


@pytest.mark.parametrize(
    ("parse", "written", "meant"),
    [
        (values.parse_timeout, "none", None),
        (values.parse_timeout, "10m", 600),
        (values.parse_memory, "none", None),
        (values.parse_memory, "8G", 8 << 30),
        (values.parse_memory, "1%", Percent(1)),
        (values.parse_memory, "100%", Percent(100)),
        (values.parse_cpus, "none", None),
        (values.parse_cpus, "0.5", 0.5),
        (values.parse_cpus, "2", 2.0),
        (values.parse_pids, "none", None),
        (values.parse_pids, "100", 100),
    ],
)
def test_a_limit_on_the_command_line_is_read(
    parse: Callable[[str], object], written: str, meant: object
) -> None:
    assert parse(written) == meant


@pytest.mark.parametrize(
    ("parse", "written"),
    [
        (values.parse_memory, "0%"),
        (values.parse_memory, "101%"),
        (values.parse_memory, "7.5%"),
        (values.parse_memory, "-5%"),
        (values.parse_memory, "None"),
        (values.parse_cpus, "0"),
        (values.parse_cpus, "0.001"),
        (values.parse_cpus, "5000"),
        (values.parse_cpus, "nan"),
        (values.parse_cpus, "two"),
        (values.parse_pids, "0"),
        (values.parse_pids, "-1"),
        (values.parse_pids, "1.5"),
        (values.parse_pids, "99999999"),
        (values.parse_pids, "9" * 5000),
    ],
)
def test_a_limit_that_cannot_be_meant_names_its_flag(
    parse: Callable[[str, str], object], written: str
) -> None:
    with pytest.raises(AgsError, match=r"\(--flag\)"):
        parse(written, "--flag")


def test_a_percentage_is_of_the_whole_machine() -> None:
    assert Percent(75).of(1000) == 750


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/data", "/data"),
        ("~", "/home/ada"),
        ("~/x", "/home/ada/x"),
        ("$HOME/x", "/home/ada/x"),
        ("${HOME}/x", "/home/ada/x"),
        ("/data//x/./y/", "/data/x/y"),
        ("//etc", "/etc"),
        ("/data/a$1", "/data/a$1"),
        ("/data/$", "/data/$"),
    ],
)
def test_a_path_is_expanded_and_plain(written: str, meant: str) -> None:
    assert str(values.parse_path(written, HOME)) == meant


@pytest.mark.parametrize(
    "written",
    [
        "", "data", "./data", "~bob/x", "~x", "$HOMEx", "$OTHER/x", "${OTHER}/x", "/data/$USER",
        "/data/${USER}", "/data/../etc", "~/..", "/a\x00b", "/a\nb", "/a\x1b[31m", "/a\x85b",
    ],
)  # fmt: skip
def test_a_path_that_could_mean_another_is_refused(written: str) -> None:
    with pytest.raises(AgsError) as caught:
        values.parse_path(written, HOME, "--mount")
    assert "(--mount)" in str(caught.value)
    assert str(caught.value).isprintable()


@given(st.text(), st.text())
def test_a_path_is_absolute_and_without_steps_up_whatever_is_written(start: str, rest: str) -> None:
    for written in (start, f"/{start}", f"~/{start}", f"$HOME{rest}", f"//{start}/{rest}"):
        try:
            path = values.parse_path(written, HOME)
        except AgsError:
            continue
        assert path.is_absolute()
        assert path.parts[0] == "/"
        assert ".." not in path.parts


@pytest.mark.parametrize(
    ("written", "host", "target"),
    [
        ("/data", "/data", "/data"),
        ("~/x", "/home/ada/x", "/home/ada/x"),
        ("/data:/mnt/data", "/data", "/mnt/data"),
        ("/data:~/data", "/data", "/home/ada/data"),
        (".", "/projects/here", "/projects/here"),
        ("lib/x", "/projects/here/lib/x", "/projects/here/lib/x"),
        ("../x", "/projects/x", "/projects/x"),
        ("../../../..:/mnt", "/", "/mnt"),
    ],
)
def test_a_mount_flag_says_what_goes_where(written: str, host: str, target: str) -> None:
    for writable, mode in ((False, "ro"), (True, "rw")):
        mount = parse_mount_flag(written, writable, home=HOME, cwd=Path("/projects/here"))
        assert (mount.host, mount.target) == (Path(host), PurePosixPath(target))
        assert (mount.mode, mount.writable) == (mode, writable)


@pytest.mark.parametrize(
    "written",
    [
        "",
        ":",
        ":/x",
        "/data:",
        "/data:x",
        "/data:ro",
        "/data:/x:rw",
        "x/../../y",
        "/a/..",
        "/a:/b/..",
    ],
)
def test_a_mount_flag_that_is_unclear_is_refused(written: str) -> None:
    with pytest.raises(AgsError, match=r"\(--mount\)"):
        parse_mount_flag(written, False, home=HOME, cwd=Path("/work"), subject="--mount")


def test_a_relative_mount_flag_needs_a_directory_to_start_from() -> None:
    with pytest.raises(AgsError, match="is not absolute"):
        parse_mount_flag("lib", False, home=HOME)
    assert parse_mount_flag("lib", False, home=HOME, cwd=Path("/w")).host == Path("/w/lib")


def test_a_mode_after_a_mount_flag_is_answered_with_the_flag_that_does_it() -> None:
    with pytest.raises(AgsError) as caught:
        parse_mount_flag("/data:rw", False, home=HOME, subject="--mount")
    assert "--mount-rw" in caught.value.hint
