"""Text from elsewhere, as a person is shown it."""

from __future__ import annotations

import pytest

from ags.text import one_line, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("make\x1b[m.sh", "make\\x1b[m.sh"),
        ("a\u202eb", "a\\u202eb"),
        ("ls\u3164-a", "ls\\u3164-a"),
        ("a\u2800b\u115f\u1160\uffa0", "a\\u2800b\\u115f\\u1160\\uffa0"),
        ("grüße 本", "grüße 本"),
    ],
)
def test_what_would_not_be_seen_is_made_visible(text: str, shown: str) -> None:
    assert plain(text) == one_line(text) == shown


def test_lines_and_tabs_stay_unless_all_has_to_stand_on_one() -> None:
    assert plain("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb") == "a\\x0a\\x09b"
