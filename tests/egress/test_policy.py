"""What goes out: rules, layers and the decision, all without a machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ags.egress.model import Decision, Request, Scheme
from ags.egress.paths import OVERRIDE_HEADERS, bad_pattern, override, path_matches
from ags.egress.policy import (
    Layer,
    Policy,
    Rule,
    Upstream,
    decide,
    explain,
    fill,
    meaning,
    merge,
    normal_path,
)
from ags.errors import AgsError


def user(*allow: Rule, deny: tuple[Rule, ...] = (), ask: bool | None = None) -> Layer:
    return Layer("user", allow=allow, deny=deny, ask=ask)


def asked(
    layers: Layer | list[Layer],
    host: str = "api.example",
    port: int = 443,
    scheme: Scheme = "tls",
    method: str | None = None,
    path: str | None = None,
) -> Decision:
    policy = merge([layers] if isinstance(layers, Layer) else layers)
    return decide(policy, Request(host, port, scheme, method, path))


ANY = Rule("*", ())


def test_a_listed_name_is_allowed_and_the_rule_and_layer_are_named() -> None:
    assert asked(user(Rule("api.example"))) == Decision(True, "allowed", "api.example", "user")


def test_without_any_layer_everything_is_refused() -> None:
    assert decide(Policy(), Request("api.example", 443, "tls")).reason == "no-policy"


def test_a_layer_that_could_not_be_read_closes_everything_even_what_others_allow() -> None:
    layers = [Layer("built-in", allow=(Rule("api.example"),)), Layer("user", broken="no such file")]
    assert asked(layers) == Decision(False, "no-policy", "", "user")
    assert asked(layers[:1]).allowed


@pytest.mark.parametrize(
    "host",
    [
        "example", "xapi.example", "api.example.evil.example", "api-example", "api.examplex",
        "api_example", "api.example.org", "v1.api.example", "apiexample",
    ],
)  # fmt: skip
def test_look_alikes_are_not_the_name(host: str) -> None:
    assert asked(user(Rule("api.example")), host).reason == "not-listed"
    assert asked(user(Rule(host)), host).allowed


@pytest.mark.parametrize(
    "host",
    ["API.example", "api.example.", "api..example", "", "api.example\x00", "a b", "u@api.example",
     "api.example:443", "*", "*.example", "0x7f.1", "bücher.example"],
)  # fmt: skip
def test_a_host_that_is_not_in_its_canonical_form_is_refused(host: str) -> None:
    wide = user(Rule("api.example"), Rule("*.example"), Rule(host))
    assert asked(wide, host).reason == "name"


def test_a_suffix_covers_what_is_below_it_at_any_depth_but_not_itself() -> None:
    layer = user(Rule("*.corp.example"))
    assert asked(layer, "a.corp.example").allowed
    assert asked(layer, "a.b.c.corp.example").allowed
    assert asked(layer, "corp.example").reason == "not-listed"
    assert asked(layer, "xcorp.example").reason == "not-listed"


def test_an_address_is_reached_only_if_it_is_itself_listed() -> None:
    layer = user(Rule("192.168.1.5", (80,)), Rule("*.example"))
    assert asked(layer, "192.168.1.5", 80, "http").allowed
    assert asked(layer, "192.168.1.6", 80, "http").reason == "address"
    assert asked(layer, "2001:db8::1", 80, "http").reason == "address"


@pytest.mark.parametrize("port", [0, -1, 65536, 444, 8443, 22])
def test_ports_that_are_not_listed_are_refused(port: int) -> None:
    assert asked(user(Rule("api.example")), port=port, scheme="raw").reason == "port"


def test_a_port_that_is_none_is_refused_as_such() -> None:
    assert asked(user(Rule("api.example")), "other.example", port=0).reason == "port"
    assert asked(user(Rule("api.example")), "other.example", port=1).reason == "not-listed"


@pytest.mark.parametrize(
    ("rule", "port", "scheme", "reason"),
    [
        (Rule("api.example"), 443, "tls", "allowed"),
        (Rule("api.example"), 80, "http", "allowed"),
        (Rule("api.example"), 443, "http", "protocol"),
        (Rule("api.example"), 443, "raw", "protocol"),
        (Rule("api.example"), 80, "tls", "protocol"),
        (Rule("api.example", (5432,)), 5432, "raw", "allowed"),
        (Rule("api.example", (5432,)), 5432, "tls", "protocol"),
        (Rule("api.example", (8443,), "tls"), 8443, "tls", "allowed"),
        (Rule("api.example", (8443,), "tls"), 8443, "raw", "protocol"),
        (Rule("api.example", (8443,), "tls"), 443, "tls", "port"),
    ],
)
def test_each_port_has_its_protocol(rule: Rule, port: int, scheme: Scheme, reason: str) -> None:
    assert asked(user(rule), port=port, scheme=scheme).reason == reason


def test_a_connection_is_read_by_the_strictest_rule_for_its_port() -> None:
    rules = (Rule("api.example", (8443,), "raw"), Rule("api.example", (8443,), "tls"))
    policy = merge([user(*rules, Rule("db.example", (5432,)))])
    assert policy.scheme("api.example", 8443) == "tls"
    assert policy.scheme("db.example", 5432) == "raw"
    assert policy.scheme("unknown.example", 443) == "tls"
    assert policy.scheme("unknown.example", 80) == "http"
    assert policy.scheme("unknown.example", 25) == "raw"
    assert policy.ports == {80, 443, 8443, 5432}


def test_a_denial_wins_over_an_allowance_of_any_layer() -> None:
    allowing = Layer("run", allow=(Rule("api.example"),))
    denying = user(Rule("api.example"), deny=(Rule("api.example", ()),))
    for layers in ([denying, allowing], [allowing, denying]):
        assert asked(layers) == Decision(False, "denied", "api.example", "user")
    assert asked([replace(denying, deny=()), allowing]).allowed


@pytest.mark.parametrize("deny", [ANY, Rule("*.example", ()), Rule("api.example", (443,))])
def test_a_denial_may_be_wide_and_covers_every_protocol(deny: Rule) -> None:
    raw = user(Rule("api.example", (443,), "raw"), deny=(deny,))
    assert asked(raw, scheme="raw").reason == "denied"
    assert asked(user(Rule("api.example"), deny=(deny,))).reason == "denied"
    assert asked(user(Rule("api.test"), deny=(replace(deny, host="x.test"),)), "api.test").allowed


def test_a_denial_of_one_port_leaves_the_others() -> None:
    layer = user(Rule("api.example"), deny=(Rule("api.example", (80,)),))
    assert asked(layer, port=80, scheme="http").reason == "denied"
    assert asked(layer).allowed


def test_a_denial_of_everything_covers_addresses_and_host_services() -> None:
    layer = replace(user(Rule("192.168.1.5"), deny=(ANY,)), host_services=(5432,))
    assert asked(layer, "192.168.1.5").reason == "denied"
    assert asked(layer, "host.containers.internal", 5432, "raw").reason == "denied"


# Method and path.

READ = Rule("api.example", (443,), methods=("GET", "HEAD"), paths=("/v1/*",))


def test_a_rule_that_looks_inside_lets_the_connection_in_and_judges_each_request() -> None:
    assert asked(user(READ)) == Decision(True, "allowed", str(READ), "user", intercept=True)
    assert asked(user(READ), method="GET", path="/v1/models").allowed
    assert asked(user(READ), method="POST", path="/v1/models").reason == "method"
    assert asked(user(READ), method="get", path="/v1/models").reason == "method"
    assert asked(user(READ), method="GET", path="/v2/models").reason == "path"
    assert asked(user(READ), method="GET").reason == "path"
    assert asked(user(READ), method="GET", path="*").reason == "path"


def test_a_rule_that_does_not_look_inside_leaves_the_connection_closed_to_us() -> None:
    assert asked(user(READ, Rule("api.example"))).intercept is False
    assert asked(user(READ, Rule("api.example")), method="POST", path="/x").allowed
    assert asked(user(replace(READ, ports=(80,))), port=80, scheme="http").intercept is False


def test_it_is_known_where_methods_and_paths_matter() -> None:
    deny = Rule("*.b.example", (), methods=("PUT",))
    policy = merge([user(READ, Rule("c.example"), deny=(deny,))])
    assert policy.looks_inside("api.example")
    assert policy.looks_inside("a.b.example")
    assert not policy.looks_inside("c.example")


def test_methods_and_paths_of_two_rules_do_not_mix() -> None:
    write = Rule("api.example", (443,), methods=("POST",), paths=("/hooks",))
    assert asked(user(READ, write), method="POST", path="/hooks").allowed
    assert asked(user(READ, write), method="POST", path="/v1/models").reason == "path"
    assert asked(user(READ, write), method="GET", path="/hooks").reason == "path"


def test_a_denied_method_or_path_makes_the_connection_one_we_look_into() -> None:
    deny = (Rule("*.example", (), methods=("DELETE",)), Rule("api.example", (), paths=("/admin",)))
    layer = user(Rule("api.example"), deny=deny)
    assert asked(layer).intercept
    assert asked(layer, method="GET", path="/").allowed
    assert asked(layer, method="DELETE", path="/").reason == "denied"
    assert asked(layer, method="delete", path="/").reason == "denied"
    assert asked(layer, method="GET", path="/Admin/users").reason == "denied"
    assert asked(layer, method="GET", path="/x/%2e%2e/admin").reason == "denied"
    assert asked(layer, method="GET", path="/administration").allowed


def test_a_denial_by_method_holds_all_of_a_connection_that_cannot_be_looked_into() -> None:
    raw = Rule("api.example", (9000,))
    deny = Rule("api.example", (), methods=("POST",))
    assert asked(user(raw, deny=(deny,)), port=9000, scheme="raw").reason == "denied"
    assert asked(user(raw), port=9000, scheme="raw").allowed


def test_a_host_that_is_sent_a_secret_is_intercepted_on_that_port_only() -> None:
    layer = user(Rule("api.example", (443, 8443), "tls"))
    policy = merge([layer], secrets=[("api.example", 443)])
    assert decide(policy, Request("api.example", 443, "tls")).intercept
    assert not decide(policy, Request("api.example", 8443, "tls")).intercept


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"),
        ("/v1/models", "/v1/models"),
        ("/v1/", "/v1/"),
        ("/a.b/..c/.d", "/a.b/..c/.d"),
        ("/%61dmin", "/admin"),
        ("/a%20b", "/a%20b"),
        ("/a%3fb%23", "/a%3Fb%23"),
        ("/a%2Bb+c", "/a+b+c"),
        ("/models/x:generate", "/models/x:generate"),
        ("/%c3%bc", "/%C3%BC"),
        ("/@scope/name", "/@scope/name"),
        ("/~person/", "/~person/"),
    ],
)
def test_a_path_with_one_reading_has_one_form(path: str, normal: str) -> None:
    assert normal_path(path) == normal
    assert normal_path(normal) == normal


@pytest.mark.parametrize(
    "path",
    [
        "", "*", "v1", "http://api.example/v1", "//", "//v1", "/v1//models", "/.", "/..", "/v1/..",
        "/v1/../x", "/v1/./x", "/%2e", "/%2e%2e/x", "/.%2E/x", "/v1/%2e%2e", "/v1%2f..", "/a%2fb",
        "/a%2Fb", "/a%5cb", "/a\\b", "/..\\x", "/%252e%252e/x", "/%25", "/%", "/%2", "/%zz",
        "/%u002e",
        "/a%00", "/a\x00", "/a%0d%0a", "/a\r\n", "/a b", "/a\tb", "/a?b", "/a#b", "/..;/x", "/a;b",
        "/a%3bb", "/%c0%ae%c0%ae/", "/%c0%af", "/%ff", "/%ef%bc%8f", "/%e2%80%a4%e2%80%a4/", "/ü",
        "/%7f", "/" + "a" * 9000,
    ],
)  # fmt: skip
def test_a_path_with_a_second_reading_is_refused_where_a_path_rule_speaks(path: str) -> None:
    assert normal_path(path) is None
    rule = Rule("api.example", (443,), paths=("/*",))
    assert asked(user(rule), method="GET", path=path).reason == "path"
    assert asked(user(rule), method="GET", path="/v1").allowed
    assert asked(user(Rule("api.example")), method="GET", path=path).allowed


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("/v1", "/v1", True),
        ("/v1", "/v1/", False),
        ("/v1", "/V1", False),
        ("/v1", "/v12", False),
        ("/v1/*", "/v1/", True),
        ("/v1/*", "/v1/a/b", True),
        ("/v1/*", "/v1", False),
        ("/v*", "/v2/x", True),
        ("/*/*/info", "/a/b/info", True),
        ("/*/*/info", "/a/b/c/info", False),
        ("/*/*/info", "/a//info", False),
        ("/*.git/x", "/a.git/x", True),
        ("/*.git/x", "/.git/x", False),
        ("/a.c", "/abc", False),
        ("/*", "/", True),
        ("/*", "/a/b", True),
    ],
)
def test_a_star_is_within_one_step_but_at_the_end_it_is_everything(
    pattern: str, path: str, fits: bool
) -> None:
    assert path_matches(pattern, path) is fits


def test_a_denied_path_is_denied_with_all_below_it_and_in_any_case() -> None:
    assert path_matches("/admin", "/ADMIN/users", denial=True)
    assert path_matches("/*/keys", "/org/keys/1", denial=True)
    assert not path_matches("/admin", "/administration", denial=True)


@pytest.mark.parametrize(
    "pattern", ["", "v1", "/a//b", "/../*", "/a*b*c", "/%61", "/a b", "/a?x=*"]
)
def test_a_pattern_that_no_path_could_fit_is_refused(pattern: str) -> None:
    assert bad_pattern(pattern)
    assert bad_pattern("/v1/*") is None


def test_headers_that_make_an_origin_act_on_something_else_are_known_in_every_spelling() -> None:
    assert override(["accept", "X-HTTP-Method-Override"]) == "X-HTTP-Method-Override"
    assert override(["X_Http_Method_Override"]) is not None
    assert all(override([name.title()]) for name in OVERRIDE_HEADERS)
    assert override(["accept", "x-request-id", "authorization"]) is None


# Layers.


def test_a_repository_cannot_open_anything() -> None:
    repository = Layer("repository", allow=(Rule("evil.example"),), narrows=True, keeps=True)
    layers = [user(Rule("api.example"), Rule("b.example")), repository]
    assert asked(layers, "evil.example").reason == "not-listed"
    assert asked([user(Rule("evil.example")), repository], "evil.example").allowed


def test_a_repository_keeps_only_what_it_lists_if_it_has_a_list() -> None:
    mine = user(Rule("api.example"), Rule("b.example"))
    keeping = Layer("repository", allow=(Rule("api.example"),), narrows=True, keeps=True)
    assert asked([mine, keeping]).allowed
    assert asked([mine, keeping], "b.example") == Decision(False, "narrowed", "", "repository")
    assert not asked([mine, replace(keeping, allow=())]).allowed
    assert asked([mine, Layer("repository", narrows=True)], "b.example").allowed


def test_a_repository_can_narrow_to_methods_and_then_they_are_looked_at() -> None:
    keeping = Layer("repository", allow=(READ,), narrows=True, keeps=True)
    layers = [user(Rule("api.example")), keeping]
    assert asked(layers).intercept
    assert asked(layers, method="GET", path="/v1/x").allowed
    assert asked(layers, method="POST", path="/v1/x").reason == "narrowed"


def test_a_repository_can_deny() -> None:
    repository = Layer("repository", deny=(Rule("b.example", ()),), narrows=True)
    layers = [user(Rule("api.example"), Rule("b.example")), repository]
    assert asked(layers, "b.example").reason == "denied"
    assert asked(layers).allowed


@pytest.mark.parametrize(
    "layer",
    [
        Layer("repository", narrows=True, ask=True),
        Layer("repository", narrows=True, host_services=(5432,)),
        Layer("repository", narrows=True, upstreams=(Upstream("api.example", "10.0.0.1"),)),
    ],
)
def test_a_repository_that_tries_more_is_an_error(layer: Layer) -> None:
    with pytest.raises(AgsError, match="not open anything"):
        merge([user(Rule("api.example")), layer])
    assert merge([user(Rule("api.example")), Layer("repository", narrows=True, ask=False)])


def test_a_service_in_a_later_layer_replaces_the_earlier_one() -> None:
    broad = Rule("code.example", service="code")
    first = Layer("built-in", allow=(broad, Rule("api.example")), services=("code",))
    later = Layer("user", allow=(replace(broad, paths=("/mine/*",)),), services=("code",))
    assert asked([first], "code.example", method="GET", path="/other").allowed
    assert not asked([first, later], "code.example", method="GET", path="/other").allowed
    assert asked([first, later], "code.example", method="GET", path="/mine/x").allowed
    assert asked([first, later]).allowed
    # A repository's does not: that could open what the replaced one kept closed.
    assert asked([later, replace(first, narrows=True)], "code.example").intercept


def test_services_from_settings_open_what_was_found_with_the_access_asked_for() -> None:
    layer = Layer("user", services=("npm",), pending=(("npm", "read"),))
    found = {"npm": (Rule("packages.example", (443,), "tls", ("GET", "HEAD")),)}
    assert not asked(layer, "packages.example").allowed
    assert fill(layer, {}).pending == layer.pending
    filled = fill(layer, found)
    assert filled.pending == ()
    assert asked(filled, "packages.example", method="GET", path="/x").allowed
    assert asked(filled, "packages.example", method="PUT", path="/x").reason == "method"
    writing = fill(replace(layer, pending=(("npm", "readwrite"),)), found)
    assert asked(writing, "packages.example", method="PUT", path="/x").allowed
    assert not asked(
        fill(replace(layer, pending=(("npm", "none"),)), found), "packages.example"
    ).allowed


# Asking.


def test_a_refusal_can_be_asked_about_if_the_last_layer_to_say_so_wants_it() -> None:
    on, off = user(Rule("api.example"), ask=True), Layer("run", ask=False)
    assert asked(on, "new.example").ask
    assert asked(on, port=8443, scheme="raw").ask
    assert asked(user(READ, ask=True), method="POST", path="/v1/x").ask
    assert not asked([on, off], "new.example").ask
    assert asked([replace(on, ask=False), replace(off, ask=True)], "new.example").ask
    assert not asked(user(Rule("api.example")), "new.example").ask
    assert not asked([on, Layer("repository", narrows=True, ask=False)], "new.example").ask


def test_what_must_not_be_granted_in_passing_is_never_asked() -> None:
    layer = user(READ, deny=(Rule("no.example", ()),), ask=True)
    assert not asked(layer, "no.example").ask
    assert not asked(layer, "10.0.0.5").ask
    assert not asked(layer, "printer").ask
    assert not asked(user(Rule("10.0.0.5"), ask=True), "10.0.0.5", 22, "raw").ask
    assert not asked(layer, "BAD.example").ask
    assert not asked(layer, "host.containers.internal", 22, "raw").ask
    assert not asked(layer, method="GET", path="/v1/../x").ask


# The rest.


def test_a_port_of_the_host_is_reached_only_if_it_is_listed() -> None:
    layer = replace(user(Rule("api.example")), host_services=(5432,))
    assert asked(layer, "host.containers.internal", 5432, "raw").allowed
    assert asked(layer, "host.containers.internal", 22, "raw").reason == "host-service"
    policy = merge([layer])
    assert 5432 in policy.ports
    assert policy.scheme("host.containers.internal", 443) == "raw"


def test_the_last_upstream_for_a_name_counts() -> None:
    first = Upstream("api.example", "10.0.0.1")
    last = Upstream("api.example", "10.0.0.2", 8443, Path("/ca.pem"))
    policy = merge([Layer("user", upstreams=(first,)), Layer("client", upstreams=(last,))])
    assert policy.upstream("api.example") == last
    assert policy.upstream("b.example") is None
    assert not decide(policy, Request("api.example", 443, "tls")).allowed


def test_a_decision_is_explained_rule_by_rule() -> None:
    layers = [
        user(READ, deny=(Rule("*.example", (22,)),)),
        Layer("run", allow=(Rule("b.example"),)),
    ]
    request = Request("api.example", 443, "tls", "POST", "/v1/x")
    assert explain(merge(layers), request) == (
        f"refused: no rule for this host has this method by `{READ}` (user)",
        "deny `*.example:22` (user): port",
        f"allow `{READ}` (user): method",
    )


def test_every_reason_has_words() -> None:
    reasons = "allowed no-policy not-listed denied narrowed port protocol method path name address"
    assert all(meaning(reason) != reason for reason in (*reasons.split(), "host-service"))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Rule("api.example"), "api.example"),
        (Rule("api.example", (8443,), "tls"), "api.example:8443 tls"),
        (Rule("2001:db8::1", (22,)), "[2001:db8::1]:22"),
        (READ, "api.example:443 GET,HEAD /v1/*"),
        (Rule("api.example", service="api"), "api: api.example"),
        (ANY, "*"),
    ],
)
def test_a_rule_is_shown_as_it_could_be_written(rule: Rule, text: str) -> None:
    assert str(rule) == text


def test_what_is_remembered_is_of_that_policy_alone() -> None:
    request = Request("api.example", 443, "tls")
    before = merge([user(Rule("api.example"))])
    assert [decide(before, request).allowed for _ in range(2)] == [True, True]
    after = replace(before, layers=(user(Rule("api.example"), deny=(Rule("api.example"),)),))
    assert [decide(after, request).reason for _ in range(2)] == ["denied", "denied"]
    secret = replace(before, secrets=frozenset({("api.example", 443)}))
    assert decide(secret, request).intercept and not decide(before, request).intercept
    assert before == merge([user(Rule("api.example"))])


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    made = merge([user(Rule("*.many.example"))])
    for number in range(3000):
        assert decide(made, Request(f"n{number}.many.example", 443, "tls")).allowed
        assert made.scheme(f"n{number}.many.example", 443) == "tls"
    assert len(made.decided) <= 1024
