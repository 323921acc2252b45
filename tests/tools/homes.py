"""Toolchains in a home, laid out as their managers do it, made from programs of the system."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bootstrap.packages import find_program
from tests.people import Person

SHIM = """#!/usr/bin/env bash
exec "$HOME/.pyenv/versions/{version}/bin/python3" "$@"
"""


def make_pyenv(person: Person) -> Path:
    """`~/.pyenv` with a Python that finds its own library there and none of the system's."""
    asked = person.run_as(
        ["/usr/bin/python3", "-Ic", "import sys, os; print(sys.version.split()[0], os.__file__)"]
    )
    version, _, os_file = asked.stdout.strip().partition(" ")
    library = Path(os_file).parent
    pyenv = person.home / ".pyenv"
    place = pyenv / "versions" / version
    for folder in (place / "bin", place / "lib", pyenv / "shims"):
        folder.mkdir(parents=True)
    shutil.copytree(
        library,
        place / "lib" / library.name,
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__", "test", "dist-packages", "config-*"),
    )
    shutil.copy(Path("/usr/bin/python3").resolve(), place / "bin" / library.name)
    (place / "bin" / "python3").symlink_to(library.name)
    shim = pyenv / "shims" / "python3"
    shim.write_text(SHIM.format(version=version))
    shim.chmod(0o755)
    _give(person, pyenv)
    return place / "bin" / "python3"


def make_pipx(person: Person, python: Path) -> None:
    """`tally`, installed as pipx does: an environment of its own, and a link in `~/.local/bin`."""
    environment = person.home / ".local" / "share" / "pipx" / "venvs" / "tally"
    made = person.run_as([python, "-m", "venv", "--without-pip", environment])
    assert made.returncode == 0, made.stderr
    program = environment / "bin" / "tally"
    program.write_text(
        f"#!{environment}/bin/python3\nimport sys\nprint(sum(map(int, sys.argv[1:])))\n"
    )
    program.chmod(0o755)
    link = person.home / ".local" / "bin" / "tally"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(program)
    _give(person, person.home / ".local")


def make_nvm(person: Person) -> Path:
    """`~/.nvm` with a Node and a package that was installed for everybody."""
    place = person.home / ".nvm" / "versions" / "node" / "v0.0.0-of-tests"
    package = place / "lib" / "node_modules" / "greeting"
    package.mkdir(parents=True)
    (place / "bin").mkdir()
    shutil.copy(Path(find_program("node") or "node").resolve(), place / "bin" / "node")
    (package / "index.js").write_text("exports.greet = (name) => `hello ${name}`\n")
    program = package / "greet.js"
    program.write_text(
        "#!/usr/bin/env node\n"
        "console.log(require('./index').greet(process.argv[2]), process.execPath)\n"
    )
    program.chmod(0o755)
    (place / "bin" / "greet").symlink_to("../lib/node_modules/greeting/greet.js")
    _give(person, person.home / ".nvm")
    return place / "bin"


def _give(person: Person, tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        os.chown(path, person.uid, person.gid, follow_symlinks=False)
