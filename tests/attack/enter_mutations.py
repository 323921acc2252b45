"""The walls around a second process inside, each taken out: see `mutations.py`.

They stand in a script that runs in a process of its own, so that is what is altered: a copy of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ags.backends import sandbox
from tests.attack.patching import Patch

ENTER = "test_enter.py"


def altered(patch: Patch, old: str, new: str) -> None:
    """Let the helper run with `old`, which must be there, exchanged for `new`."""
    text = sandbox.JOIN.read_text()
    assert text.count(old) == 1, old
    copy = os.memfd_create("join")
    os.write(copy, text.replace(old, new).encode())
    patch.setattr(sandbox, "JOIN", Path(f"/proc/{os.getpid()}/fd/{copy}"))


def unchecked(patch: Patch) -> None:
    patch.setattr(sandbox, "check", lambda pid, expected: None)


def without(old: str, new: str = "pass") -> Callable[[Patch], None]:
    def take_out(patch: Patch) -> None:
        altered(patch, old, new)
        unchecked(patch)

    return take_out


DROP = "    _drop_capabilities()\n"
LOAD = "    _load(filter_)\n"
CLOSED = "_prctl(PR_SET_DUMPABLE, 0)"
FIRST_PROGRAM = "os.execve(SHELL, argv,"
STRAIGHT = "os.execve(argv[4], argv[4:],"

ENTERING: dict[str, tuple[Callable[[Patch], None], tuple[str, ...]]] = {
    "entering: capability drop": (
        without(DROP, ""),
        (f"{ENTER}::test_a_second_process_has_no_capability",),
    ),
    "entering: filter": (
        without(LOAD, ""),
        (
            f"{ENTER}::test_the_doors_of_the_kernel_are_shut_for_a_second_process",
            f"{ENTER}::test_a_key_of_a_second_process_does_not_reach_the_persons_session",
        ),
    ),
    "entering: closed to its peers": (
        without(CLOSED, "_prctl(PR_SET_DUMPABLE, 1)"),
        (f"{ENTER}::test_a_peer_inside_does_not_get_at_the_one_who_enters",),
    ),
    "entering: hidden arguments": (
        without("        _hide_arguments()\n", ""),
        (f"{ENTER}::test_a_peer_inside_does_not_learn_where_things_lie_on_the_host",),
    ),
    "entering: the sandbox's own shell first": (
        without(FIRST_PROGRAM, STRAIGHT),
        (f"{ENTER}::test_a_link_to_the_running_program_does_not_lead_to_the_hosts_python",),
    ),
    "entering: ends with its helper": (
        without("    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)\n    os.setsid()", "    os.setsid()"),
        (f"{ENTER}::test_a_second_process_ends_with_its_helper",),
    ),
    "entering: the look at the walls": (
        unchecked,
        (f"{ENTER}::test_nothing_is_run_with_a_wall_missing",),
    ),
    "entering: limits": (
        lambda patch: patch.setattr(sandbox.BubblewrapSandbox, "_confine", lambda self, pid: None),
        (f"{ENTER}::test_a_second_process_has_the_limits_of_the_first",),
    ),
    "entering: the watch": (
        lambda patch: patch.setattr(sandbox.BubblewrapSandbox, "_guard_entered", _never),
        (f"{ENTER}::test_a_second_process_that_floods_the_memory_is_stopped",),
    ),
}


async def _never(*args: object) -> None:
    """Stands for a watch that does not look."""
