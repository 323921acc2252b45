"""Files of a run, with an agent that would like the server to read something else (F2, F4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ags import runs
from ags.errors import AgsError, Missing
from ags.events import LINE, Writer
from ags.server import reading, schema
from ags.server.routes import files
from ags.workspace import tree
from tests.server.shop import Shop, opened
from tests.workspace.repositories import HOSTILE_NAMES, go

CANARY = "canary-7c1e"
PLANTS = (
    "ln -s /etc/passwd link; ln -s / folder-link; ln -s src/deep inner; mkfifo pipe;"
    " mkdir -p sub/.git; echo secret > sub/.git/config;"
    " /usr/bin/python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\";"
    " printf '\\303\\251t\\303\\251\\n' > text; printf 'a\\377b\\n' > latin;"
    " head -c 3000000 /dev/zero | tr '\\0' x > large; truncate -s 100M sparse;"
    " head -c 100 /dev/zero > zero; mkdir many; cd many; seq 2500 | xargs touch; cd ..;"
    " chmod 0 many/1; echo at work; while ! [ -e go ]; do sleep 0.05; done"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        for name in HOSTILE_NAMES:
            made.project.write(f"odd/{name}", f"content of {name!a}\n")
        made.project.write("img", b"\0\1\2")
        os.symlink("/etc/passwd", made.project.folder / "passwd")
        made.project.commit("odd names")
        yield made


@pytest.fixture(scope="module")
def planted(shop: Shop) -> Iterator[str]:
    with shop.working(PLANTS, name="planted") as name:
        yield name


def look(shop: Shop, name: str, path: str = "", at: str = "workspace") -> Any:
    return shop.get(f"/runs/{name}/files?path={quote(os.fsencode(path))}&at={at}")


def test_a_folder_lists_what_is_in_it(shop: Shop, planted: str) -> None:
    told = look(shop, planted)
    schema.Folder.model_validate(told, strict=True)
    kinds = {each["name"]: (each["kind"], each["size"]) for each in told["entries"]}
    assert kinds["a.txt"] == ("file", 6) and kinds["src"] == ("folder", None)
    assert kinds["link"] == ("link", None) and kinds["folder-link"] == ("link", None)
    assert kinds["pipe"] == ("other", None) and kinds["sock"] == ("other", None)
    assert ".git" not in kinds and not told["truncated"]
    assert [each["name"] for each in look(shop, planted, "sub")["entries"]] == []


def test_a_file_shows_its_text(shop: Shop, planted: str) -> None:
    told = look(shop, planted, "src/deep/b.txt")
    schema.File.model_validate(told, strict=True)
    assert told == {
        "path": "src/deep/b.txt",
        "kind": "file",
        "size": 5,
        "binary": False,
        "text": "deep\n",
        "truncated": False,
    }
    assert look(shop, planted, "./src//deep/")["entries"][0]["path"] == "src/deep/b.txt"
    assert look(shop, planted, "text")["text"] == "été\n"
    assert look(shop, planted, "latin")["text"] == "a\\xffb\n"


def test_large_and_binary_files_are_cut_short(shop: Shop, planted: str) -> None:
    large = look(shop, planted, "large")
    assert (large["size"], len(large["text"]), large["truncated"]) == (3_000_000, 1 << 20, True)
    zero = look(shop, planted, "zero")
    assert (zero["binary"], zero["text"]) == (True, None)
    sparse = look(shop, planted, "sparse")
    assert (sparse["size"], sparse["text"]) == (100 << 20, None)
    many = look(shop, planted, "many")
    assert (len(many["entries"]), many["truncated"]) == (2000, True)


@pytest.mark.parametrize("at", ["workspace", "base"])
def test_every_name_can_be_asked_for_again(shop: Shop, planted: str, at: str) -> None:
    entries = [each for each in look(shop, planted, "odd", at)["entries"] if each["kind"] == "file"]
    assert len(entries) == sum("/" not in name for name in HOSTILE_NAMES)
    for entry in entries:
        told = shop.get(f"/runs/{planted}/files?path={entry['address']}&at={at}")
        assert told["text"].startswith("content of ") and told["path"] == entry["path"]
        raw = shop.server.call("GET", f"/runs/{planted}/files/raw?path={entry['address']}&at={at}")
        assert raw.body == told["text"].encode()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("link", 409),
        ("folder-link", 409),
        ("folder-link/etc/passwd", 404),
        ("inner/b.txt", 404),
        ("pipe", 409),
        ("sock", 409),
        ("sub/.git/config", 404),
        (".git", 404),
        (".git/HEAD", 404),
        ("a.txt/", 200),
        ("a.txt/x", 404),
        ("no", 404),
        ("../a.txt", 422),
        ("src/../../x", 422),
        ("/etc/passwd", 422),
        ("nul\0", 422),
        ("x" * 300, 404),
        ("x/" * 2049, 422),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_nothing_but_files_below_is_opened(
    shop: Shop, planted: str, path: str, status: int
) -> None:
    for part in ("files", "files/raw"):
        asked = f"/runs/{planted}/{part}?path={quote(os.fsencode(path))}"
        if status == 200:
            assert shop.server.call("GET", asked).status == 200
        else:
            shop.refused(status, "GET", asked)


def test_all_of_a_file_comes_as_an_attachment(shop: Shop, planted: str) -> None:
    answer = shop.server.call("GET", f"/runs/{planted}/files/raw?path=large")
    assert answer.body == b"x" * 3_000_000
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''large"
    told = shop.refused(409, "GET", f"/runs/{planted}/files/raw?path=sparse")
    assert "64 MiB" in told["detail"]
    shop.refused(409, "GET", f"/runs/{planted}/files/raw?path=src")


def test_a_commit_is_looked_into_in_the_same_way(shop: Shop) -> None:
    name = shop.done("echo new > new.txt; rm a.txt", name="commits")
    before = {each["name"]: each for each in look(shop, name, at="base")["entries"]}
    after = {each["name"]: each for each in look(shop, name, at="result")["entries"]}
    assert before.keys() - after.keys() == {"a.txt"} and after["new.txt"]["size"] == 4
    assert before["passwd"]["kind"] == "link" and before["src"]["kind"] == "folder"
    assert look(shop, name, "a.txt", "base")["text"] == "hello\n"
    assert look(shop, name, "src/deep/b.txt", "result")["text"] == "deep\n"
    assert look(shop, name, "img", "base")["binary"]
    raw = shop.server.call("GET", f"/runs/{name}/files/raw?path=img&at=base")
    assert raw.body == b"\0\1\2"
    for path, status in (("a.txt", 404), ("passwd", 409), ("passwd/x", 404), ("src/no", 404)):
        shop.refused(status, "GET", f"/runs/{name}/files?path={path}&at=result")
    shop.refused(409, "GET", f"/runs/{name}/files/raw?path=src&at=base")


def test_a_run_without_a_result_has_none_to_look_into(shop: Shop, planted: str) -> None:
    assert "none yet" in shop.refused(404, "GET", f"/runs/{planted}/files?at=result")["detail"]
    shop.refused(422, "GET", f"/runs/{planted}/files?at=elsewhere")


def test_a_link_put_in_the_place_of_a_folder_is_not_followed(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening, where a race would be won."""
    run = _recorded(shop, tmp_path)
    assert run.workspace is not None
    (tmp_path / "secret").write_text(CANARY)
    file, real = run.workspace / "file", tree.look
    assert go(reading.read(run, ("file",), "workspace"))["text"] == "mine"

    def swap(folder: int, name: str) -> os.stat_result | None:
        facts = real(folder, name)
        file.unlink()
        file.symlink_to(tmp_path / "secret")
        return facts

    monkeypatch.setattr(reading, "look", swap)
    with pytest.raises(AgsError) as refused:
        go(reading.read(run, ("file",), "workspace"))
    assert CANARY not in str(refused.value)


def test_a_pipe_put_in_the_place_of_a_file_is_not_read(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _recorded(shop, tmp_path)
    assert run.workspace is not None
    file, real = run.workspace / "file", tree.look

    def swap(folder: int, name: str) -> os.stat_result | None:
        facts = real(folder, name)
        file.unlink()
        os.mkfifo(file)
        return facts

    monkeypatch.setattr(reading, "look", swap)
    with pytest.raises(AgsError, match="neither a file nor a folder"):
        go(reading.read(run, ("file",), "workspace"))


def test_a_workspace_that_is_a_link_is_not_entered(shop: Shop, tmp_path: Path) -> None:
    run = _recorded(shop, tmp_path)
    assert run.workspace is not None
    run.workspace.rename(tmp_path / "moved")
    run.workspace.symlink_to(tmp_path / "moved")
    with pytest.raises(AgsError):
        go(reading.read(run, ("file",), "workspace"))
    run.workspace.unlink()
    with pytest.raises(Missing):
        go(reading.read(run, ("file",), "workspace"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
def test_root_reads_with_the_rights_of_who_works_there(shop: Shop, tmp_path: Path) -> None:
    run = _recorded(shop, tmp_path)
    assert run.workspace is not None
    (run.workspace / "of-root").write_text(CANARY)
    (run.workspace / "of-root").chmod(0o600)
    tmp_path.chmod(0o700)  # the way there is closed to others, as the state folder is
    for path in (run.workspace, run.workspace / "file"):
        os.chown(path, 12345, 12345)
    (run.workspace / "file").chmod(0o600)
    assert go(reading.read(run, ("file",), "workspace"))["text"] == "mine"
    with pytest.raises(AgsError, match="permission denied"):
        go(reading.read(run, ("of-root",), "workspace"))
    assert os.geteuid() == 0


def _recorded(shop: Shop, place: Path) -> runs.Run:
    """Not of the server's: so that the test itself can be in between."""
    (place / "work").mkdir()
    (place / "work/file").write_text("mine")
    found = runs.find(shop.server.ags_home, "commits")
    return replace(runs.load(found), workspace=place / "work")


def test_a_log_of_long_events_is_told_a_few_at_a_time(tmp_path: Path) -> None:
    """Between two pieces, others have their turn."""
    log, long = tmp_path / files.EVENTS, "x" * (LINE // 2)
    with contextlib.closing(Writer(log)) as writer:
        for _ in range(20):
            writer.write("output", text=long)

    async def told() -> list[bytes]:
        return [piece async for piece in files._as_text(log)]

    pieces = asyncio.run(told())
    assert b"".join(pieces).count(long.encode()) == 20
    assert max(len(piece) for piece in pieces) <= 4 * LINE
