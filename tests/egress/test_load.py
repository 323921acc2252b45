"""Policy files: what they mean, and errors that name file, line and key."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.egress.load import built_in, from_flags, load, parse
from ags.egress.model import Request, Scheme
from ags.egress.policy import Layer, Rule, Upstream, decide, merge
from ags.egress.rules import parse_domain
from ags.egress.services import load_service, service_names
from ags.errors import AgsError, ConfigError

HOME = Path("/home/ada")


def read(text: str, narrows: bool = False) -> Layer:
    return parse(textwrap.dedent(text), "policy.yaml", "user", HOME, narrows)


def refused(text: str, narrows: bool = False) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(text, narrows)
    assert caught.value.file == "policy.yaml"
    assert len(str(caught.value)) < 400
    return caught.value


def allows(
    layer: Layer,
    host: str,
    method: str | None = None,
    path: str | None = None,
    port: int = 443,
    scheme: Scheme = "tls",
) -> bool:
    return decide(merge([layer]), Request(host, port, scheme, method, path)).allowed


def test_a_whole_file_is_read() -> None:
    layer = read("""
        services: [claude]
        domains:
          - API.Example.
          - "*.corp.example"
          - 192.168.1.5
          - host: db.example
            ports: [5432]
          - host: git.example
            ports: 8443
            protocol: tls
            methods: [GET, HEAD]
            paths: [/v1/*]
        deny:
          - "*.ads.example"
          - host: api.example
            methods: [DELETE]
        ask: true
        upstreams:
          gate.example: 10.0.0.5
          other.example: {address: "::1", port: 8443, ca: ~/ca.pem}
        host_services: [5432, 6379]
    """)
    assert [rule for rule in layer.allow if not rule.service] == [
        Rule("api.example"),
        Rule("*.corp.example"),
        Rule("192.168.1.5"),
        Rule("db.example", (5432,)),
        Rule("git.example", (8443,), "tls", ("GET", "HEAD"), ("/v1/*",)),
    ]
    assert layer.services == ("claude",)
    assert layer.deny == (Rule("*.ads.example", ()), Rule("api.example", (), methods=("DELETE",)))
    assert layer.ask is True
    assert layer.upstreams == (
        Upstream("gate.example", "10.0.0.5"),
        Upstream("other.example", "::1", 8443, HOME / "ca.pem"),
    )
    assert layer.host_services == (5432, 6379)


@pytest.mark.parametrize(
    ("text", "line", "key", "cause"),
    [
        ("domains: [a.example]\ndomain: [b.example]", 2, "domain", "is unknown"),
        ("domains:\n  - host: a.example\n    port: 1", 3, "domains[0].port", "is unknown"),
        ("domains:\n  - ports: [1]", 2, "domains[0]", "has no `host:`"),
        ("domains:\n  - a.example\n  - true", 3, "domains[1]", "not true or false"),
        ("domains: a.example", 1, "domains", "must be a list, not text"),
        ("domains:", 1, "domains", "must be a list, not nothing"),
        ("deny: {a.example: 1}", 1, "deny", "must be a list, not a mapping"),
        ("ask: maybe", 1, "ask", "must be true or false"),
        ("ask: yes", 1, "ask", "must be true or false"),
        ("host_services: [0]", 1, "host_services[0]", "from 1 to 65535"),
        ("host_services: [65536]", 1, "host_services[0]", "from 1 to 65535"),
        ("host_services: ['22']", 1, "host_services[0]", "must be a port, not text"),
        ("host_services: [true]", 1, "host_services[0]", "must be a port"),
        ("domains: [{host: a.example, ports: []}]", 1, "domains[0].ports", "is empty"),
        ("domains: [{host: a.example, ports: [22:22]}]", 1, "domains[0].ports[0]", "be a port"),
        ("domains: [{host: a.example, protocol: udp}]", 1, "domains[0].protocol", "is unknown"),
        ("domains: [{host: a.example, protocol: raw}]", 1, "domains[0].protocol", "needs `ports:`"),
        ("domains: [{host: a.example, methods: []}]", 1, "domains[0].methods", "is empty"),
        ("domains: [{host: a.example, methods: [get]}]", 1, "domains[0].methods[0]", "a method"),
        ("domains: [{host: a.example, methods: [CONNECT]}]", 1, "domains[0].methods", "any port"),
        ("domains: [{host: a.example, paths: []}]", 1, "domains[0].paths", "is empty"),
        ("domains: [{host: a.example, paths: [v1]}]", 1, "domains[0].paths[0]", "with a slash"),
        ("domains: [{host: a.example, paths: [/a/../b]}]", 1, "domains[0].paths[0]", "no path"),
        ("domains:\n - host: a.example\n   ports: [9]\n   methods: [GET]", 4,
         "domains[0].methods", "raw connection"),
        ("upstreams: {a.example: b.example}", 1, "upstreams.a.example", "must be an address"),
        ("upstreams: {a.example: {port: 1}}", 1, "upstreams.a.example", "no `address:`"),
        ("upstreams: {'a b': 10.0.0.1}", 1, "upstreams.'a b'", "only letters"),
        ("services: [githib]", 1, "services[0]", "there is no service 'githib'"),
        ("services: {github: {}}", 1, "services", "must be a list"),
        ("services: [../../etc/passwd]", 1, "services[0]", "there is no service"),
        ("services: [claude, claude]", 1, "services[1]", "twice"),
        ("services: [claude: {x: 1}]", 1, "services[0].claude", "has no options"),
        ("services:\n - github:\n     acess: read", 3, "services[0].github.acess", "is unknown"),
        ("services: [github: {access: write}]", 1, "services[0].github.access", "'write'"),
        ("services: [github: {access: readwrite}]", 1, "services[0].github", "needs `repos:`"),
        ("services: [github: {repos: [x]}]", 1, "services[0].github.repos[0]", "not owner/name"),
        ("services: [github: {repos: [a/..]}]", 1, "services[0].github.repos[0]", "not owner/name"),
        ("services: [github: {repos: ['a/*']}]", 1, "services[0].github.repos[0]", "owner/name"),
        ("services: [github: {repos: []}]", 1, "services[0].github.repos", "is empty"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_key(
    text: str, line: int, key: str, cause: str
) -> None:
    error = refused(text)
    assert (error.line, error.key) == (line, key)
    assert cause in error.cause


def test_an_unknown_key_comes_with_the_one_that_was_meant() -> None:
    assert refused("domain: [a.example]").hint == "did you mean `domains`?"


@pytest.mark.parametrize(
    "host",
    [
        "*", "*.com", "*.org", "*.example", "*.co.uk", "*.com.au", "*.github.io", "*.amazonaws.com",
        "*.s3.eu-west-1.amazonaws.com", "*.COM.", "*.", "*..com", "**.example.org", "a.*.example",
        "*a.example", "*.*.example", "*.1.2.3.4", "*.127.1", "a.example:443", "https://a.example",
        "a.example/v1", "user@a.example", "a..example", "", "-a.example", "localhost", "printer",
        "127.0.0.1", "127.1", "0x7f.1", "0", "::1", "169.254.169.254", "198.18.0.1", "224.0.0.1",
        "host.containers.internal", "straße.example", "*.*", "*.xn--p1ai", ".example.org",
    ],
)  # fmt: skip
def test_a_host_that_is_too_wide_or_not_one_is_refused_at_load(host: str) -> None:
    error = refused(f"domains:\n  - b.example\n  - '{host}'")
    assert error.line == 3
    assert error.key == "domains[1]"
    assert read("domains:\n  - b.example\n  - '*.corp.example.org'").allow


@pytest.mark.parametrize(
    ("literal", "remedy"),
    [
        ("127.0.0.1", "host_services:"), ("::1", "host_services:"), ("0.0.0.0", "host_services:"),
        ("169.254.169.254", "upstreams:"), ("169.254.1.1", "upstreams:"), ("fe80::1", "upstreams:"),
        ("224.0.0.1", "upstreams:"), ("198.18.0.1", "upstreams:"), ("100.64.0.1", "upstreams:"),
        ("100.100.100.200", "upstreams:"), ("fd00:ec2::254", "upstreams:"),
        ("192.0.2.1", "upstreams:"), ("64:ff9b::a00:5", "upstreams:"), ("240.0.0.1", "upstreams:"),
    ],
)  # fmt: skip
def test_a_listed_address_that_is_never_dialled_is_an_error_with_its_remedy(
    literal: str, remedy: str
) -> None:
    error = refused(f"domains:\n  - '{literal}'")
    assert error.line == 2 and "is never reached" in error.cause and remedy in error.hint


@pytest.mark.parametrize("literal", ["10.0.0.5", "172.16.9.9", "192.168.1.1", "fd12::1", "9.9.9.9"])
def test_an_address_of_the_persons_network_or_of_the_open_internet_can_be_listed(
    literal: str,
) -> None:
    layer = read(f"domains: [{{host: '{literal}', ports: [5432]}}]")
    assert layer.allow[0].host == literal
    assert refused(f"domains: ['*.{literal}']")


def test_a_denial_may_be_as_wide_as_it_likes() -> None:
    layer = read("domains: [a.example]\ndeny: ['*', '*.com', localhost, 127.0.0.1]")
    assert [rule.host for rule in layer.deny] == ["*", "*.com", "localhost", "127.0.0.1"]


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("", 1, "is empty"),
        ("# only a comment\n", 1, "is empty"),
        ("{}", 1, "is empty"),
        ("---\n", 2, "is empty"),
        ("just text", 1, "must be a mapping, not text"),
        ("- a", 1, "must be a mapping, not a list"),
        ("domains: [a.example]\ndomains: [b.example]", 2, "twice (see line 1)"),
        ("domains: [{host: a.example, host: b.example}]", 1, "twice"),
        ("domains: &all [a.example]\ndeny: *all", 1, "anchor"),
        ("ask: *gone", 1, "alias"),
        ("ask: !!bool true", 1, "tag"),
        ("ask: !!python/object/apply:os.system [id]", 1, "tag"),
        ("domains: [a.example]\n---\nask: true", 2, "more than one document"),
        ("? [domains]\n: 1", 1, "a key must be text"),
        ("domains: " + "[" * 5000, 1, "too deep"),
        ("domains: [" + "a," * 30_000 + "]", 1, "too many"),
        ("domains: [a.example\nask: true", 2, ""),
        ("domains:\n\t- a.example", 2, ""),
        ("ask: \x00", 1, "character"),
        ('ask: "\\UFFFFFFFF"', None, "escape"),
        ("x" * 300_000, None, "letters"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: str, line: int | None, cause: str) -> None:
    error = refused(text)
    assert error.line == line
    assert cause in error.cause


@given(st.text("ab:-[]{}&*!|>'\"#%@,?\n \t~\\x0\u0085\ufeff", max_size=60))
def test_no_text_does_worse_than_a_clear_error(text: str) -> None:
    try:
        layer = parse(text, "policy.yaml", "user", HOME)
    except ConfigError:
        return
    assert layer.name == "user"


def test_words_are_not_taken_for_switches_or_times() -> None:
    layer = read("domains:\n  - no.example\ndeny: [{host: 'on.example', ports: [22]}]")
    assert layer.deny[0].ports == (22,)
    assert layer.allow[0].host == "no.example"


# Files.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def test_a_file_is_loaded(folder: Path) -> None:
    file = folder / "policy.yaml"
    file.write_text("domains: [api.example]")
    file.chmod(0o600)
    assert allows(load(file, "user", HOME), "api.example")


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"domains: [", b"nonsense: 1"])
def test_a_missing_empty_or_broken_file_is_an_error_and_no_policy(
    folder: Path, content: bytes | None
) -> None:
    file = folder / "policy.yaml"
    if content is not None:
        file.write_bytes(content)
        file.chmod(0o600)
    with pytest.raises(ConfigError, match=re.escape(str(file))):
        load(file, "user", HOME)


def test_a_missing_file_has_a_hint_of_its_own(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder / "gone.yaml", "user", HOME)
    assert "--policy" in caught.value.hint


@pytest.mark.parametrize("kind", ["folder", "fifo", "world-writable"])
def test_what_is_no_file_of_the_persons_own_is_refused(folder: Path, kind: str) -> None:
    file = folder / "policy.yaml"
    if kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.write_text("domains: [api.example]")
        file.chmod(0o666)
    with pytest.raises(ConfigError):
        load(file, "user", HOME)


def test_a_repository_file_can_only_narrow() -> None:
    layer = read("domains: [api.example]\nask: false", narrows=True)
    assert layer.narrows
    assert layer.keeps
    assert not read("deny: [a.example]", narrows=True).keeps
    assert read("domains: []", narrows=True).keeps
    for text in ("host_services: [1]", "upstreams: {a.example: 10.0.0.1}", "ask: true"):
        refused(text, narrows=True)
        read(text)


# Flags.


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("api.example", Rule("api.example")),
        ("API.example.:8443", Rule("api.example", (8443,))),
        ("*.corp.example", Rule("*.corp.example")),
        ("[2c0f::1]:22", Rule("2c0f::1", (22,))),
        ("2c0f::1", Rule("2c0f::1")),
        ("10.0.0.5:80", Rule("10.0.0.5", (80,))),
    ],
)
def test_a_flag_names_a_domain_and_perhaps_a_port(written: str, rule: Rule) -> None:
    assert from_flags([written]) == Layer("run", allow=(rule,))


@pytest.mark.parametrize(
    "written",
    ["", "*", "*.com", "a.example:", "a.example:0", "a.example:65536", "a.example:x", "a:b:80",
     "https://a.example", "a.example:80:80", "a.example:٨٠"],
)  # fmt: skip
def test_a_flag_that_is_no_domain_is_refused(written: str) -> None:
    with pytest.raises(AgsError) as caught:
        parse_domain(written, "--allow")
    assert "--allow" in str(caught.value)


# Services.


@pytest.mark.parametrize("name", service_names())
def test_every_service_can_be_named_without_options(name: str) -> None:
    layer = read(f"services: [{name}]")
    assert layer.services == (name,)
    assert load_service(name).about
    assert layer.allow or layer.pending
    assert all(rule.service == name for rule in layer.allow)
    assert all(rule.scheme(port) == "tls" for rule in layer.allow for port in rule.ports)


@pytest.mark.parametrize(
    ("agent", "host"),
    [
        ("claude", "api.anthropic.com"),
        ("codex", "api.openai.com"),
        ("gemini", "generativelanguage.googleapis.com"),
        ("opencode", "opencode.ai"),
        ("pi", "api.anthropic.com"),
    ],
)
def test_without_a_file_an_agent_reaches_its_model_and_reads_github_and_no_more(
    agent: str, host: str
) -> None:
    layer = built_in(agent)
    assert layer.name == "built-in"
    assert allows(layer, host, "POST", "/v1/messages")
    assert allows(layer, "api.github.com", "GET", "/repos/a/b")
    assert not allows(layer, "api.github.com", "POST", "/repos/a/b/issues")
    assert not allows(layer, "other.example")
    assert not allows(built_in("shell"), host)
    assert allows(built_in("shell"), "github.com", "GET", "/")


def git(layer: Layer, repository: str, service: str) -> bool:
    """As git does it: it asks for the refs, then posts."""
    asks = allows(layer, "github.com", "GET", f"/{repository}/info/refs")
    return asks and allows(layer, "github.com", "POST", f"/{repository}/git-{service}-pack")


def test_github_is_read_only_at_first() -> None:
    layer = read("services: [github]")
    assert git(layer, "any/repo.git", "upload")
    assert not git(layer, "any/repo.git", "receive")
    assert allows(layer, "raw.githubusercontent.com", "GET", "/a/b/main/x")
    assert not allows(layer, "api.github.com", "POST", "/graphql")
    assert not allows(layer, "github.com", port=22, scheme="raw")
    assert not allows(layer, "github.com", port=80, scheme="http")
    assert not allows(layer, "uploads.github.com")
    assert not allows(layer, "github-cloud.s3.amazonaws.com", "PUT", "/x")


def test_github_is_written_to_only_where_a_repository_is_listed() -> None:
    layer = read("services: [github: {access: readwrite, repos: [ada/engine]}]")
    assert git(layer, "ada/engine.git", "receive")
    assert git(layer, "ada/engine", "receive")
    assert git(layer, "any/other.git", "upload")
    for other in ("ada/engine2.git", "ada/other", "eve/engine.git", "ada/engine/x"):
        assert not git(layer, other, "receive")
    assert allows(layer, "api.github.com", "POST", "/repos/ada/engine/pulls")
    assert not allows(layer, "api.github.com", "POST", "/repos/ada/engine2/pulls")
    assert not allows(layer, "api.github.com", "POST", "/repos/ada/engine/../engine2/pulls")
    assert not allows(layer, "api.github.com", "DELETE", "/repos/ada/engine")
    assert not allows(layer, "github.com", "POST", "/eve/x.git/info/lfs/objects/batch")
    assert not allows(layer, "github.com", port=22, scheme="raw")


def test_github_ssh_is_opened_by_name() -> None:
    assert allows(read("services: [github: {ssh: true}]"), "github.com", port=22, scheme="raw")


def test_github_can_be_read_by_listed_repositories_only_or_not_at_all() -> None:
    built, one = built_in("claude"), read("services: [github: {repos: [ada/engine]}]")
    assert git(one, "ada/engine.git", "upload")
    assert not git(one, "eve/other.git", "upload")
    policy = merge([built, one])
    eve = Request("github.com", 443, "tls", "GET", "/eve/other.git/info/refs")
    assert decide(merge([built]), eve).allowed
    assert not decide(policy, eve).allowed
    none = read("services: [github: {access: none}]")
    assert not decide(merge([built, none]), Request("github.com", 443, "tls")).allowed


def test_providers_can_be_chosen() -> None:
    layer = read("services:\n  - pi: {providers: [openai]}")
    assert allows(layer, "api.openai.com")
    assert not allows(layer, "api.anthropic.com")
    assert allows(read("services: [pi]"), "api.anthropic.com")


def test_registries_wait_for_the_persons_own_settings() -> None:
    layer = read("services: [npm, pip: {access: readwrite}]")
    assert layer.allow == ()
    assert layer.pending == (("npm", "read"), ("pip", "readwrite"))
