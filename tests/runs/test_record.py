"""The record of a run: values, states, names, times."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags import records, runs
from ags.errors import AgsError
from ags.runs import FINAL, NEXT, Moment, Result, Run
from tests.runs.examples import example
from tests.runs.strategies import any_run, moments


@given(any_run)
def test_a_record_reads_back_as_it_was(run: Run) -> None:
    data = records.encode(run)
    assert records.decode(Run, data) == run and data.isascii()


@given(any_run, st.data())
def test_a_record_of_another_shape_is_refused(run: Run, data: st.DataObject) -> None:
    plain = json.loads(records.encode(run))
    key = data.draw(st.sampled_from(sorted(plain)))
    plain[key] = data.draw(st.sampled_from([[1], {"x": 1}, [[]]]))
    with pytest.raises(ValueError, match=key):
        records.decode(Run, json.dumps(plain).encode())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"asking": 1}, "asking is 1, not of type bool"),
        ({"exit_code": True}, "exit_code is True, not of type int"),
        ({"state": "happy"}, "state is 'happy', not one of queued, "),
        ({"notes": ["a", 2]}, r"notes\[1\] is 2, not of type str"),
        ({"created": {"wall": 1, "uptime": 1}}, "created.boot is missing"),
        ({"colour": "red"}, "colour is not known"),
        ({"limits": {"cpus": "two"}}, "limits.cpus is 'two', not of type float"),
    ],
)
def test_an_error_in_a_record_names_its_place(change: dict[str, object], words: str) -> None:
    plain = json.loads(records.encode(example())) | change
    with pytest.raises(ValueError, match=words):
        records.decode(Run, json.dumps(plain).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 99_999, b"{}"])
def test_what_is_no_record_at_all_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        records.decode(Run, data)
    assert records.decode(Run, records.encode(example("sound"))).name == "sound"


def test_numbers_that_json_does_not_have_are_refused() -> None:
    sound = records.encode(example(started=Moment(1.0, 1234567.25, "b")))
    with pytest.raises(ValueError, match="NaN is no number"):
        records.decode(Run, sound.replace(b"1234567.25", b"NaN"))


NAMES = ["a", "7", "fix-login", "a" * 48, "a--b", "a-"]
NOT_NAMES = [
    "", "-a", "--", "A", "a" * 49, "a/b", "..", ".", "a.b", "a b", "a\n", "\na", "é", "a--",
    "a_b", "a\0", "--help", "a" * 999,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_name_is_fine(name: str) -> None:
    assert runs.checked_name(name) == name


@pytest.mark.parametrize("name", NOT_NAMES)
def test_another_name_is_refused_with_an_example_of_a_right_one(name: str) -> None:
    with pytest.raises(AgsError, match="is not a name for a run") as caught:
        runs.checked_name(name)
    assert "fix-login" in caught.value.hint and len(str(caught.value)) < 200


@pytest.mark.parametrize(("old", "new"), list(itertools.product(NEXT, NEXT)))
def test_states_follow_the_table(old: runs.State, new: runs.State) -> None:
    run, at = example(state=old, asking=True), runs.now()
    if new not in NEXT[old]:
        with pytest.raises(AgsError, match=f"that is {old} cannot become {new}"):
            runs.moved(run, new, at)
        return
    moved = runs.moved(run, new, at)
    assert moved.state == new
    assert (moved.started == at) == (new == "running")
    assert (moved.ended == at) == (new in FINAL) and moved.is_final == (new in FINAL)
    assert moved.asking == (new not in FINAL)


def test_every_state_can_be_reached_and_every_life_can_end() -> None:
    reached, before = {"queued"}, set[str]()
    while reached != before:
        before = set(reached)
        reached |= {new for state in before for new in NEXT[state]}  # type: ignore[index]
    assert reached == NEXT.keys()
    assert all(NEXT[state] & FINAL for state in NEXT.keys() - FINAL)
    assert all("done" not in NEXT[state] for state in NEXT if state != "collecting")


def test_collecting_late_does_not_make_a_run_longer() -> None:
    run = example(state="running", started=Moment(0, 100, "b"))
    run = runs.moved(run, "interrupted", Moment(0, 110, "b"))
    run = runs.moved(runs.moved(run, "collecting", Moment(0, 900, "b")), "done", runs.now())
    assert runs.duration(run, runs.now()) == 10


def test_a_new_start_forgets_the_last_ones_outcome() -> None:
    old = example(
        state="failed", exit_code=3, stopped_by="a limit", ended=runs.now(), started=runs.now(),
        result=Result("c", 1, 1, 1), notes=("kept",),
    )  # fmt: skip
    new = runs.moved(old, "queued", runs.now())
    assert new == replace(
        old, state="queued", exit_code=None, stopped_by=None, ended=None, started=None, result=None
    )


@given(moments, moments)
def test_no_time_is_negative(since: Moment, until: Moment) -> None:
    assert runs.seconds(since, until) >= 0
    assert runs.seconds(since, replace(until, boot=since.boot)) >= 0


def test_a_clock_that_is_set_changes_no_duration() -> None:
    start = Moment(wall=1_000_000, uptime=50, boot="b")
    back, ahead = Moment(0, 80, "b"), Moment(9e9, 80, "b")
    assert runs.seconds(start, back) == runs.seconds(start, ahead) == 30
    run = example(state="running", started=start, created=start)
    assert runs.duration(run, back) == 30
    assert runs.duration(runs.moved(run, "failed", back), ahead) == 30
    other_boot = Moment(1_000_060, 5, "c")
    assert runs.seconds(start, other_boot) == 60


def test_ids_are_in_the_order_of_creation_and_differ() -> None:
    made = [runs.new_id(Moment(wall, 0, "b")) for wall in (0, 1, 2**20, 1.7e9, 1.7e9 + 0.001)]
    assert made == sorted(made)
    at = runs.now()
    assert len({runs.new_id(at) for _ in range(100)}) == 100  # more would meet by chance
    assert len(runs.new_id(Moment(-5, 0, "b"))) == 20
