"""Compilers of the system, and what they made, work inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.packages import find_program
from tests.people import Person
from tests.tools.conftest import Inside

C_PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void *half(void *sum) { *(int *)sum += 21; return NULL; }

int main(void)
{
    int sum = 0;
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, NULL, half, &sum);
        pthread_join(thread, NULL);
    }
    if (fork() == 0)
        _exit(sum);
    int status;
    wait(&status);
    printf("%d\n", WEXITSTATUS(status));
}
"""

CPP_PROGRAM = r"""
#include <fstream>
#include <future>
#include <iostream>
#include <stdexcept>

int main()
{
    auto fails = [] () -> int { throw std::runtime_error("caught"); };
    auto later = std::async(std::launch::async, fails);
    try { later.get(); } catch (const std::exception &error) { std::cout << error.what() << "\n"; }
    std::ofstream("from-cpp") << "written\n";
}
"""

JAVA_PROGRAM = """
import java.util.stream.IntStream;
public class Sum {
    public static void main(String[] arguments) throws Exception {
        System.out.println(IntStream.rangeClosed(1, 100).parallel().sum());
        System.out.println(new ProcessBuilder("echo").start().waitFor());
    }
}
"""

GO_PROGRAM = """
package main
import "fmt"
func main() {
    sums := make(chan int)
    for i := 0; i < 100; i++ { go func(n int) { sums <- n }(i) }
    total := 0
    for i := 0; i < 100; i++ { total += <-sums }
    fmt.Println(total)
}
"""

# Large, so not installed for these tests alone: tried where they are.
WHERE_INSTALLED = {
    "javac": ("Sum.java", JAVA_PROGRAM, "javac Sum.java && java Sum", "5050\n0\n"),
    "go": ("sum.go", GO_PROGRAM, "go run sum.go", "4950\n"),
}


def test_c_compiles_and_runs(inside: Inside, workspace: Path, person: Person) -> None:
    (workspace / "program.c").write_text(C_PROGRAM)
    (workspace / "Makefile").write_text(
        "program: program.c\n\t$(CC) -Wall -Werror -pthread -o $@ $<\n"
    )
    assert inside("make -s program && ./program").stdout == "42\n"
    # What is left is an ordinary program of the person's.
    assert person.run_as([workspace / "program"]).stdout == "42\n"


def test_cpp_compiles_and_runs(inside: Inside, workspace: Path) -> None:
    (workspace / "program.cpp").write_text(CPP_PROGRAM)
    done = inside("g++ -Wall -pthread -o program program.cpp && ./program && rm program")
    assert done.stdout == "caught\n"
    assert (workspace / "from-cpp").read_text() == "written\n"


@pytest.mark.parametrize("program", WHERE_INSTALLED)
def test_languages_that_are_installed_compile_and_run(
    inside: Inside, workspace: Path, program: str
) -> None:
    if find_program(program) is None:
        pytest.skip(f"there is no {program} on this machine")
    name, text, command, expected = WHERE_INSTALLED[program]
    (workspace / name).write_text(text)
    assert inside(command).stdout == expected


def test_perl_runs(inside: Inside) -> None:
    script = "use POSIX; my $pid = fork; exit 7 unless $pid; waitpid $pid, 0; print WEXITSTATUS $?;"
    assert inside(f"perl -we '{script}'").stdout == "7"


TRACES = r"""
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    long done = ptrace(PTRACE_ATTACH, child, NULL, NULL);
    puts(done == 0 ? "attached" : strerror(errno));
    kill(child, SIGKILL);
}
"""


@pytest.mark.parametrize(
    ("flags", "said"), [((), "Operation not permitted\n"), (("--ptrace",), "attached\n")]
)
def test_a_debugger_is_told_that_it_may_not_until_it_may(
    inside: Inside, workspace: Path, flags: tuple[str, ...], said: str
) -> None:
    (workspace / "traces.c").write_text(TRACES)
    assert inside("gcc -o traces traces.c && ./traces", *flags).stdout == said


def test_gdb_and_strace_work_when_they_may(inside: Inside, workspace: Path) -> None:
    (workspace / "program.c").write_text(C_PROGRAM)
    inside("gcc -g -pthread -o program program.c")
    if find_program("gdb"):
        script = "gdb -batch -ex 'break main' -ex run -ex 'print 6 * 7' ./program 2>&1"
        assert "$1 = 42" in inside(script, "--ptrace").stdout
        assert "not permitted" in inside(script).stdout
    if find_program("strace"):
        assert "exited with 0" in inside("strace -f true 2>&1", "--ptrace").stdout
        assert "not permitted" in inside("strace true 2>&1", code=1).stdout
