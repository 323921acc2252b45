"""The filter's verdicts, judged without a kernel, for both machines."""

from __future__ import annotations

import re
import subprocess
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ags.errors import AgsError
from ags.kernel import seccomp, syscalls
from ags.kernel.seccomp import program
from tests.kernel.bpf import (
    AARCH64,
    ARM,
    I386,
    LONGEST,
    NATIVE,
    RETURN,
    X86_64,
    steps,
    verdict,
    words_read,
)
from tests.kernel.filter_rules import (
    ALLOWED,
    ALLOWED_BY_ARGUMENT,
    ALLOWED_ON_X86_64,
    HIGH,
    JUDGED_BY_ARGUMENT,
    ONLY_X86_64,
    REFUSED,
    expected,
    named,
)

MACHINES = ("x86_64", "aarch64")


def header_numbers(header: str, *flags: str) -> dict[str, int]:
    """What the C headers of this machine say."""
    macros = subprocess.run(
        ["gcc", "-E", "-dM", *flags, "-"],
        input=f"#include <{header}>\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    defined: dict[str, str] = dict(re.findall(r"#define (__NR\w+) (\w+)", macros))
    resolved = {name: defined.get(value, value) for name, value in defined.items()}
    return {
        name.removeprefix("__NR_"): int(value)
        for name, value in resolved.items()
        if name.startswith("__NR_") and name not in ("__NR_syscalls", "__NR_arch_specific_syscall")
    }


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("group", REFUSED)
def test_a_refused_call_fails_whatever_its_arguments(machine: str, group: str) -> None:
    filtered = program(machine)
    for number, error in named(machine, group):
        for arguments in ((), (HIGH | 1,) * 6, (0xFFFFFFFFFFFFFFFF,) * 6):
            assert verdict(filtered, NATIVE[machine], number, arguments) == error


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_is_refused_by_its_arguments_and_high_bits_change_nothing(machine: str) -> None:
    filtered, numbers = program(machine), syscalls.numbers(machine)
    wrong = [
        (name, arguments, error)
        for _, name, arguments, error in JUDGED_BY_ARGUMENT
        if verdict(filtered, NATIVE[machine], numbers[name], arguments) != error
    ]
    assert wrong == []


@pytest.mark.parametrize("machine", MACHINES)
def test_the_same_calls_with_ordinary_arguments_are_allowed(machine: str) -> None:
    filtered, numbers = program(machine), syscalls.numbers(machine)
    wrong = [
        (name, arguments)
        for name, arguments in ALLOWED_BY_ARGUMENT
        if verdict(filtered, NATIVE[machine], numbers[name], arguments) != "allow"
    ]
    assert wrong == []


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("user", ALLOWED)
def test_what_ordinary_programs_call_is_allowed(machine: str, user: str) -> None:
    filtered, numbers = program(machine), syscalls.numbers(machine)
    for name in ALLOWED[user].split():
        assert verdict(filtered, NATIVE[machine], numbers[name], (HIGH | 1,) * 6) == "allow", name


def test_calls_that_only_x86_64_has_are_allowed_there() -> None:
    filtered, numbers = program("x86_64"), syscalls.numbers("x86_64")
    for name in ALLOWED_ON_X86_64.split():
        assert verdict(filtered, X86_64, numbers[name]) == "allow", name


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_of_another_architecture_ends_the_process(machine: str) -> None:
    filtered = program(machine)
    for architecture in {I386, X86_64, ARM, AARCH64, 0, 0xFFFFFFFF} - {NATIVE[machine]}:
        for number in (0, 1, 20, 39, 463, 0x40000000):
            assert verdict(filtered, architecture, number) == "kill"


@pytest.mark.parametrize("groups_without", [(), ("unknown",)])
def test_a_call_of_the_x32_table_does_not_exist(
    groups_without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {name: rules for name, rules in seccomp.RULES.items() if name not in groups_without}
    monkeypatch.setattr(seccomp, "RULES", left)
    for number in (0, 59, 165, 520, 0x3FFFFFFF):
        assert verdict(program("x86_64"), X86_64, 0x40000000 | number) == "ENOSYS"


@pytest.mark.parametrize(
    ("machine", "number"),
    [
        *(("x86_64", number) for number in (335, 336, 400, 423)),
        *(("aarch64", number) for number in (244, 250, 259, 295, 423)),
        *((machine, n) for machine in MACHINES for n in (463, 466, 468, 469, 500, 0x7FFFFFFF)),
    ],
)
def test_a_number_nobody_has_reviewed_does_not_exist(machine: str, number: int) -> None:
    assert verdict(program(machine), NATIVE[machine], number) == "ENOSYS"


@pytest.mark.parametrize(
    ("machine", "edges"),
    [("x86_64", (0, 334, 424, 462)), ("aarch64", (0, 243, 260, 293, 424, 462))],
)
def test_the_numbers_next_to_a_gap_are_allowed(machine: str, edges: tuple[int, ...]) -> None:
    for number in edges:
        assert verdict(program(machine), NATIVE[machine], number) == "allow"


NUMBERS = st.one_of(
    *(st.sampled_from(sorted(syscalls.numbers(machine).values())) for machine in MACHINES),
    st.sampled_from(
        [
            syscalls.numbers(machine)[name]
            for machine in MACHINES
            for name in ("ioctl", "clone", "unshare", "socket", "socketpair", "personality")
        ]
    ),
    st.integers(0, 600),
    st.integers(0, 0xFFFFFFFF),
)
LOW_HALVES = st.one_of(
    st.integers(0, 20),
    st.sampled_from([58, 262, 0x5412, 0x541C, 0x541D, 0x5423, 0x5401, 0x20008, 0x40000, 0x3D0F00]),
    st.integers(0, 31).map(lambda bit: 1 << bit),
    st.integers(0, 0xFFFFFFFF),
)
WORDS = st.builds(
    lambda high, low: high << 32 | low, st.sampled_from([0, 0, 1, 0xFFFFFFFF]), LOW_HALVES
)


@given(
    machine=st.sampled_from(MACHINES),
    foreign=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 0xFFFFFFFF)),
    number=NUMBERS,
    arguments=st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS, WORDS),
)
@example("x86_64", None, 16, (0, 1 << 32 | 0x5412, 0, 0, 0, 0))
@example("x86_64", AARCH64, 0, (0, 0, 0, 0, 0, 0))
@settings(max_examples=1000, deadline=None)
def test_the_filter_says_what_the_rules_say(
    machine: str, foreign: int | None, number: int, arguments: tuple[int, ...]
) -> None:
    architecture = NATIVE[machine] if foreign is None else foreign
    wanted = expected(machine, architecture, number, arguments)
    assert verdict(program(machine), architecture, number, arguments) == wanted


@pytest.mark.parametrize("machine", MACHINES)
def test_debugging_opens_the_ptrace_group_and_nothing_else(machine: str) -> None:
    shut, opened = program(machine), program(machine, ptrace=True)
    changed = {
        name
        for name, number in syscalls.numbers(machine).items()
        if verdict(shut, NATIVE[machine], number) != verdict(opened, NATIVE[machine], number)
    }
    assert changed == set(REFUSED["ptrace"]["EPERM"].split())
    assert all(
        verdict(opened, NATIVE[machine], syscalls.numbers(machine)[name]) == "allow"
        for name in changed
    )


def attempts(machine: str, group: str) -> list[tuple[int, int, tuple[int, ...]]]:
    """Calls that this group, and no other, refuses."""
    native, numbers = NATIVE[machine], syscalls.numbers(machine)
    if group == "foreign":
        return [(I386, 20, ()), (ARM, 20, ())]
    if group == "unknown":
        return [(native, 423, ()), (native, 463, ()), (native, 468, ()), (native, 600, ())]
    by_argument = [
        (native, numbers[name], arguments)
        for owner, name, arguments, _ in JUDGED_BY_ARGUMENT
        if owner == group
    ]
    return by_argument + [(native, number, ()) for number, _ in named(machine, group)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("group", seccomp.GROUPS)
def test_without_a_group_its_calls_pass_and_those_of_the_others_do_not(
    machine: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = attempts(machine, group)
    assert own or (machine, group) == ("aarch64", "hardware")
    monkeypatch.setattr(
        seccomp, "RULES", {name: rules for name, rules in seccomp.RULES.items() if name != group}
    )
    weakened = program(machine)
    for attempt in own:
        assert verdict(weakened, *attempt) == "allow"
    for other in seccomp.GROUPS:
        if other != group:
            for attempt in attempts(machine, other):
                assert verdict(weakened, *attempt) != "allow"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("ptrace", [False, True])
def test_every_path_of_the_program_stays_inside_and_ends_in_a_return(
    machine: str, ptrace: bool
) -> None:
    written = steps(program(machine, ptrace=ptrace))
    assert len(written) <= LONGEST
    assert written[-1].code == RETURN
    for at, step in enumerate(written):
        assert all(at < target < len(written) for target in step.successors(at)), (at, step)


def test_rules_too_long_for_a_conditional_jump_still_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    values = tuple(range(1000, 1600))
    listed = seccomp.Calls(("ioctl",), when=(seccomp.Argument(1, values),))
    unlisted = seccomp.Calls(("fcntl",), when=(seccomp.Argument(1, values, among=False),))
    monkeypatch.setattr(seccomp, "RULES", {"long": (listed, unlisted)})
    filtered, numbers = program("x86_64"), syscalls.numbers("x86_64")
    for value in (1000, 1300, 1599):
        assert verdict(filtered, X86_64, numbers["ioctl"], (0, value)) == "EPERM"
        assert verdict(filtered, X86_64, numbers["fcntl"], (0, value)) == "allow"
    for value in (999, 1600, 0):
        assert verdict(filtered, X86_64, numbers["ioctl"], (0, value)) == "allow"
        assert verdict(filtered, X86_64, numbers["fcntl"], (0, value)) == "EPERM"
    assert all(step.if_true <= 1 and step.if_false <= 1 for step in steps(filtered))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_that_is_always_allowed_is_so_without_a_look_at_its_arguments(machine: str) -> None:
    """Only then does the kernel remember the verdict and no longer run the program."""
    filtered, numbers = program(machine), syscalls.numbers(machine)
    for name in ("read", "futex", "newfstatat", "epoll_pwait"):
        assert words_read(filtered, NATIVE[machine], numbers[name]) == {"number", "architecture"}
    assert "argument 1" in words_read(filtered, NATIVE[machine], numbers["ioctl"])
    opening = words_read(filtered, NATIVE[machine], numbers["openat"])
    assert opening == {"number", "architecture", "argument 2"}


def test_every_name_in_the_rules_is_a_call() -> None:
    names = {
        name
        for rules in seccomp.RULES.values()
        for rule in rules
        if isinstance(rule, seccomp.Calls)
        for name in rule.names
    }
    assert names <= set(syscalls.numbers("x86_64"))
    assert names - set(syscalls.numbers("aarch64")) == set(ONLY_X86_64.split())


@pytest.mark.parametrize(
    ("machine", "header", "wanted"),
    [
        ("x86_64", "asm/unistd_64.h", ()),
        (
            "aarch64",
            "asm-generic/unistd.h",
            ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "SYS_CLONE3", "MEMFD_SECRET"),
        ),
    ],
)
def test_the_numbers_are_those_of_the_kernel_headers(
    machine: str, header: str, wanted: tuple[str, ...]
) -> None:
    known = {number: name for name, number in syscalls.numbers(machine).items()}
    said = header_numbers(header, *(f"-D__ARCH_WANT_{option}" for option in wanted))
    assert len(said) > 300
    reviewed = {name: number for name, number in said.items() if number in known}
    assert {name: known[number] for name, number in reviewed.items()} == {n: n for n in reviewed}
    assert {number for number in known if number <= 450} <= set(said.values())


@pytest.mark.parametrize("machine", ["i686", "armv7l", "aarch64_be", "riscv64", "X86_64", ""])
def test_a_machine_nobody_has_reviewed_gets_no_filter_but_an_error(machine: str) -> None:
    with pytest.raises(AgsError, match="cannot build the system call filter") as caught:
        program(machine)
    assert "x86_64" in caught.value.hint


def test_building_the_filter_does_not_hold_up_a_start() -> None:
    best = min(_seconds() for _ in range(20))
    assert best < 0.05


def _seconds() -> float:
    began = time.thread_time()
    program("x86_64")
    return time.thread_time() - began
