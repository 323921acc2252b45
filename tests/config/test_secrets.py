"""`[[secret]]` and `[network]` in the settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ags.config.load import parse
from ags.config.schema import Network, SecretConfig, Settings
from ags.errors import ConfigError
from tests.people import ROOT

FILE = Path("/home/ada/.config/ags/config.toml")
HOME = Path("/home/ada")
BOUND = "[[secret]]\nname = 'k'\nenv = 'K'\nhost = 'api.example'\n"


def settings(text: str) -> Settings:
    return parse(text, FILE, HOME)


def test_every_key_is_read() -> None:
    found = settings(
        """
        [network]
        ca = ["~/company.pem", "/etc/other.pem"]
        [[secret]]
        name = "a"
        env = "A"
        from_env = "MINE"
        host = "API.Example."
        port = 8443
        header = "X-Key"
        [[secret]]
        name = "b"
        env = "B"
        command = ["pass", "show", "b"]
        host = "git.example"
        template = "Basic *:{}"
        [[secret]]
        name = "c"
        env = "C"
        from_file = "~/.c"
        deliver = "env"
        [[secret]]
        name = "d"
        env = "D"
        secret_store = "other"
        host = "d.example"
        """
    )
    assert found.network == Network((HOME / "company.pem", Path("/etc/other.pem")))
    assert found.secrets == (
        SecretConfig("a", "A", "MINE", host="api.example", port=8443, header="X-Key"),
        SecretConfig(
            "b", "B", command=("pass", "show", "b"), host="git.example", template="Basic *:{}"
        ),
        SecretConfig("c", "C", from_file=HOME / ".c", deliver="env"),
        SecretConfig("d", "D", secret_store="other", host="d.example"),
    )


@pytest.mark.parametrize(
    ("text", "line", "key", "cause"),
    [
        ("[[secret]]\nenv = 'K'", 1, "secret[0].name", "is missing"),
        ("[[secret]]\nname = 'k'", 1, "secret[0].env", "is missing"),
        ("[[secret]]\nname = 'k'\nenv = 'K'", 1, "secret[0].host", "is missing"),
        ("[[secret]]\nname = '../k'\nenv = 'K'", 2, "secret[0].name", "a name has letters"),
        ("[[secret]]\nname = 'k'\nenv = 'A-B'", 3, "secret[0].env", "name of a variable"),
        ("[[secret]]\nname = 'k'\nenv = 'PATH'", 3, "secret[0].env", "is not set here"),
        (BOUND + "from_env = 'A'\nsecret_store = 'b'", 6, "secret[0].secret_store", "already"),
        (BOUND + "command = []", 5, "secret[0].command", "names no program"),
        (BOUND + "command = 'pass'", 5, "secret[0].command", "must be a list"),
        (BOUND + "from_file = 'key'", 5, "secret[0].from_file", "is not absolute"),
        (BOUND + "port = 0", 5, "secret[0].port", "from 1 to 65535"),
        (BOUND + "port = true", 5, "secret[0].port", "must be a port"),
        (BOUND + "header = 'a b'", 5, "secret[0].header", "no name of a header"),
        (BOUND + "template = 'Bearer'", 5, "secret[0].template", "needs one {}"),
        (BOUND + "template = '* {}'", 5, "secret[0].template", "star"),
        (BOUND + "deliver = 'file'", 5, "secret[0].deliver", "is unknown"),
        (BOUND + "deliver = 'env'", 4, "secret[0].host", "of no use"),
        (BOUND.replace("api.", "*."), 4, "secret[0].host", "a name has only letters"),
        (BOUND.replace("api.", "u@"), 4, "secret[0].host", "a name has only letters"),
        (BOUND + BOUND, 6, "secret[1].name", "already"),
        (BOUND + BOUND.replace("'k'", "'l'"), 7, "secret[1].env", "already"),
        ("[secret]\nname = 'k'", 1, "secret", "must be a list of tables"),
        ("[network]\nca = '~/x.pem'", 2, "network.ca", "must be a list"),
        ("[network]\nca = ['x.pem']", 2, "network.ca[0]", "is not absolute"),
        ("[network]\nproxy = 'x'", 2, "network.proxy", "is not http://host:port"),
        ("[network]\nproxy = 'https://x.example'", 2, "network.proxy", "is not http://host:port"),
        ("[network]\nproxy_login = 'a b'", 2, "network.proxy_login", "name"),
        ("[network]\nproxies = 'x'", 2, "network.proxies", "is unknown"),
    ],
)
def test_a_mistake_is_answered_with_its_line_and_key(
    text: str, line: int, key: str, cause: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(text)
    assert (caught.value.line, caught.value.key) == (line, key)
    assert cause in caught.value.cause


def test_settings_without_a_secret_load_nothing_of_the_fence() -> None:
    script = """
import sys
from pathlib import Path
from ags.config.load import parse
parse("[network]\\nca = ['/x.pem']", Path("/x"), Path("/home"))
print([name for name in sys.modules if name.startswith("ags.egress")])
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "[]\n"
