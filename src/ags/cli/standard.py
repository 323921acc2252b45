"""The three standard streams, be they closed, full, or read by nobody any more."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ags.errors import AgsError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

READER_LEFT = 141
"""What a shell tells of a program that was ended by SIGPIPE."""


class Output(io.FileIO):
    """Remembers that it could not be written, which tells this from all other errors."""

    failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise

    def settle(self, code: int) -> int:
        """The exit code, once all is written or known to be lost."""
        with suppress(OSError):
            sys.stdout.flush()
        if self.failure is None:
            return code
        # What is left in the buffer goes there, or Python would complain of it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        if code == 0 and self.failure.errno != errno.EPIPE:
            cause = (self.failure.strerror or str(self.failure)).lower()
            raise AgsError("write the output", cause=cause)
        return code or READER_LEFT


class Complaints(io.FileIO):
    """That these cannot be written could be told to nobody, so it is no error."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_streams() -> Output | None:
    """All three are there afterwards. None: stdout is not the process's own, as in a test."""
    _open_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(Complaints(2, "w", closefd=False), line_buffering=True)
    if sys.stdout is not sys.__stdout__:
        return None
    output = Output(1, "w", closefd=False)
    sys.stdout = _text(output, line_buffering=output.isatty())
    return output


def _open_descriptors() -> None:
    """With one of them closed, the next file opened would take its place and its output."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number, which is this one. To write to a closed stdout is an error.
            os.open(os.devnull, os.O_RDWR if fd == 2 else os.O_RDONLY)


def _text(raw: io.FileIO, *, line_buffering: bool) -> io.TextIOWrapper:
    """A locale may lack what we or an agent have to say."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw), errors="backslashreplace", line_buffering=line_buffering
    )
