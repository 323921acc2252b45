"""Where secrets come from and are kept; and that their values show up nowhere."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import pickle
import stat
import sys
import traceback
from collections.abc import Callable, Coroutine
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from ags import proc, records, secrets
from ags.errors import AgsError
from ags.frozen import frozen
from ags.secrets import FromCommand, FromEnvironment, FromFile, FromStore, Secret, Store

CANARY = "sk-canary-4f9d2c"
PATH = {"PATH": "/usr/bin:/bin"}


def play(scene: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scene, 120))


def get(source: secrets.Source, **environ: str) -> Secret:
    store = Store(Path("/nonexistent"), environ, None)
    found: Secret = play(secrets.get(source, {**PATH, **environ}, store))
    return found


def told(action: Callable[[], object]) -> AgsError:
    """The error, after looking for the canary in all that it drags along."""
    with pytest.raises(AgsError) as caught:
        action()
    error = caught.value
    chain: BaseException | None = error
    while chain is not None:
        assert CANARY not in f"{chain!r} {vars(chain)!r}"
        chain = chain.__cause__ or chain.__context__
    assert CANARY not in "".join(traceback.format_exception(error))
    return error


@frozen
class Holder:
    name: str
    secret: Secret


def test_a_value_comes_out_only_when_asked_for() -> None:
    secret = Secret(CANARY)
    assert secret.reveal() == CANARY
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r}", f"{secret!s:>40}".strip()]
    shown += [repr(Holder("x", secret)), "%s %r" % (secret, [secret])]  # noqa: UP031
    assert not [text for text in shown if "canary" in text]
    assert not hasattr(secret, "__dict__")


def test_a_value_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("x").warning("got %s and %r", Secret(CANARY), {"k": Secret(CANARY)})
    assert "Secret(***)" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    "store", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps, records.encode, hash]
)
def test_a_value_is_not_stored_or_copied(store: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as caught:
        store(Secret(CANARY))
    assert "canary" not in str(caught.value)


def test_secrets_are_equal_when_their_values_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("\udc80") == Secret("\udc80")
    assert Secret("a") != "a"


def test_from_the_environment() -> None:
    assert get(FromEnvironment("KEY"), KEY=CANARY).reveal() == CANARY
    assert "not set" in told(lambda: get(FromEnvironment("KEY"))).cause
    assert "empty" in told(lambda: get(FromEnvironment("KEY"), KEY="")).cause


@pytest.mark.parametrize(
    "value", [f"{CANARY}\nX: y", f"{CANARY}\r", f"{CANARY}\0", f"\udcff{CANARY}"]
)
def test_a_value_that_would_be_more_than_one_line_is_refused(value: str) -> None:
    assert "one line" in told(lambda: get(FromEnvironment("KEY"), KEY=value)).cause


def private(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_from_a_file_that_nobody_else_can_read(tmp_path: Path, end: bytes) -> None:
    file = private(tmp_path / "key", CANARY.encode() + end)
    assert get(FromFile(file)).reveal() == CANARY
    (tmp_path / "link").symlink_to(file)
    assert get(FromFile(tmp_path / "link")).reveal() == CANARY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o601])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = private(tmp_path / "key", CANARY.encode(), mode)
    error = told(lambda: get(FromFile(file)))
    assert f"mode {mode:04o}" in error.cause
    assert error.hint == f"chmod 600 {file}"
    # A link's own mode says nothing.
    (tmp_path / "link").symlink_to(file)
    told(lambda: get(FromFile(tmp_path / "link")))


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    file = private(tmp_path / "key", CANARY.encode())
    os.chown(file, 12345, 12345)
    assert "somebody else" in told(lambda: get(FromFile(file))).cause


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "not a file" in told(lambda: get(FromFile(tmp_path / "pipe"))).cause
    assert "not a file" in told(lambda: get(FromFile(tmp_path))).cause
    assert "no such file" in told(lambda: get(FromFile(tmp_path / "none"))).cause


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (CANARY.encode() + b"\xff", "not text"),
        (CANARY.encode() + b"\nmore\n", "one line"),
        (CANARY.encode() * 10_000, "longer than 64 KiB"),
    ],
)
def test_a_file_without_a_secret_in_it_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    file = private(tmp_path / "key", content)
    assert why in told(lambda: get(FromFile(file))).cause


def test_from_a_command_with_the_persons_environment() -> None:
    assert get(FromCommand(("echo", CANARY))).reveal() == CANARY
    assert get(FromCommand(("/bin/sh", "-c", "echo $MINE")), MINE=CANARY).reveal() == CANARY


@pytest.mark.parametrize(
    "script",
    [f"echo {CANARY} >&2; exit 3", f"echo {CANARY}; exit 3", f"exit 3 # {CANARY}"],
)
def test_a_command_that_fails_is_not_quoted(script: str) -> None:
    error = told(lambda: get(FromCommand(("/bin/sh", "-c", script))))
    assert error.cause == "exit code 3"
    assert error.subject == "/bin/sh"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("/usr/bin/yes", CANARY), "printed too much"),
        (("/nonexistent/tool", CANARY), "could not run"),
        (("no-such-tool", CANARY), "no such program"),
        (("/bin/sh", "-c", f"printf '{CANARY}\\377'"), "not text"),
        (("/bin/true",), "empty"),
        ((), "empty"),
    ],
)
def test_a_command_that_gives_no_secret_is_an_error(argv: tuple[str, ...], why: str) -> None:
    assert why in told(lambda: get(FromCommand(argv))).cause


def test_a_command_that_does_not_end_is_an_error() -> None:
    endless = FromCommand(("/bin/sh", "-c", f"echo {CANARY}; sleep 600"), timeout=0.5)
    assert "took more than 0.5 s" in told(lambda: get(endless)).cause


def test_a_command_is_not_taken_from_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "ags-password-tool"
    trap.write_text(f"#!/bin/sh\necho {CANARY}\n")
    trap.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    source = FromCommand((trap.name,))
    assert "no such program" in told(lambda: get(source, PATH=f".:{tmp_path}")).cause
    assert get(FromCommand((str(trap),))).reveal() == CANARY


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home" / "secrets", PATH, None)


def test_what_is_kept_in_files_comes_back_and_goes(store: Store) -> None:
    assert store.list() == ()
    assert play(store.set("key", CANARY)) == "file"
    play(store.set("other", "x"))
    assert play(secrets.get(FromStore("key"), {}, store)).reveal() == CANARY
    play(store.set("key", "changed"))
    assert play(store.get("key")).reveal() == "changed"
    assert store.list() == (("key", "file"), ("other", "file"))
    play(store.remove("key"))
    assert store.list() == (("other", "file"),)
    for verb in (store.get, store.remove):
        assert "no secret of this name" in told(lambda verb=verb: play(verb("key"))).cause  # type: ignore[misc]


def test_files_are_the_persons_alone_whatever_the_umask_and_the_folder(store: Store) -> None:
    store.folder.mkdir(parents=True)
    store.folder.chmod(0o755)
    before = os.umask(0)
    try:
        play(store.set("key", CANARY))
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    (file,) = store.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    assert "others may use it" in told(lambda: play(store.get("key"))).cause


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "../x",
        "a/b",
        ".x",
        "-x",
        "1x",
        "x" * 65,
        "ключ",
        "x\n",
        "x\0",
        "x.file",
        CANARY + "!",
    ],
)
def test_a_name_that_could_be_something_else_is_refused(store: Store, name: str) -> None:
    play(store.set("A-good_name1", CANARY))
    for action in (store.set(name, "x"), store.get(name), store.remove(name)):
        with pytest.raises(AgsError, match="cannot use this name"):
            play(action)
    assert [found for found, _ in store.list()] == ["A-good_name1"]


def test_a_value_that_is_none_is_not_kept(store: Store) -> None:
    for value in ("", f"{CANARY}\nsecond line"):
        told(lambda value=value: play(store.set("key", value)))  # type: ignore[misc]
    assert store.list() == ()


def test_a_replaced_value_is_whole_at_any_time(store: Store) -> None:
    values = [letter * 50_000 for letter in "abcd"]
    play(store.set("key", values[0]))
    seen: set[str] = set()

    def write(value: str) -> None:
        for _ in range(10):
            play(store.set("key", value))

    with ThreadPool(4) as pool:
        writing = pool.map_async(write, values)
        while not writing.ready():
            seen.add(play(store.get("key")).reveal())
        writing.get()
    assert seen <= set(values)
    assert [path.name for path in store.folder.iterdir()] == ["key.file"]


KEYRING = """#!{python} -IS
import json, os, sys
place = os.environ["FAKE_KEYRING"]
kept = json.load(open(place)) if os.path.exists(place) else {{}}
verb, *words = sys.argv[1:]
words = words[2:] if words[0] == "--label" else words
key = " ".join(words)
if os.environ.get("LOCKED"):
    sys.exit("locked, and here is " + json.dumps(kept))
if verb == "store":
    kept[key] = sys.stdin.read()
elif verb == "lookup":
    if key not in kept:
        sys.exit(1)
    sys.stdout.write(kept[key])
elif verb == "clear":
    kept.pop(key, None)
json.dump(kept, open(place, "w"))
open(place + ".arguments", "a").write(" ".join(sys.argv) + "\\n")
"""


@pytest.fixture
def keyring(tmp_path: Path) -> Path:
    """A stand-in that takes the arguments of libsecret's `secret-tool`."""
    tool = tmp_path / "secret-tool"
    tool.write_text(KEYRING.format(python=sys.executable))
    tool.chmod(0o755)
    return tool


def with_keyring(keyring: Path, client: str = "", **environ: str) -> Store:
    kept = {"FAKE_KEYRING": str(keyring.parent / "kept")}
    folder = keyring.parent / f"secrets{client}"
    return Store(folder, {**PATH, **kept, **environ}, str(keyring))


def test_a_keyring_keeps_the_value_and_the_folder_only_the_name(keyring: Path) -> None:
    store = with_keyring(keyring)
    assert play(store.set("key", CANARY)) == "keyring"
    assert play(store.get("key")).reveal() == CANARY
    assert store.list() == (("key", "keyring"),)
    assert [path.read_bytes() for path in store.folder.iterdir()] == [b""]
    assert CANARY not in (keyring.parent / "kept.arguments").read_text()
    play(store.remove("key"))
    assert store.list() == ()
    assert json.loads((keyring.parent / "kept").read_text()) == {}


def test_clients_have_the_same_names_for_different_secrets(keyring: Path) -> None:
    one, other = with_keyring(keyring, "-one"), with_keyring(keyring, "-other")
    play(one.set("key", CANARY))
    assert "no secret" in told(lambda: play(other.get("key"))).cause
    play(other.set("key", "theirs"))
    assert play(one.get("key")).reveal() == CANARY
    play(other.remove("key"))
    assert play(one.get("key")).reveal() == CANARY


def test_a_locked_keyring_is_an_error_that_quotes_nothing(keyring: Path) -> None:
    play(with_keyring(keyring).set("key", CANARY))
    locked = with_keyring(keyring, LOCKED="1")
    for action in (locked.get("key"), locked.set("other", CANARY), locked.remove("key")):
        error = told(lambda action=action: play(action))  # type: ignore[misc]
        assert "unlock" in error.hint
    assert locked.list() == (("key", "keyring"),)


def test_a_secret_moves_to_where_new_ones_are_kept(keyring: Path) -> None:
    with_it = with_keyring(keyring)
    without = Store(with_it.folder, PATH, None)
    play(without.set("key", "old"))
    assert play(with_it.get("key")).reveal() == "old"
    play(with_it.set("key", CANARY))
    assert with_it.list() == (("key", "keyring"),)
    assert "cannot be reached" in told(lambda: play(without.get("key"))).cause
    play(without.set("key", "again"))
    assert with_it.list() == (("key", "file"),)
    assert play(with_it.get("key")).reveal() == "again"


def test_the_keyring_is_used_where_there_is_one_and_a_session(
    tmp_path: Path, keyring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus"}
    monkeypatch.setattr(proc, "find", lambda name: str(keyring))
    assert secrets.store(tmp_path, session).keeps_in == "keyring"
    assert secrets.store(tmp_path, {}).keeps_in == "file"
    monkeypatch.setattr(proc, "find", lambda name: None)
    assert secrets.store(tmp_path, session).keeps_in == "file"
