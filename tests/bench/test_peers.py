"""Peers, by stand-ins for the programs: the real ones are not everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import stopwatch
from bench.measure import Missing, finish
from bench.peers import CAREFUL, Program, containers, sandbox_runtime

ENGINE = """#!/bin/sh
echo "$*" >>{log}
case "$1 $*" in
    import*) exec /bin/cat >{tar} ;;
    rmi*) ;;
    *nofile=*) exec {program} ;;
    *) echo 'I may not raise limits' >&2; exit 126 ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


def test_an_engine_that_is_not_installed_is_missing(programs: Path) -> None:
    with containers() as found:
        assert found == {
            "podman run": Missing("not installed"),
            "docker run": Missing("not installed"),
        }


def test_an_engine_that_does_not_work_is_missing_with_what_it_said(programs: Path) -> None:
    install(programs / "docker", "#!/bin/sh\necho 'no daemon is running' >&2\nexit 1\n")
    with containers() as found:
        missing = found["docker run"]
    assert isinstance(missing, Missing)
    assert "no daemon is running" in missing.why


def test_an_engine_that_answers_without_having_run_the_program_is_missing(programs: Path) -> None:
    install(programs / "docker", "#!/bin/sh\nexit 0\n")
    with containers() as found:
        assert isinstance(found["docker run"], Missing)


def test_an_engine_gets_the_flags_it_needs_and_its_image_is_removed(
    programs: Path, tmp_path: Path
) -> None:
    log, tar = tmp_path / "log", tmp_path / "image.tar"
    program = stopwatch.write(tmp_path)
    install(programs / "podman", ENGINE.format(log=log, tar=tar, program=program))
    with containers() as found:
        engine = found["podman run"]
        assert isinstance(engine, Program)
        assert engine.flags == CAREFUL
        stopwatch.reading(finish(engine.argv))
        assert "rmi" not in log.read_text()
    image = log.read_text().split()[2]
    assert log.read_text().splitlines()[-1] == f"rmi --force {image}"
    assert stopwatch.NAME in finish(("/bin/tar", "tf", tar)).decode().split()


def test_the_sandbox_runtime_is_a_peer_only_where_it_works(programs: Path) -> None:
    assert sandbox_runtime() == Missing("not installed")
    install(programs / "srt", "#!/bin/sh\necho 'no bridge' >&2\nexit 1\n")
    broken = sandbox_runtime()
    assert isinstance(broken, Missing) and "no bridge" in broken.why
    install(programs / "srt", '#!/bin/sh\n[ "$*" = true ]\n')
    assert isinstance(sandbox_runtime(), Program)
