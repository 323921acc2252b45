"""A secret goes to its own header on its own host, and nowhere else."""

from __future__ import annotations

import base64
import itertools
import json
import random
import re
import string

import pytest

from ags.egress.http import Headers
from ags.egress.inject import (
    Hidden,
    Injection,
    Misused,
    Redactor,
    Scanner,
    Swapped,
    echoes,
    placeholder,
    problem,
    swap,
)
from ags.egress.model import Request
from ags.errors import AgsError

KEY = b"k" * 32
ANTHROPIC = "sk-ant-api03-" + "Zq3_xY-9" * 11 + "AA"
GITHUB = "ghp_" + "aB3dE6gH9" * 4


def made(secret: str, *, secret_id: str = "key", client: str = "c", key: bytes = KEY) -> str:
    return placeholder(secret_id, secret, client=client, key=key).text


def common(one: str, other: str) -> int:
    """Letters at the same place, from the first on."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


@pytest.mark.parametrize(
    ("secret", "shape"),
    [
        (ANTHROPIC, r"sk-ant-api03-[0-9A-Za-z_-]{90}"),
        (GITHUB, r"ghp_[0-9A-Za-z]{36}"),
        ("AIza" + "Sy3-_x9" * 5, r"AIza[0-9A-Za-z_-]{35}"),
        ("0123456789abcdef" * 2, r"[0-9a-f]{32}"),
        ("0123456789ABCDEF" * 2, r"[0-9A-F]{32}"),
        ("1234567890" * 3, r"[0-9]{30}"),
        ("abcdefghijklmnopqrstuvwxyz", r"[a-z]{26}"),
        ("d9428888-122b-11e1-b85c-61cd3cbb3210", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("c2VjcmV0IHZhbHVlIG9mIG1pbmU=", r"[0-9A-Za-z]{27}="),
        ("SG.abcdefghijklmnopqrstuv.xyzXYZ0123456789", r"SG\.[0-9A-Za-z]{22}\.[0-9A-Za-z]{16}"),
    ],
)
def test_a_placeholder_has_its_secrets_shape_and_nothing_else_of_it(
    secret: str, shape: str
) -> None:
    text = made(secret)
    assert re.fullmatch(shape, text) and len(text) == len(secret)
    alike = sum(a == b for a, b in zip(secret[13:], text[13:], strict=True))
    assert alike < len(secret[13:]) * 0.6


def test_a_placeholder_is_stable_for_client_and_secret_and_differs_between_them() -> None:
    text = made(ANTHROPIC)
    assert text == made(ANTHROPIC)
    assert text == made(ANTHROPIC[:-2] + "xx"), "a renewed key keeps its placeholder"
    others = {
        made(ANTHROPIC, client="d"),
        made(ANTHROPIC, secret_id="other"),
        made(ANTHROPIC, key=b"x" * 32),
        made(ANTHROPIC, client="ck", secret_id="ey"),
    }
    assert len(others | {text}) == 5


def test_a_part_before_a_dash_is_kept_only_if_it_is_a_vendors() -> None:
    assert common(made("hunter2-correct-horse-battery"), "hunter2-correct-horse-battery") < 7


@pytest.mark.parametrize("secret", ["hunter2", "", "sk-ant-api03-short", "ü" * 5])
def test_a_short_secret_gets_a_placeholder_that_cannot_be_met_by_chance(secret: str) -> None:
    text = made(secret)
    assert re.fullmatch("ags-[a-z]{28}", text)


def part(fields: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def test_a_signed_token_keeps_its_claims_and_loses_its_signature() -> None:
    token = f"{part({'alg': 'RS256'})}.{part({'exp': 1})}.{'aB-_' * 20}"
    found = placeholder("key", token, client="c", key=KEY)
    assert found.text.rpartition(".")[0] == token.rpartition(".")[0]
    assert len(found.text) == len(token) and "aB-_" not in found.own
    assert Scanner([found]).look(token.encode()) is None
    assert Scanner([found]).look(found.text.encode()) == "key"


def test_a_placeholder_needs_a_key_worth_the_name() -> None:
    with pytest.raises(AgsError):
        made(ANTHROPIC, key=b"")


SECRET = ANTHROPIC
STANDS = placeholder("key", SECRET, client="c", key=KEY)
TOKEN = placeholder("token", GITHUB, client="c", key=KEY)
PLACEHOLDERS = {"key": STANDS, "token": TOKEN}
VALUES = {"key": SECRET, "token": GITHUB}
API = Injection("key", "api.example", 443, "tls", "X-Api-Key", "{}")
BEARER = Injection("key", "api.example", 443, "tls", "Authorization", "Bearer {}")
GIT = Injection("token", "git.example", 443, "tls", "Authorization", "Basic *:{}")
HERE = Request("api.example", 443, "tls", "POST", "/v1")
REPOSITORY = Request("git.example", 443, "tls", "GET", "/r.git")


def swapped(
    *headers: tuple[str, str], request: Request = HERE, target: str = "/v1"
) -> Swapped | Misused:
    given = tuple((name.encode(), value.encode()) for name, value in headers)
    return swap(given, target, request, (API, BEARER, GIT), PLACEHOLDERS, VALUES.get)


def sent(found: Swapped | Misused) -> Headers:
    assert isinstance(found, Swapped), found
    return found.headers


def test_the_placeholder_becomes_the_secret_in_its_header() -> None:
    found = swapped(("x-api-KEY", STANDS.text), ("Accept", "*/*"))
    assert sent(found)[0] == (b"x-api-KEY", SECRET.encode())
    assert isinstance(found, Swapped) and found.secret_ids == ("key",)
    assert sent(swapped(("authorization", f"bearer {STANDS.text}")))[0] == (
        b"authorization",
        f"Bearer {SECRET}".encode(),
    )


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_basic_is_decoded() -> None:
    found = swapped(("Authorization", basic(f"me:{TOKEN.text}")), request=REPOSITORY)
    assert sent(found)[0] == (b"Authorization", basic(f"me:{GITHUB}").encode())


def test_without_a_placeholder_nothing_is_changed_and_nothing_added() -> None:
    found = swapped(("X-Api-Key", "own"), ("Accept-Encoding", "gzip"))
    assert found == Swapped(((b"X-Api-Key", b"own"), (b"Accept-Encoding", b"gzip")), ())


def test_an_answer_to_a_secret_is_asked_for_in_the_clear() -> None:
    headers = sent(swapped(("X-Api-Key", STANDS.text), ("accept-encoding", "gzip, br")))
    assert headers[1:] == ((b"Accept-Encoding", b"identity"),)


@pytest.mark.parametrize(
    ("host", "port", "scheme"),
    [
        ("api.example.evil.example", 443, "tls"),
        ("xapi.example", 443, "tls"),
        ("git.example", 443, "tls"),
        ("api.example", 8443, "tls"),
        ("api.example", 443, "http"),
        ("api.example", 80, "http"),
        ("api.example", 443, "raw"),
    ],
)
def test_it_goes_to_exactly_its_own_host_port_and_scheme(host: str, port: int, scheme: str) -> None:
    request = Request(host, port, scheme)  # type: ignore[arg-type]
    found = swapped(("X-Api-Key", STANDS.text), request=request)
    assert found == Misused("placeholder", "key", "header x-api-key")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Other", STANDS.text),
        ("X-Api-Key", f"{STANDS.text}x"),
        ("X-Api-Key", f"x {STANDS.text}"),
        ("X-Api-Key", f"Bearer {STANDS.text}"),
        ("X-Api-Key", f"{STANDS.text},{STANDS.text}"),
        ("X-Api-Key", TOKEN.text),
        ("Authorization", STANDS.text),
        ("Authorization", basic(f"me:{STANDS.text}")),
        ("Cookie", f"a=1; k={STANDS.text}"),
        ("User-Agent", base64.b64encode(f"me:{STANDS.text}".encode()).decode()),
        (f"X-{STANDS.text}", "1"),
    ],
)
def test_a_placeholder_anywhere_else_is_refused_and_says_where(name: str, value: str) -> None:
    found = swapped((name, value))
    assert isinstance(found, Misused) and found.reason == "placeholder"
    assert found.where == f"header {name.lower()}" and SECRET not in repr(found)


def test_one_in_its_place_does_not_excuse_one_that_is_not() -> None:
    found = swapped(("X-Api-Key", STANDS.text), ("X-Other", STANDS.text))
    assert isinstance(found, Misused)


@pytest.mark.parametrize("user", [TOKEN.text, f"a{TOKEN.text}"])
def test_basic_with_the_placeholder_twice_is_refused(user: str) -> None:
    found = swapped(("Authorization", basic(f"{user}:{TOKEN.text}")), request=REPOSITORY)
    assert isinstance(found, Misused)


@pytest.mark.parametrize(
    "target",
    [
        f"/v1?key={STANDS.text}",
        f"/{STANDS.text}",
        "/v1?" + "".join(f"%{ord(c):02x}" for c in STANDS.text),
    ],
)
def test_a_placeholder_in_the_target_is_refused(target: str) -> None:
    assert swapped(target=target) == Misused("placeholder", "key", "target")


def test_a_secret_that_is_gone_or_would_be_a_header_of_its_own_is_refused() -> None:
    given = ((b"X-Api-Key", STANDS.text.encode()),)
    for value, reason in ((None, "secret-gone"), ("a\r\nHost: b", "secret-unsendable")):
        found = swap(given, "/", HERE, (API,), PLACEHOLDERS, {"key": value}.get)
        assert found == Misused(reason, "key", "header x-api-key")


def test_no_report_shows_the_secret() -> None:
    found = swapped(("X-Api-Key", STANDS.text))
    assert isinstance(found, Swapped)
    assert SECRET not in repr(found) + str(found) + str(found.headers[0][1]) + repr(found.covered)
    assert repr(Hidden(b"x")) == str(Hidden(b"x")) == "<hidden>"


@pytest.mark.parametrize(
    ("header", "template"),
    [("X Y", "{}"), ("", "{}"), ("X", "Bearer"), ("X", "{}{}"), ("X", "Bearer *{}")],
)
def test_an_injection_that_cannot_be_meant_is_told(header: str, template: str) -> None:
    assert problem(Injection("key", "api.example", 443, "tls", header, template))
    assert not any(map(problem, (API, BEARER, GIT)))


def test_a_scanner_finds_a_placeholder_across_any_cut() -> None:
    text = b"some text " + STANDS.text.encode() + b" and more"
    for cut in range(len(text)):
        scanner = Scanner([TOKEN, STANDS])
        scanner.feed(text[:cut])
        scanner.feed(text[cut:])
        assert scanner.passed == {"key"}
    for scanner, fed in (
        (Scanner([STANDS]), text.replace(STANDS.own[5:6].encode(), b"?")),
        (Scanner([]), text),
    ):
        scanner.feed(fed)
        assert scanner.passed == set()


def test_a_scanner_notes_every_placeholder_of_a_body_and_of_the_one_beside_it() -> None:
    scanner = Scanner([TOKEN, STANDS])
    scanner.feed(b"first " + STANDS.text.encode())
    scanner.another().feed(TOKEN.text.encode())
    assert scanner.passed == {STANDS.secret_id, TOKEN.secret_id}


def test_a_scanner_finds_what_base64_made_of_it_at_any_place() -> None:
    for before in range(6):
        text = base64.b64encode(b"x" * before + STANDS.text.encode() + b"yz")
        assert Scanner([STANDS]).look(text) == "key"


def cover(needles: list[bytes], text: bytes, cuts: list[int]) -> bytes:
    redactor = Redactor(needles)
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    return b"".join([*(redactor.feed(piece) for piece in pieces), redactor.end()])


def test_a_redactor_covers_across_any_cut_and_keeps_every_length() -> None:
    text = b"ab s3cr3t s3cs3cr3t s3cr"
    for cut in range(len(text)):
        assert cover([b"s3cr3t"], text, [cut]) == b"ab ****** s3c****** s3cr"
    assert cover([], text, [3]) == text


def test_a_redactor_holds_back_only_what_may_be_the_start_of_a_secret() -> None:
    redactor = Redactor([b"s3cr3t"])
    assert redactor.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert redactor.feed(b"data: s3c") == b"data: "
    assert redactor.feed(b"ond") == b"s3cond"
    assert redactor.feed(b"s3cr3") == b"" and redactor.end() == b"s3cr3"


def test_a_redactor_gives_the_same_for_every_way_to_cut() -> None:
    rng = random.Random(7)
    for _ in range(500):
        needles = [bytes(rng.choices(b"ab", k=rng.randint(1, 6))) for _ in range(3)]
        text = bytes(rng.choices(b"abc", k=30))
        whole = cover(needles, text, [])
        cuts = [rng.randrange(30) for _ in range(rng.randint(0, 8))]
        assert cover(needles, text, cuts) == whole and len(whole) == len(text)
        assert not any(needle in whole for needle in needles)


@pytest.mark.parametrize(
    "echo",
    [
        "it/is+a\"secret'of mine",
        "it/is+a\\\"secret'of mine",
        "it\\/is+a\\\"secret'of mine",
        "it%2Fis%2Ba%22secret%27of%20mine",
        base64.b64encode(b"x:it/is+a\"secret'of mine").decode().rstrip("="),
    ],
)
def test_echoes_in_other_clothes_are_covered(echo: str) -> None:
    secret = "it/is+a\"secret'of mine"
    shown = Redactor(echoes(secret)).whole(f"<{echo}>".encode())
    assert shown.count(b"*") >= len(secret) and b"secret" not in shown


def test_the_header_that_carried_it_is_covered_too() -> None:
    found = swapped(("Authorization", basic(f"me:{TOKEN.text}")), request=REPOSITORY)
    assert isinstance(found, Swapped)
    value = found.headers[0][1].removeprefix(b"Basic ")
    assert value not in Redactor(found.covered).whole(b"you said: " + value)


def test_letters_of_a_placeholder_are_spread_evenly() -> None:
    text = "".join(made("a1" * 50, secret_id=str(n))[0:100] for n in range(30))
    counts = [text.count(letter) for letter in string.digits + "abcdef"]
    assert len(text) == 3000 and min(counts) > 40
