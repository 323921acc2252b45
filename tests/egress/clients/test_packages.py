"""Package managers install from a registry of the person's that is allowed, and from no other."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.egress.clients import shop
from tests.egress.clients.desk import Desk, needs
from tests.internet import Internet

HOST = "packages.example"
PIP = "env/bin/pip install -q --disable-pip-version-check --no-cache-dir --retries 0 --timeout 60"
# The machine's own npmrc may name the system's file of CAs. A run has ours in its place; here the
# driver has not.
NPM = (
    "npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 --cache /tmp/npm "
    '--cafile "$NODE_EXTRA_CA_CERTS"'
)


@pytest.fixture(scope="module")
def registry(the_internet: Internet) -> Iterator[Path]:
    """One for Python and for Node; gives its log."""
    with tempfile.TemporaryDirectory(prefix="ags-registry-") as base:
        folder = Path(base, "files")
        _for_python(folder)
        _for_node(folder)
        with shop.opened(the_internet, HOST, folder) as log:
            yield log


def _for_python(folder: Path) -> None:
    index = folder / "simple" / "greeting"
    index.mkdir(parents=True)
    name, about = "greeting-1.0-py3-none-any.whl", "greeting-1.0.dist-info"
    with zipfile.ZipFile(index / name, "w") as wheel:
        wheel.writestr("greeting.py", "def greet(name): return f'hello {name}'\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256((index / name).read_bytes()).hexdigest()
    (index / "index.html").write_text(
        f'<!DOCTYPE html><a href="{name}#sha256={digest}">{name}</a>\n'
    )


def _for_node(folder: Path) -> None:
    package = {"name": "greeting", "version": "1.0.0", "main": "index.js"}
    files = {
        "package/package.json": json.dumps(package),
        "package/index.js": "exports.greet = (name) => `hello ${name}`\n",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    (folder / "greeting-1.0.0.tgz").write_bytes(packed.getvalue())
    digest = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    dist = {
        "tarball": f"https://{HOST}/greeting-1.0.0.tgz",
        "integrity": f"sha512-{digest}",
    }
    versions = {"1.0.0": {**package, "dist": dist}}
    told = {"name": "greeting", "dist-tags": {"latest": "1.0.0"}, "versions": versions}
    (folder / "greeting").write_text(json.dumps(told))


def test_pip_installs_from_an_allowed_index(desk: Desk, registry: Path) -> None:
    greet = "env/bin/python -c 'import greeting; print(greeting.greet(\"pip\"))'"
    install = f"{PIP} --index-url https://{HOST}/simple/ greeting"
    ended = desk.shell(f"/usr/bin/python3 -m venv env && {install} && {greet}")
    assert (ended.code, ended.out) == (0, "hello pip\n"), ended
    came = registry.read_text().splitlines()
    assert came[-2:] == [
        "GET /simple/greeting/",
        "GET /simple/greeting/greeting-1.0-py3-none-any.whl",
    ]

    refused = desk.shell(f"{PIP} --index-url https://refused.example/simple/ other")
    # pip passes over an index that answers 403, and says only that it found nothing.
    assert refused.code != 0 and refused.reasons == ["not-listed"], refused
    assert desk.untouched


def test_npm_installs_from_an_allowed_registry(desk: Desk, registry: Path) -> None:
    needs("npm")
    greet = 'node -e \'console.log(require("greeting").greet("npm"))\''
    ended = desk.shell(f"{NPM} --registry https://{HOST}/ greeting >&2 && {greet}")
    assert (ended.code, ended.out) == (0, "hello npm\n"), ended
    assert registry.read_text().splitlines()[-2:] == ["GET /greeting", "GET /greeting-1.0.0.tgz"]

    refused = desk.shell(f"{NPM} --registry https://refused.example/ other")
    assert refused.code != 0 and "403" in refused.err, refused
    assert desk.untouched
