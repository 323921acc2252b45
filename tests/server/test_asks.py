"""What runs ask for and the person's answers, over a real socket; judged at the origin's log."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.shop import Shop, eventually, opened

ASKS = "echo at work; curl -s -m 600 http://new.example/{}; while ! [ -e go ]; do sleep 0.05; done"


class Origin:
    """A host of its own on the loopback, and what came to it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "5")
                self.end_headers()
                self.wfile.write(b"hello")

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with contextlib.closing(Origin()) as made:
        yield made


@contextlib.contextmanager
def leading_to(origin: Origin, place: Path, more: str = "") -> Iterator[Shop]:
    """A shop for which `new.example` is this origin, and more in the policy."""
    with opened(place) as made:
        policy = policy_of(made)
        policy.parent.mkdir(parents=True)
        where = f"{{address: 127.0.0.1, port: {origin.port}}}"
        policy.write_text(f"upstreams:\n  new.example: {where}\n{more}")
        yield made


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Shop]:
    with leading_to(origin, tmp_path_factory.mktemp("shop")) as made:
        yield made


def policy_of(shop: Shop) -> Path:
    return shop.server.home / ".config/ags/policy.yaml"


@contextlib.contextmanager
def asking(shop: Shop, name: str) -> Iterator[Any]:
    """A run whose request is held, and what it asks."""
    with shop.working(ASKS.format(name), name=name, ask=True):
        eventually(lambda: shop.get(f"/runs/{name}/asks")["items"])
        (one,) = shop.get(f"/runs/{name}/asks")["items"]
        yield one


def answered(shop: Shop, one: Any, **answer: object) -> Any:
    return shop.told("POST", f"/runs/{one['run']}/asks/{one['id']}", answer)


def test_nobody_asks_for_anything(shop: Shop) -> None:
    assert shop.get("/asks") == {"items": []}
    name = shop.done("true", name="content")
    assert shop.get(f"/runs/{name}/asks") == {"items": []}


def test_what_a_run_asks_is_listed_and_allowed_once(shop: Shop, origin: Origin) -> None:
    with asking(shop, "once") as one:
        assert (one["run"], one["host"], one["port"]) == ("once", "new.example", 80)
        assert [each["id"] for each in shop.get("/asks")["items"]] == [one["id"]]
        assert shop.get("/runs?asking=true")["items"][0]["name"] == "once"
        assert "/once" not in origin.seen
        told = answered(shop, one, verdict="once")
        assert (told["id"], told["run"]) == (one["id"], "once")
        eventually(lambda: "/once" in origin.seen)
        eventually(lambda: shop.get("/asks") == {"items": []})
        path = f"/runs/once/asks/{one['id']}"
        shop.refused(404, "POST", path, {"verdict": "once"})


def test_what_is_denied_never_arrives(shop: Shop, origin: Origin) -> None:
    with asking(shop, "denied") as one:
        answered(shop, one, verdict="deny")
        eventually(lambda: shop.get("/runs/denied/egress?denied=true")["items"])
        assert "/denied" not in origin.seen


def test_it_may_be_allowed_for_a_time(shop: Shop, origin: Origin) -> None:
    with asking(shop, "while") as one:
        answered(shop, one, verdict="for", seconds=60, uses=3)
        eventually(lambda: "/while" in origin.seen)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"verdict": "perhaps"},
        {"verdict": "for"},
        {"verdict": "for", "seconds": 0},
        {"verdict": "for", "seconds": -1},
        {"verdict": "for", "seconds": 1e300},
        {"verdict": "for", "seconds": "60"},
        {"verdict": "for", "seconds": 60, "uses": 0},
        {"verdict": "once", "seconds": 60},
        {"verdict": "deny", "uses": 1},
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_meant_is_none(shop: Shop, answer: dict[str, object]) -> None:
    shop.refused(422, "POST", "/runs/content/asks/a1", answer)


def test_an_ask_of_nobody_is_not_there(shop: Shop) -> None:
    shop.refused(404, "POST", "/runs/content/asks/a1", {"verdict": "once"})
    shop.refused(404, "POST", "/runs/nobody/asks/a1", {"verdict": "once"})
    with asking(shop, "asks-one"):
        shop.refused(404, "POST", "/runs/asks-one/asks/zz9", {"verdict": "once"})


def test_always_is_written_into_the_policy(shop: Shop, origin: Origin) -> None:
    before = policy_of(shop).read_text()
    with asking(shop, "always") as one:
        answered(shop, one, verdict="always")
        eventually(lambda: "/always" in origin.seen)
    assert policy_of(shop).read_text() != before
    assert "- {host: new.example, ports: [80]}" in policy_of(shop).read_text()
    with shop.working(ASKS.format("later"), name="later", ask=True):
        eventually(lambda: "/later" in origin.seen)
