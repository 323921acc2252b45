"""A busy day to be looked at: three projects, and runs that are over, at work, or ask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ags import records, runs
from ags.egress.audit import Chain, Line
from ags.events import Writer
from ags.programs import installed
from ags.runs import Moment, Run, State
from tests.server.shop import Shop, eventually
from tests.web.past import Told, past
from tests.workspace.repositories import Checkout, checkout

TOTALS = '''"""What an order costs."""

from decimal import Decimal

CENT = Decimal("0.01")


def line_total(price: Decimal, quantity: int) -> Decimal:
    return round(price, 2) * quantity


def total(lines: list[tuple[Decimal, int]]) -> Decimal:
    result = Decimal(0)
    for price, quantity in lines:
        result += line_total(price, quantity)
    return result


def with_discount(amount: Decimal, percent: int) -> Decimal:
    return amount - amount * percent / 100
'''
BETTER = '''"""What an order costs."""

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal

CENT = Decimal("0.01")


def cents(amount: Decimal) -> Decimal:
    """Rounded once, at the very end: rounding each price would add up."""
    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)


def line_total(price: Decimal, quantity: int) -> Decimal:
    return price * quantity


def total(lines: Iterable[tuple[Decimal, int]]) -> Decimal:
    return cents(sum((line_total(*line) for line in lines), Decimal(0)))


def with_discount(amount: Decimal, percent: int) -> Decimal:
    return cents(amount - amount * percent / 100)
'''
TESTS = """from decimal import Decimal

from shop.totals import total, with_discount


def test_prices_with_three_decimals_add_up() -> None:
    assert total([(Decimal("0.125"), 3), (Decimal("0.005"), 1)]) == Decimal("0.38")


def test_a_discount_is_rounded_once() -> None:
    assert with_discount(Decimal("9.99"), 15) == Decimal("8.49")
"""
WORKFLOW = "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: {}\n"
START = {
    "shop/totals.py": TOTALS,
    "shop/__init__.py": "",
    "README.md": "# Shop\n\nThe server of the shop.\n",
    ".github/workflows/ci.yml": WORKFLOW.format("make test"),
}
WORK = {
    "shop/totals.py": BETTER,
    "tests/test_totals.py": TESTS,
    ".github/workflows/ci.yml": WORKFLOW.format("make test lint"),
    "README.md": "# Shop\n\nThe server of the shop. Amounts are rounded once, at the end.\n",
}
COMMENTS = (
    ("ROUND_HALF_EVEN)", "Our bank rounds half up. Say ROUND_HALF_UP, and why, in the docstring."),
    ("def test_a_discount", "Please add a case with 0 % as well."),
)

ROUNDING = "Totals are wrong when a price has three decimals. Fix that, with a test."
STORY: tuple[Told, ...] = (
    ("status", {"state": "preparing"}),
    ("status", {"state": "running"}),
    ("thinking", {"text": "Prices are rounded before they are multiplied, so errors add up."}),
    ("message", {"text": "I read how totals are made, and look for tests first."}),
    ("tool_call", {"tool": "Grep", "input": {"pattern": "round\\(", "path": "shop"}, "id": "1"}),
    ("tool_result", {"ok": True, "output": "shop/totals.py:9", "id": "1"}),
    ("tool_call", {"tool": "Read", "input": {"file_path": "shop/totals.py"}, "id": "2"}),
    ("tool_result", {"ok": True, "output": TOTALS, "id": "2"}),
    (
        "message",
        {
            "text": "Each price is rounded **before** it is multiplied. Two things to do:\n\n"
            "- keep full precision in `line_total`\n- round once, in `total`\n"
        },
    ),
    (
        "tool_call",
        {
            "tool": "Edit",
            "input": {
                "file_path": "shop/totals.py",
                "old_string": "    return round(price, 2) * quantity\n",
                "new_string": "    return price * quantity\n",
            },
            "id": "3",
        },
    ),
    ("tool_result", {"ok": True, "output": "The file was changed.", "id": "3"}),
    (
        "tool_call",
        {
            "tool": "Write",
            "input": {"file_path": "tests/test_totals.py", "content": TESTS},
            "id": "4",
        },
    ),
    ("tool_result", {"ok": True, "output": "The file was written.", "id": "4"}),
    ("tool_call", {"tool": "Bash", "input": {"command": "pip install pytest-cov"}, "id": "5"}),
    ("egress", {"allowed": False, "host": "packages.example", "port": 443, "reason": "not-listed"}),
    ("tool_result", {"ok": False, "output": "403: refused by the policy", "id": "5"}),
    ("tool_call", {"tool": "Bash", "input": {"command": "python -m pytest -q"}, "id": "6"}),
    ("tool_result", {"ok": True, "output": "14 passed in 0.31s", "id": "6"}),
    ("usage", {"input": 48211, "output": 3904, "cached": 41020, "cost_usd": 0.41}),
    (
        "message",
        {
            "text": "Done: amounts keep their precision and are rounded once, at the end."
            " All 14 tests pass."
        },
    ),
)


@dataclass(frozen=True)
class Scene:
    """One run as it would be found."""

    name: str
    project: int
    agent: str
    goal: str
    state: State
    minutes: float
    """Since it was started."""
    last: str
    cost: float | None = None
    more: dict[str, Any] | None = None


QUICKER = "Make the search quick on ten thousand products."
SCENES = (
    Scene("older-browsers", 1, "gemini", "Say which browsers we support, in one place.", "done",
          1560, "The list is in docs/browsers.md, and the build reads it.", 0.08),
    Scene("nightly-mondays", 2, "codex", "Why does the nightly job fail on Mondays?", "failed",
          300, "I cannot find the job's log in the repository.", 0.19,
          {"exit_code": 1, "notes": ("the agent ended with exit code 1",)}),
    Scene("translate-errors", 1, "opencode", "Translate the error messages into German.", "stopped",
          260, "I began with the log-in page.", 0.31, {"stopped_by": "the person"}),
    Scene("quicker-1", 0, "claude", QUICKER, "done", 95,
          "An index on the name brings it from 840 ms to 12 ms.", 0.62, {"group": "quicker"}),
    Scene("quicker-2", 0, "codex", QUICKER, "done", 95,
          "I cache the last hundred searches; the first one is as slow as before.", 0.44,
          {"group": "quicker"}),
    Scene("rounding", 0, "claude", ROUNDING, "done", 42, "", None),
    Scene("upgrade-client", 2, "codex", "Upgrade the HTTP client, and drop our own retries.",
          "running", 17, "The new client retries by itself; I remove ours, file by file.", 0.27),
    Scene("dark-theme", 1, "claude", "Add a dark theme to the settings page.", "running", 9,
          "Colours are variables now. Next is the switch.", 0.35),
    Scene("importer-tests", 0, "pi", "Write tests for the importer.", "preparing", 0.2, ""),
)  # fmt: skip
MODEL = (
    "api.anthropic.com",
    443,
    "tls",
    None,
    None,
    True,
    "allowed",
    "api.anthropic.com",
    "built-in",
)
REQUESTS: tuple[tuple[Any, ...], ...] = (
    (*MODEL, None, 18_204, 3_911, 4.2),
    (*MODEL, None, 22_670, 5_120, 6.8),
    ("github.com", 443, "tls", "GET", "/shop/website", True, "allowed", "github.com", "built-in",
     None, 912, 48_233, 0.7),
    ("packages.example", 443, "tls", None, None, False, "not-listed", "", ""),
    ("telemetry.example", 443, "tls", "POST", "/v1/events", False, "denied", "telemetry.example",
     "user"),
    (*MODEL, None, 31_008, 7_640, 9.1),
)  # fmt: skip
INSTALLED = {"claude": "2.1.4", "codex": "0.60.1"}
ASKS = "echo 'Fetching the rates of today'; curl -s -m 900 http://rates.example/today; sleep 900"


def projects(shop: Shop) -> tuple[Checkout, ...]:
    made = tuple(checkout(shop.server.home / name) for name in ("shop", "website", "payments"))
    for each in made:
        for path, text in START.items():
            each.write(path, text)
        each.commit("first")
        shop.told("POST", "/projects", {"url": str(each.folder), "link": True}, 201)
    return made


def ago(minutes: float) -> Moment:
    at = runs.now()
    return replace(at, wall=at.wall - 60 * minutes, uptime=at.uptime - 60 * minutes)


@contextlib.contextmanager
def scenery(shop: Shop) -> Iterator[None]:
    """Those that are at work are so while this lasts: their locks are held."""
    places = projects(shop)
    for agent, version in INSTALLED.items():
        install(shop, agent, version)
    with contextlib.ExitStack() as held:
        for scene in SCENES:
            place = Shop(shop.server, places[scene.project])
            if scene.state in runs.FINAL:
                over(place, scene)
            else:
                at_work(place, scene, held)
        yield


def asks(shop: Shop) -> None:
    """A real one, which waits for an answer."""
    folder = str(shop.server.home / "payments")
    shop.start(ASKS, project=folder, name="exchange-rates", ask=True)
    eventually(lambda: shop.get("/asks")["items"])


def install(shop: Shop, agent: str, version: str) -> None:
    """As far as a look at it can tell."""
    place = installed.home_of(shop.server.ags_home, agent) / version
    place.mkdir(mode=0o755, parents=True)
    (place / "program").touch(mode=0o755)
    facts = installed.Facts(agent, version, "program", size=61_000_000)
    (place / installed.FACTS).write_bytes(records.encode(facts))
    installed.switch(shop.server.ags_home, agent, version)


def over(place: Shop, scene: Scene) -> None:
    files = WORK if scene.name == "rounding" else {f"{scene.name}.md": f"# {scene.last}\n"}
    took = min(scene.minutes, 6.4)
    times = {"started": ago(scene.minutes), "ended": ago(scene.minutes - took)}
    changes = {"agent": scene.agent, "goal": scene.goal, **times, **(scene.more or {})}
    run = past(place).finished(
        scene.name, files, state=scene.state, created=ago(scene.minutes), **changes
    )
    say(place, run, scene)


def at_work(place: Shop, scene: Scene, held: contextlib.ExitStack) -> None:
    at = ago(scene.minutes)
    run = Run(
        id=runs.new_id(at), name=scene.name, agent=scene.agent, goal=scene.goal, mode="separate",
        project=place.project.folder, created=at,
    )  # fmt: skip
    kept = held.enter_context(runs.create(place.server.ags_home, run))
    kept.save(runs.moved(kept.run, "preparing", at))
    if scene.state == "running":
        kept.save(runs.moved(kept.run, "running", at))
    kept.save(replace(kept.run, branch=f"agent--{scene.name}"))
    say(place, run, scene)


def say(place: Shop, run: Run, scene: Scene) -> None:
    """What it said and asked the network for, over the time that it took."""
    folder = runs.directory(place.server.ags_home, run.id)
    clock = iter(run.created.wall + 11.3 * number for number in range(1, 1000))
    writer = Writer(folder / "events.jsonl", clock=lambda: next(clock))
    for kind, fields in STORY if scene.name == "rounding" else short(scene):
        writer.write(kind, **fields)  # type: ignore[arg-type]
    writer.close()
    chain = Chain()
    lines = (Line(run.created.wall + 20 * at, *each) for at, each in enumerate(REQUESTS))
    (folder / "egress.jsonl").write_bytes(b"".join(chain.append(line) for line in lines))


def short(scene: Scene) -> Iterator[Told]:
    if scene.last:
        yield "message", {"text": scene.last}
    if scene.cost is not None:
        yield "usage", {"input": 31000, "output": 2100, "cost_usd": scene.cost}
