"""Whatever a plan holds, bwrap is told exactly that: nothing more, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.backends import bubblewrap, bwrap
from ags.errors import AgsError
from ags.model import (
    Bind,
    Dev,
    Directory,
    Identity,
    Limits,
    Link,
    Mask,
    MountStep,
    Plan,
    Proc,
    ReadOnly,
    Text,
    Tmpfs,
)

NASTY = ["--bind", "--", "-", "--share-net", "--setenv", "a\nb", "ä", "\udcff", " ", "$(id)", "'"]
names = st.one_of(
    st.sampled_from(NASTY), st.text(min_size=1).filter(lambda s: "\0" not in s and "/" not in s)
)
targets = st.lists(names, min_size=1, max_size=3).map(lambda parts: PurePosixPath("/", *parts))
sources = targets.map(Path)
modes = st.integers(0, 0o7777)
sizes = st.integers(1, 1 << 40)

steps: st.SearchStrategy[MountStep] = st.one_of(
    st.builds(Bind, sources, targets, st.booleans()),
    st.builds(Tmpfs, targets, sizes, modes),
    st.builds(Directory, targets, modes),
    st.builds(Text, targets, st.binary(max_size=20), modes),
    st.builds(Link, targets, names),
    st.builds(Proc, targets),
    st.builds(Dev, targets),
    st.builds(Mask, targets, st.sampled_from(["file", "dir"])),
    st.builds(ReadOnly, targets),
)
plans = st.builds(
    Plan,
    run=st.just("r"),
    command=st.lists(names.filter(lambda n: not n.startswith("-")), min_size=1, max_size=3).map(
        tuple
    ),
    cwd=targets,
    environment=st.lists(st.tuples(names, names), max_size=4).map(tuple),
    mounts=st.lists(steps, max_size=8).map(tuple),
    identity=st.just(Identity(1000, 1000, "n", Path("/h"), 0, 0)),
    limits=st.just(Limits()),
    hostname=names,
    ptrace=st.booleans(),
)

ARITY = {
    "--uid": 1, "--gid": 1, "--hostname": 1, "--chdir": 1, "--info-fd": 1, "--seccomp": 1,
    "--cap-drop": 1, "--setenv": 2, "--bind": 2, "--ro-bind": 2, "--size": 1, "--perms": 1,
    "--tmpfs": 1, "--dir": 1, "--file": 2, "--symlink": 2, "--proc": 1, "--dev": 1,
    "--ro-bind-data": 2, "--remount-ro": 1,
}  # fmt: skip


def options(arguments: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """As bwrap reads them: an option, then as many values as it takes, whatever they look like."""
    rest = list(arguments)
    while rest:
        take = 1 + ARITY.get(rest[0], 0)
        yield tuple(rest[:take])
        del rest[:take]


def read_back(arguments: tuple[str, ...], files: tuple[bytes, ...]) -> list[MountStep]:
    """The mounts that bwrap would make of these arguments."""
    found: list[MountStep] = []
    size, perms = 0, 0

    def content(fd: str) -> bytes:
        return files[int(fd) - bubblewrap.FIRST_FILE]

    for option in options(arguments):
        match option:
            case ("--size", value):
                size = int(value)
            case ("--perms", value):
                perms = int(value, 8)
            case ("--bind" | "--ro-bind" as kind, source, target):
                found.append(Bind(Path(source), PurePosixPath(target), kind == "--bind"))
            case ("--tmpfs", target):
                found.append(Tmpfs(PurePosixPath(target), size, perms))
            case ("--dir", target):
                found.append(Directory(PurePosixPath(target), perms))
            case ("--file", fd, target):
                found.append(Text(PurePosixPath(target), content(fd), perms))
            case ("--ro-bind-data", fd, target):
                assert content(fd) == b""
                found.append(Mask(PurePosixPath(target), "file"))
            case ("--symlink", to, target):
                found.append(Link(PurePosixPath(target), to))
            case ("--proc", target):
                found.append(Proc(PurePosixPath(target)))
            case ("--dev", target):
                found.append(Dev(PurePosixPath(target)))
            case ("--remount-ro", target):
                found.append(ReadOnly(PurePosixPath(target)))
    return found


def spelled_out(mounts: tuple[MountStep, ...]) -> list[MountStep]:
    """A masked directory is a tiny tmpfs nobody can write to."""
    found: list[MountStep] = []
    for step in mounts:
        if isinstance(step, Mask) and step.kind == "dir":
            found += [Tmpfs(step.target, 4096, 0o555), ReadOnly(step.target)]
        else:
            found.append(step)
    return found


@given(plans)
def test_the_mounts_read_back_as_planned_in_order(plan: Plan) -> None:
    rendered = bubblewrap.render(plan)
    assert read_back(rendered.arguments, rendered.files) == spelled_out(plan.mounts)


@given(plans)
def test_no_value_becomes_an_option_and_no_wall_is_missing(plan: Plan) -> None:
    read = list(options(bubblewrap.render(plan).arguments))
    flags = [option[0] for option in read if len(option) == 1]
    walls = [f"--unshare-{name}" for name in bwrap.NAMESPACES]
    walls += [h for h in bwrap.HARDENING if h.startswith("--") and h not in ARITY]
    assert sorted(flags) == sorted(walls)
    assert ("--cap-drop", "ALL") in read
    assert ("--seccomp", str(bubblewrap.FILTER)) in read
    assert [o[1:] for o in read if o[0] == "--setenv"] == list(plan.environment)


@given(plans)
def test_every_file_has_a_descriptor_of_its_own(plan: Plan) -> None:
    rendered = bubblewrap.render(plan)
    named = [int(o[1]) for o in options(rendered.arguments) if o[0] in ("--file", "--ro-bind-data")]
    assert named == list(range(bubblewrap.FIRST_FILE, bubblewrap.FIRST_FILE + len(rendered.files)))


@given(plans, st.sampled_from(["environment", "command", "mounts", "hostname"]))
def test_a_nul_in_a_value_is_refused(plan: Plan, where: str) -> None:
    from dataclasses import replace

    evil = "x\0--share-net"
    changed = {
        "environment": {"environment": (("A", evil),)},
        "command": {"command": (evil,)},
        "mounts": {"mounts": (Link(PurePosixPath("/l"), evil),)},
        "hostname": {"hostname": evil},
    }[where]
    with pytest.raises(AgsError, match="NUL"):
        bubblewrap.render(replace(plan, **changed))  # type: ignore[arg-type]


def test_a_command_that_looks_like_an_option_is_refused() -> None:
    plan = Plan(
        "r",
        ("-c", "id"),
        PurePosixPath("/"),
        (),
        (),
        Identity(1, 1, "n", Path("/h"), 1, 1),
        Limits(),
    )
    with pytest.raises(AgsError, match="dash"):
        bubblewrap.render(plan)
