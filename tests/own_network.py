"""A network namespace of its own for whatever is started meanwhile: nothing could leave."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


@contextmanager
def own_network() -> Iterator[None]:
    """With `lo` up, as a host has it, and nothing else."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace of its own needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    _raise_loopback()
    try:
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
