"""Finding, making and reading the settings file."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ags.config.lines import excess
from ags.config.reading import Place, table
from ags.config.schema import Settings
from ags.errors import ConfigError

FILE_NAME = "config.toml"
MAX_BYTES = 1 << 20
EXAMPLE = Path(__file__).with_name("example.toml")


def settings_folder(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """`$XDG_CONFIG_HOME/ags`, or `.config/ags` in the home."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():  # the specification has a relative one ignored
        return base / "ags"
    return (home or _home(environ)) / ".config" / "ags"


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def load(path: Path | None, environ: Mapping[str, str], home: Path) -> Settings:
    """The settings in this file; without one, in the person's own, which is made on first use."""
    file = path.absolute() if path else settings_folder(environ, home) / FILE_NAME
    if path is None and not os.path.lexists(file):
        create(file)
    return parse(read(file), file, home)


def parse(text: str, file: Path, home: Path) -> Settings:
    """The settings that this text means. `file` only tells where it came from."""
    import tomllib

    if found := excess(text):
        raise ConfigError(file, found[0], "", found[1])
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, cause = _syntax_error(str(error), text)
        raise ConfigError(file, line, "", cause, "the file is TOML, see toml.io") from error
    settings: Settings = table(Settings)(document, Place(file, text, home))
    return replace(settings, source=file)


def _syntax_error(message: str, text: str) -> tuple[int, str]:
    if match := re.search(r" \(at line (\d+), column \d+\)\Z", message):
        return int(match[1]), message[: match.start()]
    return text.rstrip().count("\n") + 1, message.removesuffix(" (at end of document)")


def read(file: Path) -> str:
    """The text of a settings file that nobody else can have written."""
    with _failing(file), _opened(file, os.O_NONBLOCK | os.O_NOCTTY) as descriptor:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise ConfigError(file, None, "", "is not a regular file")
        _refuse_foreign(file, facts)
        _refuse_foreign(file.parent, file.parent.stat())
        with open(descriptor, "rb", closefd=False) as stream:
            content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(file, None, "", f"has more than {MAX_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, line, "", "has bytes that are not UTF-8") from error


def create(file: Path) -> None:
    """Put the commented example there: whole or not at all, never over or through anything."""
    with _failing(file):
        _make_folder(file.parent)
        with _opened(file.parent, os.O_DIRECTORY) as folder:
            _refuse_foreign(file.parent, os.fstat(folder))
            _publish(EXAMPLE.read_bytes(), file.name, folder)


def _make_folder(folder: Path) -> None:
    for place in reversed((folder, *folder.parents)):
        if not place.exists():
            with contextlib.suppress(FileExistsError):
                place.mkdir(0o700)


def _publish(content: bytes, name: str, folder: int) -> None:
    draft = f".{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as stream:
        try:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            # Unlike a rename, a link takes no other's place, be it a file or a link to nowhere.
            with contextlib.suppress(FileExistsError):
                os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        finally:
            os.unlink(draft, dir_fd=folder)


def _refuse_foreign(path: Path, facts: os.stat_result) -> None:
    """Who can write the settings, or swap the file, decides what a sandbox may touch."""
    name = shlex.quote(str(path))
    if facts.st_uid not in (0, os.geteuid()):
        cause = f"it belongs to another user (uid {facts.st_uid})"
        raise ConfigError(path, None, "", cause, f"chown {os.geteuid()} {name}")
    sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        raise ConfigError(path, None, "", "other users can write to it", f"chmod go-w {name}")


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _failing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise ConfigError(file, None, "", cause, "`--config PATH` uses another file") from error
