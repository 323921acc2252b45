"""Calls of `ags` for which nothing has to be loaded: copies of one process that has done so.

Each is a child of whoever asked, not of the process it is a copy of: to signal, to wait for and to
look at, it is what subprocess would have started. Only its command line is not its own.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src"
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE_PARENT = 0x8000
MOST = 1 << 16


class Warm(subprocess.Popen[bytes]):
    """`args` is what follows `ags`; of the options there are cwd, env and the three streams."""

    def _execute_child(self, args: Any, *how: Any) -> None:
        cwd, env, pipes = how[4], how[5], how[9:15]
        line = _line(os.getpid())
        its = [own if end == -1 else end for own, end in enumerate((pipes[0], pipes[3], pipes[5]))]
        socket.send_fds(line, [json.dumps([args, cwd or os.getcwd(), env]).encode()], its)
        if (pid := int(line.recv(MOST))) < 0:
            raise BlockingIOError("there is no room for one more process")
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


@functools.cache
def _line(_asker: int) -> socket.socket:
    """To the one that is copied, which ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        # Without environment, as copies get theirs later; and no pipe, whose end they would hold.
        loaded = subprocess.Popen(
            (sys.executable, "-I", __file__), stdin=its.fileno(), stdout=subprocess.DEVNULL, env={}
        )

    def end() -> None:
        ours.close()
        loaded.wait()

    atexit.register(end)
    return ours


def asked() -> list[str]:
    """Returns in each copy, with what is asked of it; never in the process that is copied."""
    line = socket.socket(fileno=0)
    while True:
        text, its, _, _ = socket.recv_fds(line, MOST, 3)
        if not text:
            sys.exit()
        if pid := _copied():
            line.send(str(pid).encode())
            for descriptor in its:
                os.close(descriptor)
            continue
        line.detach()
        for own, descriptor in enumerate(its):
            os.dup2(descriptor, own)
            os.close(descriptor)
        words, cwd, env = json.loads(text)
        os.chdir(cwd)
        os.environ.update(env)
        assert isinstance(words, list)
        return words


def _copied() -> int:
    """As os.fork, but that the parent of the copy is our own."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    number, flags = CLONE[os.uname().machine], CLONE_PARENT | signal.SIGCHLD
    pid = ctypes.PyDLL(None).syscall(number, flags, 0, 0, 0, 0)
    (python.PyOS_AfterFork_Parent if pid else python.PyOS_AfterFork_Child)()
    assert isinstance(pid, int)
    return pid


if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE))
    from ags.cli import main, web  # noqa: F401
    from ags.server import app, serve  # noqa: F401

    for name in app.ROUTES:
        importlib.import_module(f"ags.server.routes.{name}")
    sys.exit(main.main(asked()))
