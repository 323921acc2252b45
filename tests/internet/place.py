"""Holds the namespace in which the fence's outside half runs. A script: it imports nothing of ours.

It opens sockets there for the test and looks names up, until the test is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from typing import Any

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(control: int, folder: str) -> None:
    unshare(CLONE_NEWNET | CLONE_NEWNS)
    mount("none", "/", MS_REC | MS_SLAVE)
    for name in ("resolv.conf", "nsswitch.conf"):
        target = os.path.realpath(os.path.join("/etc", name))
        if os.path.exists(target):
            mount(os.path.join(folder, name), target, MS_BIND)
    if os.path.isdir("/run/nscd"):  # it would answer from the host's network
        mount(folder, "/run/nscd", MS_BIND)
    with socket.socket(fileno=control) as test:
        test.send(b"ready")
        while asked := test.recv(1 << 16):
            answer(test, json.loads(asked))


def answer(test: socket.socket, asked: dict[str, Any]) -> None:
    try:
        if asked["do"] == "socket":
            with socket.socket(asked["family"], asked["kind"], asked["protocol"]) as made:
                socket.send_fds(test, [b"{}"], [made.fileno()])
        else:
            found = socket.getaddrinfo(asked["host"], asked["port"], type=socket.SOCK_STREAM)
            addresses = [(family, where[0]) for family, _, _, _, where in found]
            test.send(json.dumps({"found": addresses}).encode())
    except OSError as error:
        test.send(json.dumps({"error": str(error)}).encode())


def unshare(what: int) -> None:
    if _LIBC.unshare(what) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def mount(source: str, target: str, flags: int) -> None:
    if _LIBC.mount(source.encode(), target.encode(), None, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
