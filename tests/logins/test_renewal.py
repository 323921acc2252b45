"""A log-in is renewed outside: once for all runs, never lost, and never a token inside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ags.egress.desk import Answer, Asked, Post
from ags.egress.inject import Hidden
from ags.errors import AgsError
from ags.logins import broker
from ags.logins.state import kept_path, wire
from tests.logins.run import Agent, host_login, real, to, wired
from tests.logins.vendor import CLIENT, Vendor

OVER = 1.0
"""An expiry long gone."""


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(main())


def test_the_file_inside_is_the_agents_own_without_a_token(tmp_path: Path) -> None:
    vendor = Vendor()
    path = host_login(tmp_path, vendor)
    made = wired(tmp_path, path)
    login = made.file["claudeAiOauth"]
    assert made.path == ".claude/.credentials.json" and isinstance(login, dict)
    assert login["expiresAt"] == real(path)["expiresAt"]
    assert login["subscriptionType"] == "max" and login["scopes"] == real(path)["scopes"]
    assert login["accessToken"].startswith("sk-ant-oat01-")
    assert len(login["accessToken"]) == len(vendor.access)
    shown = json.dumps(dict(made.file))
    assert vendor.access not in shown and vendor.refresh not in shown
    assert "mcp" not in shown, "the log-ins of other services are nobody's business inside"


def test_an_expired_log_in_is_renewed_with_what_the_agent_sends(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        before = json.loads(path.read_bytes())
        agent = Agent(wired(tmp_path, path))
        spent, first = vendor.refresh, agent.login["accessToken"]
        status, told = await agent.renew(to(vendor))
        assert status == 200 and 3000 < told["expires_in"] <= 3600
        assert told["account"] == {"uuid": "0-1", "email": "a@b"}
        assert vendor.renewals[0]["refresh_token"] == spent
        assert vendor.renewals[0]["client_id"] == CLIENT
        assert (real(path)["accessToken"], real(path)["refreshToken"]) == (
            vendor.access,
            vendor.refresh,
        )
        assert abs(real(path)["expiresAt"] / 1000 - time.time() - 3600) < 600
        after = json.loads(path.read_bytes())
        assert after["mcpOAuth"] == before["mcpOAuth"]
        assert after["claudeAiOauth"]["subscriptionType"] == "max"
        assert agent.login["accessToken"] != first and agent.sent() == vendor.access
        assert not any(token in shown for token in vendor.issued for shown in agent.seen)

    run(work)


def test_two_runs_at_once_renew_it_once(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        agents = [Agent(wired(tmp_path, path)) for _ in range(4)]
        post = _slowly(to(vendor))
        found = await asyncio.gather(*(agent.renew(post) for agent in agents))
        assert [status for status, _ in found] == [200] * 4
        assert len(vendor.renewals) == 1 and not vendor.revoked
        assert {agent.sent() for agent in agents} == {vendor.access}
        assert vendor.good(real(path)["accessToken"])
        assert all(agent.login["life"] > 3000 for agent in agents)

    run(work)


def test_without_the_lock_the_vendor_would_have_revoked_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the one above: that test can fail."""
    monkeypatch.setattr(broker, "_locked", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(broker, "_claimed", lambda _: contextlib.nullcontext())

    async def work() -> None:
        vendor = Vendor()
        agents = [Agent(wired(tmp_path, host_login(tmp_path, vendor, OVER))) for _ in range(2)]
        await asyncio.gather(*(agent.renew(_slowly(to(vendor))) for agent in agents))
        assert vendor.revoked

    run(work)


def test_what_the_persons_own_agent_renewed_is_taken_over(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))
        vendor.renew("application/json", _own(vendor))
        path.write_bytes(vendor.claude_file(time.time() + 500))
        os.utime(path, (1, 1))  # not just now
        assert agent.sent() == vendor.access, "even before the agent asks"
        status, told = await agent.renew(to(vendor))
        assert status == 200 and 300 < told["expires_in"] <= 500
        assert len(vendor.renewals) == 1 and agent.sent() == vendor.access
        assert not any(token in shown for token in vendor.issued for shown in agent.seen)

    run(work)


def test_what_another_renewed_and_let_expire_is_renewed_from_there(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))
        vendor.renew("application/json", _own(vendor))
        path.write_bytes(vendor.claude_file(OVER))
        assert (await agent.renew(to(vendor)))[0] == 200
        assert len(vendor.renewals) == 2 and not vendor.revoked
        assert vendor.good(real(path)["accessToken"])

    run(work)


def test_a_maker_that_keeps_its_refresh_token_keeps_it(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor(rotates=False)
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))
        before = vendor.refresh
        assert (await agent.renew(to(vendor)))[0] == 200
        assert real(path)["refreshToken"] == before
        assert real(path)["accessToken"] == vendor.access == agent.sent()

    run(work)


def test_an_agent_that_asks_again_and_again_does_not_wear_it_out(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        agent = Agent(wired(tmp_path, host_login(tmp_path, vendor, OVER)))
        for _ in range(5):
            assert (await agent.renew(to(vendor)))[0] == 200
        assert len(vendor.renewals) == 1

    run(work)


def test_a_revoked_log_in_is_told_and_the_file_stays(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor(revoked=True)
        path = host_login(tmp_path, vendor, OVER)
        before = path.read_bytes()
        agent = Agent(wired(tmp_path, path))
        for _ in range(3):
            status, told = await agent.renew(to(vendor))
            assert status == 400 and told["error"] == "invalid_grant"
        assert path.read_bytes() == before
        assert len(vendor.renewals) == 1, "a no is a no for a while"

    run(work)


@pytest.mark.parametrize(
    ("status", "body", "inside"),
    [
        (200, b"not json", 502),
        (200, b"[]", 502),
        (200, b"{}", 502),
        (200, b'{"access_token": 7}', 502),
        (200, b'{"access_token": "short"}', 502),
        (200, b'{"accessToken": "sk-ant-oat01-REAL-other-name-0123456789"}', 502),
        (200, b'{"access_token": "sk-ant-oat01-REAL-new-0123456789", "refresh_token": 7}', 502),
        (200, b"[" * 100_000, 502),
        (500, b"<html>no</html>", 500),
        (429, b'{"error": {"type": "rate_limit_error", "message": "later"}}', 429),
        (302, b"", 302),
    ],
)
def test_an_answer_of_no_use_leaves_the_file_as_it_is(
    tmp_path: Path, status: int, body: bytes, inside: int
) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        before = path.read_bytes()
        agent = Agent(wired(tmp_path, path))

        async def post(_: Asked) -> Answer:
            return Answer(status, Hidden(body))

        assert (await agent.renew(post))[0] == inside
        assert path.read_bytes() == before
        assert not [name for name in os.listdir(path.parent) if name.endswith("-new")]

    run(work)


def test_an_error_that_echoes_the_token_is_covered(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        agent = Agent(wired(tmp_path, host_login(tmp_path, vendor, OVER)))
        echo = {"error": "x", "error_description": f"no: {vendor.refresh} {'y' * 300}"}
        other = {**echo, "access_token": vendor.access, "message": "sk-ant-oat01-" + "Q" * 60}

        async def post(_: Asked) -> Answer:
            return Answer(400, Hidden(json.dumps(other).encode()))

        _, told = await agent.renew(post)
        shown = json.dumps(told)
        assert vendor.refresh not in shown and vendor.access not in shown and "QQQ" not in shown
        assert told["error"] == "x" and told["error_description"].startswith("no: ***")

    run(work)


def test_the_person_is_told_without_a_token(tmp_path: Path) -> None:
    async def work() -> None:
        vendor, told = Vendor(), list[str]()
        path = host_login(tmp_path, vendor, OVER)
        (tmp_path / "ags").mkdir(mode=0o700)
        agent = Agent(wire("claude", path, "", tmp_path / "ags", told.append))
        await agent.renew(to(vendor))
        assert told == ["the log-in for anthropic was renewed"]
        path.write_bytes(vendor.claude_file(OVER))
        vendor.revoked = True
        await agent.renew(to(vendor))
        assert len(told) == 2 and "`ags auth claude`" in told[1]
        path.write_bytes(b"{")
        await agent.renew(to(vendor))
        assert len(told) == 3 and "not a JSON object" in told[2]
        assert not any(token in line for token in vendor.issued for line in told)

    run(work)


@pytest.mark.parametrize(
    "error", [ConnectionResetError("x"), TimeoutError(), AgsError("reach", cause="no way")]
)
def test_an_endpoint_that_cannot_be_reached_leaves_the_file_as_it_is(
    tmp_path: Path, error: Exception
) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        before = path.read_bytes()
        agent = Agent(wired(tmp_path, path))

        async def post(_: Asked) -> Answer:
            raise error

        assert (await agent.renew(post))[0] == 502
        assert path.read_bytes() == before
        assert (await agent.renew(to(vendor)))[0] == 200

    run(work)


def test_a_renewal_goes_on_when_nobody_inside_waits_for_it(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))
        asking = asyncio.create_task(agent.renew(_slowly(to(vendor))))
        await asyncio.sleep(0.05)
        asking.cancel()
        await agent.desk.settle()
        assert len(vendor.renewals) == 1 and real(path)["refreshToken"] == vendor.refresh

    run(work)


def test_a_log_in_that_was_just_made_anew_is_not_overwritten(tmp_path: Path) -> None:
    async def work() -> None:
        vendor, other = Vendor(), Vendor()
        other._new()
        other._new()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))

        async def post(request: Asked) -> Answer:
            path.write_bytes(other.claude_file())
            return await to(vendor)(request)

        assert (await agent.renew(post))[0] == 200
        assert real(path)["refreshToken"] == other.refresh and agent.sent() == other.access

    run(work)


def test_other_changes_to_the_file_meanwhile_stay(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))

        async def post(request: Asked) -> Answer:
            path.write_bytes(path.read_bytes().replace(b"mcp-server-token", b"mcp-changed-token"))
            return await to(vendor)(request)

        assert (await agent.renew(post))[0] == 200
        assert b"mcp-changed-token" in path.read_bytes()
        assert real(path)["accessToken"] == vendor.access

    run(work)


def test_owner_and_mode_of_the_file_stay(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        path.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(path, 0, 1234)
        before = path.stat()
        assert (await Agent(wired(tmp_path, path)).renew(to(vendor)))[0] == 200
        after = path.stat()
        assert (before.st_uid, before.st_gid, before.st_mode) == (
            after.st_uid,
            after.st_gid,
            after.st_mode,
        )
        assert before.st_ino != after.st_ino, "replaced whole"

    run(work)


def test_a_link_stays_a_link_and_what_it_leads_to_is_renewed(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        link = host_login(tmp_path, vendor, OVER)
        target = tmp_path / "dotfiles.json"
        os.rename(link, target)
        link.symlink_to(target)
        assert (await Agent(wired(tmp_path, link)).renew(to(vendor)))[0] == 200
        assert link.is_symlink() and real(target)["accessToken"] == vendor.access

    run(work)


def test_a_link_that_is_put_there_later_is_not_followed(tmp_path: Path) -> None:
    async def work() -> None:
        vendor, other = Vendor(), Vendor()
        other._new()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))
        elsewhere = tmp_path / "elsewhere.json"
        elsewhere.write_bytes(other.claude_file())
        path.unlink()
        path.symlink_to(elsewhere)
        assert agent.sent() == vendor.access
        assert (await agent.renew(to(vendor)))[0] == 503
        assert vendor.renewals == [] and other.renewals == []

    run(work)


def test_in_a_clients_own_folder_no_link_is_followed(tmp_path: Path) -> None:
    vendor = Vendor()
    path = kept_path("claude", tmp_path / "ags", "acme")
    path.parent.mkdir(parents=True)
    path.symlink_to(host_login(tmp_path, vendor))
    with pytest.raises(AgsError, match="symbolic"):
        wired(tmp_path, path, client="acme")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"claudeAiOauth": 3}', b"\xff"])
def test_a_file_that_is_being_written_costs_nothing(tmp_path: Path, content: bytes) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor)
        agent = Agent(wired(tmp_path, path))
        path.write_bytes(content)
        assert agent.sent() == vendor.access
        assert (await agent.renew(to(vendor)))[0] == 503
        assert vendor.renewals == [] and path.read_bytes() == content
        path.write_bytes(vendor.claude_file(OVER))
        assert (await agent.renew(to(vendor)))[0] == 200

    run(work)


def test_a_file_that_is_gone_ends_the_log_in(tmp_path: Path) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor)
        agent = Agent(wired(tmp_path, path))
        path.unlink()
        assert agent.sent() is None
        assert (await agent.renew(to(vendor)))[0] == 503
        assert vendor.renewals == [] and not path.exists()

    run(work)


def test_no_renewal_begins_that_could_not_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))
        with monkeypatch.context() as patched:
            patched.setattr(os, "posix_fallocate", full)
            status, told = await agent.renew(to(vendor))
            assert status == 503 and "space" in told["error_description"]
            assert vendor.renewals == [], "the old refresh token would have been spent for nothing"
        assert (await agent.renew(to(vendor)))[0] == 200

    run(work)


def test_the_persons_own_agent_is_waited_for_while_it_renews(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        vendor = Vendor()
        path = host_login(tmp_path, vendor, OVER)
        agent = Agent(wired(tmp_path, path))
        claim = Path(f"{path.parent}.lock")
        claim.mkdir()
        with monkeypatch.context() as patched:
            patched.setattr(broker, "PATIENCE", 0.3)
            assert (await agent.renew(to(vendor)))[0] == 503
        assert vendor.renewals == []
        os.utime(claim, (1, 1))
        assert (await agent.renew(to(vendor)))[0] == 200, "one that was left behind is no claim"
        assert not claim.exists()

    run(work)


def _slowly(post: Post) -> Post:
    async def slow(request: Asked) -> Answer:
        await asyncio.sleep(0.2)
        return await post(request)

    return slow


def _own(vendor: Vendor) -> bytes:
    fields = {"grant_type": "refresh_token", "refresh_token": vendor.refresh}
    return json.dumps({**fields, "client_id": CLIENT}).encode()
