"""Which sockets can be read or written, asked beside the event loop.

For each descriptor that comes or goes the loop makes several objects, and each event takes a round
through its queue. For a short connection that is most of the work. Here it is one call to the
kernel, and the loop watches nothing but the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable
from typing import Protocol

Call = Callable[[], object]

AT_ONCE = 256
"""Events before the loop has its turn."""


class Ready(Protocol):
    """Calls for as long as it is not told to stop. An event loop is one, too."""

    def add_reader(self, fd: int, callback: Call, /) -> object: ...
    def remove_reader(self, fd: int, /) -> object: ...
    def add_writer(self, fd: int, callback: Call, /) -> object: ...
    def remove_writer(self, fd: int, /) -> object: ...


class Epoll:
    """One for each server. A descriptor is to be taken out before it is closed.

    A call may come for nothing, when its descriptor has just changed hands: ask the socket.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll()
        self._readers: dict[int, Call] = {}
        self._writers: dict[int, Call] = {}
        self._loop.add_reader(self._epoll.fileno(), self._turn)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def add_reader(self, fd: int, callback: Call, /) -> None:
        before = self._mask(fd)
        self._readers[fd] = callback
        self._change(fd, before)

    def remove_reader(self, fd: int, /) -> None:
        if fd in self._readers:
            before = self._mask(fd)
            del self._readers[fd]
            self._change(fd, before)

    def add_writer(self, fd: int, callback: Call, /) -> None:
        before = self._mask(fd)
        self._writers[fd] = callback
        self._change(fd, before)

    def remove_writer(self, fd: int, /) -> None:
        if fd in self._writers:
            before = self._mask(fd)
            del self._writers[fd]
            self._change(fd, before)

    def _mask(self, fd: int) -> int:
        reads = select.EPOLLIN if fd in self._readers else 0
        return reads | select.EPOLLOUT if fd in self._writers else reads

    def _change(self, fd: int, before: int) -> None:
        now = self._mask(fd)
        if now == before:
            return
        if not before:
            self._epoll.register(fd, now)
        elif now:
            self._epoll.modify(fd, now)
        else:
            with contextlib.suppress(OSError):  # closed: then the kernel has taken it out
                self._epoll.unregister(fd)

    def _turn(self) -> None:
        readers, writers = self._readers, self._writers
        for fd, events in self._epoll.poll(0, AT_ONCE):
            # A lost connection is both: whoever asks the socket is told.
            if events & ~select.EPOLLOUT and (call := readers.get(fd)):
                self._call(call)
            if events & ~select.EPOLLIN and (call := writers.get(fd)):
                self._call(call)

    def _call(self, call: Call) -> None:
        """One that fails takes none of the others with it."""
        try:
            call()
        except Exception as error:
            self._loop.call_exception_handler({"message": "a socket's turn", "exception": error})
