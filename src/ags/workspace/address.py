"""Where a repository is, as a person writes it: judged before git or ssh sees a word of it."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from ags.errors import Unfit
from ags.frozen import frozen
from ags.text import one_line

MOST_URL = 2000
HOST = re.compile(
    r"(?P<host>[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?", re.I
)
USER = re.compile(r"[A-Za-z0-9_.+~][A-Za-z0-9_.+~-]{0,63}")
TOKEN = re.compile(r"(gh[a-z]_|github_pat_|glpat-|x-access-token|x-token-auth|oauth2).*|.{30,}")
"""What stands where a user's name does, but opens the door all by itself."""
SCP = re.compile(r"(?:(?P<user>[^/@:]*)@)?(?P<host>[^/@:]*):(?P<path>[^:].*)")
USUAL_PORTS = {"https": "443", "http": "80", "ssh": "22"}


@frozen
class Url:
    """Where a repository is, judged and in its one spelling. There are no credentials in it."""

    url: str
    key: str
    """The same for all addresses of one repository."""
    name: str
    """For a person: the last part of the path."""
    folder: Path | None = None
    """If it is on this machine."""

    @property
    def shown(self) -> str:
        return one_line(self.url)


def checked_url(text: str, cwd: Path | None = None) -> Url:
    """An address as a person writes it: https, ssh, `git@host:path`, or a folder.

    A slash at the end, the case of a host and the usual port make no difference. Nor does `.git`
    at the end of an address; of a folder it does, as there may well be one with it and one without.
    """
    if not text.strip():
        raise _unfit(text, "there is no address")
    if len(text) > MOST_URL:
        raise _unfit(text, f"it is over {MOST_URL} characters long")
    if any(ord(c) < 32 or ord(c) == 127 or "\ud800" <= c < "\udc80" for c in text):
        raise _unfit(text, "there are control characters in it")
    if text.startswith("-"):
        raise _unfit(text, "it begins with a dash, as options do")
    if found := re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", text):
        return _of_scheme(text, found[1].lower(), found[2])
    if re.match(r"[A-Za-z0-9+.-]*::", text):
        raise _unfit(text, "it names a program to run instead of a place")
    if found := SCP.fullmatch(text):
        return _of_ssh_words(text, found)
    return _of_folder(text, text, cwd)


def _of_scheme(text: str, scheme: str, rest: str) -> Url:
    if scheme == "file":
        if not rest.startswith("/"):
            raise _unfit(text, "it names another machine", "file:///FOLDER is on this one")
        return _of_folder(text, os.fsdecode(unquote_to_bytes(os.fsencode(rest))), None)
    if scheme not in USUAL_PORTS:
        why = "anybody on the way can change what comes" if scheme == "git" else "it is not known"
        raise _unfit(text, f"{scheme}:// is not used: {why}", "use https:// or ssh://")
    authority, _, path = rest.partition("/")
    userinfo, at, place = authority.rpartition("@")
    user = _checked_user(text, userinfo, scheme) if at else ""
    host, port = _checked_host(text, place)
    if scheme == "http" and not _is_loopback(host):
        cause = "over http:// anybody on the way reads and changes what comes"
        raise _unfit(text, cause, "use https://")
    path = _checked_path(text, path)
    suffix = "" if port in ("", USUAL_PORTS[scheme]) else f":{port}"
    before = f"{user}@" if user else ""
    where = f"{host.lower()}{suffix}/"
    # To ssh a host is often a word of the person's own settings, so it stays as they wrote it.
    spelt = where if scheme != "ssh" else f"{host}{suffix}/"
    bare = path.removesuffix(".git")
    known = where + bare if scheme != "ssh" else before + where + bare
    return Url(f"{scheme}://{before}{spelt}{path}", f"{scheme}://{known}", _name(path))


def _of_ssh_words(text: str, found: re.Match[str]) -> Url:
    user, path = found["user"], found["path"]
    if user is not None:
        _checked_user(text, user, "ssh")
    host, _ = _checked_host(text, found["host"])
    if path.startswith("-") or "@" in path.partition("/")[0]:
        raise _unfit(text, "its path cannot be meant")
    path = path[:1] + _checked_path(text, path[1:]) if path[1:].strip("/") else path
    if not path.strip("/"):
        raise _unfit(text, "there is no path in it")
    before = f"{user}@" if user is not None else ""
    key = f"{before}{host.lower()}:{path.removesuffix('.git')}"
    return Url(f"{before}{host}:{path}", key, _name(path))


def _of_folder(text: str, path: str, cwd: Path | None) -> Url:
    hint = "an address begins with https:// or ssh://, or is git@HOST:PATH"
    if "\0" in path or any(ord(c) < 32 or ord(c) == 127 for c in path):
        raise _unfit(text, "there are control characters in it")
    if cwd is None and not path.startswith("/"):
        raise _unfit(text, "it is no address, and no folder from the root on", hint)
    try:
        folder = Path(os.path.realpath(path if cwd is None else cwd / path))
        there = folder.is_dir()
    except OSError as error:  # a name too long, a folder that is not ours to look into
        raise _unfit(text, (error.strerror or str(error)).lower()) from error
    if not there:
        raise _unfit(text, "there is no such folder", hint)
    if folder.name == ".git":
        folder = folder.parent
    return Url(str(folder), str(folder), _name(str(folder)), folder)


def _checked_user(text: str, userinfo: str, scheme: str) -> str:
    hint = "leave it out, and let a credential helper of git's keep it"
    if ":" in userinfo or "%3a" in userinfo.lower():
        raise _unfit(text, "there is a password in it", hint)
    if not USER.fullmatch(userinfo):
        raise _unfit(text, "the user in it cannot be meant")
    if scheme != "ssh" and TOKEN.fullmatch(userinfo):
        raise _unfit(text, "there is a token in it", hint)
    return userinfo


def _checked_host(text: str, place: str) -> tuple[str, str]:
    found = HOST.fullmatch(place)
    if not found or (found["port"] and not 0 < int(found["port"]) < 65536):
        raise _unfit(text, "the host in it cannot be meant")
    return found["host"], (found["port"] or "").lstrip("0")


def _checked_path(text: str, path: str) -> str:
    path = path.rstrip("/")
    decoded = unquote_to_bytes(os.fsencode(path))
    if not path.strip("/"):
        raise _unfit(text, "there is no path in it")
    if any(byte < 32 or byte == 127 for byte in decoded):
        raise _unfit(text, "there are control characters in it")
    if {b".", b".."} & set(decoded.split(b"/")) or re.search(r"[\s?#\\]", path):
        raise _unfit(text, "its path cannot be meant")
    return path


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name(path: str) -> str:
    last = path.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.")[:80] or "project"


def _unfit(text: str, cause: str, hint: str = "") -> Unfit:
    # Whatever stands before an @ may be a secret.
    shown = one_line(re.sub(r"[^/@]*@", "", text))[:200]
    return Unfit("use this address", subject=shown or None, cause=cause, hint=hint)


def checked_branch(name: str) -> str:
    """By git's own rules for names, and never an option."""
    parts = name.split("/")
    wrong = (
        not name
        or len(name.encode(errors="surrogatepass")) > 200
        or name in ("@", "HEAD")
        or name.startswith("-")
        or name.endswith(".")
        or ".." in name
        or "@{" in name
        or re.search(r"[\x00-\x20\x7f~^:?*\[\\\ud800-\udc7f]", name)
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    )
    if wrong:
        cause, hint = "git takes no branch of this name", "letters, digits, - and / are fine"
        raise Unfit("use this branch", subject=one_line(name)[:200], cause=cause, hint=hint)
    return name
