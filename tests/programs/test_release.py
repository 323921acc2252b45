"""Which version is chosen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.errors import AgsError
from ags.programs import release
from ags.programs.release import Document, choose

NOW = datetime(2030, 1, 10, tzinfo=UTC)
DAY = 86400.0


def document(latest: str, **days: float | None) -> Document:
    times = {name[1:].replace("_", "."): age for name, age in days.items()}
    published = {
        name: None if age is None else NOW - timedelta(days=age) for name, age in times.items()
    }
    return Document("x", published, {"latest": latest})


def test_the_latest_is_taken_once_it_is_old_enough() -> None:
    found = choose(document("1.2.0", v1_1_0=9, v1_2_0=1), "", DAY, NOW)
    assert (found.version, found.note) == ("1.2.0", "")
    assert found.before == NOW - timedelta(days=1)


def test_a_younger_one_is_passed_over_and_that_is_said() -> None:
    found = choose(document("1.10.0", v1_9_0=3, v1_8_0=9, v1_10_0=0.5), "", DAY, NOW)
    assert (found.version, found.note) == ("1.9.0", "1.10.0 has been out for 12 hours only")


def test_what_lies_beyond_the_latest_is_never_taken() -> None:
    assert choose(document("1.2.0", v1_1_0=9, v1_2_0=0, v2_0_0=9), "", DAY, NOW).version == "1.1.0"


def test_without_an_age_the_latest_is_taken_at_once() -> None:
    found = choose(document("1.2.0", v1_2_0=0), "", None, NOW)
    assert (found.version, found.before) == ("1.2.0", None)


def test_one_that_is_asked_for_is_taken_however_young_and_that_is_said() -> None:
    found = choose(document("1.2.0", v1_1_0=9, v1_2_0=0.5), "1.2.0", DAY, NOW)
    assert (found.version, found.before) == ("1.2.0", None)
    assert found.note == "1.2.0 has been out for 12 hours only; taken as asked for"
    old = choose(document("1.2.0", v1_1_0=9, v1_2_0=0), "1.1.0", DAY, NOW)
    assert (old.version, old.note, old.before) == ("1.1.0", "", NOW - timedelta(days=1))


@pytest.mark.parametrize(
    ("found", "wanted", "cause"),
    [
        (document("1.0.0", v1_0_0=0.1), "", "out for 1 day"),
        (document("1.0.0", v1_0_0=None), "", "out for 1 day"),
        (Document("x", {}, {}), "", "names no latest"),
        (document("1.0.0", v1_0_0=5), "9.9.9", "there is no version 9.9.9"),
        (document("1.0.0", v1_0_0=5), "../../evil", "is not a version"),
        (document("1.0.0", v1_0_0=5), "--registry=x", "is not a version"),
    ],
)
def test_without_a_fitting_version_the_reason_is_told(
    found: Document, wanted: str, cause: str
) -> None:
    with pytest.raises(AgsError) as caught:
        choose(found, wanted, DAY, NOW)
    assert cause in caught.value.cause


def test_builds_for_testing_are_not_taken() -> None:
    told = {
        "versions": ["1.0.0", "1.1.0-beta.1", "1.1.0"],
        "time": {"1.0.0": "2029-01-01T00:00:00Z", "1.1.0-beta.1": "2029-01-02T00:00:00.000+00:00",
                 "1.1.0": "2030-01-09T23:00:00"},
        "dist-tags": {"latest": "1.1.0", "beta": "1.1.0-beta.1"},
    }  # fmt: skip
    found = release.read("x", told)
    assert choose(found, "", DAY, NOW).version == "1.0.0"
    assert choose(found, "beta", DAY, NOW).version == "1.1.0-beta.1"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.fixed_dictionaries({"time": ANYTHING, "versions": ANYTHING, "dist-tags": ANYTHING}))
def test_whatever_a_registry_says_it_is_read_or_refused(told: dict[str, object]) -> None:
    for each in (told, told["time"]):
        with pytest.raises(AgsError):
            choose(release.read("x", each), "", DAY, NOW)
