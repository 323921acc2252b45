"""Each check on the way out, taken out: see `mutations.py`.

They hold in the process of the fence, which `tests/egress/fenced.py` is; it takes them out there.
Most are single lines, so it is the text of a function that is altered.
"""

from __future__ import annotations
import __future__ as future

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from ags.egress import (
    answer,
    dns,
    exchange,
    http,
    inject,
    policy,
    resolve,
    rules,
    server,
    socks,
    tls,
    wire,
)
from ags.egress.answer import AnswerReader
from ags.egress.connection import Connection
from ags.egress.conversation import Conversation
from ags.egress.exchange import Exchange
from ags.egress.fence import Fence
from ags.egress.frames import Frames
from ags.egress.http import HeadReader
from ags.egress.inject import Redactor, Scanner
from ags.egress.outer import Idle
from ags.egress.pool import Pool
from ags.egress.server import Server
from ags.egress.wire import Handshake, HelloReader
from tests.attack.patching import Patch

Apply = Callable[[Patch], None]

NAMES, ADDRESSES, TLS = "egress/test_names.py", "egress/test_addresses.py", "egress/test_tls.py"
HTTP, DNS, DIRECT = "egress/test_http.py", "egress/test_dns.py", "egress/test_direct.py"
ORIGINS, SOCKETS = "egress/test_origins.py", "egress/test_websockets.py"
VARIANTS, OUTER = "egress/test_variants.py", "../egress/test_outer.py"
SECRETS, STORM, POLICY = "egress/test_secrets.py", "egress/test_storm.py", "egress/test_policy.py"


def altered(owner: Any, name: str, old: str, new: str) -> Apply:
    """The function of this name with `old`, which must be in it once, exchanged for `new`."""

    def take_out(patch: Patch) -> None:
        function = inspect.unwrap(getattr(owner, name))
        text = textwrap.dedent(inspect.getsource(function))
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
        found: dict[str, Any] = {}
        code = compile(text.replace(old, new), name, "exec", future.annotations.compiler_flag)
        exec(code, sys.modules[function.__module__].__dict__, found)
        patch.setattr(owner, name, found[name])

    return take_out


def never(owner: Any, name: str, condition: str) -> Apply:
    """As if this `if` of the function never held."""
    return altered(owner, name, f"if {condition}:", "if False:")


def with_any_spelling(patch: Patch) -> None:
    for module in (dns, http, policy, socks, wire):
        patch.setattr(module, "canonical_host", lambda text: text)


LOOK_UP = """\
try:
        await self._lookup(request.host)
    except Exception:
        pass
    decision = policy.decide(self.policy, request)"""
ASK_OUTSIDE = """\
name = _name(asked.question.labels)
    try:
        __import__("socket").getaddrinfo(name, None)
    except Exception:
        pass"""
AGAIN = """\
again = await self._lookup(request.host)
    addresses = tuple(resolve._parse(request.host, text) for text in again)
    dialled = await resolve.dial(addresses, port)"""
ANY_HELLO = """\
if not isinstance(found, Hello):
        found = Hello(request.host, (), bytes(reader._held), 0x0303, False)
        reader._held.clear()
    if False:"""
ANY_END = """\
if not line.endswith(b"\\r"):
        line += b"\\r"
    if False:"""
DECIDED = "decision = policy.decide(self.policy, request)"
BAD_HEAD = f"{HTTP}::test_a_request_with_two_readings_does_not_arrive"
BAD_HELLO = f"{TLS}::test_a_bad_hello_goes_nowhere[root]"
LATER = f"{HTTP}::test_a_later_request_cannot_name_another_host"
ALIKE = f"{NAMES}::test_a_look_alike_is_not_the_name"
SPECIAL = f"{ADDRESSES}::test_an_allowed_name_does_not_lead_to_a_special_address"
OWN_PLACE = f"{SECRETS}::test_the_secret_goes_to_its_own_host_port_scheme_and_header"
ELSEWHERE = f"{SECRETS}::test_the_placeholder_anywhere_else_is_refused_and_reported"
NOTED = f"{SECRETS}::test_a_placeholder_in_a_body_passes_unchanged_and_is_noted_once_per_host"
PROOF = f"{SECRETS}::test_an_origin_that_cannot_prove_its_name_is_told_nothing"
MALICE = f"{ORIGINS}::test_an_answer_with_two_readings_becomes_a_clean_error"
BROKEN = f"{ORIGINS}::test_an_answer_that_breaks_off_is_never_taken_for_whole"
ECHO = f"{ORIGINS}::test_an_echo_is_covered_wherever_it_is_put"
FRAME = f"{SOCKETS}::test_a_placeholder_in_a_frame_passes_unchanged_and_is_noted_once"
COMPRESSED = f"{SOCKETS}::test_no_compression_is_agreed_upon_where_an_echo_must_be_seen"
SLOW = f"{STORM}::test_a_sender_that_never_comes_to_the_point_is_cut_off"
WIDE = f"{POLICY}::test_a_policy_that_is_empty_or_too_wide_lets_nothing_out"

EGRESS: dict[str, tuple[Apply, tuple[str, ...]]] = {
    "egress: who is refused is heard out": (
        altered(Server, "_serve", "await _heard_out(link)", "pass"),
        (f"{VARIANTS}::test_who_sends_much_before_it_listens_still_hears_the_refusal",),
    ),
    "egress: hearing out has an end": (
        altered(server, "_heard_out", "left > 0 and ", ""),
        (f"{VARIANTS}::test_who_never_stops_sending_is_hung_up_on",),
    ),
    "egress: addresses in use stay": (
        altered(Pool, "_make_room", "address not in self._pins", "True"),
        (f"{VARIANTS}::test_an_address_in_use_is_given_to_no_other_name",),
    ),
    "egress: the policy decides": (
        altered(
            Fence, "judge", DECIDED, f"{DECIDED}\n    decision = replace(decision, allowed=True)"
        ),
        (ALIKE, f"{POLICY}::test_a_policy_that_the_agent_can_write_is_never_read[root]"),
    ),
    "egress: decided before it is looked up": (
        altered(Fence, "judge", DECIDED, LOOK_UP),
        (ALIKE,),
    ),
    "egress: deny before allow": (
        altered(policy, "decide", " or _denied(policy, request)", ""),
        (
            f"{POLICY}::test_a_denial_is_stronger_than_any_permission",
            f"{NAMES}::test_a_wildcard_covers_what_is_below_and_a_denial_takes_precedence",
        ),
    ),
    "egress: the port is listed": (
        altered(policy, "_reach", 'return "port"', "pass"),
        (f"{NAMES}::test_a_port_that_is_not_listed_is_shut[80]",),
    ),
    "egress: no rule is too wide": (
        never(rules, "_suffix", "not denial and too_wide(suffix)"),
        (f"{WIDE}[16]",),
    ),
    "egress: an address only if it is listed": (
        altered(policy, "_unlisted", 'Decision(False, "address"', 'Decision(True, "address"'),
        (
            f"{DIRECT}::test_an_allowed_name_in_the_hello_opens_no_other_address",
            f"{ADDRESSES}::test_an_address_in_any_spelling_is_reached_only_if_it_is_listed",
        ),
    ),
    "egress: one spelling of a name": (
        with_any_spelling,
        (f"{NAMES}::test_a_wildcard_covers_what_is_below_and_a_denial_takes_precedence",),
    ),
    "egress: special ranges": (
        altered(resolve, "_judge", "special(address)", "None"),
        (f"{SPECIAL}[alone]",),
    ),
    "egress: this machine's own addresses": (
        altered(resolve, "_judge", "if own(address)", "if False"),
        (f"{SPECIAL}[alone]",),
    ),
    "egress: one special answer spoils all": (
        altered(resolve, "resolve", "for address in found:", "for address in found[:1]:"),
        (f"{SPECIAL}[mixed]",),
    ),
    "egress: looked up once": (
        altered(Fence, "dial", "dialled = await resolve.dial(addresses, port)", AGAIN),
        (f"{ADDRESSES}::test_a_name_is_looked_up_once_and_that_is_what_is_dialled",),
    ),
    "egress: listed services of the host": (
        altered(policy, "_host_service", "if request.port in layer.host_services:", "if True:"),
        (
            f"{ADDRESSES}::test_a_service_of_the_host_is_reached_only_if_it_is_listed"
            "[not-listed-root]",
        ),
    ),
    "egress: the hello is for the name that was dialled": (
        altered(Connection, "_tls", "found.name != request.host", "False"),
        (f"{TLS}::test_a_name_in_the_hello_must_be_the_one_that_was_dialled", BAD_HELLO),
    ),
    "egress: a hello that cannot be judged": (
        altered(Connection, "_tls", "if not isinstance(found, Hello):", ANY_HELLO),
        (BAD_HELLO,),
    ),
    "egress: an encrypted hello": (
        never(HelloReader, "_read", "hello.ech and not self._ech"),
        (BAD_HELLO,),
    ),
    "egress: one name in a hello": (never(wire, "_extensions", "kind in found"), (BAD_HELLO,)),
    "egress: a hello's name as it is judged": (
        never(wire, "_host", "name != text.lower()"),
        (BAD_HELLO,),
    ),
    "egress: the second hello": (
        altered(Handshake, "from_client", "if self.done:", "if True:"),
        (f"{TLS}::test_a_second_hello_cannot_name_another_host",),
    ),
    "egress: every request is for the same host": (
        never(http, "misdirected", "head.host != host or head.port not in (None, port)"),
        (f"{LATER}[in-clear]", f"{LATER}[over-tls]"),
    ),
    "egress: TLS is opened where a rule looks inside": (
        altered(policy, "_intercepts", "return rule.looks_inside or wary or", "return"),
        (f"{HTTP}::test_a_path_rule_is_about_what_is_sent",),
    ),
    "egress: lines end in one way": (
        altered(HeadReader, "_line", 'if not line.endswith(b"\\r"):', ANY_END),
        (f"{BAD_HEAD}[in-clear]",),
    ),
    "egress: a length or chunks": (
        never(http, "_check_length", "length is not None and coding is not None"),
        (f"{BAD_HEAD}[in-clear]", f"{BAD_HEAD}[over-tls]"),
    ),
    "egress: plain lengths": (
        never(http, "_check_length", "length is not None and not _LENGTH.fullmatch(length)"),
        (f"{BAD_HEAD}[in-clear]",),
    ),
    "egress: headers about framing once": (
        never(http, "_check_headers", "name in _SINGLE and name in found"),
        (f"{BAD_HEAD}[in-clear]",),
    ),
    "egress: headers that resemble one about framing": (
        never(http, "_check_headers", 'b"_" in name and name.replace(b"_", b"-") in _SINGLE'),
        (f"{BAD_HEAD}[in-clear]",),
    ),
    "egress: trailers": (
        never(Exchange, "_trailers", "name.lower() in _NOT_AFTER"),
        (f"{HTTP}::test_a_body_with_two_readings_hides_no_request[in-clear]",),
    ),
    "egress: paths in one reading": (
        never(policy, "normal_path", '"//" in normal or "." in segments or ".." in segments'),
        (f"{HTTP}::test_a_path_rule_is_about_what_is_sent",),
    ),
    "egress: headers that override": (
        altered(
            Conversation,
            "_one",
            "if self._fence.policy.looks_inside(request.host) and (",
            "if False and (",
        ),
        (f"{HTTP}::test_a_method_rule_is_about_what_the_origin_will_do",),
    ),
    "egress: upgrades are left out": (
        altered(http, "forwarded", 'dropped = (b"upgrade", b"http2-settings")', "dropped = ()"),
        (f"{HTTP}::test_an_upgrade_does_not_leave_the_rules",),
    ),
    "egress: no query is passed on": (
        altered(dns, "_judge", "name = _name(asked.question.labels)", ASK_OUTSIDE),
        (f"{DNS}::test_no_query_of_any_type_to_any_resolver_leaves[root]",),
    ),
    "egress: a secret's own host": (
        altered(inject, "_belongs", "return wanted ==", "return True or wanted =="),
        (OWN_PLACE,),
    ),
    "egress: a secret's own header": (
        altered(inject, "_injection", " or injection.header.lower().encode() != name.lower()", ""),
        (OWN_PLACE,),
    ),
    "egress: placeholders are looked for": (
        altered(Scanner, "look", "return next(", "return None and next("),
        (ELSEWHERE, OWN_PLACE),
    ),
    "egress: placeholders across pieces": (
        altered(Scanner, "feed", "joined = self._tail + data", "joined = data"),
        (f"{SECRETS}::test_a_placeholder_cut_in_two_is_noted[7]",),
    ),
    "egress: echoes are covered": (
        altered(
            Conversation,
            "_exchanged",
            "self._covering(swapped) if swapped.carried else None",
            "None",
        ),
        (
            f"{SECRETS}::test_an_echo_of_the_secret_is_covered",
            f"{SECRETS}::test_the_secret_is_nowhere_inside[root]",
            f"{SECRETS}::test_the_secret_is_in_no_log",
        ),
    ),
    "egress: echoes in names of headers": (
        altered(Redactor, "headers", "(self.whole(name), ", "(name, "),
        (f"{ECHO}[name-1]",),
    ),
    "egress: what is compressed has no echo to be seen": (
        never(
            Exchange,
            "_answer",
            '\
self._redactor and not {b"identity"}.issuperset(encodings)',
        ),
        (f"{MALICE}[compressed]",),
    ),
    "egress: an answer with a length or chunks": (
        never(exchange, "body_of", "coding is not None and length is not None"),
        (f"{MALICE}[length-and-chunks]",),
    ),
    "egress: what an answer says once": (
        never(answer.AnswerHead, "only", "len(found) > 1"),
        (f"{MALICE}[two-lengths]", f"{MALICE}[coding-twice]"),
    ),
    "egress: the head of an answer": (
        never(answer, "_head", "not _HEAD.fullmatch(raw)"),
        (f"{MALICE}[bare-cr]", f"{MALICE}[folded]"),
    ),
    "egress: a size for the head of an answer": (
        never(AnswerReader, "feed", "end + 4 > MOST_HEAD"),
        (f"{MALICE}[long-header]",),
    ),
    "egress: a most of answers before the answer": (
        never(Exchange, "_inform", "self._informed > MOST_INFORMED"),
        (f"{MALICE}[announced-for-ever]",),
    ),
    "egress: no switch that was not asked for": (
        never(Exchange, "_inform", "switching and not self._may_switch(head)"),
        (f"{MALICE}[switched-unasked]", COMPRESSED),
    ),
    "egress: chunks of an answer end where they say": (
        never(answer.Chunks, "_gap", 'not b"\\r\\n".startswith(gap)'),
        (f"{BROKEN}[longer-than-it-says]",),
    ),
    "egress: an answer cut off has no clean end": (
        never(Conversation, "_exchanged", "refused and exchange.answered"),
        (f"{BROKEN}[no-last-chunk]",),
    ),
    "egress: a connection that said too much is left": (
        altered(Conversation, "_exchanged", "if exchange.spent:", "if False:"),
        (f"{ORIGINS}::test_an_answer_beyond_its_length_is_nobodys",),
    ),
    "egress: frames are looked into": (
        never(Exchange, "_pass_up", "self._frames and (refused := self._frames.feed(data))"),
        (f"{FRAME}[in-one-7]", f"{FRAME}[around-a-ping-1048576]"),
    ),
    "egress: frames are unmasked": (
        altered(Frames, "_look", "unmasked(self._mask, piece)", "piece"),
        (f"{FRAME}[in-one-1048576]",),
    ),
    "egress: pings are looked through by themselves": (
        altered(Frames, "_begin", "self._scanners[control]", "self._scanners[0]"),
        (f"{FRAME}[around-a-ping-1048576]",),
    ),
    "egress: a WebSocket goes where something may be sent": (
        never(Conversation, "_one", "http.is_websocket(head)"),
        (f"{SOCKETS}::test_where_nothing_may_be_sent_a_websocket_is_told_to_use_plain_http",),
    ),
    "egress: placeholders in trailers": (
        never(Exchange, "_trailers", 'found := self._scanner.look(name + b": " + value)'),
        (ELSEWHERE,),
    ),
    "egress: placeholders in targets": (
        never(inject, "swap", "found := scanner.look_in_target(target)"),
        (ELSEWHERE,),
    ),
    "egress: a placeholder that passed is noted": (
        altered(Conversation, "_passing_reason", "if new", "if False"),
        (NOTED,),
    ),
    "egress: a placeholder that passed is noted once": (
        altered(Conversation, "_passing_reason", " - self._fence.passed", ""),
        (NOTED,),
    ),
    "egress: no extension where an echo must be seen": (
        never(Exchange, "_may_switch", "self._redactor and tokens(head.headers, _EXTENSIONS)"),
        (COMPRESSED,),
    ),
    "egress: an origin proves who it is": (
        altered(
            tls,
            "upstream",
            "    context.hostname_checks_common_name = False\n",
            "    context.check_hostname = False\n    context.verify_mode = ssl.CERT_NONE\n",
        ),
        (f"{PROOF}[stranger.example-wishes1]", f"{PROOF}[stale.example-wishes2]"),
    ),
    "egress: an origin proves its name": (
        altered(
            tls,
            "upstream",
            "    context.hostname_checks_common_name = False\n",
            "    context.check_hostname = False\n",
        ),
        (
            f"{PROOF}[liar.example-wishes0]",
            f"{SECRETS}::test_a_name_that_is_pointed_elsewhere_takes_no_secret_along",
        ),
    ),
    "egress: a connection that is left is of the terms it was made by": (
        altered(Idle, "take", "each.terms is terms and ", ""),
        (
            f"{OUTER}::test_with_other_terms_it_is_dialled_anew",
            f"{OUTER}::test_what_was_dialled_before_the_terms_changed_is_not_of_the_new_ones",
        ),
    ),
    "egress: a connection that carried a body is left to nobody": (
        altered(Conversation, "_leave", " and self._outer.clean", ""),
        (f"{OUTER}::test_what_carried_a_body_is_left_to_nobody[at-once]",),
    ),
    "egress: nothing is sent again by a judgement of before": (
        altered(Conversation, "_exchanged", "and outer.terms is self._fence.terms", ""),
        (f"{OUTER}::test_what_is_no_longer_allowed_is_not_sent_again",),
    ),
    "egress: a connection that is left has nothing to say": (
        altered(Idle, "take", "if outer.quiet", "if True"),
        (f"{OUTER}::test_what_an_origin_says_later_is_no_answer_for_the_next",),
    ),
    "egress: a most of connections": (
        never(Server, "_accept", "len(self._serving) >= MOST"),
        (f"{STORM}::test_there_is_a_most_of_connections_and_the_rest_is_turned_away",),
    ),
    "egress: a time for the hello": (
        altered(Connection, "_hello", "asyncio.timeout(FIRST)", "asyncio.timeout(None)"),
        (SLOW,),
    ),
    "egress: a time for the head": (
        altered(Conversation, "_next_head", "asyncio.timeout(BETWEEN)", "asyncio.timeout(None)"),
        (SLOW,),
    ),
    "egress: a time for a proxy's client": (
        altered(server, "serve_proxy", "asyncio.timeout(FIRST)", "asyncio.timeout(None)"),
        (SLOW,),
    ),
    "egress: a time for questions": (
        altered(Server, "_ask", "asyncio.timeout(DNS_SILENT)", "asyncio.timeout(None)"),
        (SLOW,),
    ),
    "egress: a size for the head": (
        never(HeadReader, "_check_size", "end > MOST_HEAD or end - self._at > MOST_LINE"),
        (f"{STORM}::test_an_endless_head_is_cut_off",),
    ),
}
