"""The first call of bin/ags sets everything up, from anywhere, for anyone, whatever happens."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ags import __version__
from bootstrap import install
from tests import people
from tests.people import Person

VERSION = f"ags {__version__}\n"
TRAPPED_MODULES = ("ags/__init__", "click", "rich", "sitecustomize", "venv", "pip")
TRAPPED_COMMANDS = ("python3", "readlink", "cat", "pwd")


@pytest.fixture(scope="module")
def trap(world: Path) -> Path:
    """A directory with modules and commands of well-known names that leave a mark if they run."""
    directory = world / "trap"
    for name in TRAPPED_MODULES:
        module = directory / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"open({str(directory / 'sprung')!r}, 'a').close()\n")
    for name in TRAPPED_COMMANDS:
        command = directory / name
        command.write_text(f"#!/bin/sh\n: > '{directory}/sprung'\nexit 1\n")
        command.chmod(0o755)
    directory.chmod(0o777)
    return directory


@pytest.fixture
def sprung(trap: Path) -> Iterator[Path]:
    mark = trap / "sprung"
    yield mark
    mark.unlink(missing_ok=True)


def lure(person: Person, trap: Path) -> Mapping[str, str]:
    return {"PYTHONPATH": str(trap), "PATH": f".::{person.environment['PATH']}:"}


@pytest.fixture(scope="module")
def newcomer(world: Path, person_environment: Mapping[str, str]) -> Person:
    """Ourselves, with a checkout that nobody has used."""
    person = people.myself(world / "newcomer", person_environment)
    person.copy_checkout(person.checkout)
    return person


@pytest.fixture(scope="module")
def first_use(newcomer: Person, trap: Path) -> subprocess.CompletedProcess[str]:
    assert not (newcomer.checkout / ".venv").exists()
    return newcomer.ags("--version", cwd=trap, env=lure(newcomer, trap))


@pytest.fixture(params=["newcomer", "ordinary"])
def person(request: pytest.FixtureRequest, first_use: subprocess.CompletedProcess[str]) -> Person:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Person)
    return found


def small_checkout(person: Person, target: Path) -> Path:
    """One that needs only what `--version` does, for tests of how a set-up goes and not of what is
    in it."""
    checkout = person.copy_checkout(target)
    lock = checkout / "requirements.lock"
    found = re.search(r"^click==.*(\n +.*)+\n", lock.read_text(), re.MULTILINE)
    assert found is not None
    lock.write_text(found[0])
    return checkout


def stamp(person: Person) -> Path:
    return person.checkout / ".venv" / "run" / "ags-stamp"


def made(path: Path) -> tuple[int, int]:
    """Which one it is, and when it last changed in any way: not when it was read."""
    facts = path.stat()
    return facts.st_ino, facts.st_ctime_ns


def test_the_first_call_sets_up_with_progress_and_works(
    first_use: subprocess.CompletedProcess[str],
) -> None:
    assert (first_use.returncode, first_use.stdout) == (0, VERSION)
    count = len(install.pinned([people.ROOT / "requirements.lock"]))
    assert f"installing {count} pinned packages" in first_use.stderr


def test_the_second_call_is_quiet_and_sets_nothing_up(person: Person) -> None:
    before = made(stamp(person))
    done = person.ags("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, VERSION, "")
    assert made(stamp(person)) == before


def test_it_works_through_links_and_from_any_directory(person: Person, world: Path) -> None:
    links = world / f"links-to-{person.checkout.name}"
    (links / "decoy" / "checkout" / "bin").mkdir(parents=True)
    (links / "far").symlink_to(person.checkout / "bin" / "ags")
    (links / "near").symlink_to("far")
    (links / "checkout").symlink_to(person.checkout)
    for program in ("./near", "./far", "checkout/bin/ags", str(links / "near")):
        done = person.run_as(
            [program, "--version"], cwd=links, env={"CDPATH": str(links / "decoy")}
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, VERSION, ""), program
    done = person.run_as(["/bin/sh", "near", "--version"], cwd=links)
    assert (done.returncode, done.stdout, done.stderr) == (0, VERSION, "")


def test_nothing_planted_in_the_current_directory_ran_during_the_set_up(
    first_use: subprocess.CompletedProcess[str], sprung: Path
) -> None:
    assert first_use.returncode == 0
    assert not sprung.exists()


def test_nothing_planted_in_the_current_directory_runs_later(
    person: Person, trap: Path, sprung: Path, world: Path
) -> None:
    link = world / f"trapped-link-to-{person.checkout.name}"
    link.symlink_to(person.checkout / "bin" / "ags")
    done = person.run_as([link, "--version"], cwd=trap, env=lure(person, trap))
    assert (done.returncode, done.stdout) == (0, VERSION)
    assert not sprung.exists()


@pytest.mark.parametrize("module", ["ags", "click"])
def test_the_trap_springs_on_an_interpreter_that_is_not_isolated(
    person: Person, trap: Path, sprung: Path, module: str
) -> None:
    python = person.checkout / ".venv" / "run" / "bin" / "python"
    # -S, so that it is this module and not sitecustomize that springs it.
    person.run_as([python, "-S", "-c", f"import {module}"], env={"PYTHONPATH": str(trap)})
    assert sprung.exists()


def test_the_trap_springs_on_a_relative_entry_of_path(
    person: Person, trap: Path, sprung: Path
) -> None:
    person.run_as(["/bin/sh", "-c", "readlink /"], cwd=trap, env=lure(person, trap))
    assert sprung.exists()


def test_another_users_environment_is_left_alone_and_ours_is_in_our_cache(
    ordinary: Person, newcomer: Person, first_use: subprocess.CompletedProcess[str], world: Path
) -> None:
    checkout, theirs, cache = newcomer.checkout, [stamp(newcomer)], ordinary.home / ".cache"
    env = {}
    if ordinary.uid == newcomer.uid:
        checkout, theirs = newcomer.copy_checkout(world / "read-only"), []
        checkout.chmod(0o555)
        cache = world / "cache"
        env = {"XDG_CACHE_HOME": str(cache)}
    before = [made(path) for path in theirs]
    first = ordinary.ags("--version", checkout=checkout, env=env)
    assert (first.returncode, first.stdout) == (0, VERSION)
    assert f"setting up {cache}/ags/environments{checkout}/.venv/run" in first.stderr
    second = ordinary.ags("--version", checkout=checkout, env=env)
    assert (second.returncode, second.stdout, second.stderr) == (0, VERSION, "")
    assert [made(path) for path in theirs] == before


def test_of_two_first_calls_at_once_one_sets_up_and_the_other_waits(
    newcomer: Person, world: Path, tmp_path: Path
) -> None:
    checkout = small_checkout(newcomer, world / "two at once")
    # Settings that would send packages elsewhere, or stop pip, are not ours to follow.
    env = {"PIP_TARGET": str(tmp_path / "astray"), "PIP_USER": "1", "PIP_NO_BINARY": ":all:"}
    calls = [newcomer.start([checkout / "bin" / "ags", "--version"], env=env) for _ in range(2)]
    outputs = [call.communicate(timeout=600) for call in calls]
    assert [call.returncode for call in calls] == [0, 0], outputs
    assert [out for out, _ in outputs] == [VERSION, VERSION]
    assert sorted("installing" in err for _, err in outputs) == [False, True]
    assert sorted("waiting" in err for _, err in outputs) == [False, True]
    assert not (tmp_path / "astray").exists()


@contextmanager
def first_call_with_pip_at_work(person: Person, checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """Its index takes connections and never says a word, until the context ends."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        url = "http://{}:{}/".format(*index.getsockname())
        env = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": url, "PIP_RETRIES": "0", "PIP_TIMEOUT": "600"}
        call = person.start([checkout / "bin" / "ags", "--version"], env=env)
        index.settimeout(300)
        with index.accept()[0]:
            yield call


@pytest.fixture(scope="module")
def healed(newcomer: Person, world: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A checkout whose first set-up was killed while its pip lives on, and the call after that."""
    checkout = small_checkout(newcomer, world / "killed")
    with first_call_with_pip_at_work(newcomer, checkout) as first:
        half_made = made(checkout / ".venv" / "run.new")
        first.kill()
        first.wait()
        second = newcomer.start([checkout / "bin" / "ags", "--version"])
        assert second.stderr is not None
        said = second.stderr.readline()
        assert "waiting" in said
        assert made(checkout / ".venv" / "run.new") == half_made
    first.communicate()
    out, err = second.communicate(timeout=600)
    return checkout, subprocess.CompletedProcess(second.args, second.returncode, out, said + err)


def test_a_killed_set_up_is_healed_by_the_next_call(
    healed: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    checkout, done = healed
    assert (done.returncode, done.stdout) == (0, VERSION), done.stderr
    assert not (checkout / ".venv" / "run.new").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_set_up_that_is_told_to_end_takes_its_children_along(
    newcomer: Person, world: Path, number: signal.Signals
) -> None:
    checkout = small_checkout(newcomer, world / f"ended-by-{number.name}")
    with first_call_with_pip_at_work(newcomer, checkout) as call:
        call.send_signal(number)
        _, err = call.communicate(timeout=120)
        assert call.returncode == 128 + number
        assert "Traceback" not in err
        with pytest.raises(ProcessLookupError):
            os.killpg(call.pid, 0)


def spoil_the_stamp(checkout: Path) -> None:
    (checkout / ".venv" / "run" / "ags-stamp").write_bytes(b"\0garbage")


def change_the_lock(checkout: Path) -> None:
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("# another line\n")


def lose_the_interpreter(checkout: Path) -> None:
    python = checkout / ".venv" / "run" / "bin" / "python"
    python.unlink()
    python.symlink_to("/no/such/python")


@pytest.mark.parametrize("damage", [spoil_the_stamp, change_the_lock, lose_the_interpreter])
def test_an_environment_that_is_not_current_is_made_anew(
    newcomer: Person,
    healed: tuple[Path, subprocess.CompletedProcess[str]],
    damage: Callable[[Path], None],
) -> None:
    checkout, _ = healed
    old = checkout / ".venv" / "run" / "of the old one"
    old.touch()
    damage(checkout)
    done = newcomer.ags("--version", checkout=checkout)
    assert (done.returncode, done.stdout) == (0, VERSION), done.stderr
    assert "installing" in done.stderr
    assert not old.exists()
    assert newcomer.ags("--version", checkout=checkout).stderr == ""


def test_a_package_that_is_not_the_pinned_one_is_refused(newcomer: Person, world: Path) -> None:
    checkout = small_checkout(newcomer, world / "wrong-hash")
    lock = checkout / "requirements.lock"
    lock.write_text(re.sub(r"sha256:\w{8}", "sha256:00000000", lock.read_text()))
    done = newcomer.ags("--version", checkout=checkout)
    assert (done.returncode, done.stdout) == (1, "")
    assert "  why: installing" in done.stderr
    assert "  try: a package is not the one we pinned" in done.stderr
    assert not (checkout / ".venv" / "run").exists()


def test_a_package_pinned_without_a_hash_is_refused(newcomer: Person, world: Path) -> None:
    checkout = small_checkout(newcomer, world / "no-hash")
    lock = checkout / "requirements.lock"
    lock.write_text(re.sub(r" \\\n +--hash=\S+", "", lock.read_text()))
    done = newcomer.ags("--version", checkout=checkout)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Hashes are required" in done.stderr
    assert not (checkout / ".venv" / "run").exists()


def test_without_a_source_of_packages_the_end_of_pips_output_and_a_way_out_are_shown(
    newcomer: Person, world: Path, tmp_path: Path
) -> None:
    checkout = small_checkout(newcomer, world / "no-packages")
    done = newcomer.ags("--version", checkout=checkout, env={"PIP_FIND_LINKS": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert "No matching distribution found" in done.stderr
    assert "  try: check the network" in done.stderr


def test_without_a_python_it_says_what_to_install(newcomer: Person, tmp_path: Path) -> None:
    bare = newcomer.copy_checkout(tmp_path / "bare")
    (tmp_path / "cat").symlink_to("/bin/cat")
    done = newcomer.ags("--version", checkout=bare, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert "why: there is no Python 3.11 or newer" in done.stderr
    assert "apt install python3" in done.stderr


def with_tmpfs(person: Person, options: str, target: Path, *argv: str | Path) -> str:
    """Runs something in a mount namespace where `target` is a tmpfs; returns its stderr."""
    root = ["--map-root-user"] if os.geteuid() else []
    script = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"'
    words = ["/bin/sh", "-c", script, "sh", options, target, *argv]
    done = person.run_as(["unshare", "--mount", *root, *words], timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_a_full_disk_is_named(newcomer: Person, world: Path) -> None:
    checkout = newcomer.copy_checkout(world / "full")
    (checkout / ".venv").mkdir()
    program = checkout / "bin" / "ags"
    for size in ("64k", "2m"):
        shown = with_tmpfs(newcomer, f"size={size}", checkout / ".venv", program, "--version")
        assert "try: the disk is full" in shown, shown


def test_a_python_without_ensurepip_is_named_with_the_package_that_has_it(
    newcomer: Person, world: Path
) -> None:
    checkout = newcomer.copy_checkout(world / "no-ensurepip")
    found = newcomer.run_as(["python3", "-c", "import ensurepip; print(ensurepip.__file__)"])
    program = checkout / "bin" / "ags"
    shown = with_tmpfs(newcomer, "ro", Path(found.stdout).parent, program, "--version")
    assert "why: this Python comes without ensurepip" in shown
    assert "-venv" in shown
