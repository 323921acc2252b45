"""Answers have the shape that their types say, or are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ags.client import shapes
from ags.client.fit import fit
from tests.client import answers


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (answers.ROW, shapes.Row),
        (answers.ROW | {"activity": {"cost": 1}, "newer": [1]}, shapes.Row),
        (answers.RUN, shapes.Run),
        (answers.DIFF, shapes.Diff),
        (answers.DONE, shapes.Done),
        (answers.PROJECT, shapes.Project),
        (answers.ASK, shapes.Ask),
        (answers.HEALTH, shapes.Health),
        ({"path": "a", "kind": "folder", "truncated": False, "entries": []}, shapes.File),
    ],
)
def test_what_the_api_says_fits(value: dict[str, Any], shape: type) -> None:
    assert fit(value, shape) is value


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": 5}, "name is not a str"),
        ({"name": None}, "name is not a str"),
        ({"state": "odd"}, "state is not one of queued"),
        ({"state": ["done"]}, "state is not one of"),
        ({"created": "now"}, "created is not a float"),
        ({"created": True}, "created is not a float"),
        ({"created": float("inf")}, "created is not a float"),
        ({"created": float("nan")}, "created is not a float"),
        ({"created": 1e300}, "created is not a float"),
        ({"exit_code": 10**30}, "exit_code is not a int"),
        ({"asking": 1}, "asking is not a bool"),
        ({"result": []}, "result is not an object"),
        ({"result": {"commit": "x", "files": 1, "insertions": 1}}, "result.deletions is missing"),
        ({"weakenings": [{"name": 1, "text": ""}]}, r"weakenings\[0\].name is not a str"),
        ({"notes": "x"}, "notes is not a list"),
    ],
)
def test_what_does_not_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fit(answers.RUN | changed, shapes.Run)


def test_every_name_that_is_missing_is_noticed() -> None:
    for name in answers.RUN:
        found = copy.copy(answers.RUN)
        del found[name]
        with pytest.raises(ValueError, match=f"{name} is missing"):
            fit(found, shapes.Run)
