"""`ags exec` as a person calls it: what its flags do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.callers import as_user, new_folder
from tests.people import Person


def test_streams_and_exit_code_are_the_commands(person: Person, workspace: Path) -> None:
    script = "cat; echo to stderr >&2; exit 3"
    done = person.run_as(
        [person.checkout / "bin" / "ags", "exec", "--", "sh", "-c", script],
        cwd=workspace,
        input="to stdin\n",
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "to stdin\n", "to stderr\n")


@as_user
def test_arguments_arrive_as_they_are(person: Person, workspace: Path) -> None:
    odd = ("", " ", "$HOME", "--help", "-x", "a\nb", "'\"\\", "--", "ü✓", "*")
    done = person.ags("exec", "--", "printf", "<%s>", *odd, cwd=workspace)
    assert done.stdout == "".join(f"<{word}>" for word in odd)


def test_a_command_needs_no_dashes_before_it(person: Person, workspace: Path) -> None:
    done = person.ags("exec", "echo", "--memory", cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "--memory\n")


def test_a_run_leaves_nothing_behind_but_its_work(person: Person, workspace: Path) -> None:
    assert person.ags("exec", "--", "sh", "-c", "echo work >result", cwd=workspace).returncode == 0
    assert [path.name for path in workspace.iterdir()] == ["result"]
    assert (workspace / "result").stat().st_uid == person.uid


def test_a_reader_that_goes_away_ends_the_run_quietly(person: Person, workspace: Path) -> None:
    done = person.run_as(
        ["sh", "-c", '"$0" exec -- yes | head -n 1', person.checkout / "bin" / "ags"],
        cwd=workspace,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "y\n", "")


# Mounts


@pytest.fixture
def other(world: Path, person: Person) -> Path:
    folder = new_folder(world, person)
    (folder / "file").write_text("content\n")
    os.chown(folder / "file", person.uid, person.gid)
    return folder


def test_a_mount_can_be_read_and_not_written(person: Person, workspace: Path, other: Path) -> None:
    script = f"cat {other}/file; echo changed >{other}/file; rm {other}/file; touch {other}/new"
    assert "No such file" in person.ags("exec", "cat", f"{other}/file", cwd=workspace).stderr
    done = person.ags("exec", "--mount", str(other), "--", "sh", "-c", script, cwd=workspace)
    assert done.stdout == "content\n"
    assert [path.name for path in other.iterdir()] == ["file"]
    assert (other / "file").read_text() == "content\n"


@pytest.mark.parametrize("flag", ["--mount-rw", "-d", "--add-dir"])
def test_a_writable_mount_can_be_written(
    person: Person, workspace: Path, other: Path, flag: str
) -> None:
    done = person.ags("exec", flag, str(other), "--", "sh", "-c", f"echo new >{other}/file",
                      cwd=workspace)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (other / "file").read_text() == "new\n"


def test_a_mount_is_seen_where_it_is_wanted(person: Person, workspace: Path, other: Path) -> None:
    flags = ("--mount", f"{other}:/data/one", "--mount", f"{other}/file:/data/two")
    done = person.ags("exec", *flags, "--", "cat", "/data/one/file", "/data/two", cwd=workspace)
    assert done.stdout == "content\n" * 2


@pytest.mark.parametrize("flag", ["--mount", "-d"])
def test_a_mount_may_be_named_from_here(
    person: Person, workspace: Path, other: Path, flag: str
) -> None:
    done = person.ags("exec", flag, f"../{other.name}", "--", "cat", f"{other}/file", cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "content\n")


def test_the_work_on_a_further_folder_is_protected_there_too(
    person: Person, workspace: Path, other: Path
) -> None:
    person.run_as(["git", "init", "-q", other])
    done = person.ags("exec", "-d", str(other), "--", "touch", f"{other}/.git/x", cwd=workspace)
    assert done.returncode == 1
    assert not (other / ".git" / "x").exists()


# Variables, limits, settings


def test_variables_go_inside_only_when_named(person: Person, workspace: Path) -> None:
    done = person.ags(
        "exec", "-e", "GIVEN=a=b c", "--env", "PASSED", "--", "env",
        cwd=workspace, env={"PASSED": "yes", "KEPT_OUT": "secret"},
    )  # fmt: skip
    inside = done.stdout.splitlines()
    assert "GIVEN=a=b c" in inside and "PASSED=yes" in inside
    assert "secret" not in done.stdout


def test_a_run_over_its_time_is_stopped(person: Person, workspace: Path) -> None:
    done = person.ags("exec", "--timeout", "0.5s", "--", "sleep", "1000", cwd=workspace)
    assert done.returncode == 124
    assert done.stderr == "ags: stopped: the time limit of 0.5 s was reached\n"


def test_a_run_over_its_memory_is_stopped(person: Person, workspace: Path) -> None:
    script = "x = b'x' * (400 << 20); import sys, time; time.sleep(int(sys.argv[1])); print('had')"
    hungry = ("python3", "-c", script)
    stopped = person.ags("exec", "--memory", "100M", "--", *hungry, "30", cwd=workspace)
    assert stopped.returncode != 0 and "had" not in stopped.stdout
    assert "memory" in stopped.stderr.lower()
    assert person.ags("exec", "--memory", "1G", "--", *hungry, "1", cwd=workspace).stdout == "had\n"


def test_limits_of_the_flags_come_before_those_of_the_settings(
    person: Person, workspace: Path, world: Path
) -> None:
    config = new_folder(world, person) / "config.toml"
    config.write_text('[limits]\npids = 77\nmemory = "1G"\n')
    os.chown(config, person.uid, person.gid)
    flags = ("--config", str(config), "--memory", "512M", "--cpus", "1.5", "--debug")
    told = person.ags("exec", *flags, "--", "true", cwd=workspace).stderr
    assert f"memory={512 << 20}, cpus=1.5, pids=77" in told
    assert "held by" in told
    assert ("processors are not limited to 1.5 here" in told) == ("held by rlimits" in told)


@pytest.mark.parametrize("before_the_verb", [True, False])
def test_a_settings_file_can_be_named(
    person: Person, workspace: Path, world: Path, before_the_verb: bool
) -> None:
    config = new_folder(world, person) / "other.toml"
    config.write_text('[sandbox]\nhostname = "elsewhere"\n')
    os.chown(config, person.uid, person.gid)
    named = ("--config", str(config))
    arguments = (*named, "exec") if before_the_verb else ("exec", *named)
    done = person.ags(*arguments, "--", "hostname", cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "elsewhere\n")


def test_the_settings_file_is_made_on_first_use(person: Person, workspace: Path) -> None:
    person.ags("exec", "true", cwd=workspace)
    made = person.home / ".config" / "ags" / "config.toml"
    assert "[sandbox]" in made.read_text()
    assert made.stat().st_mode & 0o777 == 0o600


def test_debug_tells_on_stderr_what_is_mounted(person: Person, workspace: Path) -> None:
    done = person.ags("exec", "--debug", "--backend", "bubblewrap", "--", "echo", "out",
                      cwd=workspace)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert f"mount: Bind(source=PosixPath('{workspace}')" in done.stderr
    assert person.ags("exec", "--", "true", cwd=workspace).stderr == ""


def test_a_weakening_is_always_told(person: Person, workspace: Path) -> None:
    done = person.ags("exec", "--ptrace", "--", "true", cwd=workspace)
    assert done.stderr == "ags: weakened: ptrace: processes inside may debug one another\n"


# Help


@as_user
@pytest.mark.parametrize("verb", [(), ("exec",), ("doctor",)], ids=["ags", "exec", "doctor"])
def test_help_fits_eighty_columns(person: Person, verb: tuple[str, ...]) -> None:
    done = person.ags(*verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout == person.ags(*verb, "-h").stdout


@as_user
def test_help_names_every_flag(person: Person) -> None:
    told = person.ags("exec", "--help").stdout
    flags = (
        "--mount --mount-rw --add-dir --env --memory --cpus --pids --timeout --ptrace --interactive"
        " --backend --config --debug --help"
    )
    assert [flag for flag in flags.split() if f"{flag} " not in told] == []


def test_copying_many_linked_files_first_is_told(person: Person, workspace: Path) -> None:
    """As pnpm leaves them: it takes a while, and a person would wonder."""
    link = "echo $i > store/$i; ln store/$i project/$i"
    made = person.run_as(
        ["sh", "-c", f"mkdir store project; for i in $(seq 300); do {link}; done"], cwd=workspace
    )
    assert made.returncode == 0, made.stderr
    done = person.ags("exec", "--", "sh", "-c", "echo changed > 7", cwd=workspace / "project")
    assert done.returncode == 0
    assert "copying 300 files" in done.stderr
    assert (workspace / "store" / "7").read_text() == "7\n"
    assert (workspace / "project" / "7").read_text() == "changed\n"


def test_a_redirected_file_cannot_be_opened_anew_for_more(person: Person, workspace: Path) -> None:
    """Through /proc/self/fd, what was opened for reading or appending would be open for all."""
    outside = workspace / "outside"
    inside = workspace / "inside"
    ags = person.checkout / "bin" / "ags"
    attack = "cat; echo evil > /proc/self/fd/0; : > /proc/self/fd/1; echo new; echo err >&2"
    script = f"""
        mkdir outside inside; echo input > outside/in; echo old > outside/log; cd inside
        {ags} exec -- sh -c '{attack}' < ../outside/in >> ../outside/log 2>&1
    """
    done = person.run_as(["sh", "-c", script], cwd=workspace, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (outside / "in").read_text() == "input\n"
    log = (outside / "log").read_text()
    assert log.startswith("old\ninput\n") and log.endswith("new\nerr\n")
    assert list(inside.iterdir()) == []


def test_a_large_file_goes_in_and_comes_out_whole(person: Person, workspace: Path) -> None:
    ags = person.checkout / "bin" / "ags"
    script = f"""
        head -c 20000000 /dev/urandom > big; cd {workspace}
        {ags} exec -- cat < big > copy && cmp big copy && echo SAME
        {ags} exec -- head -c 5 < big | wc -c
        {ags} exec -- sh -c 'exit 7' < big > copy; echo $?
    """
    done = person.run_as(["sh", "-c", script], cwd=workspace, timeout=120)
    assert done.stdout.split() == ["SAME", "5", "7"], done.stderr


def test_a_repository_that_the_run_made_is_told(person: Person, workspace: Path) -> None:
    """Its settings can name programs, which git on the host would run."""
    done = person.ags("exec", "--", "sh", "-c", "git init -q . && git init -q sub", cwd=workspace)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "before you use git there" in line]
    assert [line.split()[3] for line in told] == [f"{workspace}/.git", f"{workspace}/sub/.git"]
    again = person.ags("exec", "--", "true", cwd=workspace)
    assert "before you use git there" not in again.stderr
