"""E2, E4, E16: without a policy nothing goes out, and the agent has no say in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attack.egress.scene import ALLOW, BOTH, Scene, paths

TRY = """
for host in ("api.example", "other.example"):
    request = get("/tried", host, LAST)
    every([lambda: fetch(dial(host, 443), host, request), lambda: say(dial(host, 80), request),
           lambda: fetch(connected(host, 443), host, request),
           lambda: fetch(socksed(host, 443), host, request),
           lambda: say(dial(GATEWAY, PROXY), get(f"http://{host}/tried", host, LAST))])
"""
CONTROL = """
fetch(dial("api.example", 443), "api.example", get("/control", "api.example", LAST))
"""


def unreadable(folder: Path) -> Path:
    """Root reads everything but this: a folder in its place."""
    place = folder / "policy.yaml"
    place.mkdir()
    return place


def linked(folder: Path) -> Path:
    place = folder / "policy.yaml"
    place.symlink_to("policy.yaml")
    return place


@pytest.mark.parametrize("make", [lambda folder: folder / "no-such.yaml", unreadable, linked],
                         ids=["missing", "unreadable", "a-loop"])  # fmt: skip
def test_without_a_readable_policy_everything_is_denied(
    scene: Scene, tmp_path: Path, make: object
) -> None:
    ended = scene.attack(TRY, make(tmp_path))  # type: ignore[operator]
    assert ended.broken
    assert scene.reached == set() and scene.asked == set()


WIDE = ("*", "*.com", "*.example", "*.co.uk", "*.", "**.api.example", "api.*", "a*.api.example",
        "*.*.api.example", "0.0.0.0/0", "http://*", "*:443", ".example", "*example")  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n# nothing\n",
        "domains: []",
        "domains:",
        "{}",
        "- api.example",
        "domain: [api.example]",
        "domains: [api.example]\nextra: 1",
        "domains: [api.example]\ndomains: [other.example]",
        "domains: {api.example: true}",
        "domains: [api.example",
        "domains: [api.example]\n\0",
        "domains: [!!python/object/apply:os.system [true]]",
        "a: &a [x, x]\nb: &b [*a, *a]\ndomains: *b",
        *(f"domains: [api.example, '{rule}']" for rule in WIDE),
    ],
    ids=range(14 + len(WIDE)),
)
def test_a_policy_that_is_empty_or_too_wide_lets_nothing_out(scene: Scene, text: str) -> None:
    """Also what would be good in it: half a policy is none."""
    scene.attack(TRY, text)
    assert scene.reached == set() and scene.asked == set()


def test_a_sound_policy_lets_out_what_it_names(scene: Scene) -> None:
    """The twin of all the above."""
    scene.attack(TRY + CONTROL, "domains: [api.example]")
    assert paths(scene.sites.api) == ["/tried"] * 3 + ["/control"]
    assert all(origin.visits == [] for origin in scene.sites.others)


@BOTH
def test_a_policy_that_the_agent_can_write_is_never_read(scene: Scene) -> None:
    """Wherever one could be looked for, before the start and from inside."""
    wide = "domains: [api.example, other.example]\n"
    names = ("policy.yaml", ".ags/policy.yaml", ".config/ags/policy.yaml", "ags/policy.yaml")
    for name in names:
        file = scene.workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wide)
        owner = scene.workspace.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
    scene.attack(
        f"""
for top in (os.getcwd(), os.environ["HOME"], "/tmp", "/etc/ags"):
    for name in {names!r}:
        with quietly():
            os.makedirs(os.path.dirname(os.path.join(top, name)), exist_ok=True)
            with open(os.path.join(top, name), "w") as file: file.write({wide!r})
"""
        + TRY
        + CONTROL,
        ALLOW,
    )
    assert all(origin.visits == [] for origin in scene.sites.others)
    assert scene.asked == {"api.example"}
    assert "/control" in paths(scene.sites.api)


def test_a_denial_is_stronger_than_any_permission(scene: Scene) -> None:
    """Of the whole host, or of a part of it."""
    scene.attack(
        TRY
        + """
for path in ("/secret", "/secret/x", "/SECRET", "/public/../secret", "/public"):
    fetch(dial("api.example", 443), "api.example", get(path, "api.example", LAST))
"""
        + CONTROL,
        """
domains: [api.example, other.example]
deny: [other.example, {host: api.example, paths: [/secret]}]
""",
    )
    assert all(origin.visits == [] for origin in scene.sites.others)
    assert [path for path in paths(scene.sites.api) if path != "/tried"] == ["/public", "/control"]
    assert scene.asked == {"api.example"}
