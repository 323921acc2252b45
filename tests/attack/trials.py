"""Trials of protections that were taken out, each in a process of its own.

Called with the mutations' names; tells of each, as it ends, one JSON object on standard output. All
modules are loaded once, and each trial is a copy of the process that did so.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.mutations import MUTATIONS

HERE = Path(__file__).parent
QUIET = ("-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist")


def tests_of(name: str) -> list[str]:
    return [f"{HERE}/{test}" for test in MUTATIONS[name].noticed_by]


def warm(names: list[str]) -> None:
    files = sorted({test.split("::")[0] for name in names for test in tests_of(name)})
    with saying(os.open(os.devnull, os.O_WRONLY)):
        assert pytest.main([*QUIET, "--collect-only", *files]) == 0


@contextlib.contextmanager
def saying(to: int) -> Iterator[None]:
    """What this process and its children print goes there."""
    kept = [os.dup(1), os.dup(2)]
    try:
        os.dup2(to, 1)
        os.dup2(to, 2)
        yield
    finally:
        sys.stdout.flush()
        for number, each in enumerate(kept, 1):
            os.dup2(each, number)
            os.close(each)
        os.close(to)


def begin(name: str, said: int) -> int:
    if pid := os.fork():
        return pid
    status = 70
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        tests = tests_of(name)
        enough = () if len(tests) > 1 else ("-x",)  # of one test for several people or cases
        status = int(pytest.main([*QUIET, "--mutation", name, *enough, *tests]))
        sys.stdout.flush()
    finally:
        os._exit(status)


def main(names: list[str], at_once: int) -> None:
    warm(names)
    waiting = names[::-1]
    under_way: dict[int, tuple[str, int]] = {}
    while waiting or under_way:
        while waiting and len(under_way) < at_once:
            name = waiting.pop()
            said = os.memfd_create(name)
            under_way[begin(name, said)] = (name, said)
        pid, status = os.wait()
        name, said = under_way.pop(pid)
        with open(said, "rb") as file:
            file.seek(0)
            text = file.read().decode(errors="replace")
        told = {"name": name, "status": os.waitstatus_to_exitcode(status), "said": text}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    # Most of what they do is to wait for what does not come.
    main(sys.argv[1:], 2 * (os.cpu_count() or 1))
