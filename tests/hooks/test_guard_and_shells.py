"""The guard against real shells: what bash or dash would delete outside, the guard has refused.

Scripts are varied by chance and run in a sandbox where `rm` only writes down what it was given.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Iterator
from pathlib import Path

from ags.hooks.guard import judge
from ags.hooks.model import Ground, ToolCall
from tests.box import Box

HOW_MANY = 150

SCRIPTS = r"""
rm -rf ../gone
X=../gone; rm -rf $X
eval 'rm -rf ../gone'
f() { rm -rf $1; }; f ../gone
if :; then rm -rf ../gone; fi
for x in a ../gone; do rm -rf $x; done
case a in a) rm -rf ../gone;; esac
echo $(rm -rf ../gone)
echo "`rm -rf ../gone`"
cd .. && rm -rf gone
(cd ..; rm -rf gone)
X='rm -rf ../gone'; $X
trap 'rm -rf ../gone' EXIT
while rm -rf ../gone; do break; done
a=(rm -rf ../gone); "${a[@]}"
rm -rf ..{/gone,/x}
command rm -rf ../gone
set -- rm -rf ../gone; "$@"
rm -rf ${X:-../gone}
[[ -n $(rm -rf ../gone) ]]
((x=$(rm -rf ../gone)))
read X <<< ../gone; rm -rf $X
printf -v X ../gone; rm -rf $X
X=x; Y=X; rm -rf ${!Y}
X=abc../gone; rm -rf ${X#abc}
rm -rf $'\x2e\x2e/gone'
echo 'rm -rf ../gone' | source /dev/stdin
source <(echo rm -rf ../gone)
OLDPWD=..; cd -; rm -rf gone
X=a; f() { X=../gone; }; f; rm -rf $X
X=a; (X=b); X+=/../../gone; rm -rf $X
mapfile -t X <<< ../gone; rm -rf ${X[0]}
X=a; declare X=../gone; rm -rf $X
IFS=,; X=-rf,../gone; rm $X
set -e; cd nowhere || :; rm -rf ../gone
a[0]=../gone; rm -rf ${a[0]}
declare -n P=X; X=../gone; rm -rf $P
X=a; while read X; do :; done <<< ../gone; rm -rf $X
X=a; case b in b) X=../gone;; esac; rm -rf $X
X=a; X=../gone :; rm -rf $X
f() ( rm -rf ../gone ); f
X=a; false && X=b; X=../gone || X=c; rm -rf $X
$@ rm -rf ../gone
""".strip().splitlines()
TOKENS = (
    " ", "\n", ";", "&&", "||", "|", "(", ")", "{ ", "; }", "'", '"', "`", "$", "$(", "${", "}",
    "\\", "#", "!", "x=", "*", "echo ", "eval ", "cd ..;", "if :; then ", "; fi", "''", "$'",
    "<<E\n", "\nE\n", "$@", "${X}", "X=a;", "done", "in", "case", " [[ ", " ]] ", "((", "))", ",",
    "true ", "false ", "exit; ", "set -e;", "f() ", "{a,b}", "=", "+=", "\\\n",
)  # fmt: skip

NOTING = """#!/bin/sh
printf '%s\\n' "$PWD" "$@" "" >> "$NOTED"
"""
DRIVER = """
for script in scripts/*; do
    for shell in bash dash; do
        mkdir -p "/tmp/w/space"
        ( cd /tmp/w/space; NOTED="$OLDPWD/noted/${script#*/}" PATH="$OLDPWD/programs" \
            /usr/bin/timeout 3 /bin/$shell -c "$(cat "$OLDPWD/$script")" )
    done
done < /dev/null > /dev/null 2>&1
"""


def varied(chance: random.Random) -> str:
    script = chance.choice(SCRIPTS)
    for _ in range(chance.choice((0, 1, 1, 2, 2, 3))):
        at = chance.randrange(len(script) + 1)
        match chance.randrange(4):
            case 0 | 1:
                script = script[:at] + chance.choice(TOKENS) + script[at:]
            case 2:
                script = script[:at] + script[at + chance.randrange(1, 4) :]
            case _:
                script += chance.choice((" ; ", " && ", " || ", " | ", "\n"))
                script += chance.choice(SCRIPTS)
    return script


def deletes_outside(noted: Path) -> bool:
    text = noted.read_text(errors="replace") if noted.exists() else ""
    return any(_is_outside(call.split("\n")) for call in text.split("\n\n") if call)


def _is_outside(call: list[str]) -> bool:
    cwd, *words = [line for line in call if line]
    options = [word for word in words if word.startswith("-") and not word.startswith("--")]
    if not any("r" in option for option in options):
        return False
    paths = (posixpath.normpath(posixpath.join(cwd, w)) for w in words if not w.startswith("-"))
    return any(not path.startswith("/tmp/w/space") for path in paths)


def scripts() -> Iterator[str]:
    yield from SCRIPTS
    chance = random.Random(20)
    for _ in range(HOW_MANY):
        yield varied(chance)


def test_whatever_a_shell_would_delete_outside_was_refused(tmp_path: Path) -> None:
    workspace, home = tmp_path / "space", tmp_path / "home"
    for folder in (workspace, home, *(workspace / n for n in ("scripts", "noted", "programs"))):
        folder.mkdir()
    (workspace / "programs" / "rm").write_text(NOTING)
    (workspace / "programs" / "rm").chmod(0o755)
    tried = list(scripts())
    for number, script in enumerate(tried):
        (workspace / "scripts" / f"{number:04}").write_text(script)
    Box(workspace, home).run("/bin/bash", "-c", DRIVER)
    ground = Ground("/tmp/w/space", "/home/me", scratch=())
    fatal = 0
    for number, script in enumerate(tried):
        if not deletes_outside(workspace / "noted" / f"{number:04}"):
            continue
        fatal += 1
        call = ToolCall("claude", "Bash", "bash", script, cwd="/tmp/w/space")
        assert not judge(call, ground).allowed, script
    assert fatal > HOW_MANY // 3
