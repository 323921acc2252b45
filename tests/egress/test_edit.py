"""Changing policy.yaml: one line changes, and all that the person wrote stays."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.egress import edit
from ags.egress.load import parse
from ags.egress.policy import Rule
from ags.errors import AgsError, ConfigError

FILE = Path("/home/ada/.config/ags/policy.yaml")
HOME = Path("/home/ada")

WRITTEN = """\
# my rules
services: [github, npm]  # both

domains:
  - a.example     # the first
  # and a second
  - host: b.example
    ports: [8443]
    protocol: tls

deny:
- "*.ads.example"
ask: false # never
"""


def added(text: str, *words: str) -> str:
    return edit.with_entries(text, FILE, HOME, [edit.entry(word) for word in words])


def removed(text: str, *words: str) -> str:
    return edit.without(text, FILE, HOME, [edit.entry(word) for word in words])


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that are gone, and lines that are new; the others are in their old order."""
    old, new = before.splitlines(), after.splitlines()
    assert [x for x in old if x in new] == [x for x in new if x in old]
    return [x for x in old if x not in new], [x for x in new if x not in old]


def test_a_domain_is_added_below_the_last_one() -> None:
    after = added(WRITTEN, "C.example.")
    assert changed(WRITTEN, after) == ([], ["  - c.example"])
    assert after.index("protocol: tls") < after.index("c.example") < after.index("deny:")


def test_a_service_is_added_within_the_brackets() -> None:
    assert "services: [github, npm, pip]  # both\n" in added(WRITTEN, "pip")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("*.x.example", '  - "*.x.example"'),
        ("x.example:5432", "  - {host: x.example, ports: [5432]}"),
        ("10.1.2.3", '  - "10.1.2.3"'),
        ("[2606:4700::1]:443", '  - {host: "2606:4700::1", ports: [443]}'),
        ("bücher.example", "  - xn--bcher-kva.example"),
    ],
)
def test_a_domain_is_written_so_that_it_is_read_as_it_was_meant(word: str, line: str) -> None:
    after = added(WRITTEN, word)
    assert changed(WRITTEN, after) == ([], [line])
    assert edit.entry(word) in parse(after, FILE, "user", HOME).allow


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "\n\n", "# no line break"])
def test_a_file_without_rules_gets_its_first(text: str) -> None:
    after = added(text, "a.example", "pip")
    gap = "" if not text or text.endswith("\n") else "\n"
    assert after == f"{text}{gap}domains:\n  - a.example\nservices:\n  - pip\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("domains: []", "domains: [c.example]"),
        ("domains: [a.example]", "domains: [a.example, c.example]"),
        ("domains: [\n  a.example,  # x\n  b.example  # y\n]\n",
         "domains: [\n  a.example,  # x\n  b.example, c.example  # y\n]\n"),
        ("domains:\n- a.example", "domains:\n- a.example\n- c.example\n"),
        ("domains:\r\n  - a.example\r\nask: true\r\n",
         "domains:\r\n  - a.example\r\n  - c.example\r\nask: true\r\n"),
        ("domains:\n    -   a.example\n\n# end\n",
         "domains:\n    -   a.example\n    - c.example\n\n# end\n"),
        ("domains:\n  - |-\n    a.example\nask: true\n",
         "domains:\n  - |-\n    a.example\n  - c.example\nask: true\n"),
        ("ask: true", "ask: true\ndomains:\n  - c.example\n"),
    ],
)  # fmt: skip
def test_whichever_way_a_list_is_written(before: str, after: str) -> None:
    assert added(before, "c.example") == after


def test_what_is_there_already_changes_nothing() -> None:
    assert added(WRITTEN, "a.example", "github", "npm") == WRITTEN
    assert added(WRITTEN, "b.example") != WRITTEN


def test_what_was_added_can_be_taken_out_again() -> None:
    words = ("c.example", "pip", "*.d.example")
    assert removed(added(WRITTEN, *words), *words) == WRITTEN


def test_a_domain_is_removed_with_its_own_lines_only() -> None:
    gone = ["  - host: b.example", "    ports: [8443]", "    protocol: tls"]
    assert changed(WRITTEN, removed(WRITTEN, "b.example")) == (gone, [])
    assert changed(WRITTEN, removed(WRITTEN, "a.example"))[0] == ["  - a.example     # the first"]
    assert "services: [npm]  # both" in removed(WRITTEN, "github")
    assert "services: [github]  # both" in removed(WRITTEN, "npm")


def test_the_last_of_a_list_leaves_an_empty_list() -> None:
    assert removed("domains: # mine\n  - a.example\n", "a.example") == "domains: [] # mine\n"
    assert removed("domains: [a.example]", "a.example") == "domains: []"
    assert removed("services:\n- pip\n", "pip") == "services: []\n"


def test_a_domain_goes_with_all_its_rules_or_by_its_port() -> None:
    text = "domains: [a.example, {host: a.example, ports: [81]}, {host: a.example, ports: [82]}]"
    assert removed(text, "a.example") == "domains: []"
    assert removed(text, "a.example:82") == text.replace(", {host: a.example, ports: [82]}", "")
    block = "domains:\n  -\n    host: a.example\n    ports: [81]\n  - b.example\n  - a.example\n"
    assert removed(block, "a.example") == "domains:\n  - b.example\n"


@pytest.mark.parametrize("word", ["z.example", "claude", "*.a.example", "b.example:443"])
def test_what_the_file_does_not_list_cannot_be_removed(word: str) -> None:
    with pytest.raises(AgsError) as caught:
        removed(WRITTEN, word)
    assert "does not list it" in caught.value.cause


@pytest.mark.parametrize(
    "word", ["*", "*.com", "*.co.uk", "localhost", "127.0.0.1", "a.example/x", "a b.example", "nmp",
             "a.example:0", "https://a.example"]
)  # fmt: skip
def test_what_no_file_may_hold_is_refused(word: str) -> None:
    with pytest.raises(AgsError):
        added(WRITTEN, word)


@pytest.mark.parametrize("text", ["{domains: [a.example]}", "services: [{npm: {}, pip: {}}]"])
def test_a_file_that_cannot_be_changed_by_a_line_is_left_to_the_person(text: str) -> None:
    with pytest.raises(AgsError) as caught:
        removed(text, "pip") if "pip" in text else added(text, "b.example")
    assert "by hand" in caught.value.hint


def test_a_change_that_would_not_be_read_as_it_was_meant_is_not_made() -> None:
    with pytest.raises(AgsError) as caught:
        removed("domains :\n  - a.example\n", "a.example")
    assert "by hand" in caught.value.hint
    assert removed("domains:\n  - a.example\n", "a.example") == "domains: []\n"


def rewritten(file: Path, entries: Sequence[edit.Entry]) -> tuple[str, str]:
    change = partial(edit.with_entries, file=file, home=HOME, entries=entries)
    return asyncio.run(edit.rewrite(file, change))


def test_a_file_with_a_mistake_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("domain: [a.example]\n")
    with pytest.raises(ConfigError, match="policy.yaml:1"):
        rewritten(file, ["pip"])
    assert file.read_text() == "domain: [a.example]\n"
    assert os.listdir(tmp_path) == ["policy.yaml"]


def test_the_file_is_made_private_and_a_link_to_it_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "p.yaml", tmp_path / "ags" / "policy.yaml"
    real.parent.mkdir()
    real.write_text("ask: true\n")
    link.parent.mkdir()
    link.symlink_to(real)
    rewritten(link, ["pip"])
    assert link.is_symlink() and real.read_text() == "ask: true\nservices:\n  - pip\n"
    fresh = tmp_path / "new" / "policy.yaml"
    rewritten(fresh, ["pip"])
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o600


def test_two_who_add_at_once_both_have_their_line(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"

    def add(number: int) -> None:
        rewritten(file, [Rule(f"h{number}.example")])

    with ThreadPool(8) as pool:
        pool.map(add, range(24))
    assert len(parse(file.read_text(), file, "user", HOME).allow) == 24


def test_who_has_the_folder_for_long_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "policy.yaml"
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)

    async def scene() -> None:
        waiting = asyncio.create_task(edit.rewrite(file, lambda _: "ask: true\n"))
        for _ in range(5):
            await asyncio.sleep(0.02)
        assert not waiting.done() and not file.exists()
        os.close(descriptor)
        assert await waiting == ("", "ask: true\n") == ("", file.read_text())

    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with monkeypatch.context() as hasty:
        hasty.setattr(edit, "PATIENCE", 0.0)
        with pytest.raises(AgsError, match="another ags has been changing it") as caught:
            rewritten(file, ["pip"])
        assert "let that one go on" in caught.value.hint
    asyncio.run(scene())


RULES = st.builds(
    Rule,
    st.sampled_from(["a.example", "*.b.example", "9.example", "8.8.4.4", "true.example"]),
    st.sampled_from([(443, 80), (443,), (8443,)]),
    st.just("tls"),
    st.sampled_from([(), ("GET",), ("GET", "POST")]),
    st.sampled_from([(), ("/v1/*",), ("/a'b", "/{x}", "/a:b", "/a,b", "/*")]),
)


@given(st.lists(RULES, unique=True, max_size=5), st.sampled_from(["", WRITTEN]))
def test_any_rule_is_read_back_as_it_was(rules: list[Rule], text: str) -> None:
    after = edit.with_entries(text, FILE, HOME, rules)
    if after:
        assert set(rules) <= set(parse(after, FILE, "user", HOME).allow)
