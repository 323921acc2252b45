"""The guard: what destroys or spies is refused, however it is spelt; all else is let be."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ags.hooks.guard import judge
from ags.hooks.model import Ground, Kind, ToolCall, Verdict
from tests.hooks.commands import FINE, REFUSED

GROUND = Ground("/work/space", "/home/me", writable=("/work/more",))


def judged(command: str, ground: Ground = GROUND, cwd: str = "/work/space") -> Verdict:
    return judge(ToolCall("claude", "Bash", "bash", command, cwd=cwd), ground)


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_that_destroys_or_spies_is_refused(command: str) -> None:
    verdict = judged(command)
    assert not verdict.allowed
    assert verdict.reason and verdict.by == "guard"


@pytest.mark.parametrize("command", FINE)
def test_a_command_of_everyday_work_is_let_be(command: str) -> None:
    assert judged(command) == Verdict(True)


WITHIN = [command for command in FINE if "../" not in command]
ON_WHOLE_PATHS = ("cat $X/work/space/a", "sed -i s/a/b/ /work/space/a", "git add /work/space/a")
INSTALLED = "/home/me/.ags/worktrees/try"
"""A separate workspace in the default layout: below a folder that is sensitive otherwise."""


@pytest.mark.parametrize(
    "workspace", [INSTALLED, "/home/me/.config/fish", "/home/me/.ssh/notes", "/root/project"]
)
@pytest.mark.parametrize("command", (*WITHIN, *ON_WHOLE_PATHS))
def test_no_everyday_work_is_refused_because_of_where_the_workspace_lies(
    command: str, workspace: str
) -> None:
    ground = Ground(workspace, "/home/me", writable=("/work/more",))
    command = command.replace("/work/space", workspace)
    assert judged(command, ground, workspace) == Verdict(True)


@pytest.mark.parametrize("command", [each for each in REFUSED if "/work " not in each])
def test_what_is_refused_elsewhere_is_refused_in_the_default_layout(command: str) -> None:
    ground = Ground(INSTALLED, "/home/me", writable=("/work/more",))
    assert not judged(command.replace("/work/space", INSTALLED), ground, INSTALLED).allowed


@pytest.mark.parametrize(
    ("kind", "path", "allowed"),
    [
        ("read", "a.py", True),
        ("write", f"{INSTALLED}/a.py", True),
        ("write", f"{INSTALLED}/.claude/settings.json", True),
        ("read", "~/.ags/worktrees/try/a.py", True),
        ("read", "~/.ags/worktrees/other/a.py", False),
        ("read", "../other/a.py", False),
        ("read", "~/.ags/worktrees/try/../../server/token", False),
        ("read", "~/.ags/server/token", False),
        ("read", "~/.ags/worktrees/*", False),
        ("read", "~/.ags", False),
        ("read", "/home/me/.aws/shared/region", True),
        ("write", "/home/me/.config/systemd/unit", True),
        ("read", "/home/me/.aws/credentials", False),
        ("write", "/home/me/.config/systemd/other", False),
    ],
)
def test_what_is_mounted_is_not_sensitive_and_all_around_it_is(
    kind: Kind, path: str, allowed: bool
) -> None:
    ground = Ground(
        INSTALLED,
        "/home/me",
        writable=("/home/me/.config/systemd/unit",),
        readable=("/home/me/.aws/shared",),
    )
    call = ToolCall("claude", "Tool", kind, paths=(path,), cwd=INSTALLED)
    assert judge(call, ground).allowed is allowed


def test_there_are_cases_enough_both_ways() -> None:
    assert len(REFUSED) >= 300
    assert len(FINE) >= 200


def test_where_it_is_said_decides() -> None:
    assert judged("rm -rf build").allowed
    assert not judged("rm -rf build", cwd="/").allowed
    assert judged("rm -rf /work/more/build").allowed
    assert not judged("rm -rf /work/more").allowed
    assert judged("rm -rf build", cwd="not absolute").allowed
    assert not judged("rm -rf ../other", cwd="not absolute").allowed


def test_a_workspace_in_scratch_space_is_still_guarded() -> None:
    ground = Ground("/tmp/space", "/home/me")
    assert not judged("rm -rf /tmp/space", ground, "/tmp/space").allowed
    assert not judged("rm -rf /tmp/*", ground, "/tmp/space").allowed
    assert judged("rm -rf /tmp/other build", ground, "/tmp/space").allowed


@pytest.mark.parametrize(
    ("kind", "path", "allowed"),
    [
        ("read", "/work/space/src/app.py", True),
        ("read", "src/app.py", True),
        ("read", "/home/me/.bashrc", True),
        ("write", "/home/me/.bashrc", False),
        ("write", "~/.bashrc", False),
        ("write", "/home/me/.claude/settings.json", False),
        ("write", "/home/me/.claude/plans/plan.md", True),
        ("write", "/etc/profile.d/x.sh", False),
        ("write", "/ags/hooks/forward.py", False),
        ("write", "/work/space/.env", True),
        ("read", "/home/me/.ssh/id_rsa", False),
        ("read", "~/.ssh/id_rsa", False),
        ("read", "../../home/me/.ssh/id_rsa", False),
        ("read", "/work/space/../../home/me/.aws/credentials", False),
        ("read", "//home/me/.ssh/id_rsa", False),
        ("read", "/home/me/./.ssh//id_rsa", False),
        ("read", "/home/me/.s*/*", False),
        ("read", "/proc/self/environ", False),
        ("read", "/proc/self/cwd/src/app.py", True),
        ("read", "/home/me/.ssh/known_hosts", True),
        ("other", "/home/me/.netrc", False),
        ("read", "docs/.ssh/example", True),
        ("write", "/dev/sda", False),
    ],
)
def test_paths_of_other_tools_are_judged_too(kind: Kind, path: str, allowed: bool) -> None:
    call = ToolCall("claude", "Tool", kind, paths=(path,), cwd="/work/space")
    assert judge(call, GROUND).allowed is allowed


WRAPPERS = (
    "sudo {}", "env A=b {}", "nice -n 5 {}", "timeout 9 {}", "( {} )", "{{ {}; }}", "true && {}",
    "false || {}", "ls | {}", "if true; then {}; fi", "for i in 1; do {}; done", "echo $({})",
    'echo "`{}`"', "time {}", "! {}", "command {}", "x() {{ {}; }}; x", "cat <<E\n$({})\nE",
    "case a in a) {};; esac", "while {}; do :; done", "nohup {} &", "A=b {}", "coproc {}",
)  # fmt: skip
FATAL = ("rm -rf /", "git push --force", "mkfs.ext4 /dev/sda", "cat /home/me/.ssh/id_rsa")
HARMLESS = ("rm -rf build", "git push origin main", "cat src/app.py", "ls -la")


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WRAPPERS), max_size=5), st.sampled_from((*FATAL, *HARMLESS)))
def test_however_it_is_wrapped_it_stays_what_it_is(wrappers: list[str], command: str) -> None:
    wrapped = command
    for wrapper in wrappers:
        if wrapped.startswith("x()") and "x()" in wrapper:
            continue
        if "`" in wrapper and "`" in wrapped:  # the second would end the first
            continue
        # Only a simple command follows words such as sudo; the others take any.
        if not wrapped[0].isalpha() or wrapped.split()[0] in _COMPOUND or "<<E" in wrapped:
            wrapped = f"( {wrapped}\n)"
            continue
        wrapped = wrapper.format(wrapped)
    assert judged(wrapped).allowed is (command in HARMLESS), wrapped


_COMPOUND = {"if", "for", "case", "while", "time", "true", "false", "ls", "nohup", "x()", "coproc"}


def _quoted(text: str, how: list[int]) -> str:
    made = ""
    for at, character in enumerate(text):
        style = how[at % len(how)]
        made += (
            character,
            f"\\{character}",
            f"'{character}'",
            f'"{character}"',
            f"$'\\x{ord(character):02x}'",
            f"''{character}",
        )[style]
    return made


@settings(max_examples=300)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_quotes_hide_no_command_and_make_none(how: list[int]) -> None:
    words = ("rm", "-rf", "/")
    assert not judged(" ".join(_quoted(word, how) for word in words)).allowed
    assert judged("echo " + " ".join(_quoted(word, how) for word in words)).allowed
    assert judged(" ".join(_quoted(word, how) for word in ("rm", "-rf", "build"))).allowed


PARTS = st.sampled_from(
    (
        "rm", "-rf", "/", "build", " ", " ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{", "}",
        "'", '"', "`", "$", "$(", "${", "$((", "))", "\\", "<<E", "\nE\n", "<", ">", ">>", "<(",
        "if", "then", "fi", "for", "in", "do", "done", "case", "esac", ";;", "[[", "]]", "x=", "~",
        "*", "?", "[", "#", "!", "eval", "sh -c", "xargs", "find", "-exec", "{}", "echo", "cd",
        "git", "push", "-f", "\x00", "\ud800", "ü", "\ufdd0", "f()", "$x", "$@", "$'", "a,b", "..",
    )
)  # fmt: skip


@settings(max_examples=1500)
@given(st.one_of(st.lists(PARTS, max_size=40).map("".join), st.text(max_size=200)))
def test_whatever_it_is_given_it_answers(text: str) -> None:
    verdict = judged(text)
    assert verdict.allowed is not bool(verdict.reason)
    verdict.reason.encode("utf-8", "backslashreplace")


@pytest.mark.parametrize(
    "command",
    [
        "(" * 100_000,
        "$(" * 50_000,
        "{" * 100_000,
        "`" * 99_999,
        "((" * 50_000 + "))" * 50_000,
        '"$(' * 30_000,
        "{a,b}" * 40_000,
        "echo " + "{" * 1999,
        "rm -rf " + "a/" * 100_000,
        "x() { x; x; }; x",
        "x() { y; y; }; y() { x; x; }; x",
        "for a in {a..z}; do " * 30 + ":" + "; done" * 30,
        "for a in 1 2 3 4 5 6 7 8; do " * 12 + "rm $a" + "; done" * 12,
        "while :; do " * 20 + "rm -rf build" + "; done" * 20,
        "eval " * 5000 + "rm",
        "sudo " * 20_000 + "rm -rf /",
        "sudo -a " * 2000 + "rm -rf build",
        "env -a " * 16 + "env -a rm -rf build",
        "if a; then b; el" + "if a; then b; el" * 3000 + "se c; fi",
        "a=b;" * 50_000,
        "echo '" + "x" * 250_000 + "'",
        'python3 -c "' + "'a' " * 50_000 + '"',
        "cat <<E\n" + "line $x\n" * 20_000 + "E\n",
        "a" * 1_000_000,
    ],
    ids=lambda command: command[:20],
)
def test_it_takes_a_bounded_time(command: str) -> None:
    start = time.process_time()
    judged(command)
    # Of which it takes about one; what is not bounded would take hours.
    assert time.process_time() - start < 30


def test_what_is_too_long_to_be_read_is_refused_if_it_names_danger() -> None:
    assert not judged("echo " + "x" * 300_000 + "; rm -rf /").allowed
    assert judged("echo " + "x" * 300_000).allowed
