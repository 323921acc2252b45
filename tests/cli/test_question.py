import sys

import pytest

from tests.cli.desk import on_terminal

ASK = "from ags.cli.question import agreed\nprint('said', agreed('go on?', default=%s))"

EARLY = """
import ctypes, functools, signal, sys
from types import SimpleNamespace
from ags.cli.question import agreed

# The signal comes when `select` asks for the descriptor, which is 0: no line of Python runs between
# it and the wait.
strike = functools.partial(ctypes.CDLL(None)["raise"], signal.SIGINT)
sys.stdin = SimpleNamespace(fileno=strike)
try:
    agreed("go on?")
except KeyboardInterrupt:
    print("given up")
"""

IN_A_LOOP = """
import asyncio
from ags.cli.question import agreed

async def ask():
    agreed("go on?")

try:
    asyncio.run(ask())
except KeyboardInterrupt:
    print("given up")
"""


def told(script: str, pressed: str = "") -> str:
    keys = {"go on?": pressed} if pressed else {}
    code, screen = on_terminal((sys.executable, "-c", script), {}, keys)
    assert code == 0, screen
    return screen.splitlines()[-1]


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize(
    ("pressed", "said"),
    [
        pytest.param("y\r", True, id="y"),
        pytest.param("YES\r", True, id="YES"),
        pytest.param("n\r", False, id="n"),
        pytest.param("maybe\r", False, id="maybe"),
        pytest.param("\x04", False, id="end"),
        pytest.param("\r", None, id="return"),
    ],
)
def test_an_answer(pressed: str, said: bool | None, default: bool) -> None:
    assert told(ASK % default, pressed) == f"said {default if said is None else said}"


def test_ctrl_c_before_the_wait_gives_it_up() -> None:
    assert told(EARLY).endswith("given up")


def test_ctrl_c_gives_it_up_while_a_loop_is_running() -> None:
    assert told(IN_A_LOOP, "\x03").endswith("given up")
