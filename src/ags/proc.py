"""The one door for processes: argument tuples, never a shell string."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import json
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from ags.errors import AgsError, Missing, Unfit
from ags.frozen import frozen

TAIL = 4096
MOST_OUTPUT = 64 << 20
MOST_COMPLAINT = 1 << 20
MOST_ASIDE = 256 << 20
LEAVING = 5.0
"""Seconds for a copy of this process to end what it started."""
SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/run/current-system/sw/bin"
MINIMAL_ENVIRONMENT = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8"}


def find(name: str) -> str | None:
    """Where the system keeps a program; the caller's own PATH could lead into a workspace."""
    paths = (f"{folder}/{name}" for folder in SYSTEM_PATH.split(":"))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


@frozen
class Result:
    """What a finished command left behind."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")


class ProcessError(AgsError):
    """A command that failed, with all that is needed to see why."""

    def __init__(
        self, argv: Sequence[str], code: int | None, stderr: bytes, cause: str = ""
    ) -> None:
        self.argv = tuple(argv)
        self.code = code
        self.said = stderr[-TAIL:].decode(errors="replace").strip()
        why = cause or f"exit code {code}"
        super().__init__(
            f"run {argv[0]}", cause=f"{why}\n  {shlex.join(argv)}\n  {self.said}".rstrip()
        )


async def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] = MINIMAL_ENVIRONMENT,
    stdin: bytes | int = b"",
    timeout: float = 60,
    check: bool = True,
    most: int = MOST_OUTPUT,
    user: tuple[int, int] | None = None,
    heard: Callable[[bytes], None] | None = None,
) -> Result:
    """Run a command to its end. Nothing of our own environment or descriptors goes along.

    `stdin` is what it reads, or an open descriptor that it reads from; more than `most` bytes of
    output are an error. `heard` is given what it writes to stderr, as it comes.
    """
    with contextlib.ExitStack() as ours:
        given = stdin if isinstance(stdin, int) else filled(stdin, ours)
        (out, their_out), (err, their_err) = _pipe(ours), _pipe(ours)
        child: Child | None = None
        try:
            try:
                descriptors = {0: given, 1: their_out, 2: their_err}
                with _signals_held():
                    child = spawn(argv, env=env, descriptors=descriptors, user=user)
            finally:
                os.close(their_out)
                os.close(their_err)
            async with asyncio.timeout(timeout):
                stdout, stderr = await asyncio.gather(
                    _read(out, most, argv), _read(err, MOST_COMPLAINT, None, heard)
                )
                code = await child.wait()
        except BaseException as error:
            if child is not None:
                child.kill_group()
                await child.wait()
            if isinstance(error, TimeoutError):
                raise ProcessError(argv, None, b"", f"no end after {timeout:g} s") from error
            raise
    if check and code != 0:
        raise ProcessError(argv, code, stderr)
    return Result(code, stdout, stderr)


@contextlib.contextmanager
def _signals_held() -> Iterator[set[int]]:
    """Those that end us wait until what was just started is known, and can be ended as well."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def filled(content: bytes, stack: contextlib.ExitStack) -> int:
    """A file in memory, to be read from its start: unlike a pipe, nobody has to feed it."""
    fd = os.memfd_create("ags")
    stack.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    stack.callback(os.close, reading)
    return reading, writing


async def _read(
    fd: int,
    most: int,
    whose: Sequence[str] | None,
    heard: Callable[[bytes], None] | None = None,
) -> bytes:
    """To the end. Beyond `most` it is an error, or, for complaints of nobody's, let go."""
    parts: list[bytes] = []
    size = 0
    while True:
        await readable(fd)
        part = os.read(fd, 1 << 16)
        if not part:
            return b"".join(parts)
        if heard is not None:
            heard(part)
        size += len(part)
        if size <= most:
            parts.append(part)
        elif whose is not None:
            raise ProcessError(whose, None, b"", cause=f"more than {most} bytes of output")


async def readable(fd: int) -> None:
    """Wait until there is something to read, or, for a process descriptor, until its end."""
    loop = asyncio.get_running_loop()
    await _turn(lambda ready: loop.add_reader(fd, ready), lambda: loop.remove_reader(fd))


async def while_readable(fd: int, take: Callable[[], bool]) -> None:
    """Call `take` whenever there is something to read, until it says that there is no more."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if over.done():
            return
        try:
            if not take():
                over.set_result(None)
        except BaseException as error:
            over.set_exception(error)
        if over.done():
            loop.remove_reader(fd)

    loop.add_reader(fd, ready)
    try:
        await over
    finally:
        loop.remove_reader(fd)


async def writable(fd: int) -> None:
    """Wait until the other side can take something."""
    loop = asyncio.get_running_loop()
    await _turn(lambda ready: loop.add_writer(fd, ready), lambda: loop.remove_writer(fd))


async def _turn(add: Callable[[Callable[[], None]], None], remove: Callable[[], bool]) -> None:
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        add(lambda: None if turn.done() else turn.set_result(None))
    except PermissionError:  # a regular file cannot be waited for: it is always ready
        return
    try:
        await turn
    finally:
        remove()


class Child:
    """A long-lived process of ours, followed by descriptor and so never confused with another."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:  # too many open files: nobody could follow it, nor know of it
            os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):  # with no group of its own
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._code: int | None = None
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        _, status = os.waitpid(self.pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        self._ended.set()

    @property
    def code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._code

    async def wait(self) -> int:
        await self._ended.wait()
        assert self._code is not None
        return self._code

    def signal(self, number: int) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill_group(self) -> None:
        """For one that was spawned: with all that it started and that has stayed with it."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    descriptors: Mapping[int, int],
    user: tuple[int, int] | None = None,
    terminal: int | None = None,
) -> Child:
    """Start a process in a session of its own that has exactly `descriptors` (theirs: ours) open.

    `terminal` is the one of theirs that is to be the session's: its end hangs the process up.
    Call it on the main thread: a child that asks to die with us follows the spawning thread.
    """
    if user is not None:
        argv = (*_become(*user, env), *argv)
    _seal_inherited()
    raised: dict[int, int] = {}
    try:
        for theirs, ours in descriptors.items():
            raised[theirs] = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 64)
        actions = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in raised.items()]
        if terminal is not None:
            # Opened anew by the leader of a fresh session, it becomes the session's.
            again = f"/proc/self/fd/{raised[terminal]}"
            actions.append((os.POSIX_SPAWN_OPEN, terminal, again, os.O_RDWR, 0))  # type: ignore[arg-type]
        actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in (0, 1, 2) if fd not in raised]  # type: ignore[misc]
        pid = os.posix_spawn(
            argv[0],
            list(argv),
            dict(env),
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=[s for s in signal.valid_signals() if s not in _UNTOUCHABLE],
        )
        return Child(pid)
    except OSError as error:
        raise ProcessError(argv, None, b"", cause=error.strerror or str(error)) from error
    finally:
        for fd in raised.values():
            os.close(fd)


async def aside(
    work: Callable[[], bytes | None], *, timeout: float | None = None, most: int = MOST_ASIDE
) -> bytes:
    """Have work that cannot pause done by a copy of this process, while others are served here.

    Only for a process with one thread. What it gives is handed over, up to `most` bytes.
    """
    with contextlib.ExitStack() as ours:
        reading, writing = _pipe(ours)
        child = _copy(work, writing)
        try:
            async with asyncio.timeout(timeout):
                said = await _read(reading, most + 1, ("work aside",))
                code = await child.wait()
        except BaseException as error:
            await _leave(child)
            if isinstance(error, TimeoutError):
                raise AgsError("do that", cause=f"it was not done in {timeout:g} s") from None
            raise
    if said[:1] == _FAILED:
        sort, what, subject, cause, hint = json.loads(said[1:])
        raise _ERRORS.get(sort, AgsError)(what, subject=subject, cause=cause, hint=hint)
    if said[:1] == _BROKEN:
        raise RuntimeError(f"in the copy of this process:\n{said[1:].decode(errors='replace')}")
    if code != 0 or said[:1] != _DONE:
        raise AgsError("finish what was begun", cause=f"the process that did it ended with {code}")
    return said[1:]


_DONE, _FAILED, _BROKEN = b"+", b"-", b"!"
_ERRORS = {"Missing": Missing, "Unfit": Unfit}


def _copy(work: Callable[[], bytes | None], writing: int) -> Child:
    """`writing` is closed here."""
    try:
        # A signal in between would be told to our own loop, by the descriptor that both have.
        with _signals_held() as before:
            pid = os.fork()
            if pid == 0:
                _work_aside(work, writing, before)
            return Child(pid)
    except OSError as error:
        raise AgsError("copy this process", cause=error.strerror or str(error)) from error
    finally:
        os.close(writing)


async def _leave(child: Child) -> None:
    """A copy is first told to, since only it can end what it started."""
    child.signal(signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING):
                await child.wait()
    finally:
        child.signal(signal.SIGKILL)
        await child.wait()


def _work_aside(work: Callable[[], bytes | None], writing: int, mask: Iterable[int]) -> NoReturn:
    code = 1
    try:
        # Locks of ours would otherwise last as long as this process.
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of every `finally`
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        gc.disable()  # it ends soon, and all it made with it
        said = _said(work)
        with open(writing, "wb", closefd=False) as out:
            out.write(said)
        code = 0
    finally:
        os._exit(code)


def _said(work: Callable[[], bytes | None]) -> bytes:
    try:
        return _DONE + (work() or b"")
    except (AgsError, OSError) as error:
        said = error if isinstance(error, AgsError) else AgsError("do that", cause=str(error))
        words = (type(said).__name__, said.what, said.subject, said.cause, said.hint)
        return _FAILED + json.dumps(words).encode()
    except Exception:
        return _BROKEN + traceback.format_exc()[-TAIL:].encode(errors="replace")


_UNTOUCHABLE = {signal.SIGKILL, signal.SIGSTOP, 32, 33}


def _become(uid: int, gid: int, env: Mapping[str, str]) -> tuple[str, ...]:
    # Not setpriv: busybox has none that changes the user. This runs before bwrap, still as root.
    # Python may have added a variable for its own locale, so only those that were given go on.
    script = (
        "import os, sys\n"
        f"os.setgroups([]); os.setresgid({gid}, {gid}, {gid}); os.setresuid({uid}, {uid}, {uid})\n"
        f"kept = {{name: os.environ[name] for name in {sorted(env)!r}}}\n"
        "os.execve(sys.argv[1], sys.argv[1:], kept)\n"
    )
    return (sys.executable, "-I", "-S", "-c", script)


def _seal_inherited() -> None:
    """What our own caller left open without close-on-exec stays with us."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)
