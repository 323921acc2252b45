"""Places that an agent has no business with, as they are called inside.

Most of them are not in a sandbox at all; a call for them says that something goes wrong.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from ags.hooks.deletes import below, places
from ags.hooks.expand import WILD, as_text, is_known
from ags.hooks.model import Ground
from ags.places import CREDENTIAL_FOLDERS

# Agents read and write folders of their own; of those, only the log-ins are nobody's to look at.
_OF_AGENTS = (".claude", ".codex", ".gemini", ".pi", ".local/share/opencode")
_SECRETS = (
    *(folder for folder in CREDENTIAL_FOLDERS if folder not in _OF_AGENTS),
    ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json",
    ".gemini/mcp-oauth-tokens.json", ".local/share/opencode/auth.json", ".pi/agent/auth.json",
    ".local/share/opencode/mcp-auth.json", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
    ".config/git/credentials", ".pgpass", ".my.cnf", ".vault-token", ".boto", ".s3cfg",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".bash_history",
    ".zsh_history", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".librewolf",
    ".config/keepassxc", ".config/Bitwarden", ".ags", ".config/ags", ".config/sops/age",
)  # fmt: skip
_NO_SECRETS = (".ssh/known_hosts",)
_SETTINGS = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".config/fish",
    ".config/autostart", ".config/systemd", ".config/environment.d", ".pam_environment",
    ".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".claude.json",
    ".codex/config.toml", ".codex/hooks.json", ".gemini/settings.json",
    ".gemini/trustedFolders.json", ".config/opencode", ".pi/agent/extensions",
    ".pi/agent/settings.json",
)  # fmt: skip
_SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh",
    "/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/run/secrets", "/var/run/secrets",
    "/run/user", "/run/docker.sock", "/var/run/docker.sock", "/run/podman",
    "/var/lib/docker", "/var/spool/cron", "/run/containerd",
)  # fmt: skip
_SYSTEM_SETTINGS = ("/etc", "/boot", "/ags")
_PROCESS = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(environ|mem|auxv|maps|fd/.*)")
_DETOUR = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?(root|cwd)(?=/|\Z)")
_DISK = re.compile(
    r"/dev/(?:sd[a-z]|hd[a-z]|vd[a-z]|xvd|nvme\d|mmcblk|loop\d|dm-|md\d|mapper/|disk/|nbd|zd\d|sr\d)"
)


def is_disk(path: str) -> bool:
    return bool(_DISK.match(posixpath.normpath(path)))


def why_not_touch(
    path: str, cwds: frozenset[str | None], ground: Ground, *, writes: bool = False
) -> str:
    """Empty if nothing is to be said against it."""
    if not is_known(path):
        return _partly_known(path, ground)
    path = path.removeprefix("file://")
    for place in places(path, cwds):
        if place is not None and (why := _why_not(place, ground, writes=writes)):
            return why
    return ""


def _partly_known(path: str, ground: Ground) -> str:
    """Whatever its start is, what follows may tell enough."""
    if re.search(r"/proc/.*/(environ|mem)\Z", path):
        return f"{_shown(path)} shows what other processes hold"
    tail = f"/.{path.rpartition('/.')[2]}" if "/." in path else ""
    if not tail or any(below(tail, end) for end in _hidden_ends(ground)):
        return ""
    found = any(_covers(tail, f"/{name}") for name in _SECRETS)
    return f"{_shown(path)} may hold credentials" if found else ""


def _hidden_ends(ground: Ground) -> Iterator[str]:
    """The ends of mounted paths that start at a hidden folder, such as /.ags/worktrees/NAME."""
    for folder in ground.mounted:
        for match in re.finditer(r"/\.", folder):
            yield folder[match.start() :]


def _why_not(place: str, ground: Ground, *, writes: bool) -> str:
    if detour := _DETOUR.match(place):
        start = "/" if detour[1] == "root" else ground.workspace
        place = posixpath.normpath(start.rstrip("/") + "/" + place[detour.end() :].lstrip("/"))
    shown = _shown(place)
    if (process := _PROCESS.fullmatch(place)) and not process[1].startswith("fd/"):
        return f"{shown} shows what other processes hold"
    if any(_is_in(place, secret, ground) for secret in _secrets(place, ground)):
        return f"{shown} is where credentials are kept"
    if writes and is_disk(place):
        return f"{shown} is a disk"
    if writes and any(_is_in(place, setting, ground) for setting in _settings(place, ground)):
        return f"{shown} decides what programs do later, outside this task"
    return ""


def _homes(place: str, ground: Ground) -> Iterator[str]:
    yield ground.home
    yield "/root"
    parts = place.split("/")
    if parts[1] in ("home", "Users") and len(parts) > 2:
        yield "/".join(parts[:3])


def _secrets(place: str, ground: Ground) -> Iterator[str]:
    yield from _SYSTEM_SECRETS
    for home in _homes(place, ground):
        if any(below(place, posixpath.join(home, name)) for name in _NO_SECRETS):
            return
        yield from (posixpath.join(home, name) for name in _SECRETS)


def _settings(place: str, ground: Ground) -> Iterator[str]:
    yield from _SYSTEM_SETTINGS
    for home in _homes(place, ground):
        yield from (posixpath.join(home, name) for name in _SETTINGS)


def _is_in(place: str, target: str, ground: Ground) -> bool:
    """Whether `place` is in a sensitive folder.

    What is mounted for the run is not sensitive because of where it lies: separate workspaces are
    in ~/.ags, which otherwise holds secrets, and a project may well be in /etc or ~/.config/fish.
    """
    exempt = any(below(place, folder) and below(folder, target) for folder in ground.mounted)
    return not exempt and _covers(place, target)


def _covers(place: str, target: str) -> bool:
    """Whether `place`, wildcards in it included, is `target` or lies below."""
    if WILD not in place:
        return below(place, target)
    parts, wanted = place.split("/"), target.split("/")
    pairs = zip(parts, wanted, strict=False)
    return len(parts) >= len(wanted) and all(_matches(part, want) for part, want in pairs)


def _matches(part: str, name: str) -> bool:
    if part.startswith(WILD) and name.startswith("."):
        return False  # a wildcard does not stand for a leading dot
    # Of a set such as [hs] only the start was marked: anything may follow.
    pattern = as_text(re.sub(f"{WILD}[^{WILD}]*\\]", WILD, part))
    return fnmatchcase(name, pattern)


def _shown(path: str) -> str:
    return as_text("".join(c if is_known(c) else "…" for c in path))[:200]
