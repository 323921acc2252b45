"""Our frozen values behave as frozen dataclasses do."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.frozen import frozen


@frozen
class Point:
    x: int
    y: int = 2


@frozen
class Other:
    x: int
    y: int = 2


@given(st.integers(), st.integers())
def test_values_are_equal_when_all_they_hold_is(x: int, y: int) -> None:
    assert Point(x, y) == Point(x=x, y=y) == Point(x, y=y)
    assert hash(Point(x, y)) == hash(Point(y=y, x=x))
    assert (Point(x, y) == Point(y, x)) == (x == y)
    assert Point(x, y) != Other(x, y)  # type: ignore[comparison-overlap]


def test_a_value_cannot_be_changed() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.y
    assert point == Point(1, 2)


def test_a_changed_copy_leaves_the_first_alone() -> None:
    point = Point(1)
    assert (replace(point, y=5), point) == (Point(1, 5), Point(1, 2))


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})]
)
def test_a_wrong_call_is_a_type_error(given: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(*given, **named)


def test_what_works_on_dataclasses_works() -> None:
    assert [field.name for field in fields(Point)] == ["x", "y"]
    assert repr(Point(1)) == "Point(x=1, y=2)"
    match Point(1, 7):
        case Point(x=1, y=7):
            return
    pytest.fail("no match")
