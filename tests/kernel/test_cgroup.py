"""Cgroups: where, what to write and what it means, by table and on trees made of plain files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.kernel import cgroup, processes
from ags.kernel.cgroup import CgroupUnavailable, Counts, Setting
from ags.kernel.hierarchies import Hierarchy, base_v2, delegated_base, hierarchies
from ags.model import GIB, MIB, Limits

NOTHING = Limits(memory=None, cpus=None, pids=None)
ALL = frozenset({"memory", "pids", "cpu"})


# Where we are


def mounts(*lines: str) -> list[processes.MountPoint]:
    return [processes.parse_mount(f"30 20 0:30 {line}") for line in lines]


def test_on_a_version_2_machine_there_is_one_hierarchy() -> None:
    found = hierarchies(
        "0::/user.slice/a.scope\n", mounts("/ /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    )
    top = Path("/sys/fs/cgroup")
    assert found == (Hierarchy(2, frozenset(), top, top / "user.slice/a.scope"),)


def test_in_hybrid_mode_each_controller_is_where_it_is_mounted() -> None:
    found = hierarchies(
        "4:memory:/a\n3:cpu,cpuacct:/\n0::/b\n",
        mounts(
            "/ /cg/unified rw - cgroup2 cgroup2 rw",
            "/ /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
            "/ /cg/memory rw - cgroup cgroup rw,memory",
        ),
    )
    assert [(each.version, sorted(each.controllers), each.own) for each in found] == [
        (1, ["memory"], Path("/cg/memory/a")),
        (1, ["cpu", "cpuacct"], Path("/cg/cpu,cpuacct")),
        (2, [], Path("/cg/unified/b")),
    ]


def test_in_a_container_paths_count_from_the_root_of_the_mount() -> None:
    found = hierarchies(
        "0::/docker/abc/me\n", mounts("/docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw")
    )
    assert found[0].own == Path("/sys/fs/cgroup/me")


@pytest.mark.parametrize(
    ("root", "path"),
    [("/docker/abc", "/docker/other"), ("/docker/abc", "/docker/abcd"), ("/", "/../elsewhere")],
)
def test_a_cgroup_no_mount_shows_is_not_ours_to_use(root: str, path: str) -> None:
    shown = mounts(f"{root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    assert hierarchies(f"0::{path}\n", shown) == ()


def test_a_writable_mount_is_preferred() -> None:
    shown = mounts("/ /ro ro - cgroup2 cgroup2 rw", "/ /rw rw - cgroup2 cgroup2 rw")
    assert hierarchies("0::/\n", shown)[0].top == Path("/rw")


@pytest.mark.parametrize(
    ("name", "base"),
    [("mine", "/cg/mine"), ("ags-12-345", "/cg"), ("ags-run-12-345", "/cg/ags-run-12-345")],
)
def test_only_a_leaf_we_stepped_into_leads_up_again(name: str, base: str) -> None:
    place = Hierarchy(2, frozenset(), Path("/cg"), Path("/cg") / name)
    assert place.base == Path(base)


# What is written


@pytest.mark.parametrize(
    ("limits", "v1", "v2"),
    [
        (NOTHING, [], []),
        (
            replace(NOTHING, memory=GIB + 5),
            [
                f"memory.limit_in_bytes={GIB}",
                f"memory.memsw.limit_in_bytes={GIB}?",
                "memory.swappiness=0?",
            ],
            [f"memory.max={GIB}", "memory.swap.max=0?", "memory.oom.group=1"],
        ),
        (replace(NOTHING, pids=50), ["pids.max=50"], ["pids.max=50"]),
        (
            replace(NOTHING, cpus=1.5),
            ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=150000"],
            ["cpu.max=150000 100000"],
        ),
        (
            replace(NOTHING, cpus=0.001),
            ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=1000"],
            ["cpu.max=1000 100000"],
        ),
    ],
)
def test_limits_become_settings(limits: Limits, v1: list[str], v2: list[str]) -> None:
    def shown(version: int) -> list[str]:
        return [
            f"{each.file}={each.value}{'?' * each.optional}"
            for each in cgroup.settings(version, limits)
        ]

    assert shown(1) == v1
    assert shown(2) == v2
    assert cgroup.needed(limits) == {each.partition(".")[0] for each in v2}


def test_a_limit_is_believed_when_it_reads_back(tmp_path: Path) -> None:
    (tmp_path / "pids.max").write_text("max\n")
    cgroup.configure(tmp_path, Setting("pids.max", "5"))
    assert (tmp_path / "pids.max").read_text() == "5"


@pytest.mark.parametrize(
    ("behaves_like", "cause"),
    [
        ("/dev/null", "pids.max became  instead of 5"),
        ("/dev/full", "the kernel refuses pids.max = 5 (No space left on device)"),
        ("/nowhere", "the kernel refuses pids.max = 5 (No such file or directory)"),
    ],
)
def test_a_limit_that_does_not_hold_is_no_limit(
    tmp_path: Path, behaves_like: str, cause: str
) -> None:
    (tmp_path / "pids.max").symlink_to(behaves_like)
    with pytest.raises(CgroupUnavailable) as caught:
        cgroup.configure(tmp_path, Setting("pids.max", "5"))
    assert caught.value.cause == cause


def test_an_optional_setting_may_be_absent_but_not_fail(tmp_path: Path) -> None:
    setting = Setting("memory.swap.max", "0", optional=True)
    cgroup.configure(tmp_path, setting)
    (tmp_path / "memory.swap.max").symlink_to("/dev/full")
    with pytest.raises(CgroupUnavailable):
        cgroup.configure(tmp_path, setting)


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (Counts(), None),
        (Counts(memory_full=3), None),
        (
            Counts(killed=1, memory_full=3),
            "the memory limit of 64 MiB was reached (the kernel ended a process)",
        ),
        (
            Counts(killed=1),
            "memory ran out outside the run's own limit (the kernel ended a process of the run)",
        ),
        (Counts(forks_refused=2), "the limit of 50 processes and threads was reached"),
        (
            Counts(killed=1, memory_full=1, forks_refused=2),
            "the memory limit of 64 MiB was reached (the kernel ended a process)",
        ),
    ],
)
def test_what_the_kernel_did_becomes_a_sentence(counts: Counts, sentence: str | None) -> None:
    assert cgroup.verdict(counts, Limits(memory=64 * MIB, pids=50)) == sentence


def test_version_2_events_are_counted(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n")
    (tmp_path / "pids.events").write_text("max 4\n")
    assert cgroup._counts([tmp_path]) == Counts(killed=1, memory_full=2, forks_refused=4)


@pytest.mark.parametrize(("mark", "full"), [(64 * MIB, 1), (62 * MIB, 1), (32 * MIB, 0)])
def test_version_1_tells_by_its_high_mark_whether_its_own_limit_was_met(
    tmp_path: Path, mark: int, full: int
) -> None:
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    (tmp_path / "memory.limit_in_bytes").write_text(f"{64 * MIB}\n")
    (tmp_path / "memory.max_usage_in_bytes").write_text(f"{mark}\n")
    assert cgroup._counts([tmp_path]) == Counts(killed=1, memory_full=full)


# A version 2 tree made of plain files


def plain_cgroup(directory: Path, controllers: str, members: str = "") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cgroup.controllers").write_text(f"{controllers}\n")
    (directory / "cgroup.subtree_control").write_text("\n")
    (directory / "cgroup.procs").write_text(members)
    return directory


def test_at_the_top_of_all_controllers_are_passed_down_to_a_subtree_of_ours(tmp_path: Path) -> None:
    top = plain_cgroup(tmp_path, "cpuset cpu io memory pids")
    ours = plain_cgroup(tmp_path / "ags", "cpu memory pids")
    place = Hierarchy(2, frozenset(), top, top / "user.slice")
    assert base_v2([place], ALL) == ours
    for directory in (top, ours):
        written = (directory / "cgroup.subtree_control").read_text()
        assert written == "+cpu +memory +pids"


def test_a_missing_controller_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    place = Hierarchy(2, frozenset(), plain_cgroup(tmp_path, "hugetlb"), tmp_path)
    with pytest.raises(CgroupUnavailable, match="no memory and pids controller"):
        cgroup.create("x", Limits(memory=GIB), [place])
    assert not (tmp_path / "ags").exists()


def test_when_a_limit_does_not_hold_nothing_is_left_behind(tmp_path: Path) -> None:
    top = plain_cgroup(tmp_path, "memory pids")
    ours = plain_cgroup(tmp_path / "ags", "memory pids")
    with pytest.raises(CgroupUnavailable, match="refuses"):
        cgroup.create("x", Limits(memory=GIB), [Hierarchy(2, frozenset(), top, top)])
    assert [each for each in ours.iterdir() if each.is_dir()] == []


def test_a_cgroup_given_to_us_is_used_as_it_is_when_its_controllers_are_passed_on(
    tmp_path: Path,
) -> None:
    given = plain_cgroup(tmp_path / "scope", "memory pids")
    (given / "cgroup.subtree_control").write_text("memory pids\n")
    (tmp_path / "cgroup.type").write_text("domain\n")
    place = Hierarchy(2, frozenset(), tmp_path, given / "ags-1-2")
    assert base_v2([place], frozenset({"memory", "pids"})) == given


def test_a_cgroup_shared_with_strangers_is_not_taken_over(tmp_path: Path) -> None:
    given = plain_cgroup(tmp_path, "memory pids", members=f"{os.getpid()}\n1\n")
    with pytest.raises(CgroupUnavailable, match="other processes share") as caught:
        delegated_base(given, frozenset({"pids"}))
    assert "Delegate=yes" in caught.value.hint
    assert [each for each in given.iterdir() if each.is_dir()] == []


def test_without_any_cgroups_the_reason_is_plain() -> None:
    with pytest.raises(CgroupUnavailable, match="cgroup v2 is not mounted"):
        cgroup.create("x", Limits(), [])
    with pytest.raises(CgroupUnavailable, match="no limit is set that needs one"):
        cgroup.create("x", NOTHING)


@pytest.mark.parametrize("run", ["", "../up", "a/b", "-x", "a\n", "x" * 101])
def test_an_odd_name_of_a_run_never_becomes_a_path(run: str) -> None:
    with pytest.raises(AgsError, match="name the run's cgroup"):
        cgroup.create(run, Limits())
