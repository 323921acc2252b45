"""A network namespace of its own for whatever is started meanwhile: nothing could leave."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

CLONE_NEWNET = 0x40000000


@contextmanager
def own_network() -> Iterator[None]:
    """With `lo` up, as a host has it, and nothing else."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace of its own needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    os.system("ip link set lo up")
    try:
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)
