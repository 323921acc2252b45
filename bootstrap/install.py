"""What pip is asked to do, under which settings, and what its failures mean."""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from ags.errors import AgsError
from bootstrap.place import Environment

WHAT = "set up the Python environment"
# Where packages come from is the person's choice; where and how they are installed is ours.
SOURCES = frozenset(
    {
        "PIP_CACHE_DIR",
        "PIP_CERT",
        "PIP_CLIENT_CERT",
        "PIP_CONFIG_FILE",
        "PIP_DEFAULT_TIMEOUT",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_INDEX_URL",
        "PIP_KEYRING_PROVIDER",
        "PIP_NO_CACHE_DIR",
        "PIP_NO_INDEX",
        "PIP_PROXY",
        "PIP_RETRIES",
        "PIP_TIMEOUT",
        "PIP_TRUSTED_HOST",
        "PIP_USE_FEATURE",
    }
)
PINNED = ("--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-input")
# Imported rarely or never: Python compiles these when their time comes.
RARE = r"/(pygments/(lexers|styles|formatters)|mypyc?|hypothesis|tests?)/"


def pip() -> str:
    """The pip that comes with Python, run as it lies there: installing it first takes seconds."""
    spec = importlib.util.find_spec("ensurepip")
    if spec is None or spec.origin is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise AgsError(
            WHAT,
            subject=sys.executable,
            cause="this Python comes without ensurepip",
            hint=f"install it (Debian, Ubuntu: apt install python{version}-venv), then try again",
        )
    # Distributions keep the wheel outside of Python's own directory.
    places = (
        f"{Path(spec.origin).parent}/_bundled",
        sysconfig.get_config_var("WHEEL_PKG_DIR") or "/usr/share/python-wheels",
    )
    wheels = [wheel for place in places for wheel in sorted(Path(place).glob("pip-*.whl"))]
    if not wheels:
        raise AgsError(
            WHAT,
            subject=sys.executable,
            cause=f"there is no wheel of pip in {' or '.join(places)}",
            hint="install the package of your distribution that has it, then try again",
        )
    return f"{wheels[0]}/pip"


def pip_arguments(environment: Environment) -> tuple[str, ...]:
    ours = ("--no-user", "--no-compile", "--disable-pip-version-check")
    files = (word for path in environment.requirements for word in ("-r", str(path)))
    return ("install", *PINNED, *ours, *files)


def compile_arguments(environment: Environment) -> tuple[str, ...]:
    """Bytecode that names the place where the environment will be."""
    moved = ("-s", str(environment.unfinished), "-p", str(environment.prefix))
    return ("-q", "-j", "0", "-x", RARE, *moved, str(environment.packages))


def child_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if not name.startswith(("PIP_", "PYTHON")) or name in SOURCES
    }


def pinned(requirements: Iterable[Path]) -> frozenset[str]:
    """The packages that lock files name."""
    names = (re.findall(r"^([\w.-]+)==", path.read_text(), re.MULTILINE) for path in requirements)
    return frozenset(canonical(name) for found in names for name in found)


def installed(packages: Path) -> frozenset[str]:
    return frozenset(canonical(entry.name.split("-")[0]) for entry in packages.glob("*.dist-info"))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def hint_for(output: str, room: int) -> str:
    """What to do about a failed step, from what it printed and the bytes left on the disk."""
    if "No space left on device" in output or room < 1 << 20:
        return "the disk is full: make room, then try again"
    if "DO NOT MATCH THE HASHES" in output:
        return "a package is not the one we pinned: see where pip gets packages (pip config list)"
    return "check the network and where pip gets packages (pip config list), then try again"
