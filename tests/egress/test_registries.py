"""Package registries: the person's own settings, as rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from ags.egress.policy import Rule
from ags.egress.registries import QUESTIONS, Found, answered, linked, read_settings, rules_for

GET = ("GET", "HEAD")


def https(host: str, port: int = 443) -> Rule:
    return Rule(host, (port,), "tls", GET)


def http(host: str, port: int = 80) -> Rule:
    return Rule(host, (port,), "http", GET)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_npm_settings_name_a_registry_and_those_of_scopes(tmp_path: Path) -> None:
    write(
        tmp_path / ".npmrc",
        "; a comment\n# registry=https://commented.example/\n"
        "registry = https://packages.example/npm/\n"
        '@corp:registry="https://npm.corp.example:8443/"\n'
        "@other:registry=${MIRROR}/npm\n"
        "//packages.example/npm/:_authToken=secret\n"
        "proxy=http://proxy.example:3128\n",
    )
    write(tmp_path / "etc/npmrc", "registry=http://machine.example/\n")
    found = read_settings("npm", tmp_path, {"MIRROR": "https://mirror.example"}, tmp_path)
    assert found.rules == (
        http("machine.example"),
        https("packages.example"),
        https("npm.corp.example", 8443),
        https("mirror.example"),
    )


def test_npm_takes_variables_and_another_file(tmp_path: Path) -> None:
    write(tmp_path / "mine", "registry=https://mine.example/\n")
    environ = {
        "NPM_CONFIG_USERCONFIG": str(tmp_path / "mine"),
        "npm_config_registry": "https://env.example/",
    }
    write(tmp_path / ".npmrc", "registry=https://not-read.example/\n")
    found = read_settings("npm", tmp_path, environ, tmp_path)
    assert found.rules == (https("mine.example"), https("env.example"))


def test_pip_settings_name_indexes_in_files_and_variables(tmp_path: Path) -> None:
    write(
        tmp_path / ".config/pip/pip.conf",
        "[global]\nindex-url = https://user:secret@packages.example/simple\n"
        "extra-index-url =\n    https://one.example/simple\n    http://two.example:8080/simple\n"
        "trusted-host = not-a-rule.example\n[install]\nfind-links = /srv/wheels https://w.example/\n",
    )
    environ = {"PIP_INDEX_URL": "https://env.example/", "PIP_EXTRA_INDEX_URL": "https://x.example"}
    found = read_settings("pip", tmp_path, environ, tmp_path)
    assert found.rules == (
        https("packages.example"),
        https("one.example"),
        http("two.example", 8080),
        https("w.example"),
        https("env.example"),
        https("x.example"),
    )
    assert "secret" not in repr(found)


def test_apt_sources_are_read_in_both_forms(tmp_path: Path) -> None:
    write(
        tmp_path / "etc/apt/sources.list",
        "# deb http://commented.example/ x main\n"
        "deb http://packages.example/debian stable main  # note\n"
        "deb-src [arch=amd64 signed-by=/k.gpg] https://src.example/debian stable main\n"
        "deb cdrom:[Disc 1]/ stable main\ndeb file:/srv/mirror ./\n",
    )
    write(
        tmp_path / "etc/apt/sources.list.d/more.sources",
        "Types: deb\nURIs: https://one.example/debian\n mirror+http://two.example/list\n"
        "Suites: stable\n\n# off\nTypes: deb\nURIs: https://off.example/\nEnabled: no\n",
    )
    write(tmp_path / "etc/apt/sources.list.d/old.list.save", "deb http://saved.example/ x main\n")
    found = read_settings("apt", tmp_path, {}, tmp_path)
    assert found.rules == (
        http("packages.example"),
        https("src.example"),
        https("one.example"),
        http("two.example"),
    )


@pytest.mark.parametrize("tool", ["npm", "pip", "apt"])
def test_without_settings_nothing_is_opened(tmp_path: Path, tool: str) -> None:
    assert read_settings(tool, tmp_path, {}, tmp_path) == Found()
    assert QUESTIONS[tool]


@pytest.mark.parametrize(
    "text", ["no section", "[global", "[a]\nindex-url", "\x00", "[a]\n[a]\nindex-url=%(x)s\n", "="]
)
@pytest.mark.parametrize("tool", ["npm", "pip", "apt"])
def test_damaged_settings_open_nothing(tmp_path: Path, tool: str, text: str) -> None:
    for name in (
        ".npmrc",
        ".pip/pip.conf",
        "etc/apt/sources.list",
        "etc/apt/sources.list.d/a.sources",
    ):
        write(tmp_path / name, text)
    assert read_settings(tool, tmp_path, {}, tmp_path).rules == ()


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a.example/", "https://", "https://a..example/", "https://a.example:0/",
        "https://a.example:99999/", "https://[::1/", "https://localhost:4873/", "https://127.0.0.1/",
        "https://169.254.169.254/", "https://*.example/", "", "${UNSET}/npm",
        "https://a b.example/",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_a_rule_is_passed_over_and_said(address: str) -> None:
    found = rules_for([address, "https://packages.example/"])
    assert found.rules == (https("packages.example"),)
    assert len(found.skipped) == 1


def test_a_tool_says_its_own_default() -> None:
    assert answered("npm", "https://packages.example/\n").rules == (https("packages.example"),)
    assert answered("npm", "undefined\n").rules == ()
    helped = (
        "  -r, --requirement <file>  See https://manual.example\n"
        "  -i, --index-url <url>       Base URL of the Index (default\n"
        "                              https://packages.example/simple). This should\n"
        "  --proxy <proxy>  like http://proxy.example:8080\n"
    )
    assert answered("pip", helped).rules == (https("packages.example"),)


def test_file_hosts_are_learnt_from_the_links_of_an_index_page() -> None:
    page = (
        '<a href="https://files.example/x/a-1.0.whl#sha256=00">a</a>'
        "<A class=x HREF='//cdn.example/b.whl'>b</A><a href='../c.whl'>c</a>"
        '<img src="https://img.example/x"> https://text.example/'
    )
    found = linked(page, "https://packages.example/simple/a/")
    assert found.rules == (https("files.example"), https("cdn.example"))
