"""The person's toolchains, seen inside at their own paths: read-only, and without credentials.

Content is bound once, at its resolved path; whatever else leads to it becomes a link, as it is on
the host. So a program that looks for its library beside its real self finds it, and a credential
file has one place only where it must be hidden.
"""

from __future__ import annotations

import errno
import glob
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Bind, Link, Mask, MountStep
from ags.places import SHARED_FOLDERS
from ags.reach import reachable
from ags.toolchains.known import IN_OPT, KNOWN, Known, is_credential

STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
PROGRAMS_PER_ENTRY, NAMES_PER_ENTRY, LINK_HOPS = 256, 4096, 40

ROOT_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
RUNTIME_FOLDERS = (*KERNEL_FOLDERS, "/run", "/boot")


@frozen
class Toolchains:
    """Apply the steps after the home's own mount and before the workspace's."""

    steps: tuple[MountStep, ...]
    path: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@frozen
class _Place:
    """A path as it was given, and where it leads."""

    seen: str
    real: str


@frozen
class _Found:
    at: str = ""
    """What a variable or PATH may say inside; empty if it must not be named there."""
    shown: tuple[Bind | Link, ...] = ()
    hidden: tuple[Mask, ...] = ()
    notes: tuple[str, ...] = ()


@frozen
class _Rules:
    """Who runs inside, what is mounted there anyway, and what must never be."""

    home: str
    owner: int
    uid: int
    gid: int
    covered: tuple[str, ...]
    forbidden: tuple[str, ...]
    closed: tuple[str, ...]
    """The forbidden places that do not hold the home: nothing in them is shown either."""
    stops: frozenset[str]
    """Covered or closed: no link that lies in there is followed, an agent may have put it there."""

    def covers(self, path: str) -> bool:
        return _is_below(path, self.covered)

    def is_there(self, place: _Place) -> bool:
        at_root = _is_below(place.seen, ROOT_LINKS)
        return self.covers(place.seen) or (at_root and self.covers(place.real))

    def locate(self, path: str) -> _Place | None:
        """None for anything but the absolute path of something that exists."""
        real = _resolve(path, self.stops)
        if real is None:
            return None
        return _Place(real if ".." in path.split("/") else _tidy(path), real)

    def refusal(self, place: _Place) -> str | None:
        """Why this must not be shown, or cannot be."""
        for path in (place.seen, place.real):
            if held := [secret for secret in self.forbidden if _is_below(secret, (path,))]:
                return f"it is or holds {_printable(held[0])}"
            if _is_below(path, self.closed):
                return "it lies in a folder that stays closed"
        if _is_below(place.seen, KERNEL_FOLDERS) or _is_below(place.real, RUNTIME_FOLDERS):
            return "no toolchain lives there"
        if place.real in SHARED_FOLDERS:
            return "it is shared by the whole system"
        for path in self.covered:
            # Neither a link nor a read-only folder without such a name can carry that mount.
            below_link = place.seen != place.real and _is_below(path, (place.seen,))
            if below_link or (_is_below(path, (place.real,)) and not os.path.lexists(path)):
                return f"{_printable(path)} is mounted below it"
        if not self.covers(place.real) and not reachable(Path(place.real), self.uid, self.gid):
            return f"user {self.uid} cannot reach it"
        return None

    def distrust(self, info: os.stat_result, *, believed: bool = False) -> str | None:
        """Why others may have put programs there. A believed toolchain may be another user's."""
        if info.st_mode & stat.S_IWOTH:
            return "everybody may write to it"
        foreign = info.st_uid not in (0, self.uid, self.owner)
        return f"it belongs to user {info.st_uid}" if foreign and not believed else None


def discover(
    home: Path,
    environ: Mapping[str, str],
    *,
    uid: int,
    gid: int,
    covered: Sequence[Path],
    forbidden: Sequence[Path],
) -> Toolchains:
    """What is mounted of the person's toolchains; `uid` and `gid` are those the host sees."""
    rules = _rules(home, uid, gid, covered, forbidden)
    entries = tuple(dict.fromkeys(environ.get("PATH", "").split(":")))
    named = {known: _named(known, environ.get(known.variable, ""), rules) for known in KNOWN}
    folders = [*itertools.chain(*named.values()), *_beside_path(entries, rules)]
    bound = _bound_in_place(step for each in folders for step in each.shown)
    on_path = [_path_entry(entry, rules, bound) for entry in entries]
    found = [*folders, *on_path]
    shown = _outermost(step for each in found for step in each.shown)
    bound = _bound_in_place(shown)
    hidden = (mask for each in found for mask in each.hidden)
    environment = ((k.variable, ":".join(f.at for f in each if f.at)) for k, each in named.items())
    return Toolchains(
        # Masks come last of all, so that no bind uncovers again what one of them hides.
        steps=(*shown, *_outermost(m for m in hidden if _is_below(str(m.target), bound))),
        path=_with_standard(each.at for each in on_path if each.at),
        environment=tuple(sorted(pair for pair in environment if pair[1])),
        notes=tuple(dict.fromkeys(note for each in found for note in each.notes)),
    )


def _rules(
    home: Path, uid: int, gid: int, covered: Sequence[Path], forbidden: Sequence[Path]
) -> _Rules:
    for path in (home, *covered, *forbidden):
        if not path.is_absolute():
            raise AgsError(
                "look for toolchains",
                subject=_printable(str(path)),
                cause="it is not an absolute path",
                hint="HOME and the folders in the settings must begin with a slash",
            )
    homes, never, mounted = map(_spellings, ([home], [home, *forbidden], covered))
    closed = tuple(path for path in never if not any(_is_below(each, (path,)) for each in homes))
    return _Rules(
        home=homes[0],
        owner=os.lstat(homes[-1]).st_uid if os.path.exists(homes[-1]) else uid,
        uid=uid,
        gid=gid,
        covered=mounted,
        forbidden=never,
        closed=closed,
        stops=frozenset((*mounted, *closed)),
    )


def _spellings(paths: Sequence[Path]) -> tuple[str, ...]:
    """Each path as given and, where that differs, as resolved."""
    both = ((_tidy(str(path)), _resolve(str(path))) for path in paths)
    return tuple(dict.fromkeys(path for pair in both for path in pair if path is not None))


def _named(known: Known, value: str, rules: _Rules) -> list[_Found]:
    """What the variable names or, if none of that is believed, what is in the usual places."""
    found = [_folder(known, text, rules, known.variable) for text in value.split(":") if text]
    if any(each.at for each in found):
        return found
    names = (name for each in known.folders.split() for name in _matches(rules.home, each))
    return found + [_folder(known, os.path.join(rules.home, name), rules) for name in names]


def _beside_path(entries: Iterable[str], rules: _Rules) -> Iterator[_Found]:
    """Toolchains that nothing but an entry of PATH tells of."""
    for entry in entries:
        place = rules.locate(entry)
        if place is None or rules.covers(place.real):
            continue
        root, name = os.path.split(place.seen)
        if place.real.startswith("/opt/"):
            yield _folder(IN_OPT, "/".join(place.real.split("/")[:3]), rules, "PATH")
        elif name == "bin":
            kinds = (known for known in KNOWN if known.on_path and _has_mark(known, root))
            yield from (_folder(known, root, rules, "PATH") for known in kinds)


def _has_mark(known: Known, folder: str) -> bool:
    return not known.marks or any(_matches(folder, mark) for mark in known.marks.split())


def _matches(folder: str, pattern: str) -> list[str]:
    """What the pattern names below the folder, relative to it."""
    if "*" in pattern:
        return sorted(glob.glob(pattern, root_dir=folder))
    return [pattern] if os.path.lexists(os.path.join(folder, pattern)) else []


def _folder(known: Known, text: str, rules: _Rules, named_by: str = "") -> _Found:
    """One toolchain folder; `named_by` is the variable whose word we have for it, if any."""
    label = f"{known.name}, {named_by}" if named_by else known.name
    place = rules.locate(text)
    if place is None:
        return _left_out(label, text, "nothing to be found there") if named_by else _Found()
    if rules.is_there(place):
        return _Found(place.seen if named_by else "")
    return _guarded(label, text, lambda: _look_into(known, place, rules, label, bool(named_by)))


def _look_into(known: Known, place: _Place, rules: _Rules, label: str, named: bool) -> _Found:
    if reason := rules.refusal(place) or _unlike(known, place.real, rules, named):
        return _left_out(label, place.seen, reason)
    shown: list[Bind | Link] = []
    notes: list[str] = []
    for part in known.parts.split() or [""]:
        piece = rules.locate(f"{place.seen}/{part}")
        if piece and (problem := rules.refusal(piece)):
            notes += _left_out(label, piece.seen, problem).notes
        elif piece:
            shown += _show(piece, rules)
    hidden = tuple(_hidden(known, place.real, rules))
    return _Found(place.seen if shown and named else "", tuple(shown), hidden, tuple(notes))


def _unlike(known: Known, real: str, rules: _Rules, named: bool) -> str | None:
    """Why the folder is not what it is said to be. In the home, its name is word enough."""
    if rules.covers(real):
        return None
    info = os.lstat(real)
    if not stat.S_ISDIR(info.st_mode):
        return "it is not a folder"
    if named and not _has_mark(known, real):
        return f"it does not look like {known.name}"
    return rules.distrust(info) if named else None


def _show(place: _Place, rules: _Rules) -> Iterator[Bind | Link]:
    if not rules.covers(place.real):
        yield Bind(Path(place.real), PurePosixPath(place.real))
    if place.seen != place.real and not rules.is_there(place):
        yield Link(PurePosixPath(place.seen), place.real)


def _hidden(known: Known, real: str, rules: _Rules) -> Iterator[Mask]:
    if rules.covers(real):
        return
    names = {name for pattern in known.credentials.split() for name in _matches(real, pattern)}
    for name in sorted(names if known.parts else names | _odd_names(real)):
        place = rules.locate(f"{real}/{name}")
        # A folder nobody inside may enter needs no mask, and bwrap could not put one there.
        if place and reachable(Path(place.real).parent, rules.uid, rules.gid):
            is_folder = os.path.isdir(place.real)
            yield Mask(PurePosixPath(place.real), "dir" if is_folder else "file")


def _odd_names(folder: str) -> set[str]:
    """Names that look like credentials, and sockets: a read-only mount does not stop a dial."""
    with os.scandir(folder) as entries:
        return {
            entry.name
            for entry in entries
            if is_credential(entry.name)
            or not (entry.is_symlink() or entry.is_dir() or entry.is_file())
        }


def _path_entry(entry: str, rules: _Rules, bound: Sequence[str]) -> _Found:
    """What it takes to have the entry on the PATH inside."""
    place = rules.locate(entry)
    if place is None:
        return _Found()
    if rules.is_there(place):
        return _Found(place.seen)
    if reason := rules.refusal(place):
        return _left_out("PATH", entry, reason)
    if rules.covers(place.real):
        return _Found(place.seen, tuple(_show(place, rules)))
    return _guarded("PATH", entry, lambda: _programs(place, rules, bound))


def _programs(place: _Place, rules: _Rules, bound: Sequence[str]) -> _Found:
    """A folder of programs: bound once if it holds nothing else, otherwise file by file."""
    info = os.lstat(place.real)
    is_bound = _is_below(place.real, bound)
    if not stat.S_ISDIR(info.st_mode):
        return _Found()
    if reason := rules.distrust(info, believed=is_bound):
        return _left_out("PATH", place.seen, reason)
    if is_bound:
        return _Found(place.seen, tuple(_show(place, rules)))
    with os.scandir(place.real) as scan:
        entries = sorted(itertools.islice(scan, NAMES_PER_ENTRY), key=lambda entry: entry.name)
    visible = (*rules.covered, *bound)
    located = {entry.name: _program(entry, rules, visible) for entry in entries}
    programs = {name: real for name, real in located.items() if real}
    stays = all(os.path.dirname(real) == place.real for real in programs.values())
    if stays and 0 < len(programs) == len(entries) < NAMES_PER_ENTRY:
        return _Found(place.seen, tuple(_show(place, rules)))
    shown = [
        _program_step(f"{place.real}/{name}", real, visible)
        for name, real in itertools.islice(programs.items(), PROGRAMS_PER_ENTRY)
    ]
    note = f"PATH ({_printable(place.seen)}): only {len(shown)} of its programs are shown"
    complete = len(programs) == len(shown) and len(entries) < NAMES_PER_ENTRY
    if shown and place.seen != place.real:
        shown.append(Link(PurePosixPath(place.seen), place.real))
    return _Found(place.seen if shown else "", tuple(shown), notes=() if complete else (note,))


def _program(entry: os.DirEntry[str], rules: _Rules, visible: Sequence[str]) -> str | None:
    """Where the program really is; None for what is no program, or none to show."""
    if is_credential(entry.name):
        return None
    if entry.is_file(follow_symlinks=False):
        return entry.path if entry.stat(follow_symlinks=False).st_mode & 0o111 else None
    place = rules.locate(entry.path) if entry.is_symlink() else None
    if place and _is_below(place.real, visible):
        return place.real
    if place is None or rules.refusal(place) or is_credential(os.path.basename(place.real)):
        return None
    mode = os.lstat(place.real).st_mode
    return place.real if stat.S_ISREG(mode) and mode & 0o111 else None


def _program_step(target: str, real: str, visible: Sequence[str]) -> Bind | Link:
    # Python, npm and their like search beside their resolved path, so a link must stay a link.
    if real != target and _is_below(real, visible):
        return Link(PurePosixPath(target), real)
    return Bind(Path(real), PurePosixPath(target))


def _bound_in_place(steps: Iterable[Bind | Link | Mask]) -> tuple[str, ...]:
    binds = (step for step in steps if isinstance(step, Bind))
    return tuple(str(bind.target) for bind in binds if str(bind.source) == str(bind.target))


def _outermost(steps: Iterable[Bind | Link | Mask]) -> tuple[Bind | Link | Mask, ...]:
    """Parents first, and nothing below them: they show or hide it already."""
    kept: dict[str, Bind | Link | Mask] = {}
    for step in sorted(steps, key=lambda step: (len(step.target.parts), str(step.target))):
        if not _is_below(str(step.target), kept):
            kept[str(step.target)] = step
    return tuple(kept.values())


def _with_standard(path: Iterable[str]) -> tuple[str, ...]:
    """The person's order, ended by all of the standard folders."""
    head = list(dict.fromkeys(path))
    tail = set(itertools.takewhile(STANDARD_PATH.__contains__, reversed(head)))
    return (*head, *(folder for folder in STANDARD_PATH if folder not in tail))


def _guarded(label: str, path: str, look: Callable[[], _Found]) -> _Found:
    """What vanishes or refuses while it is looked at is left out, and no reason to stop."""
    try:
        return look()
    except OSError as error:
        return _left_out(label, path, error.strerror or "it cannot be read")


def _left_out(label: str, path: str, reason: str) -> _Found:
    return _Found(notes=(f"{label} ({_printable(path)}): left out, {reason}",))


def _printable(path: str) -> str:
    """A name may be any bytes; what a person reads is text without control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in path)


def _tidy(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    """True for the folder itself too."""
    slashed = path if path == "/" else f"{path}/"
    return any(slashed.startswith(f"{f}/") or f == "/" for f in folders)


def _resolve(path: str, stops: frozenset[str] = frozenset()) -> str | None:
    """Where an absolute path leads, followed as far as the first stop."""
    if not path.startswith("/"):
        return None
    pending, current, hops = path.split("/")[::-1], "", 0
    while pending and hops <= LINK_HOPS:
        part = pending.pop()
        if part == "..":
            current = current.rpartition("/")[0]
        if part in ("", ".", ".."):
            continue
        candidate = f"{current}/{part}"
        if candidate in stops:
            return None if ".." in pending else _tidy("/".join((candidate, *pending[::-1])))
        try:
            link = os.readlink(candidate)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) != errno.EINVAL:
                return None
            current = candidate
            continue
        hops += 1
        pending += link.split("/")[::-1]
        current = "" if link.startswith("/") else current
    return None if pending else current or "/"
