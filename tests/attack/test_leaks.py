"""THREATS K2, K3, S1: nothing of ours or the host's comes along by accident."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from ags.backends.base import Streams
from ags.cli.files import Files
from ags.model import Bind
from tests.box import Box, Outcome, run_plan

CANARY = "canary-0815"


def shell(box: Box, script: str, **wishes: object) -> Outcome:
    """With the first process in sight: what it tells must be harmless although it is hidden."""
    made = box.plan("/bin/sh", "-c", script, **wishes)  # type: ignore[arg-type]
    seen = tuple(step for step in made.mounts if str(step.target) != "/proc/1")
    return asyncio.run(run_plan(box.backend, replace(made, mounts=seen)))


def test_our_environment_is_nowhere_inside(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    os.environ["AWS_SECRET_ACCESS_KEY"] = CANARY
    look = "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'"
    assert CANARY not in shell(box, look).out
    assert CANARY in shell(box, look, environment=[("GIVEN", CANARY)]).out


def test_no_argument_list_tells_where_things_lie_on_the_host(box: Box) -> None:
    shown = box.workspace.parent / CANARY
    shown.mkdir()
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'"
    binds = [Bind(shown, PurePosixPath("/shown"))]
    found = shell(box, look, binds=binds, environment=[("A", "value-" + CANARY)])
    assert "bwrap" in found.out
    assert CANARY not in found.out


def test_the_argument_list_is_as_short_on_the_host(box: Box) -> None:
    """Other users of the machine read it too."""
    look = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done"
    found = shell(box, look, environment=[("A", CANARY)])
    assert CANARY not in found.out and "--ro-bind" not in found.out


def test_a_descriptor_of_ours_is_not_open_inside(box: Box) -> None:
    secret = box.workspace.parent / "secret"
    secret.write_text(CANARY)
    first = os.open(secret, os.O_RDONLY)
    fd = fcntl.fcntl(first, fcntl.F_DUPFD, 300)  # one that ours do not come to lie on
    os.close(first)
    os.set_inheritable(fd, True)
    try:
        found = box.shell("cat /proc/*/fd/300 2>/dev/null; ls /proc/self/fd").out
        assert CANARY not in found
        assert found.split() == ["0", "1", "2", "3"]
        os.lseek(fd, 0, 0)
        outside = subprocess.run(
            ["cat", f"/proc/self/fd/{fd}"], pass_fds=[fd], capture_output=True, text=True
        )
        assert CANARY in outside.stdout
    finally:
        os.close(fd)


def test_a_listener_on_the_hosts_loopback_is_out_of_reach(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        knock = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2).send(b'x')"
        box.python(knock)
        server.settimeout(0.3)
        with pytest.raises(TimeoutError):
            server.accept()
        subprocess.run([sys.executable, "-c", knock], check=True)
        assert server.accept()[0].recv(1) == b"x"


def test_an_abstract_socket_of_the_host_is_out_of_reach(box: Box) -> None:
    """Where D-Bus, X11 and container engines may listen."""
    name = f"\0ags-canary-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        knock = (
            f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({name!r}); s.send(b'x')"
        )
        box.python(knock)
        server.settimeout(0.3)
        with pytest.raises(TimeoutError):
            server.accept()
        subprocess.run([sys.executable, "-c", knock], check=True)
        assert server.accept()[0].recv(1) == b"x"


@pytest.mark.parametrize(
    "name", ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "DOCKER_HOST"]
)
def test_variables_that_lead_to_host_sockets_stay_outside(
    box: Box, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, CANARY)
    box.environ[name] = CANARY
    assert CANARY not in box.shell("env").out


def test_a_bwrap_in_the_workspace_or_on_the_path_is_never_started(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """THREATS K4."""
    from ags.backends.bubblewrap import Bubblewrap

    fake = box.workspace / "bwrap"
    marker = box.workspace.parent / "marker"
    fake.write_text(f"#!/bin/sh\ntouch {marker}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{box.workspace}:{os.environ['PATH']}")
    monkeypatch.chdir(box.workspace)
    subprocess.run(["bwrap"], check=True)
    assert marker.exists(), "the planted program would be found"
    marker.unlink()
    box.backend = Bubblewrap() if os.stat(box.workspace).st_uid == 0 else box.backend
    assert box.run("true").code == 0
    assert not marker.exists()


def test_without_a_working_bwrap_nothing_runs(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    from ags.backends.bubblewrap import Bubblewrap
    from ags.errors import AgsError

    monkeypatch.setattr("ags.backends.bubblewrap.START_TIMEOUT", 2.0)
    liar = box.workspace.parent / "bwrap"
    marker = box.workspace / "ran"
    # Does as it is told, without any wall.
    liar.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    liar.chmod(0o755)
    box.backend = Bubblewrap(str(liar))
    with pytest.raises(AgsError):
        box.run("touch", str(marker))
    assert not marker.exists()
    box.backend = Bubblewrap("/nonexistent/bwrap")
    with pytest.raises(AgsError):
        box.run("touch", str(marker))
    assert not Path(marker).exists()


def test_a_file_given_for_reading_cannot_be_written_to(box: Box) -> None:
    """Through /proc/self/fd it could be opened anew; and without the pipe between, it is."""
    given = box.workspace.parent / "given"

    def attacked(*, apart: bool) -> str:
        given.write_text("as it was")
        os.chown(given, box.workspace.stat().st_uid, -1)
        plan = box.plan("/bin/sh", "-c", "cat > got; echo evil > /proc/self/fd/0")

        async def scene() -> None:
            null, file = os.open(os.devnull, os.O_RDWR), os.open(given, os.O_RDONLY)
            files, streams = Files(), Streams(file, null, null)
            streams = files.apart(streams) if apart else streams
            sandbox = await box.backend.launch(plan, streams)
            async with files.passing():
                await sandbox.release()
                await sandbox.wait()

        asyncio.run(scene())
        assert (box.workspace / "got").read_text() == "as it was"
        return given.read_text()

    assert attacked(apart=True) == "as it was"
    assert attacked(apart=False) == "evil\n"
