"""git clones and pushes, over https and over ssh, where that is allowed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.egress.clients.desk import Desk, needs
from tests.internet import Internet, repositories, ssh
from tests.internet.world import GitOrigin

FILES = {"README.md": "A small project.\n"}
AS = "-c user.name=Ada -c user.email=ada@home.example"
WORK = f"""
cat work/README.md
cd work && echo changed > new && git add new && git {AS} commit -qm second
git push -q origin HEAD:refs/heads/made-inside
"""


@pytest.fixture(scope="module")
def git_sites(the_internet: Internet) -> dict[str, GitOrigin]:
    names = ("git.example", "clear-git.example", "refused-git.example")
    made = {name: the_internet.git(name) for name in names}
    for origin in made.values():
        origin.repository("project.git", FILES)
    return made


@pytest.mark.parametrize("name", ["git.example", "clear-git.example"])
def test_git_clones_and_pushes_over_https(
    desk: Desk, git_sites: dict[str, GitOrigin], name: str
) -> None:
    """The one's TLS is ended by the fence, the other's passes unseen."""
    ended = desk.shell(f"git clone -q https://{name}/project.git work{WORK}")
    assert (ended.code, ended.out) == (0, FILES["README.md"]), ended
    assert _pushed(git_sites[name].root / "project.git")


def test_git_is_told_that_a_host_is_refused(desk: Desk, git_sites: dict[str, GitOrigin]) -> None:
    ended = desk.shell("git clone -q https://refused-git.example/project.git work")
    assert ended.code != 0 and "403" in ended.err, ended
    assert git_sites["refused-git.example"].visits == []
    assert not any("refused" in query.name for query in desk.world.queries)


def test_git_over_ssh_goes_where_a_rule_opens_its_port(desk: Desk) -> None:
    needs("sshd", "ssh")
    allowed, refused = (desk.world.ssh(name) for name in ("ssh.example", "refused-ssh.example"))
    ended = desk.shell(
        f"git clone -q {allowed.repository('project.git', FILES)} work{WORK}",
        _with_key(desk, allowed),
    )
    assert (ended.code, ended.out) == (0, FILES["README.md"]), ended
    assert _pushed(allowed.folder / "project.git")

    address = refused.repository("project.git", FILES)
    ended = desk.shell(f"git clone -q {address} other", _with_key(desk, refused))
    assert ended.code != 0, ended
    assert "Connection from" not in refused.log
    assert not any("refused" in query.name for query in desk.world.queries)


def _with_key(desk: Desk, server: ssh.Server) -> dict[str, str]:
    for file in (server.key, server.known_hosts):
        shutil.copy(file, desk.workspace / file.name)
        (desk.workspace / file.name).chmod(0o600)
    key, known = (desk.workspace / file.name for file in (server.key, server.known_hosts))
    options = f"-F none -i {key} -o UserKnownHostsFile={known} -o BatchMode=yes"
    return {"GIT_SSH_COMMAND": f"ssh {options} -o ConnectTimeout=60"}


def _pushed(repository: Path) -> bool:
    return repositories.git(repository, "log", "-1", "--format=%an %s", "made-inside") == (
        "Ada second"
    )
