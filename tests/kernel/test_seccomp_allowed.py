"""What must go on working behind the filter: calls of ordinary programs, and the programs."""

from __future__ import annotations

import ctypes
import mmap
import os
import pty
import resource
import select
import signal
import socket
import subprocess
import termios
import threading
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from ags.kernel.seccomp import program
from bootstrap.packages import find_program
from tests.kernel.fenced import MACHINE, behind_filter, call, in_child, install


def works(name: str, *arguments: int) -> None:
    assert call(name, *arguments) == "ok", name


def a_thread() -> None:
    said: list[int] = []
    thread = threading.Thread(target=said.append, args=(1,))
    thread.start()
    thread.join()
    assert said == [1]


def a_fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def another_program() -> None:
    subprocess.run(["/bin/true"], check=True)
    child = os.posix_spawn("/bin/true", ["true"], {})
    assert os.waitpid(child, 0) == (child, 0)


def a_process_descriptor() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    descriptor = os.pidfd_open(child)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    assert os.waitid(os.P_PIDFD, descriptor, os.WEXITED) is not None


def a_descriptor_over_a_unix_socket() -> None:
    near, far = socket.socketpair()
    socket.send_fds(near, [b"x"], [0])
    _, received, _, _ = socket.recv_fds(far, 1, 1)
    assert len(received) == 1


def a_connection(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server, socket.socket(family) as near:
        server.bind((address, 0))
        server.listen()
        near.connect(server.getsockname())
        far, _ = server.accept()
        near.sendall(b"hello")
        assert far.recv(10) == b"hello"
        far.close()


def datagrams() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as two:
        two.bind(("127.0.0.1", 0))
        one.sendto(b"hello", two.getsockname())
        assert two.recv(10) == b"hello"


def the_list_of_interfaces() -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as routes:
        routes.bind((0, 0))
    assert (1, "lo") in socket.if_nameindex()


def waiting_for_events() -> None:
    poll, event = select.epoll(), os.eventfd(1)
    poll.register(event, select.EPOLLIN)
    assert poll.poll(1) == [(event, select.EPOLLIN)]
    works("inotify_init1", 0)
    works("timerfd_create", 1, 0)
    mask = ctypes.c_ulong(0)
    works("signalfd4", 0xFFFFFFFF, ctypes.addressof(mask), 8, 0)


def copies_between_files() -> None:
    one, two = os.memfd_create("one"), os.memfd_create("two")
    os.write(one, b"hello")
    assert os.copy_file_range(one, two, 5, 0, 0) == 5
    assert os.sendfile(two, one, 0, 5) == 5
    reader, writer = os.pipe()
    assert os.splice(one, writer, 5, offset_src=0) == 5
    assert os.read(reader, 5) == b"hello"
    os.posix_fallocate(two, 0, 4096)


def names_and_modes() -> None:
    Path("file").write_text("x")
    os.link("file", "second")
    Path("link").symlink_to("file")
    os.chmod("file", 0o600)
    os.chown("file", os.getuid(), os.getgid())
    os.mkfifo("fifo")
    os.utime("file", (1, 1))
    os.rename("second", "third")
    assert sorted(os.listdir()) == ["fifo", "file", "link", "third"]
    status, path = ctypes.create_string_buffer(256), ctypes.create_string_buffer(b"file")
    here = 0xFFFFFF9C
    works("statx", here, ctypes.addressof(path), 0, 0x7FF, ctypes.addressof(status))
    works("faccessat2", here, ctypes.addressof(path), 4, 0)


def memory() -> None:
    with mmap.mmap(-1, 8192, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as area:
        area.madvise(mmap.MADV_DONTNEED)
        area.resize(16384)
    shared = shared_memory.SharedMemory(create=True, size=4096)
    shared.unlink()
    shared.close()
    page = ctypes.create_string_buffer(4096)
    works("mlock", ctypes.addressof(page), 1)
    works("membarrier", 0, 0, 0)


def locks() -> None:
    word = ctypes.c_int(0)
    works("futex", ctypes.addressof(word), 1, 1, 0, 0, 0)
    os.lockf(os.memfd_create("lock"), os.F_LOCK, 0)


def a_terminal() -> None:
    master, slave = pty.openpty()
    termios.tcsetwinsize(master, (40, 120))
    assert termios.tcgetwinsize(slave) == (40, 120)
    assert call("ioctl", slave, termios.TIOCSCTTY, 0) == "ok"
    os.tcsetpgrp(slave, os.getpgrp())
    assert os.tcgetpgrp(slave) == os.getpgrp()


def limits_and_priorities() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(1)
    assert len(os.getrandom(8)) == 8


def the_time() -> None:
    signal.setitimer(signal.ITIMER_REAL, 100)
    told = ctypes.create_string_buffer(256)
    works("clock_adjtime", 0, ctypes.addressof(told))


def personas() -> None:
    works("personality", 0xFFFFFFFF)
    works("personality", 0x40000)


def own_copies_of_what_threads_share() -> None:
    works("unshare", 0x400)
    works("close_range", 1 << 20, (1 << 20) + 9, 0)  # where no descriptor of ours is


ORDINARY: dict[str, Callable[[], None]] = {
    "TCP": lambda: a_connection(socket.AF_INET, "127.0.0.1"),
    "TCP over IPv6": lambda: a_connection(socket.AF_INET6, "::1"),
    "a second filter": lambda: install(program(MACHINE)),
    **{
        work.__name__.replace("_", " "): work
        for work in (
            a_thread,
            a_fork,
            another_program,
            a_process_descriptor,
            a_descriptor_over_a_unix_socket,
            datagrams,
            the_list_of_interfaces,
            waiting_for_events,
            copies_between_files,
            names_and_modes,
            memory,
            locks,
            a_terminal,
            limits_and_priorities,
            the_time,
            personas,
            own_copies_of_what_threads_share,
        )
    },
}


@pytest.mark.parametrize("title", ORDINARY)
def test_what_ordinary_programs_do_works_behind_the_filter(title: str, tmp_path: Path) -> None:
    def prepare() -> None:
        os.setsid()
        os.chdir(tmp_path)

    assert in_child(ORDINARY[title], behind=program(MACHINE), prepare=prepare) == "None"


TOOLS: dict[str, tuple[str, str]] = {
    "sh": ("echo $((6 * 7)) | cat; (sleep 0 & wait); exec true", "42"),
    "gcc": (
        "printf '#include <stdio.h>\\nint main(void){puts(\"built\");}' >a.c"
        " && gcc -pipe -O2 -o a a.c && ./a",
        "built",
    ),
    "git": (
        "git init -q . && echo one >file && git add -A"
        " && git -c user.name=a -c user.email=a@a commit -qm one && git gc -q"
        " && git log --format=%s",
        "one",
    ),
    "node": (
        "node -e '"
        'const {Worker} = require("worker_threads"), net = require("net"), fs = require("fs");'
        'const {execFileSync} = require("child_process");'
        'fs.watch(".").close(); execFileSync("true");'
        'const server = net.createServer(c => c.end("hi")).listen(0, "127.0.0.1", () =>'
        ' net.connect(server.address().port, "127.0.0.1").on("data", d => {'
        ' new Worker("require(\\"worker_threads\\").parentPort.postMessage(1)", {eval: true})'
        '.on("message", () => { console.log("said " + d); server.close(); }) }))\'',
        "said hi",
    ),
    "python3": (
        "python3 -c 'import asyncio, multiprocessing.dummy, subprocess, ssl, sqlite3\n"
        "print(sum(multiprocessing.dummy.Pool(4).map(len, [[1]] * 8)))\n"
        'subprocess.run(["true"], check=True)\n'
        'asyncio.run(asyncio.create_subprocess_exec("true"))\'',
        "8",
    ),
    "java": ("java -version 2>&1 >/dev/null && echo started", "started"),
    "tmux": (
        "tmux -S ./socket -f /dev/null new-session -d 'echo inside >out'"
        " && for i in $(seq 300); do test -s out && break; sleep 0.2; done; cat out",
        "inside",
    ),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tools_of_the_trade_work_behind_the_filter(tool: str, tmp_path: Path) -> None:
    if find_program(tool) is None:
        pytest.skip(f"{tool} is not installed")
    script, wanted = TOOLS[tool]
    done = behind_filter(["sh", "-ec", script], tmp_path)
    assert done.returncode == 0, done.stdout
    assert wanted in done.stdout
