"""Findings for many machines, repairs in laid-out trees, and the verb for real."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ags import doctor
from ags.backends.base import Probe
from ags.cli import doctor as verb
from ags.errors import AgsError
from ags.kernel import cgroup, probe
from ags.model import GIB

SRC = str(Path(doctor.__file__).parents[1])
BWRAP = "/usr/bin/bwrap"

WORKING = probe.Trials(probe.Trial(True), probe.Trial(True), capabilities=0)
UID_MAP = "setting up uid map: Permission denied"
REFUSED = probe.Trials(probe.Trial(False, UID_MAP), probe.Trial(False, UID_MAP), capabilities=None)
BROKEN = Probe(False, BWRAP, cause=UID_MAP, hint="`ags doctor`")


def folder(mode: int | None = None, owner: int | None = None, trouble: str = "") -> probe.Folder:
    return probe.Folder(Path("/f"), mode, owner, trouble)


def git(version: str) -> probe.Tool:
    return probe.Tool("/usr/bin/git", f"git version {version}")


SETSID = probe.Tool("/usr/bin/setsid", "setsid from util-linux 2.38.1")
# A machine on which everything is well; each case changes what it is about.
GOOD = doctor.Facts(
    uid=1000,
    machine=probe.Machine("6.1.0-28-amd64", "x86_64", 16 * GIB, "", ("debian",), True, ()),
    room=100 * GIB,
    switches=probe.NamespaceSwitches(maximum=60000, unprivileged=1),
    security=probe.Security(True, 2, "", apparmor=False, apparmor_profiles=None),
    backend=Probe(True, BWRAP, "0.11.0"),
    trials=WORKING,
    limits=cgroup.Offer("cgroup v2"),
    tools=probe.Tools(git("2.39.5"), SETSID, shell=True, tmux=None, node=None),
    settings=doctor.Settings(folder(0o700, 1000), folder(0o755, 1000), Path("/f/config.toml")),
)


def on(**changes: Any) -> doctor.Facts:
    """GOOD with a change; `machine__kernel="4.18"` reaches one level down."""
    facts = GOOD
    for name, value in changes.items():
        outer, _, inner = name.partition("__")
        if inner:
            value = replace(getattr(facts, outer), **{inner: value})
        facts = replace(facts, **{outer: value})
    return facts


def test_a_good_machine_has_nothing_to_repair() -> None:
    found = doctor.findings(GOOD)
    assert {(finding.status, finding.repair) for finding in found} == {("ok", "")}
    assert doctor.healthy(found)
    assert not doctor.healthy(doctor.findings(REFUSING))


REFUSING = on(backend=BROKEN, trials=REFUSED)
APPARMOR_ON = on(security__apparmor=True, switches=probe.NamespaceSwitches(63000, 1, 1))
LOADED = replace(APPARMOR_ON.security, apparmor_profiles=("ags-bwrap",))
EXCEPTED = replace(APPARMOR_ON, uid=0, security=LOADED)
UBUNTU = replace(APPARMOR_ON, backend=BROKEN, trials=REFUSED)
DEBIAN = replace(REFUSING, switches=probe.NamespaceSwitches(maximum=60000, unprivileged=0))
RHEL = replace(REFUSING, switches=probe.NamespaceSwitches(maximum=0))
DOCKER = on(
    machine__container="docker",
    machine__proc_masks=("/proc/kcore", "/proc/sys"),
    backend=Probe(False, BWRAP, cause="Can't mount proc: Operation not permitted"),
    trials=probe.Trials(probe.Trial(True), probe.Trial(False, "Can't mount proc"), None),
)
NO_BWRAP = on(backend=Probe(False, cause="neither the system nor the wheel"), trials=None)
NOT_DELEGATED = cgroup.Offer(
    "rlimits and the watch", "the cgroup /x is not delegated to us", "start it by `systemd-run`"
)
NO_SYSTEMD = on(limits=NOT_DELEGATED, machine__systemd=False)
BUSYBOX = probe.Tool("/usr/bin/setsid", "BusyBox v1.36")
V1 = cgroup.Offer("cgroup v1", "on version 1", "boot with x")
BAD_LINE = replace(GOOD.settings, error="c.toml:3: limits.memry: is unknown", broken=True)
BAD_MODE = replace(GOOD.settings, error="c.toml: others can write", hint="chmod go-w c.toml")
PODMAN = replace(DOCKER, machine=replace(DOCKER.machine, container="podman"))
LXC = replace(DOCKER, machine=replace(DOCKER.machine, container="lxc", proc_masks=()))
RESTRICTED = "kernel.apparmor_restrict_unprivileged_userns=1"

CASES = [
    # name of the finding, machine, status, part of the text, part of the repair
    ("user namespaces", UBUNTU, "fail", RESTRICTED, "--fix userns` writes an AppArmor profile"),
    ("user namespaces", DEBIAN, "fail", "unprivileged_userns_clone=0", "userns` sets kernel.unpr"),
    ("user namespaces", RHEL, "fail", "max_user_namespaces=0", "max_user_namespaces=15000"),
    ("user namespaces", replace(DEBIAN, uid=0, trials=WORKING), "warn", "root can", "--fix userns"),
    ("user namespaces", APPARMOR_ON, "ok", f"excepted from {RESTRICTED}", ""),
    ("user namespaces", REFUSING, "fail", "uid map: Permission denied", "dmesg"),
    ("user namespaces", replace(DOCKER, trials=REFUSED), "fail", "uid map", "seccomp=unconfined"),
    ("user namespaces", replace(APPARMOR_ON, uid=0), "warn", "root can", "--fix userns"),
    ("user namespaces", EXCEPTED, "ok", "can be made", ""),
    ("user namespaces", NO_BWRAP, "unknown", "no bwrap", ""),
    ("user namespaces", replace(NO_BWRAP, switches=RHEL.switches), "fail", "=0", "--fix userns"),
    ("start", UBUNTU, "fail", "uid map: Permission denied", "the line above"),
    ("start", on(backend=BROKEN), "fail", "uid map", "dmesg"),
    ("AppArmor profiles", UBUNTU, "unknown", "only root may read", "sudo cat /sys/kernel"),
    ("bwrap", NO_BWRAP, "fail", "neither the system", "apt-get install bubblewrap"),
    ("/proc", UBUNTU, "unknown", "without a user namespace", ""),
    ("/proc", DOCKER, "fail", "(/proc/kcore, /proc/sys)", "systempaths=unconfined"),
    ("/proc", PODMAN, "fail", "refused", "unmask=ALL"),
    ("/proc", LXC, "fail", "Can't mount proc", "start this container without"),
    ("container", DOCKER, "ok", "inside docker", ""),
    ("capabilities", UBUNTU, "unknown", "no process inside", ""),
    ("capabilities", on(trials__capabilities=1 << 21), "fail", "0x200000", "another bwrap"),
    ("seccomp", on(security__seccomp=False), "fail", "no system call filters", "CONFIG_SECCOMP"),
    ("landlock", on(security__landlock=0), "ok", "not needed", ""),
    ("SELinux denials", on(security__selinux="enforcing"), "unknown", "policy", "ausearch"),
    ("other users", on(uid=0), "unknown", "ordinary users", "as such a user"),
    ("kernel", on(machine__kernel="4.18.0-553.el8"), "fail", "older than 5.11", "5.11 or newer"),
    ("kernel", on(machine__kernel="5.10.99"), "fail", "older than 5.11", "boot"),
    ("kernel", on(machine__kernel="5.11.0"), "ok", "5.11.0", ""),
    ("kernel", on(machine__kernel=""), "unknown", "does not tell", ""),
    ("architecture", on(machine__architecture="riscv64"), "fail", "riscv64", "aarch64"),
    ("memory", on(machine__memory=1 * GIB), "warn", "1.0 GiB", "[limits]"),
    ("disk", on(room=GIB // 2), "fail", "a run is stopped below 1.0 GiB", "AGS_HOME"),
    ("disk", on(room=3 * GIB), "warn", "only 3.0 GiB", "free some room"),
    ("in force", on(limits=NOT_DELEGATED), "warn", "is not delegated to us", "systemd-run"),
    ("in force", on(limits=replace(NOT_DELEGATED, repair="")), "warn", "rlimits", "Delegate=cpu"),
    ("in force", NO_SYSTEMD, "warn", "not delegated", "have root make a cgroup"),
    ("cgroup delegation", NO_SYSTEMD, "unknown", "no systemd to ask", "ask whoever"),
    ("in force", on(limits=V1), "ok", "cgroup v1: memory", "on version 1; boot with x"),
    ("in force", on(limits=cgroup.Offer("", "it stays busy")), "unknown", "it stays busy", ""),
    ("git", on(tools__git=git("2.30.2")), "fail", "2.30.2 at /usr/bin", "backports"),
    ("git", on(tools__git=git("2.38.0")), "ok", "2.38.0", ""),
    ("git", on(tools__git=None), "fail", "not installed", "apt-get install git"),
    ("git", on(tools__git=git("?")), "fail", "does not tell", "git"),
    ("setsid", on(tools__setsid=None), "fail", "on a terminal", "install util-linux"),
    ("setsid", on(tools__setsid=BUSYBOX), "warn", "not that of util-linux", "util-linux"),
    ("sh", on(tools__shell=False), "fail", "/bin/sh is missing", "dash"),
    ("state folder", on(settings__state=folder(0o755, 1000)), "fail", "mode 0755", "--fix home"),
    ("state folder", on(settings__state=folder(0o700, 0)), "fail", "user 0", "chown -R 1000 /f"),
    ("state folder", on(settings__state=folder()), "ok", "on first use", ""),
    ("state folder", on(settings__state=folder(trouble="odd")), "fail", "/f: odd", "AGS_HOME"),
    ("settings folder", on(settings__folder=folder(0o775, 1000)), "fail", "0775", "--fix home"),
    ("settings folder", on(settings__folder=folder(0o755, 1000)), "ok", "0755", ""),
    ("config", on(settings=BAD_LINE), "fail", "c.toml:3: limits.memry", "--fix config"),
    ("config", on(settings=BAD_MODE), "fail", "others can write", "chmod go-w c.toml"),
]


@pytest.mark.parametrize(
    ("name", "facts", "status", "text", "repair"),
    CASES,
    ids=[f"{case[0]}-{case[2]}-{index}" for index, case in enumerate(CASES)],
)
def test_a_machine_is_judged(
    name: str, facts: doctor.Facts, status: str, text: str, repair: str
) -> None:
    found = doctor.findings(facts)
    [finding] = [item for item in found if item.name == name]
    assert finding.status == status
    assert text in finding.text
    assert repair in finding.repair if repair else finding.repair == ""
    for each in found:
        offered = re.search(r"--fix (\w+)", each.repair)
        assert each.fix == (offered[1] if offered else None)
        assert each.fix is None or each.fix in verb.FIXES
        assert each.repair or each.status in ("ok", "unknown")


def test_an_installation_is_told_in_the_words_of_the_distribution() -> None:
    assert doctor.install(("linuxmint", "ubuntu"), "git") == "`sudo apt-get install git`"
    assert doctor.install(("rocky", "rhel", "fedora"), "git") == "`sudo dnf install git`"
    assert doctor.install(("opensuse-leap", "suse"), "git") == "`sudo zypper install git`"
    assert doctor.install((), "git") == "install `git` from your distribution"


# Repairs, in trees of their own.

APPARMOR = {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}
SYSCTLS = {
    "proc/sys/user/max_user_namespaces": "0\n",
    "proc/sys/kernel/unprivileged_userns_clone": "0\n",
}
PROFILE = "etc/apparmor.d/bwrap"
THEIRS = "abi <abi/4.0>,\nprofile bwrap /usr/bin/bwrap flags=(attach_disconnected) {\n  %s,\n}\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    parser = f'#!/bin/sh\necho "$@" >> {root}/loaded\ncat "$2" >> {root}/loaded\n'
    always = {"usr/bin/bwrap": "", "usr/sbin/apparmor_parser": parser}
    for name in ("etc/sysctl.d", "etc/apparmor.d"):
        (root / name).mkdir(parents=True)
    for name, text in {**always, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "usr/sbin/apparmor_parser").chmod(0o755)
    return root


def contents(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_text() for path in files}


def fix_userns(root: Path, **facts: Any) -> tuple[str, ...]:
    given: dict[str, Any] = {"binary": BWRAP, "uid": 0, "works": False, **facts}
    return asyncio.run(verb.fix_userns(**given, root=root))


def test_settings_that_forbid_namespaces_are_changed_now_and_at_boot(tmp_path: Path) -> None:
    tree(tmp_path, SYSCTLS)
    kept = tmp_path / "etc/sysctl.d/zz-ags-userns.conf"
    written = (*(tmp_path / name for name in SYSCTLS), kept)
    assert fix_userns(tmp_path) == tuple(f"wrote {path}" for path in written)
    lines = ["user.max_user_namespaces = 15000", "kernel.unprivileged_userns_clone = 1"]
    assert kept.read_text().splitlines() == lines
    assert [(tmp_path / name).read_text() for name in SYSCTLS] == ["15000\n", "1\n"]
    assert not (tmp_path / "loaded").exists()
    assert doctor.blockers(probe.namespace_switches(tmp_path)) == ()


def test_apparmor_gets_a_profile_for_bwrap_and_its_switch_is_left_alone(tmp_path: Path) -> None:
    tree(tmp_path, APPARMOR)
    profile, owner = tmp_path / "etc/apparmor.d/ags-bwrap", os.geteuid() or 1000
    os.chown(tmp_path / "usr/bin/bwrap", owner, -1)
    for _ in ("once", "and again"):
        (tmp_path / "loaded").unlink(missing_ok=True)
        changes = fix_userns(tmp_path)
        assert changes[0] == f"wrote {profile}" and changes[1].startswith("ran ")
        assert f"bwrap belongs to user {owner}, who could put another" in changes[2]
        text = profile.read_text()
        assert '\nprofile ags-bwrap "/usr/bin/bwrap" flags=(unconfined) {\n  userns,\n}\n' in text
        assert (tmp_path / "loaded").read_text() == f"-r {profile}\n{text}"
        assert contents(tmp_path).items() >= APPARMOR.items()


@pytest.mark.parametrize(
    ("files", "binary", "cause"),
    [
        ({PROFILE: THEIRS % "file"}, BWRAP, "/etc/apparmor.d/bwrap is a profile for /usr/bin/bw"),
        ({"usr/sbin/apparmor_parser": "#!/bin/sh\necho bad abi >&2; exit 7"}, BWRAP, "bad abi"),
        ({}, "", "no path that an AppArmor profile can name"),
        ({}, '/a"{ capability, }/bwrap', "no path that an AppArmor profile can name"),
        ({}, "/home/*/bwrap", "no path that an AppArmor profile can name"),
        ({}, "/a\n/bwrap", "no path that an AppArmor profile can name"),
    ],
)
def test_a_repair_that_would_not_help_leaves_nothing_behind(
    tmp_path: Path, files: dict[str, str], binary: str, cause: str
) -> None:
    before = contents(tree(tmp_path, {**APPARMOR, **files}))
    with pytest.raises(AgsError, match=cause):
        fix_userns(tmp_path, binary=binary)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("files", "uid", "works"),
    [
        ({"proc/sys/user/max_user_namespaces": "60000\n"}, 0, False),
        ({**APPARMOR, PROFILE: THEIRS % "allow userns"}, 0, False),
        (APPARMOR, 1000, True),
    ],
)
def test_where_nothing_is_in_the_way_nothing_is_changed(
    tmp_path: Path, files: dict[str, str], uid: int, works: bool
) -> None:
    before = contents(tree(tmp_path, files))
    assert fix_userns(tmp_path, uid=uid, works=works)[0].startswith("nothing to repair")
    assert contents(tmp_path) == before


def test_only_a_profile_of_this_very_program_counts(tmp_path: Path) -> None:
    tree(tmp_path, {})
    bare, quoted = "/usr/bin/bwrap {", 'profile bwrap "/usr/bin/bwrap" flags=(unconfined) {'
    longer, deeper = "profile x /usr/bin/bwrap-like {", "profile x /opt/usr/bin/bwrap {"
    for heading in (bare, quoted, longer, deeper, f"# {bare}", "  /usr/bin/bwrap ix,"):
        (tmp_path / PROFILE).write_text(f"{heading}\n}}\n")
        found = verb.attached(tmp_path, BWRAP) is not None
        assert found == (heading in (bare, quoted)), heading


def test_without_root_the_repair_is_told_as_commands_that_do_the_same(tmp_path: Path) -> None:
    by_root, by_hand = (tree(tmp_path / name, {**APPARMOR, **SYSCTLS}) for name in "ab")
    fix_userns(by_root)
    before = contents(by_hand)
    with pytest.raises(AgsError, match="takes root; nothing was changed") as caught:
        fix_userns(by_hand, uid=1000)
    assert contents(by_hand) == before

    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    commands = caught.value.hint.split("\n", 1)[1]
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(("sh", "-ec", commands), env=environ, check=True, timeout=120)

    def neutral(root: Path) -> dict[str, str]:
        return {name: text.replace(str(root), "") for name, text in contents(root).items()}

    assert neutral(by_hand) == neutral(by_root) != before


def test_a_setting_that_cannot_be_written_is_told_with_its_cause(tmp_path: Path) -> None:
    tree(tmp_path, SYSCTLS)
    (tmp_path / "etc/sysctl.d").rmdir()
    with pytest.raises(AgsError, match=r"zz-ags-userns\.conf: No such file"):
        fix_userns(tmp_path)


def test_a_folder_of_another_user_is_left_as_it_is_and_so_is_the_rest(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ours, theirs = probe.folder(tmp_path), replace(probe.folder(tmp_path), owner=4242)
    with pytest.raises(AgsError, match="belongs to user 4242"):
        verb.fix_home((ours, theirs), os.geteuid())
    assert probe.folder(tmp_path).mode == 0o755


# The verb, as a person calls it.

CANARY = "canary-5f1d-never-shown"
Finished = subprocess.CompletedProcess[str]


class Person:
    """Somebody with a home, a state folder, and secrets in the environment."""

    def __init__(self, place: Path) -> None:
        self.home, self.state = place / "home", place / "state"
        self.settings = self.home / ".config/ags"
        self.settings.mkdir(parents=True)
        self.state.mkdir(mode=0o700)
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "AGS_HOME": str(self.state),
            "PYTHONPATH": os.pathsep.join(filter(None, (SRC, os.environ.get("PYTHONPATH")))),
            "PYTHONDONTWRITEBYTECODE": "1",
            **dict.fromkeys(("API_KEY", "TOKEN", "GIT_CONFIG_PARAMETERS", "AGS_SECRET"), CANARY),
        }

    def call(self, *arguments: str, behind: tuple[str, ...] = ()) -> Finished:
        argv = (*behind, sys.executable, "-m", "ags.cli.main", *arguments)
        finished = subprocess.run(
            argv, env=self.environ, capture_output=True, text=True, timeout=300, check=False
        )
        assert CANARY not in finished.stdout + finished.stderr
        return finished


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def by_name(finished: Finished) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in json.loads(finished.stdout)["findings"]}


def test_the_reference_machine_is_well_and_json_says_so(person: Person) -> None:
    finished = person.call("doctor", "--json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = json.loads(finished.stdout)
    assert set(told) == {"ok", "findings"} and told["ok"] is True
    for finding in told["findings"]:
        assert set(finding) == {"section", "name", "status", "text", "repair", "fix"}
        assert finding["status"] in verb.WORDS
    found = by_name(finished)
    assert found["start"]["text"] == "a sandbox was started and left with exit code 0"
    assert found["capabilities"]["text"] == "a process inside has none"
    assert found["state folder"]["text"] == f"{person.state} (mode 0700)"


def test_plain_output_is_one_block_per_section_and_looking_changes_nothing(person: Person) -> None:
    before = sorted(person.home.parent.rglob("*"))
    finished = person.call("doctor")
    assert finished.returncode == 0
    headings = [line for line in finished.stdout.splitlines() if not line.startswith(" ")]
    assert headings[:5] == ["machine", "sandbox", "limits", "tools", "settings"]
    assert len(set(headings)) == len(headings)
    assert headings[-1].endswith("?") and " 0 FAIL" in headings[-1]
    assert "\x1b" not in finished.stdout
    assert sorted(person.home.parent.rglob("*")) == before


def test_on_a_terminal_the_same_is_shown_in_colours(person: Person) -> None:
    person.environ |= {"TERM": "xterm-256color", "COLUMNS": "200"}
    spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    finished = person.call("doctor", behind=(sys.executable, "-c", spawn))
    assert finished.returncode == 0
    assert "\x1b[32m  OK" in finished.stdout
    assert "a sandbox was started and left with exit code 0" in finished.stdout


def test_open_folders_fail_until_they_are_repaired(person: Person) -> None:
    person.state.chmod(0o755)
    person.settings.chmod(0o777)
    finished = person.call("doctor", "--json")
    assert finished.returncode == 1
    assert json.loads(finished.stdout)["ok"] is False
    assert by_name(finished)["state folder"]["fix"] == "home"
    assert by_name(finished)["settings folder"]["fix"] == "home"
    assert person.call("doctor", "--fix", "home").stdout.splitlines() == [
        f"{person.state}: mode 0755 is now 0700",
        f"{person.settings}: mode 0777 is now 0700",
    ]
    assert [probe.folder(path).mode for path in (person.state, person.settings)] == [0o700] * 2
    assert person.call("doctor").returncode == 0
    assert person.call("doctor", "--fix", "home").stdout.startswith("nothing to repair")


@pytest.mark.parametrize("state", [".", "home"])
def test_a_state_folder_that_holds_the_home_is_never_closed(person: Person, state: str) -> None:
    place = person.home.parent / state
    place.chmod(0o755)
    person.environ["AGS_HOME"] = str(place)
    assert "it contains your home" in person.call("doctor").stdout
    refused = person.call("doctor", "--fix", "home")
    assert refused.returncode == 1 and "it contains your home" in refused.stderr
    assert probe.folder(place).mode == 0o755


def test_broken_settings_are_kept_aside_and_told_without_their_values(person: Person) -> None:
    file = person.settings / "config.toml"
    text = f'[limits]\nmemory = "{CANARY}"\n'
    for aside in ("config.toml.broken", "config.toml.broken1"):
        file.write_text(text)
        file.chmod(0o600)
        finished = person.call("doctor", "--json")
        assert finished.returncode == 1
        finding = by_name(finished)["config"]
        assert f"{file}:2: limits.memory: … is not a size" in finding["text"]
        assert finding["fix"] == "config"
        repaired = person.call("doctor", "--fix", "config", "--json")
        changes = [f"moved {file} to {person.settings / aside}", f"wrote a fresh {file}"]
        assert json.loads(repaired.stdout) == {"ok": True, "changes": changes}
        assert (person.settings / aside).read_text() == text
    assert person.call("doctor").returncode == 0
    assert person.call("doctor", "--fix", "config").stdout.startswith("nothing to repair")


def test_settings_that_others_can_write_are_not_replaced(person: Person) -> None:
    file = person.settings / "config.toml"
    file.write_text("")
    file.chmod(0o666)
    finding = by_name(person.call("doctor", "--json"))["config"]
    assert (finding["status"], finding["fix"]) == ("fail", None)
    assert finding["repair"] == f"chmod go-w {file}"
    assert person.call("doctor", "--fix", "config").returncode == 1
    assert [path.name for path in person.settings.iterdir()] == ["config.toml"]


def test_a_settings_file_that_was_named_must_be_there(person: Person) -> None:
    finished = person.call("--config", f"{person.home}/absent.toml", "doctor", "--json")
    assert f"{person.home}/absent.toml" in by_name(finished)["config"]["text"]
    assert finished.returncode == 1


def test_an_unknown_repair_is_answered_with_the_names(person: Person) -> None:
    finished = person.call("doctor", "--fix", "everything")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert all(f"\n  {name} " in finished.stderr for name in ("config", "home", "userns"))


# An ordinary user on a kernel without a user namespace left; /etc is safe from our mistakes.
BEHIND = (
    *("unshare", "--user", "--map-user=1000", "--keep-caps", "--mount", "--pid", "--fork"),
    *("--mount-proc", "sh", "-ec"),
    "mount --bind /etc /etc; mount -o remount,bind,ro /etc;"
    "echo 0 > /proc/sys/user/max_user_namespaces;"
    'exec setpriv --inh-caps=-all --ambient-caps=-all "$@"',
    "sh",
)


def test_a_kernel_that_refuses_is_reported_and_its_repair_told_as_commands(person: Person) -> None:
    finished = person.call("doctor", "--json", behind=BEHIND)
    assert finished.returncode == 1, finished.stderr
    found = by_name(finished)
    assert "user.max_user_namespaces=0" in found["user namespaces"]["text"]
    assert found["user namespaces"]["fix"] == "userns"
    assert [found[name]["status"] for name in ("user namespaces", "start")] == ["fail", "fail"]
    assert found["capabilities"]["status"] == "unknown"

    finished = person.call("doctor", "--fix", "userns", behind=BEHIND)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert "nothing was changed" in finished.stderr
    assert "\nsudo tee /etc/sysctl.d/zz-ags-userns.conf >/dev/null <<'EOF'\n" in finished.stderr
    assert not Path("/etc/sysctl.d/zz-ags-userns.conf").exists()
