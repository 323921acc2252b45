"""An ssh server in the world that serves git and nothing else."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bootstrap.packages import find_program
from tests.internet import repositories

SETTINGS = """\
ListenAddress {address}:22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel VERBOSE
"""
# sshd insists on this folder; a world's own /run spares the host's.
OWN_RUN = 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"'


class Server:
    """`key` is the private key that it lets in, `known_hosts` the line that vouches for it."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name, self.address, self.folder = name, address, folder
        self.key = folder / "client_key"
        self.known_hosts = folder / "known_hosts"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def repository(self, path: str, files: Mapping[str, str]) -> str:
        """Its address for git."""
        made = repositories.make(self.folder / path, files)
        return f"ssh://root@{self.name}{made}"


def installed() -> str | None:
    return find_program("sshd")


@contextlib.contextmanager
def serving(name: str, address: str, folder: Path, world: int) -> Iterator[Server]:
    sshd = installed()
    if sshd is None:
        raise FileNotFoundError("there is no sshd on this machine")
    folder.mkdir()
    server = _prepared(Server(name, address, folder))
    # sshd writes its complaints here; `-e` keeps them out of the host's log.
    with open(folder / "log", "wb") as log:
        namespaces = ("nsenter", f"--net=/proc/{world}/ns/net", "unshare", "--mount")
        dying = ("setpriv", "--pdeathsig", "KILL")
        own_run = ("/bin/sh", "-c", OWN_RUN, "sh")
        command = (*dying, *namespaces, *own_run, sshd, "-D", "-e", "-f", folder / "sshd_config")
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(server, process)
        yield server
    finally:
        process.kill()
        process.wait()


def _prepared(server: Server) -> Server:
    folder = server.folder
    for key in ("host_key", "client_key"):
        command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / key)
        subprocess.run(command, check=True)
    only_git = 'restrict,command="git-shell -c \\"$SSH_ORIGINAL_COMMAND\\""'
    public = (folder / "client_key.pub").read_text()
    (folder / "authorized_keys").write_text(f"{only_git} {public}")
    host = (folder / "host_key.pub").read_text()
    server.known_hosts.write_text(f"{server.name} {host}")
    settings = SETTINGS.format(address=server.address, folder=folder)
    (folder / "sshd_config").write_text(settings)
    return server


def _wait_for(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while "Server listening" not in server.log:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"sshd did not start: {server.log}")
        time.sleep(0.02)
