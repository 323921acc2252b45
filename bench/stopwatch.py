"""A program that does nothing but tell when its first instruction ran.

It is so small that we write it down in machine code: no compiler is needed to measure, it runs in
an image that holds nothing else, and no loader's work is counted as a sandbox's.
"""

from __future__ import annotations

import platform
import struct
from pathlib import Path

from ags.errors import AgsError

NAME = "stopwatch"
BASE = 0x400000
FILE_HEADER, PROGRAM_HEADER = 64, 56

# clock_gettime(CLOCK_MONOTONIC, stack); write(1, stack, 16); exit(0)
CODE = {
    "x86_64": (
        62,
        bytes.fromhex(
            "4883ec10 b8e4000000 bf01000000 4889e6 0f05"
            "b801000000 bf01000000 4889e6 ba10000000 0f05"
            "31ff b83c000000 0f05"
        ),
    ),
    "aarch64": (
        183,
        struct.pack(
            "<13I",
            *(0xD10043FF, 0xD2800020, 0x910003E1, 0xD2800E28, 0xD4000001),
            *(0xD2800020, 0x910003E1, 0xD2800202, 0xD2800808, 0xD4000001),
            *(0xD2800000, 0xD2800BA8, 0xD4000001),
        ),
    ),
}


def program(machine: str) -> bytes:
    """A complete static executable."""
    if machine not in CODE:
        raise AgsError("measure on this machine", subject=machine, cause="no code for it is known")
    number, code = CODE[machine]
    start = FILE_HEADER + PROGRAM_HEADER
    size = start + len(code)
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = struct.pack(
        "<HHIQQQIHHHHHH",
        *(2, number, 1, BASE + start, FILE_HEADER, 0, 0, FILE_HEADER, PROGRAM_HEADER, 1, 64, 0, 0),
    )
    readable_executable = 5
    segment = struct.pack("<IIQQQQQQ", 1, readable_executable, 0, BASE, BASE, size, size, 0x1000)
    return identity + header + segment + code


def write(folder: Path) -> Path:
    """Put the program for this machine into a folder."""
    path = folder / NAME
    path.write_bytes(program(platform.machine()))
    path.chmod(0o755)
    return path


def reading(told: bytes) -> int:
    """Nanoseconds on the clock that `time.monotonic_ns` reads."""
    if len(told) != 16:
        raise AgsError("read the stopwatch", cause=f"it told {len(told)} bytes instead of 16")
    seconds, nanoseconds = struct.unpack("<qq", told)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
