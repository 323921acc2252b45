"""Which hosts the person's own package tools use: read from their settings, never from ours.

Settings in the workspace are not looked at: the agent can write them. Where the person has none,
`tools` asks the tool itself. Where files are kept apart from the index, `indexes` learns where.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from ags.egress.model import Scheme
from ags.egress.policy import Rule
from ags.egress.rules import judged_host
from ags.errors import AgsError
from ags.frozen import frozen

MAX_SETTINGS = 1 << 20
READING = ("GET", "HEAD")

_PIP_HELP = ("help", "install")
QUESTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "npm": (("npm", "config", "get", "registry"),),
    "pip": (("pip", *_PIP_HELP), ("pip3", *_PIP_HELP), ("python3", "-m", "pip", *_PIP_HELP)),
    "apt": (("apt-get", "indextargets", "--format", "$(REPO_URI)"),),
}
"""What `tools` runs to learn a tool's own default; the first of them that there is."""

_SCHEMES: dict[str, tuple[Scheme, int]] = {"https": ("tls", 443), "http": ("http", 80)}
_PIP_KEYS = ("index-url", "extra-index-url", "find-links")
_VARIABLE = re.compile(r"\$\{(\w+)\??\}", re.ASCII)
_ADDRESS = re.compile(r"https?://[^\s\"'<>()]+", re.ASCII)
_APT_METHOD = re.compile(r"(?:mirror\+)?(https?://.*)", re.ASCII | re.IGNORECASE)


@frozen
class Found:
    """Hosts as rules, and what was passed over, said without any credential in it."""

    rules: tuple[Rule, ...] = ()
    skipped: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    """Those that the rules are for."""


def read_settings(
    tool: str, home: Path, environ: Mapping[str, str], root: Path = Path("/")
) -> Found:
    """What the person's own settings of npm, pip or apt say; nothing if they say nothing."""
    texts = [_text(file) for file in setting_files(tool, home, environ, root)]
    found: list[str] = []
    for text, deb822 in texts:
        if tool == "npm":
            found += npm_addresses(text, environ)
        elif tool == "pip":
            found += pip_addresses(text)
        else:
            found += apt_addresses(text, deb822)
    return rules_for([*found, *_from_environment(tool, environ)])


def setting_files(
    tool: str, home: Path, environ: Mapping[str, str], root: Path = Path("/")
) -> tuple[Path, ...]:
    """The files of the machine and of the person, in the order the tool reads them."""
    settings = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if tool == "npm":
        own = _named(environ, ("npm_config_userconfig", "NPM_CONFIG_USERCONFIG"))
        return (root / "etc/npmrc", *(own or (home / ".npmrc",)))
    if tool == "pip":
        own = _named(environ, ("PIP_CONFIG_FILE",))
        person = (home / ".pip/pip.conf", settings / "pip/pip.conf")
        return (root / "etc/pip.conf", root / "etc/xdg/pip/pip.conf", *person, *own)
    parts = root / "etc/apt/sources.list.d"
    listed = sorted((*parts.glob("*.list"), *parts.glob("*.sources")))
    return (root / "etc/apt/sources.list", *listed)


def answered(tool: str, output: str) -> Found:
    """The default in what the tool printed to its question."""
    text = output
    if tool == "pip":
        # The help wraps its lines, and names other addresses too.
        match = re.search(r"--index-url.{0,200}?default\s+(https?://[^\s)]+)", output, re.DOTALL)
        text = match[1] if match else ""
    return rules_for(_ADDRESS.findall(text))


def linked(page: str, base: str) -> Found:
    """The hosts that an index page's links go to: files are often kept elsewhere."""
    links = re.findall(r"<a\s[^>]{0,2000}?href\s*=\s*[\"']([^\"'#]{1,2000})", page, re.IGNORECASE)
    scheme = urlsplit(base).scheme
    whole = (f"{scheme}:{link}" if link.startswith("//") else link for link in links)
    return rules_for(link for link in whole if _ADDRESS.match(link))


def rules_for(addresses: Iterable[str]) -> Found:
    """One rule for each host and port, for reading only."""
    rules: dict[Rule, None] = {}
    skipped: dict[str, None] = {}
    used: dict[str, None] = {}
    for address in addresses:
        try:
            rules[_rule(address)] = None
            used[_bare(address)] = None
        except (AgsError, ValueError) as error:
            cause = error.cause if isinstance(error, AgsError) else "it is not an address"
            skipped[cause] = None
    return Found(tuple(rules), tuple(skipped), tuple(used))


def _bare(address: str) -> str:
    """Without a name, a password or a token in it."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def npm_addresses(text: str, environ: Mapping[str, str]) -> list[str]:
    """`registry = …` and `@scope:registry = …`, with variables filled in as npm does."""
    found = []
    for line in text.splitlines():
        key, equals, value = (part.strip() for part in line.partition("="))
        if equals and (key == "registry" or re.fullmatch(r"@[^:\s]+:registry", key)):
            bare = value.split(" ;")[0].split(" #")[0].strip().strip("\"'")
            found.append(_VARIABLE.sub(lambda match: environ.get(match[1], ""), bare))
    return found


def pip_addresses(text: str) -> list[str]:
    """index-url, extra-index-url and find-links, of whichever section."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=", ":"))
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    named = (
        value
        for section in parser.sections()
        for key, value in parser.items(section)
        if key.replace("_", "-") in _PIP_KEYS
    )
    return [word for value in named for word in value.split() if "://" in word]


def apt_addresses(text: str, deb822: bool) -> list[str]:
    """Of `deb` lines, or of the stanzas of a `.sources` file, those that are fetched by http."""
    words = _stanza_words(text) if deb822 else _line_words(text)
    return [match[1] for word in words if (match := _APT_METHOD.fullmatch(word))]


def _line_words(text: str) -> Iterator[str]:
    for line in text.splitlines():
        bare = re.sub(r"\[[^\]]*\]", " ", line.partition("#")[0])
        kind, *rest = bare.split() or [""]
        if kind in ("deb", "deb-src") and rest:
            yield rest[0]


def _stanza_words(text: str) -> Iterator[str]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        joined = re.sub(r"\n[ \t]+", " ", stanza)
        pairs = (line.partition(":")[::2] for line in joined.splitlines())
        given = {key.strip().lower(): value.strip() for key, value in pairs}
        if given.get("enabled", "yes").lower() not in ("no", "false", "0", "off", "without"):
            yield from given.get("uris", "").split()


def _rule(address: str) -> Rule:
    parts = urlsplit(address)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise AgsError("use this registry", cause="only http and https can be judged")
    protocol, usual = _SCHEMES[parts.scheme]
    port = usual if parts.port is None else parts.port
    if not port:
        raise AgsError("use this registry", cause="its port is 0")
    return Rule(judged_host(parts.hostname), (port,), protocol, READING)


def _from_environment(tool: str, environ: Mapping[str, str]) -> list[str]:
    if tool == "npm":
        names = [name for name in environ if name.lower() == "npm_config_registry"]
    else:
        names = [f"PIP_{key.replace('-', '_').upper()}" for key in _PIP_KEYS if tool == "pip"]
    return [word for name in names for word in environ.get(name, "").split() if "://" in word]


def _named(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[Path, ...]:
    paths = (Path(environ[name]) for name in names if environ.get(name))
    return tuple(path for path in paths if path.is_absolute())


def _text(file: Path) -> tuple[str, bool]:
    """Nothing for a file that is not there; these are the person's, and optional."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_SETTINGS)
    except OSError:
        content = b""
    return content.decode("utf-8", "replace"), file.suffix == ".sources"
