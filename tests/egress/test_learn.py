"""What a policy would need to allow what a run was refused, and no more."""

from __future__ import annotations

from ags.egress.learn import MOST_RULES, Lesson, learn, refused
from ags.egress.policy import Layer, Policy, Rule, merge

NOTHING = merge([Layer("user", allow=(Rule("api.example", (443,), None, ("GET",)),))])


def line(host: str, port: int = 443, scheme: str = "tls", **more: object) -> dict[str, object]:
    record = {"host": host, "port": port, "scheme": scheme, "method": None, "path": None}
    return record | {"allowed": False, "reason": "not-listed"} | more


def taught(*lines: dict[str, object], policy: Policy = NOTHING) -> Lesson:
    return learn(policy, lines)


def test_a_name_is_opened_on_the_port_that_was_tried() -> None:
    assert taught(line("a.example"), line("a.example")).rules == (Rule("a.example", (443,)),)
    both = taught(line("a.example"), line("a.example", 80, "http"))
    assert both.rules == (Rule("a.example"),)


def test_a_method_and_a_path_are_opened_alone_where_they_are_known() -> None:
    found = taught(
        line("api.example", method="POST", path="/v1/items/*", reason="method"),
        line("api.example", method="PUT", path="/v1/items/*/...", reason="method"),
    )
    paths = ("/v1/items/*", "/v1/items/*/*")
    assert found.rules == (Rule("api.example", (443,), None, ("POST", "PUT"), paths),)
    mixed = taught(line("a.example"), line("a.example", method="GET", path="/"))
    assert mixed.rules == (Rule("a.example", (443,)),)


def test_another_port_or_protocol_is_named() -> None:
    found = taught(line("db.example", 5432, "raw"), line("a.example", 8443, "tls"))
    assert found.rules == (Rule("a.example", (8443,), "tls"), Rule("db.example", (5432,)))


def test_what_is_allowed_or_was_allowed_teaches_nothing() -> None:
    was = {**line("a.example"), "allowed": True}
    by_now = line("api.example", method="GET", path="/")
    assert taught(was, by_now, {"dropped": 3}) == Lesson()


def test_what_no_rule_should_open_is_left_out_and_told() -> None:
    denied = merge([*NOTHING.layers, Layer("user", deny=(Rule("x.example", ()),))])
    found = taught(
        line("10.0.0.5", reason="address"),
        line("x.example", reason="denied"),
        line("y.example", method="GET", path="/a//b", reason="path"),
        line("host.containers.internal", 5432, "raw", reason="host-service"),
        policy=denied,
    )
    assert found.rules == () and len(found.left) == 4
    late = taught(line("x.example"), policy=denied)
    assert late.left == (("x.example:443", "a rule denies it"),)


def test_a_log_that_holds_anything_is_survived() -> None:
    odd: list[dict[str, object]] = [
        {}, line("*"), line("*.com"), line("a b"), line("\x1b[2J.example"), line("localhost"),
        line("a.example", 0), line("a.example", 99999), line("a.example", scheme="ftp"),
        {**line("a.example"), "host": 5}, {**line("a.example"), "port": True},
        line("u.example", method="get\n", path=7),
    ]  # fmt: skip
    found = taught(*odd)
    assert {rule.host for rule in found.rules} == {"u.example"}
    assert refused({**line("a.example"), "port": "443"}) is None


def test_a_flood_of_names_is_cut() -> None:
    found = taught(*(line(f"h{number}.example") for number in range(5000)))
    assert len(found.rules) == MOST_RULES and len(found.left) <= MOST_RULES
