"""Facts of laid-out machines, and of the real kernel under settings made for the test."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ags.backends import bwrap
from ags.kernel import probe
from bootstrap.packages import find_program

SRC = str(Path(probe.__file__).parents[2])


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def a_bwrap() -> str:
    return asyncio.run(bwrap.choose(os.geteuid()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git version 2.39.5", (2, 39, 5)),
        ("6.8.0-45-generic", (6, 8, 0)),
        ("4.18.0-553.el8_10.x86_64", (4, 18, 0)),
        ("bubblewrap 0.11.0", (0, 11, 0)),
        ("no number", None),
        ("7", None),
        ("", None),
    ],
)
def test_a_version_is_the_first_dotted_number(text: str, expected: tuple[int, ...] | None) -> None:
    assert probe.version(text) == expected


def test_a_machine_is_read_from_its_tree(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
            "proc/meminfo": "MemTotal:       16384000 kB\nMemFree:  1 kB\n",
            "proc/self/mountinfo": "22 27 0:21 / /proc rw - proc proc rw\n",
            "etc/os-release": 'NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n',
        },
    )
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    uname = os.uname_result(("Linux", "host", "ignored", "ignored", "aarch64"))
    assert probe.machine(tmp_path, lambda: uname) == probe.Machine(
        kernel="6.8.0-45-generic",
        architecture="aarch64",
        memory=16384000 * 1024,
        container="",
        families=("linuxmint", "ubuntu", "debian"),
        systemd=True,
        proc_masks=(),
    )


def test_an_empty_tree_is_a_machine_of_which_nothing_is_known(tmp_path: Path) -> None:
    found = probe.machine(tmp_path)
    assert (found.kernel, found.memory, found.container) == ("", None, "")
    assert (found.families, found.proc_masks, found.systemd) == ((), (), False)
    assert probe.namespace_switches(tmp_path) == probe.NamespaceSwitches(None, None, None)
    assert probe.seccomp(tmp_path) is None
    assert probe.apparmor_profiles(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"run/.containerenv": ""}, "podman"),
        ({".dockerenv": ""}, "docker"),
        ({"proc/1/cgroup": "0::/kubepods/burstable/pod1/abc\n"}, "kubepods"),
        ({"proc/1/cgroup": "4:memory:/docker/0123\n"}, "docker"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, ""),
        ({"run/.containerenv": "", ".dockerenv": ""}, "podman"),
    ],
)
def test_a_container_is_recognised(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    assert probe.container(lay_out(tmp_path, files)) == expected


def test_what_hides_parts_of_proc_is_told_but_not_the_automount_that_hides_nothing(
    tmp_path: Path,
) -> None:
    lines = [
        "22 27 0:21 / /proc rw - proc proc rw",
        "40 22 0:31 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw",
        "41 22 0:21 /sys /proc/sys ro - proc proc rw",
        "42 22 0:6 /null /proc/kcore rw - tmpfs tmpfs rw",
        "43 27 0:6 / /process rw - tmpfs tmpfs rw",
    ]
    lay_out(tmp_path, {"proc/self/mountinfo": "\n".join(lines)})
    assert probe.proc_masks(tmp_path) == ("/proc/sys", "/proc/kcore")


def test_switches_are_read_and_absent_ones_are_none(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "proc/sys/user/max_user_namespaces": "0\n",
            "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
        },
    )
    assert probe.namespace_switches(tmp_path) == probe.NamespaceSwitches(
        maximum=0, unprivileged=None, apparmor_restricts=1
    )


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/sys/kernel/seccomp/actions_avail": "kill_process trap errno allow\n"}, True),
        ({"proc/sys/kernel/seccomp/actions_avail": "trap allow\n"}, False),
        ({"proc/self/status": "Name:\tx\nSeccomp:\t0\n"}, True),
        ({"proc/self/status": "Name:\tx\nThreads:\t1\n"}, False),
    ],
)
def test_seccomp_is_told_by_its_actions_or_by_the_status_of_a_process(
    tmp_path: Path, files: dict[str, str], expected: bool
) -> None:
    assert probe.seccomp(lay_out(tmp_path, files)) is expected


def test_security_modules_are_read(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "sys/fs/selinux/enforce": "1",
            "sys/module/apparmor/parameters/enabled": "Y\n",
            "sys/kernel/security/apparmor/profiles": "bwrap (unconfined)\na (b) c (enforce)\n",
        },
    )
    found = probe.security(tmp_path)
    assert (found.selinux, found.apparmor) == ("enforcing", True)
    assert found.apparmor_profiles == ("bwrap", "a (b) c")


def test_permissive_and_absent_modules_differ(tmp_path: Path) -> None:
    assert probe.security(tmp_path).selinux == ""
    assert not probe.security(tmp_path).apparmor
    lay_out(tmp_path, {"sys/fs/selinux/enforce": "0"})
    assert probe.security(tmp_path).selinux == "permissive"


def test_the_landlock_version_is_what_the_kernel_answers() -> None:
    answer = probe.landlock()
    kernel = probe.version(probe.machine().kernel)
    assert answer is None or 0 <= answer < 100
    if kernel and kernel < (5, 13):
        assert answer == 0


def test_room_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    # Not twice the same disk: others write to it meanwhile.
    assert probe.free_room(Path("/proc/not/yet")) == 0
    assert (probe.free_room(tmp_path / "not" / "yet") or 0) > 0


def test_a_folder_is_told_with_mode_and_owner(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    tmp_path.chmod(0o750)
    assert probe.folder(tmp_path / "link") == probe.Folder(
        tmp_path / "link", 0o750, os.geteuid(), trouble=""
    )
    assert probe.folder(tmp_path / "absent") == probe.Folder(tmp_path / "absent")
    assert probe.folder(tmp_path / "file").trouble == "it is not a folder"
    assert probe.folder(tmp_path / "file" / "below").trouble == "Not a directory"


def test_a_folder_that_is_not_ours_alone_is_trouble(tmp_path: Path) -> None:
    home, state, shared = tmp_path / "home", tmp_path / "home/.ags", tmp_path / "shared"
    for place in (home, state, shared):
        place.mkdir(mode=0o700)
    shared.chmod(0o1777)
    (tmp_path / "link").symlink_to(home)
    assert probe.folder_apart(state, home).mode == 0o700
    assert probe.folder_apart(shared, home).trouble == "all users share it"
    for place in (home, tmp_path, tmp_path / "link", Path("/")):
        assert probe.folder_apart(place, home).trouble == "it contains your home"


def test_a_program_is_never_taken_from_a_relative_folder_of_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho git version 9.9.9\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert probe.find_program("git", f".::{tmp_path}") == str(program)
    assert probe.find_program("git", ".:") is None
    program.chmod(0o644)
    assert probe.find_program("git", str(tmp_path)) is None


def test_a_tool_is_asked_for_its_version(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho $# $1\necho second line\n")
    program.chmod(0o755)
    found = asyncio.run(probe.tool("git", str(tmp_path), "--version"))
    assert found == probe.Tool(str(program), "1 --version")
    assert asyncio.run(probe.tool("gone", str(tmp_path), "--version")) is None


def test_a_tool_that_cannot_start_is_there_without_a_version(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert asyncio.run(probe.tool("git", str(tmp_path), "-V")) == probe.Tool(str(program), "")


def test_a_tool_sees_nothing_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "do-not-tell")
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho version ${CANARY:-unset}\n")
    program.chmod(0o755)
    found = asyncio.run(probe.tool("git", str(tmp_path)))
    assert found is not None and found.version == "version unset"


def status(**sets: int) -> str:
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    return "\n".join(f"{name}:\t{sets.get(name, 0):016x}" for name in names)


@pytest.mark.parametrize("name", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
def test_a_capability_in_any_set_counts(name: str) -> None:
    assert probe.capabilities(status(**{name: 1 << 21})) == 1 << 21
    assert probe.capabilities(status()) == 0


def test_a_status_without_all_sets_tells_nothing() -> None:
    assert probe.capabilities("CapEff:\t0000000000000000\n") is None
    assert probe.capabilities("") is None


def test_trials_succeed_on_the_reference_machine_and_leave_no_capability() -> None:
    assert asyncio.run(probe.trials(a_bwrap())) == probe.Trials(
        namespace=probe.Trial(True), proc=probe.Trial(True), capabilities=0
    )


def test_trials_with_no_program_tell_that_it_is_not_there(tmp_path: Path) -> None:
    found = asyncio.run(probe.trials(str(tmp_path / "bwrap")))
    assert not found.namespace.ok and not found.proc.ok
    assert found.namespace.cause == "No such file or directory"
    assert found.capabilities is None


TRY = (
    "import asyncio, sys\n"
    "from ags.kernel import probe\n"
    "t = asyncio.run(probe.trials(sys.argv[1]))\n"
    "print(t.namespace.ok, t.proc.ok, t.capabilities, t.namespace.cause, t.proc.cause, sep='|')\n"
)


def try_behind(setting: str) -> list[str]:
    """Run the trials in namespaces of their own, where `setting` concerns nobody else."""
    unshare = find_program("unshare")
    assert unshare, "util-linux is needed"
    inner = f'{setting} && exec "$@"'
    apart = ("--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
    finished = subprocess.run(
        (unshare, *apart, "sh", "-ec", inner, "sh", sys.executable, "-c", TRY, a_bwrap()),
        env={**os.environ, "PYTHONPATH": os.pathsep.join((SRC, *filter(None, sys.path)))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return finished.stdout.strip().split("|")


def test_trials_fail_where_the_kernel_allows_no_namespace() -> None:
    namespace, mounted, capabilities, cause, _ = try_behind(
        "echo 0 > /proc/sys/user/max_user_namespaces"
    )
    assert (namespace, mounted, capabilities) == ("False", "False", "None")
    assert "max_*_namespaces exceeded" in cause


def test_trials_tell_a_masked_proc_from_a_refused_namespace() -> None:
    namespace, mounted, capabilities, _, cause = try_behind("mount --bind /dev/null /proc/meminfo")
    assert (namespace, mounted, capabilities) == ("True", "False", "None")
    assert "mount proc" in cause


def test_trials_succeed_behind_the_same_namespaces_without_a_setting() -> None:
    assert try_behind("true")[:3] == ["True", "True", "0"]
