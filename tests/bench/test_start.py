"""The bench that matters most, for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from ags.model import Cover, Identity, Limits, Plan, Text
from ags.plan import BUNDLE, TRUSTSTORE, Network
from bench.start import with_trust

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """Git, and no container engine."""
    (tmp_path / "git").symlink_to(shutil.which("git") or "")
    return os.environ | {"PATH": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}


def bench(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "bench", *arguments), env=env, capture_output=True, text=True
    )


def test_it_compares_with_bwrap_and_names_the_peers_that_are_missing(
    environ: Mapping[str, str],
) -> None:
    done = bench("start", "--quick", "--json", env=environ)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for case in ("launch and release", "network, launch, open and release"):
        figures = {row["peer"]: row for row in rows if row["case"] == case}
        same = figures["bwrap, same binds"]
        assert same["ours"] > 0 and same["peer_value"] > 0
        assert same["ratio"] == pytest.approx(same["ours"] / same["peer_value"], rel=0.01)
        assert same["met"] is (same["ratio"] <= 3)
        for engine in ("podman run", "docker run"):
            assert figures[engine]["peer_value"] is None
            assert figures[engine]["note"] == "missing: not installed"


def test_the_network_that_is_measured_has_its_own_cas_inside() -> None:
    bundle, store, other = PurePosixPath(BUNDLE), PurePosixPath(TRUSTSTORE), PurePosixPath("/etc/x")
    steps = (Text(bundle, b"old"), Text(store, b"old"), Cover(other, b"old"), Text(other, b"old"))
    who = Identity(0, 0, "agent", Path("/"), 0, 0)
    plan = Plan("bench", ("true",), PurePosixPath("/"), (), steps, who, Limits())
    made = with_trust(plan, Network("198.18.0.1", b"pem", b"java"))
    assert [getattr(step, "content", None) for step in made.mounts] == [
        b"pem", b"java", b"pem", b"old",
    ]  # fmt: skip


def test_an_unknown_name_is_refused_with_the_names_there_are(environ: Mapping[str, str]) -> None:
    done = bench("start", "strat", env=environ)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "strat" in done.stderr
    for name in ("start", "exec", "verbs", "inside"):
        assert name in done.stderr.rpartition("try:")[2]
