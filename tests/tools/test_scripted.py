"""Node and Python: programs, packages and environments, from the system and from the home."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.callers import new_folder
from tests.people import Person
from tests.tools import homes
from tests.tools.conftest import Inside

PROJECT = Path(__file__).with_name("small-project")

WORKERS = """
const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads")
if (!isMainThread) {
  parentPort.postMessage(workerData * workerData)
} else {
  const { execFileSync, fork } = require("node:child_process")
  const square = (n) => new Promise((done) =>
    new Worker(__filename, { workerData: n }).on("message", done))
  Promise.all([1, 2, 3, 4].map(square)).then((all) => {
    console.log(all.join(" "), execFileSync("echo", ["child"]).toString().trim())
    const server = require("node:http").createServer((_, reply) => reply.end("served"))
    server.listen(0, "localhost", async () => {
      const answer = await fetch(`http://localhost:${server.address().port}/`)
      console.log(await answer.text())
      server.close(() => process.exit(0))
    })
  })
}
"""


@pytest.fixture(scope="module")
def settled(user: Person) -> Person:
    """The user, with pyenv, pipx and nvm in the home, as a log-in shell has them on PATH."""
    python = homes.make_pyenv(user)
    homes.make_pipx(user, python)
    node = homes.make_nvm(user)
    own = (user.home / ".pyenv" / "shims", user.home / ".local" / "bin", node)
    path = ":".join((*map(str, own), user.environment["PATH"]))
    return replace(
        user,
        environment={**user.environment, "PATH": path, "NVM_DIR": str(user.home / ".nvm")},
    )


def run(person: Person, cwd: Path, script: str) -> str:
    done = person.ags("exec", "--", "bash", "-euc", script, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# Node


def test_node_runs_workers_children_and_a_server(inside: Inside, workspace: Path) -> None:
    (workspace / "workers.js").write_text(WORKERS)
    assert inside("node workers.js").stdout == "1 4 9 16 child\nserved\n"


def test_npm_installs_builds_tests_and_runs_without_a_network(
    inside: Inside, workspace: Path, person: Person
) -> None:
    _write(workspace, person, {
        "greeting/package.json": json.dumps(
            {"name": "greeting", "version": "1.2.3", "bin": {"greet": "greet.js"}}
        ),
        "greeting/index.js": "exports.greet = (name) => `hello ${name}`\n",
        "greeting/greet.js": "#!/usr/bin/env node\n"
        "console.log(require('./index').greet(process.argv[2]))\n",
        "package.json": json.dumps({
            "name": "app", "version": "0.0.1", "private": True,
            "scripts": {"build": "node build.js", "test": "node --test"},
        }),
        "build.js": "const { greet } = require('greeting')\n"
        "require('node:fs').writeFileSync('built.txt', greet('build'))\n",
        "test/greet.test.js": "const { test } = require('node:test')\n"
        "test('it greets', () => require('node:assert').equal("
        "require('greeting').greet('test'), 'hello test'))\n",
    })  # fmt: skip
    inside("npm pack --silent ./greeting && npm install --offline ./greeting-1.2.3.tgz")
    inside("npm run --silent build && npm test --silent")
    assert (workspace / "built.txt").read_text() == "hello build"
    assert inside("npx --offline greet you").stdout == "hello you\n"
    # Installed for good: a later run, and the person outside, find it.
    assert person.run_as(["node", "build.js"], cwd=workspace).returncode == 0
    inside("npm install --offline ./greeting && test -L node_modules/greeting")


def test_node_of_the_home_runs_with_its_own_packages(settled: Person, world: Path) -> None:
    here = new_folder(world, settled)
    _write(here, settled, {"workers.js": WORKERS})
    node = settled.home / ".nvm/versions/node/v0.0.0-of-tests/bin/node"
    assert run(settled, here, "command -v node && node workers.js") == (
        f"{node}\n1 4 9 16 child\nserved\n"
    )
    assert run(settled, here, "greet you") == f"hello you {node}\n"


# Python


def test_python_makes_an_environment_and_pip_installs_into_it(
    inside: Inside, workspace: Path, person: Person
) -> None:
    _make_wheel(workspace / "shout-1.0-py3-none-any.whl")
    inside("/usr/bin/python3 -m venv env && env/bin/pip install -q --no-index ./shout-*.whl")
    assert inside("env/bin/shout quietly").stdout == "QUIETLY\n"
    assert person.run_as([workspace / "env/bin/shout", "outside"]).stdout == "OUTSIDE\n"


def test_the_test_suite_of_a_project_passes(inside: Inside, workspace: Path) -> None:
    shutil.copytree(PROJECT, workspace, dirs_exist_ok=True)
    done = inside("make check PYTHON=/usr/bin/python3 2>&1")
    assert "Ran 13 tests" in done.stdout and done.stdout.endswith("OK\n")


def test_a_test_suite_that_fails_fails_inside_too(inside: Inside, workspace: Path) -> None:
    shutil.copytree(PROJECT, workspace, dirs_exist_ok=True)
    words = workspace / "sums" / "words.py"
    words.write_text(words.read_text().replace("match[2]", "match[1]"))
    done = inside("make check PYTHON=/usr/bin/python3 2>&1", code=2)
    assert "FAILED" in done.stdout


def test_a_python_of_the_home_makes_an_environment_and_runs_a_test_suite(
    settled: Person, world: Path
) -> None:
    here = new_folder(world, settled)
    shutil.copytree(PROJECT, here, dirs_exist_ok=True)
    for path in here.rglob("*"):
        os.chown(path, settled.uid, settled.gid)
    tell = "import sys; print(sys.prefix); print(sys.base_prefix)"
    run(settled, here, "python3 -m venv --without-pip env")
    told = run(settled, here, f"env/bin/python -c '{tell}'").split()
    assert told[0] == f"{here}/env"
    assert told[1].startswith(f"{settled.home}/.pyenv/versions/")
    assert run(settled, here, "make check PYTHON=env/bin/python 2>&1").endswith("OK\n")


def test_a_program_of_pipx_finds_its_environment(settled: Person, world: Path) -> None:
    assert run(settled, new_folder(world, settled), "tally 1 2 3") == "6\n"


def test_a_toolchain_of_the_home_cannot_be_changed(settled: Person, world: Path) -> None:
    here = new_folder(world, settled)
    run(settled, here, "true")  # so that what a first use leaves in a home is there
    before = sorted(settled.home.rglob("*"))
    script = (
        "for place in ~/.pyenv ~/.pyenv/shims ~/.nvm ~/.local/share/pipx/venvs/tally/bin; do"
        " if touch $place/planted || echo '#' >>$place/python3; then echo $place; fi; done"
    )
    assert run(settled, here, script) == ""
    assert sorted(settled.home.rglob("*")) == before


def test_whatever_else_the_home_holds_is_not_there(settled: Person, world: Path) -> None:
    _write(settled.home, settled, {"private.txt": "private", ".netrc": "secret"})
    names = run(settled, new_folder(world, settled), "ls -A ~").split()
    assert set(names) <= {".pyenv", ".nvm", ".local"}


# The home of whoever runs these tests

OWN_TOOLCHAINS = {
    "python3": "python3 -m venv --without-pip env && env/bin/python -c 'import ssl, ctypes'",
    "rustc": "echo 'fn main() { println!(\"hi\") }' >hi.rs && rustc hi.rs && ./hi",
    "cargo": "cargo init --quiet --vcs none --name hi crate && cd crate && cargo run --offline",
    "node": "node -e 'process.exit(0)'",
    "go": "mkdir g && cd g && printf 'package main\\nfunc main() {}\\n' >main.go && go run main.go",
}


@pytest.fixture
def at_home(world: Path, request: pytest.FixtureRequest) -> Person:
    """Whoever runs these tests, in their own environment; only what is AGS's lies elsewhere."""
    person: Person = request.getfixturevalue("root" if os.geteuid() == 0 else "user")
    own = {"AGS_HOME": str(world / "state"), "XDG_CONFIG_HOME": str(world / "settings")}
    return replace(person, home=Path.home(), environment={**os.environ, **own})


def test_toolchains_of_the_testers_own_home_work(at_home: Person, world: Path) -> None:
    for program, script in _in_home(OWN_TOOLCHAINS).items():
        here = new_folder(world, at_home)
        asked = f"{program} --version || {program} version"
        outside = at_home.run_as(["sh", "-c", asked], cwd=here).stdout
        assert run(at_home, here, asked) == outside
        run(at_home, here, script)


def _in_home(scripts: Mapping[str, str]) -> dict[str, str]:
    found = {name: shutil.which(name) for name in scripts}
    home = Path.home()
    return {
        name: scripts[name]
        for name, path in found.items()
        if path and Path(path).is_relative_to(home)
    }


def _write(folder: Path, owner: Person, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        if not path.parent.exists():
            path.parent.mkdir()
            os.chown(path.parent, owner.uid, owner.gid)
        path.write_text(text)
        os.chown(path, owner.uid, owner.gid)


def _make_wheel(file: Path) -> None:
    """The least that pip takes for a package with a program."""
    info = "shout-1.0.dist-info"
    content = {
        "shout.py": "import sys\ndef main():\n    print(' '.join(sys.argv[1:]).upper())\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: shout\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nshout = shout:main\n",
    }
    record = "".join(f"{name},,\n" for name in (*content, f"{info}/RECORD"))
    with zipfile.ZipFile(file, "w") as wheel:
        for name, text in {**content, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)
