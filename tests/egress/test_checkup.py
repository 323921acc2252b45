"""What `ags doctor` says of the fence, the policy and the secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags.backends import bwrap
from ags.egress.checkup import Where, fence, kept, policy, roots
from ags.model import Finding

CANARY = "sk-canary-0123456789"


@pytest.fixture
def where(tmp_path: Path) -> Where:
    settings = tmp_path / ".config/ags"
    settings.mkdir(parents=True, mode=0o700)
    return Where("", {"PATH": "/usr/bin"}, tmp_path, tmp_path / "state", settings / "config.toml")


def written(where: Where, text: str, name: str = "policy.yaml") -> Path:
    file = where.settings.with_name(name)
    file.write_text(text)
    return file


def said(where: Where) -> tuple[Finding, ...]:
    return asyncio.run(policy(where))


def test_a_fence_is_tried_for_real(tmp_path: Path) -> None:
    async def tried() -> Finding:
        return await fence(await bwrap.choose(0))

    assert asyncio.run(tried()).status == "ok"
    liar = tmp_path / "bwrap"
    for script in ("exit 1", "echo '{}' >&3", "echo '{\"child-pid\": 1}' >&3; exec sleep 60 3>&-"):
        liar.write_text(f"#!/bin/sh\n{script}\n")
        liar.chmod(0o755)
        found = asyncio.run(fence(str(liar)))
        assert found.status == "fail" and found.repair, script
    assert asyncio.run(fence("")).status == "unknown"


def test_a_machine_that_trusts_nobody_is_told(tmp_path: Path) -> None:
    assert roots({}).status == "ok"
    assert roots({"SSL_CERT_FILE": str(tmp_path / "none")}).status == "warn"


def test_a_sound_policy_or_none_is_fine(where: Where) -> None:
    assert [each.status for each in said(where)] == ["ok"]
    written(where, "domains: [api.example]\n")
    assert [each.status for each in said(where)] == ["ok"]


def test_a_mistake_in_the_policy_is_a_failure_with_its_line_and_a_hint(where: Where) -> None:
    written(where, "domains:\n  - api.example\ndomain: [x.example]\n")
    (found,) = said(where)
    assert found.status == "fail"
    assert "policy.yaml:3" in found.text and "did you mean `domains`?" in found.repair


def test_a_value_on_the_wrong_line_is_not_repeated(where: Where) -> None:
    written(where, f"domains: ['{CANARY} x']\n")
    (found,) = said(where)
    assert found.status == "fail" and CANARY not in repr(found)


@pytest.mark.parametrize("kind", ["folder", "link to nowhere", "open to all", "binary", "huge"])
def test_a_policy_that_cannot_be_read_is_a_failure(where: Where, kind: str) -> None:
    file = written(where, "domains: [api.example]\n")
    if kind == "open to all":
        file.chmod(0o666)
    elif kind == "binary":
        file.write_bytes(b"\x00\xff\x7fELF")
    elif kind == "huge":
        file.write_text("#" * (3 << 20))
    else:
        file.unlink()
        file.mkdir() if kind == "folder" else file.symlink_to("/nowhere/at/all")
    (found,) = said(where)
    assert found.status == "fail" and found.repair


def test_a_tool_that_opens_nothing_is_a_warning(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr("ags.egress.tools.tool_defaults", nothing)
    written(where, "services: [npm]\n")
    assert [(each.status, "npm" in each.text) for each in said(where)] == [
        ("ok", False),
        ("warn", True),
    ]
    (where.home / ".npmrc").write_text("registry=https://packages.example/\n")
    assert [each.status for each in said(where)] == ["ok"]


def secret(name: str, source: str) -> str:
    return f'[[secret]]\nname = "{name}"\nenv = "K_{name}"\nhost = "a.example"\n{source}\n'


def test_secrets_are_told_of_by_name_alone(where: Where, tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.write_text(CANARY)
    loose.chmod(0o644)
    ran = tmp_path / "ran"
    written(
        where,
        secret("one", f'from_file = "{loose}"')
        + secret("two", 'from_env = "NOT_SET"')
        + secret("three", 'secret_store = "never-set"')
        + secret("four", 'command = ["/no/such/program"]')
        + secret("five", f'command = ["/usr/bin/touch", "{ran}"]'),
        "config.toml",
    )
    found = asyncio.run(kept(where))
    names = [(each.text.split(":")[0], each.status) for each in found]
    assert names == [("one", "fail"), ("two", "warn"), ("three", "fail"), ("four", "fail")]
    assert CANARY not in repr(found) and not ran.exists()


def test_secrets_that_can_be_had_are_counted(where: Where, tmp_path: Path) -> None:
    assert "none" in asyncio.run(kept(where))[0].text
    own = tmp_path / "own"
    own.write_text(CANARY)
    own.chmod(0o600)
    written(where, secret("one", f'from_file = "{own}"'), "config.toml")
    (found,) = asyncio.run(kept(where))
    assert (found.status, found.text) == ("ok", "1 can be had")
