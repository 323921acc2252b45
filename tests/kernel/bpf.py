"""A reading of BPF of our own, as strict as the kernel's, to judge a filter without a kernel."""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from errno import errorcode

I386, X86_64, ARM, AARCH64 = 0x40000003, 0xC000003E, 0x40000028, 0xC00000B7
NATIVE = {"x86_64": X86_64, "aarch64": AARCH64}

LOAD, AND, JUMP, RETURN = 0x20, 0x54, 0x05, 0x06
BRANCHES = {0x15: operator.eq, 0x25: operator.gt, 0x35: operator.ge, 0x45: operator.and_}
LONGEST = 4096
"""The kernel takes no longer program."""


@dataclass(frozen=True, slots=True)
class Step:
    """One struct sock_filter."""

    code: int
    if_true: int
    if_false: int
    operand: int

    def successors(self, at: int) -> tuple[int, ...]:
        """Where the program may go on after this step."""
        if self.code == RETURN:
            return ()
        if self.code == JUMP:
            return (at + 1 + self.operand,)
        if self.code in BRANCHES:
            return (at + 1 + self.if_true, at + 1 + self.if_false)
        return (at + 1,)


def steps(program: bytes) -> list[Step]:
    """The program, taken apart."""
    return [Step(*fields) for fields in struct.iter_unpack("<HBBI", program)]


def verdict(program: bytes, architecture: int, number: int, arguments: Sequence[int] = ()) -> str:
    """What happens to a call: `allow`, `kill`, or the name of the error it fails with."""
    action, _ = _run(steps(program), _data(architecture, number, arguments))
    return _name(action)


def words_read(program: bytes, architecture: int, number: int) -> set[str]:
    """What the filter looks at to judge a call: its `number`, `architecture`, `argument 0`..."""
    _, offsets = _run(steps(program), _data(architecture, number, ()))
    names = {0: "number", 4: "architecture"} | {16 + 8 * i: f"argument {i}" for i in range(6)}
    return {names[offset] for offset in offsets}


def _data(architecture: int, number: int, arguments: Sequence[int]) -> bytes:
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    return struct.pack("<IIQ6Q", number, architecture, 0x1234_5678_9ABC, *padded)


def _run(program: list[Step], data: bytes) -> tuple[int, set[int]]:
    accumulator, at = 0, 0
    offsets: set[int] = set()
    while True:
        step = program[at]
        at += 1
        if step.code == LOAD:
            assert step.operand % 4 == 0, "the kernel refuses to load from between two words"
            (accumulator,) = struct.unpack_from("<I", data, step.operand)
            offsets.add(step.operand)
        elif step.code == AND:
            accumulator &= step.operand
        elif step.code == JUMP:
            at += step.operand
        elif step.code in BRANCHES:
            holds = BRANCHES[step.code](accumulator, step.operand)
            at += step.if_true if holds else step.if_false
        else:
            assert step.code == RETURN, f"a step of no kind we emit: {step}"
            return step.operand, offsets


def _name(action: int) -> str:
    kind, detail = action & 0xFFFF0000, action & 0xFFFF
    if kind == 0x00050000:
        return errorcode[detail]
    return {0x7FFF0000: "allow", 0x80000000: "kill"}[kind]
