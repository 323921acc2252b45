from __future__ import annotations

import hashlib
import json
import os
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ags.errors import AgsError
from ags.model import KIB, MIB
from ags.workspace.diff import Caps, Diff, FileChange, diff, lines, patch, write_patch
from ags.workspace.patchtext import Hunk, Line, parse_patch, parse_raw
from tests.workspace.poison import poisoned, ran
from tests.workspace.repositories import HOSTILE_NAMES, Checkout, checkout, go


@pytest.fixture
def project(tmp_path: Path) -> Checkout:
    return checkout(tmp_path / "project")


def changed(project: Checkout, old: str, new: str, caps: Caps | None = None) -> Diff:
    return go(diff(project.repository, old, new, caps or Caps()))


def only(made: Diff) -> FileChange:
    (file,) = made.files
    return file


def texts(file: FileChange) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for hunk in file.hunks for line in hunk.lines]


def test_a_modified_file_has_its_hunks_counts_and_heading(project: Checkout) -> None:
    body = ["def f():", *(f"    {n}" for n in range(10))]
    project.write("a.py", "\n".join(body) + "\n")
    old = project.commit()
    project.write("a.py", "\n".join([*body[:8], "    changed", *body[9:]]) + "\n")
    file = only(changed(project, old, project.commit()))
    assert (file.path, file.kind, file.additions, file.deletions) == ("a.py", "modified", 1, 1)
    assert (file.old_mode, file.new_mode) == (0o100644, 0o100644)
    (hunk,) = file.hunks
    place = (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, hunk.heading)
    assert place == (6, 6, 6, 6, "def f():")
    assert hunk.lines[3:5] == (Line("removed", "    7"), Line("added", "    changed"))
    assert list(file.added_lines()) == [(9, "    changed")]


def test_added_deleted_and_empty_files(project: Checkout) -> None:
    project.write("gone", "x\n")
    project.write("gone-empty")
    old = project.commit()
    (project.folder / "gone").unlink()
    (project.folder / "gone-empty").unlink()
    project.write("new", "y")
    project.write("new-empty")
    made = changed(project, old, project.commit())
    found = {file.path: (file.kind, file.additions, file.deletions) for file in made.files}
    # git calls an empty file that went and an empty one that came a rename
    assert found["gone"] == ("deleted", 0, 1)
    assert found["new"] == ("added", 1, 0)
    assert {file.path: file.hunks for file in made.files}["new"] == (
        Hunk(0, 0, 1, 1, "", (Line("added", "y", no_newline=True),)),
    )
    assert all(not file.hunks for file in made.files if "empty" in file.path)
    assert sorted(path for path in found if "empty" in path)[-1] == "new-empty"


def test_a_renamed_file_says_where_it_was_and_shows_only_what_changed(project: Checkout) -> None:
    text = "".join(f"{n}\n" for n in range(100))
    project.write("before", text)
    old = project.commit()
    (project.folder / "before").rename(project.folder / "after")
    project.write("after", text.replace("50\n", "fifty\n"))
    file = only(changed(project, old, project.commit()))
    assert (file.kind, file.old_path, file.path) == ("renamed", "before", "after")
    assert [text for kind, text in texts(file) if kind != "context"] == ["50", "fifty"]


def test_a_mode_change_and_a_type_change(project: Checkout) -> None:
    project.write("tool", "#!/bin/sh\n")
    project.write("plain", "x\n")
    old = project.commit()
    (project.folder / "tool").chmod(0o755)
    (project.folder / "plain").unlink()
    (project.folder / "plain").symlink_to("/etc/passwd")
    plain, tool = changed(project, old, project.commit()).files
    assert (tool.kind, tool.became_executable, tool.hunks) == ("mode-changed", True, ())
    assert (plain.kind, plain.is_link) == ("type-changed", True)
    assert texts(plain) == [("removed", "x"), ("added", "/etc/passwd")]


def test_a_link_in_place_of_a_binary_file_shows_where_it_leads(project: Checkout) -> None:
    project.write("x", b"\0\1\2")
    old = project.commit()
    (project.folder / "x").unlink()
    (project.folder / "x").symlink_to("/etc/shadow")
    file = only(changed(project, old, project.commit()))
    assert list(file.added_lines()) == [(1, "/etc/shadow")]


def test_a_binary_file_has_its_sizes_and_no_lines(project: Checkout) -> None:
    project.write("picture", b"\0" * 10)
    old = project.commit()
    project.write("picture", b"\0" * 30)
    file = only(changed(project, old, project.commit()))
    assert (file.binary, file.old_size, file.new_size, file.hunks) == (True, 10, 30, ())
    assert file.left_out == ""


def test_a_submodule_shows_the_commits_it_stands_at(project: Checkout) -> None:
    old = project.commit()
    entry = f"160000,{'a' * 40},module"
    project.git("update-index", "--add", "--cacheinfo", entry)
    project.git("commit", "-qm", "module")
    file = only(changed(project, old, "HEAD"))
    assert (file.kind, file.is_submodule, file.new_size) == ("added", True, None)
    assert texts(file) == [("added", f"Subproject commit {'a' * 40}")]


def test_hostile_names_come_through_unchanged_and_are_shown_harmlessly(project: Checkout) -> None:
    old = project.commit()
    for name in HOSTILE_NAMES:
        project.write(name, os.fsencode(name))
    made = changed(project, old, project.commit())
    assert {file.path for file in made.files} == set(HOSTILE_NAMES)
    for file in made.files:
        assert "\n".join(text for _, text in texts(file)) == file.path
    for row in lines(made.files):
        assert row.text.replace("\t", "").isprintable()
        assert row.kind != "file" or "\t" not in row.text


def test_json_is_utf8_and_keeps_the_bytes_of_a_name(project: Checkout) -> None:
    old = project.commit()
    project.write("b\udcff", b"\xfe\n")
    made = changed(project, old, project.commit()).to_json()
    text = json.dumps(made, ensure_ascii=False).encode()  # as the server will send it
    (file,) = json.loads(text)["files"]
    assert (file["path"], file["path_base64"], file["old_path"]) == ("b\\xff", "Yv8=", None)
    assert file["hunks"][0]["lines"] == [{"kind": "added", "text": "\\xfe", "no_newline": False}]
    assert set(file) == {
        *("path", "path_base64", "old_path", "old_path_base64", "kind", "old_mode", "new_mode"),
        *("old_id", "new_id", "old_size", "new_size", "binary", "additions", "deletions"),
        *("left_out", "hunks"),
    }


@pytest.mark.parametrize(
    ("caps", "left_out"),
    [
        (Caps(file_lines=99), {"long": "100 changed lines"}),
        (Caps(file_size=299), {"long": "a file of 300 bytes"}),
        (Caps(file_bytes=200), {"long": "417 bytes of changed text"}),
        (Caps(lines=101), {"small": ""}),
        (Caps(lines=100), {"small": "the diff as a whole is too long"}),
        (Caps(bytes=417 + 15), {"small": "the diff as a whole is too long"}),
        (Caps(bytes=417 + 16), {"small": ""}),
    ],
)
def test_beyond_a_cap_the_counts_stay_and_the_content_goes(
    project: Checkout, caps: Caps, left_out: dict[str, str]
) -> None:
    old = project.commit()
    project.write("long", "xy\n" * 100)
    project.write("small", "z\n")
    made = changed(project, old, project.commit(), caps)
    by_name = {file.path: file for file in made.files}
    assert (by_name["long"].additions, by_name["small"].additions) == (100, 1)
    for name, note in left_out.items():
        assert by_name[name].left_out == note
        assert bool(by_name[name].hunks) == (note == "")
    assert made.stat().additions == 101
    shown = [row.text for row in lines(made.files)]
    assert all(f"content left out: {note}" in shown for note in left_out.values() if note)


def test_in_a_giant_of_line_breaks_no_line_is_looked_for(project: Checkout) -> None:
    """Git would take forty times its size in memory: here there is room for twice that of one."""
    old = project.commit()
    project.write("giant", "\n" * (33 * MIB))
    new = project.commit()
    script = f"ulimit -v {512 * KIB}; exec git -C {project.folder} diff --numstat {old} {new}"
    assert subprocess.run(("/bin/sh", "-c", script), capture_output=True).returncode != 0
    file = only(changed(project, old, new))
    assert (file.left_out, file.additions) == ("a file of 33.0 MiB", 0)


def test_files_are_read_in_batches_and_all_are_there(project: Checkout) -> None:
    old = project.commit()
    for n in range(20):
        project.write(f"f{n}", f"{n}\n" * 10)
    made = changed(project, old, project.commit(), Caps(file_size=70))
    assert [texts(file)[0][1] for file in made.files] == [file.path[1:] for file in made.files]
    assert made.stat().left_out == 0


@pytest.mark.parametrize(
    ("beginning", "here"), [(1, 1), (10, 2), (29, 3), (30, 4), (109, 11), (110, 12)]
)
def test_the_beginning_is_that_of_the_whole_and_counts_all(
    project: Checkout, beginning: int, here: int
) -> None:
    """The second file is left out, so that it takes none of the lines."""
    old = project.commit()
    for n in range(12):
        project.write(f"f{n:02}", f"{n}\n" * (500 if n == 1 else 10))
    new, caps = project.commit(), Caps(file_lines=400)
    whole = changed(project, old, new, caps)
    made = go(diff(project.repository, old, new, caps, beginning=beginning))
    assert made.files == whole.files[:here]
    assert [file.path for file in (*made.files, *made.others)] == [f"f{n:02}" for n in range(12)]
    assert made.stat().additions == whole.stat().additions
    assert made.stat().kinds == whole.stat().kinds and made.stat().files == 12
    told = made.to_json()["files"]
    assert isinstance(told, list) and len(told) == here


def test_a_list_too_long_to_hold_is_an_error_and_never_a_shorter_list(project: Checkout) -> None:
    old = project.commit()
    for n in range(20):
        project.write(f"f{n}")
    with pytest.raises(AgsError, match="more than 500 bytes"):
        changed(project, old, project.commit(), Caps(names=500))


def test_the_agents_attributes_hide_nothing(project: Checkout) -> None:
    """Called binary, a file would be left out of the diff that the person reviews."""
    old = project.commit()
    project.write(".gitattributes", "* -diff\n")
    project.write("evil.sh", "echo\n")
    new = project.commit()
    assert b"Binary files" in project.git("diff", old, new)  # git itself is fooled
    made = {file.path: file for file in changed(project, old, new).files}
    assert texts(made["evil.sh"]) == [("added", "echo")]


def test_settings_of_the_repository_change_nothing(project: Checkout) -> None:
    project.write("a", "1\n2\n3\n4\n5\n6\n")
    old = project.commit()
    project.write("a", "1\n2\n3\n4\n5\nsix\n")
    new = project.commit()
    before = changed(project, old, new)
    for key, value in {
        "diff.noprefix": "true",
        "diff.context": "0",
        "diff.mnemonicPrefix": "true",
        "color.ui": "always",
        "diff.suppressBlankEmpty": "true",
        "diff.submodule": "log",
        "core.quotePath": "false",
        "diff.orderFile": "nowhere",
    }.items():
        project.git("config", key, value)
    assert changed(project, old, new) == before


@pytest.mark.parametrize("call", ["diff", "patch", "write_patch"])
def test_nothing_of_the_repositorys_settings_runs(
    project: Checkout, call: str, tmp_path: Path
) -> None:
    old = project.commit()
    poisoned(project, tmp_path)
    project.write("a.txt", "agent\n")
    project.write("b.bin", b"\0\1")
    new = project.commit()
    project.git("diff", "--ext-diff", "--textconv", old, new)
    assert ran(tmp_path)  # the poison works when git is called as usual
    repository = project.repository
    if call == "write_patch":
        go(write_patch(repository, old, new, tmp_path / "out.patch"))
    else:
        go({"diff": diff, "patch": patch}[call](repository, old, new))  # type: ignore[operator]
    assert ran(tmp_path) == set()


def test_sha256_shallow_and_linked_repositories(tmp_path: Path) -> None:
    wide = checkout(tmp_path / "wide", "--object-format=sha256")
    old = wide.commit()
    wide.write("a", "1\n")
    new = wide.commit()
    assert only(changed(wide, old, new)).additions == 1
    wide.git("worktree", "add", "-q", "-b", "side", "../side")
    side = Checkout(tmp_path / "side", wide.environment)
    assert only(changed(side, old, new)).path == "a"
    subprocess.run(("git", "clone", "-q", "--depth=1", f"file://{wide.folder}", tmp_path / "thin"))
    thin = Checkout(tmp_path / "thin", wide.environment)
    empty = thin.ask("hash-object", "-t", "tree", "/dev/null")
    assert only(changed(thin, empty, "HEAD")).path == "a"


def test_a_word_that_is_an_option_or_nothing_is_refused(project: Checkout) -> None:
    project.commit()
    for word in ("--output=x", "-h", "nothing", "", "HEAD..HEAD"):
        with pytest.raises(AgsError, match="no such commit"):
            changed(project, word, "HEAD")
    assert not (project.folder / "x").exists()


def test_a_patch_file_is_made_new_and_never_over_another(project: Checkout, tmp_path: Path) -> None:
    old = project.commit()
    project.write("a", b"\0\1")
    new = project.commit()
    target = tmp_path / "it.patch"
    size = go(write_patch(project.repository, old, new, target))
    assert target.read_bytes() == go(patch(project.repository, old, new))
    assert size == target.stat().st_size > 0
    with pytest.raises(AgsError, match="cannot write the patch .*exists"):
        go(write_patch(project.repository, old, new, target))
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(AgsError, match="exists"):
        go(write_patch(project.repository, old, new, tmp_path / "link"))
    assert not (tmp_path / "victim").exists()


names = st.sampled_from(["a", "b", "d/a", "d/b", "d", "a/x", *HOSTILE_NAMES])
contents = st.one_of(
    st.sampled_from(
        [b"", b"x", b"x\n", b"\0bin", b"\xff\xfe\n", b"a\r\nb\r\n", b"\\ No newline\n"]
    ),
    st.lists(st.sampled_from([b"1", b"2", b"", b"+", b"-x", b"@@ -1 +1 @@"]), max_size=12).map(
        lambda parts: b"\n".join(parts)
    ),
    st.binary(max_size=60),
)
modes = st.sampled_from(["100644", "100755", "120000", "160000"])
trees = st.dictionaries(names, st.tuples(modes, contents), max_size=7)


def build(project: Checkout, tree: dict[str, tuple[str, bytes]]) -> str:
    """As a tree of the repository, without files that a file system would have to hold."""
    entries = b""
    for name, (mode, content) in tree.items():
        if any(other.startswith(f"{name}/") for other in tree):
            continue
        if mode == "120000":
            content = content.replace(b"\0", b"") or b"target"
        entries += f"{mode} {blob(project, content)} 0\t".encode() + os.fsencode(name) + b"\0"
    project.git("read-tree", "--empty")
    project.git("update-index", "-z", "--index-info", stdin=entries)
    return project.ask("write-tree")


def blob(project: Checkout, content: bytes) -> str:
    """As `git hash-object -w` stores it, without a process for each."""
    whole = b"blob %d\0%s" % (len(content), content)
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = project.folder / ".git/objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return name


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return checkout(tmp_path_factory.mktemp("forge") / "project")


@settings(max_examples=60)
@given(trees, trees)
@example({"a": ("100644", b"x\n")}, {"a/x": ("100644", b"x\n")})
@example(
    {"a": ("100644", b"x"), "b": ("100644", b"y")}, {"b": ("100644", b"x"), "a": ("100644", b"y")}
)
def test_the_patch_leads_exactly_from_one_tree_to_the_other(
    forge: Checkout, before: dict[str, tuple[str, bytes]], after: dict[str, tuple[str, bytes]]
) -> None:
    old, new = build(forge, before), build(forge, after)
    made = go(patch(forge.repository, old, new))
    forge.git("read-tree", old)
    if made:
        forge.git("apply", "--cached", "--whitespace=nowarn", "-", stdin=made)
    assert forge.ask("write-tree") == new


@settings(max_examples=60)
@given(trees, trees)
def test_counts_and_lines_are_those_of_git(
    forge: Checkout, before: dict[str, tuple[str, bytes]], after: dict[str, tuple[str, bytes]]
) -> None:
    old, new = build(forge, before), build(forge, after)
    made = go(diff(forge.repository, old, new))
    told = forge.git("diff", "--numstat", "-z", "-M", "--no-ext-diff", old, new).split(b"\0")
    totals = [record.split(b"\t") for record in told if record.count(b"\t") >= 2]
    numbers = [(a, b) for a, b, *_ in totals if a.isdigit() or a == b"-"]
    assert made.stat().additions == sum(int(a) for a, _ in numbers if a != b"-")
    assert made.stat().deletions == sum(int(b) for _, b in numbers if b != b"-")
    for file in made.files:
        found = [kind for kind, _ in texts(file)]
        if file.kind != "type-changed":
            assert found.count("added") == file.additions
            assert found.count("removed") == file.deletions
    json.dumps(made.to_json(), ensure_ascii=False).encode()
    assert all(row.text.replace("\t", "").isprintable() for row in lines(made.files))


pieces = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from(
            [
                *(b"diff --git a/00000001 b/00000001\n", b"@@ -1 +1 @@\n", b"@@ -0,0 +1,2 @@ x\n"),
                *(b"-a\n", b"+b\n", b" c\n", b"\\ No newline at end of file\n", b"\n", b"\0"),
                b":100644 100644 " + b"a" * 40 + b" " + b"b" * 40 + b" M\0",
                b":100644 100644 " + b"a" * 40 + b" " + b"b" * 40 + b" R100\0",
                *(b"1\t2\tname\0", b"-\t-\t\0", b"name\0", b"@@ -" + b"9" * 5000 + b" +1 @@\n"),
            ]
        ),
    ),
    max_size=20,
).map(b"".join)


@given(pieces)
def test_whatever_is_parsed_only_our_own_error_is_raised(printed: bytes) -> None:
    for parse in (parse_patch, parse_raw):
        try:
            parse(printed)
        except AgsError as error:
            assert "unexpected" in error.cause
