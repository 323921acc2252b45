"""What a program finds around it: who it is, time, language, terminals, processes, disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.callers import as_user
from tests.people import Person
from tests.tools.conftest import Inside


def test_one_user_is_known_by_name_everywhere(inside: Inside, person: Person) -> None:
    name = "agent" if person.uid == 0 else person.name
    told = inside("whoami; id -un; id -gn; getent passwd $(id -u); echo $USER $LOGNAME; echo ~")
    lines = told.stdout.splitlines()
    uid = 1000 if person.uid == 0 else person.uid
    gid = 1000 if person.uid == 0 else person.gid
    assert lines[:3] == [name] * 3
    assert lines[3] == f"{name}:x:{uid}:{gid}:{name}:{person.home}:/bin/bash"
    assert lines[4:] == [f"{name} {name}", str(person.home)]


def test_the_host_has_a_name_and_knows_itself(inside: Inside) -> None:
    told = inside(
        "hostname; uname -n; getent hosts localhost ags | awk '{print $2}'; cat /etc/hostname"
    )
    assert told.stdout.split() == ["ags", "ags", "localhost", "localhost", "ags"]


def test_only_processes_of_the_sandbox_are_there(inside: Inside) -> None:
    told = inside("ps -eo comm= | sort -u; top -bn1 | head -n 2; pgrep -c bash; free >/dev/null")
    seen = set(told.stdout.split("top - ")[0].split())
    # Who is to become sort may be a bash still when ps looks.
    assert {"bash", "ps"} <= seen <= {"bash", "ps", "sort"}
    assert "Tasks:" in told.stdout


def test_disks_are_told(inside: Inside, workspace: Path) -> None:
    assert inside("df --output=target . /usr /tmp").stdout.split()[2:] == [
        str(workspace), "/usr", "/tmp",
    ]  # fmt: skip
    inside("df -h >/dev/null && du -sh . >/dev/null && mktemp >/dev/null")


@as_user
@pytest.mark.parametrize("zone", [None, "Pacific/Auckland", "UTC"])
def test_time_is_as_outside(inside: Inside, person: Person, zone: str | None) -> None:
    env = {"TZ": zone} if zone else {}
    told = "%Z %z %Y-%m-%d %H"
    before = person.run_as(["date", f"+{told}"], env=env).stdout
    found = inside(f"date '+{told}'", env=env).stdout
    # The hour may be another meanwhile.
    assert found in (before, person.run_as(["date", f"+{told}"], env=env).stdout)


def test_language_is_as_outside(inside: Inside) -> None:
    assert inside("locale charmap; printf 'ä' | wc -m").stdout.split() == ["UTF-8", "1"]
    assert inside("locale charmap", env={"LC_ALL": "C"}).stdout == "ANSI_X3.4-1968\n"


@as_user
@pytest.mark.parametrize(
    "terminal", ["xterm-256color", "screen-256color", "linux", "vt100", "dumb"]
)
def test_terminals_are_known(inside: Inside, person: Person, terminal: str) -> None:
    outside = person.run_as(["infocmp", "-1", terminal], env={"TERM": terminal}).stdout
    told = inside("infocmp -1", env={"TERM": terminal}).stdout
    assert told.splitlines()[1:] == outside.splitlines()[1:] != []


@pytest.mark.parametrize(
    "command",
    ["sudo -n true", "su -c true", "ping -c 1 -w 5 127.0.0.1", "mount -t tmpfs x /mnt",
     "chroot / true", "unshare -r true", "nsenter -t 1 -n true", "dmesg", "date -s 2020-01-01",
     "hostname other", "chown 0:0 .", "mknod null c 1 3"],
)  # fmt: skip
def test_what_takes_root_fails_at_once_and_says_so(inside: Inside, command: str) -> None:
    told = inside(f"if {command} </dev/null; then echo done; else echo refused; fi")
    assert told.stdout.splitlines()[-1] == "refused"
    assert told.stderr


def test_loopback_is_there_and_nothing_else(inside: Inside) -> None:
    serve = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\n"
        "server.accept()[0].sendall(b'hello')\n"
        "print(client.recv(5).decode(), socket.if_nameindex())\n"
    )
    assert inside(f'python3 -c "{serve}"').stdout == "hello [(1, 'lo')]\n"


def test_certificates_are_as_outside(inside: Inside, person: Person) -> None:
    listing = "find -L /etc/ssl/certs -type f -exec cksum {} + 2>/dev/null | sort"
    assert inside(listing).stdout == person.run_as(["sh", "-c", listing]).stdout


def test_devices_do_what_they_are_for(inside: Inside) -> None:
    script = (
        "head -c 16 /dev/urandom | wc -c; head -c 3 /dev/zero | tr '\\0' 0; cat /dev/null"
        "; if echo x 2>/dev/null >/dev/full; then echo took it; fi; ls /dev/shm /dev/pts"
    )
    assert inside(script).stdout.split() == ["16", "000/dev/pts:", "ptmx", "/dev/shm:"]


def test_an_editor_a_pager_and_an_archive_work(inside: Inside, workspace: Path) -> None:
    done = inside(
        "printf 'a\\nb\\n' >f && sed -i s/a/x/ f && tar czf f.tgz f && rm f && tar xzf f.tgz"
        " && gzip -k f && zcat f.gz | sort -r && find . -name 'f*' | wc -l && diff f <(zcat f.gz)"
        " && vim -es -u NONE +'%s/x/y/' +wq f && head -n 1 f | less"
    )
    assert done.stdout.split() == ["x", "b", "3", "y"]
    assert (workspace / "f").read_text() == "y\nb\n"
