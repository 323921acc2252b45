"""What a person says to a run while it works: answers to what it asks, and another policy."""

from __future__ import annotations

from pathlib import Path

from ags import runs
from tests.attack.egress.faults import HOURS_PASS, LATER, LATER_HELPERS_KILLED, NOBODY_ANSWERS
from tests.internet import Internet, Origin
from tests.internet.fixtures import internet, the_internet
from tests.supervisor.test_network import Person, asked, person, wait_for

__all__ = ["internet", "person", "the_internet"]


def came(origin: Origin) -> list[str]:
    return [seen.path for seen in origin.requests]


def start(person: Person, script: str, *flags: str, fault: str = "") -> None:
    began = person.ags("start", "try", "-a", "shell", "--detach", *flags, script, fault=fault)
    assert began.returncode == 0, began.stderr


def ended(person: Person) -> str:
    """All that the run printed, and what was told of it."""
    wait_for(lambda: '"done"' in person.ags("list", "--json").stdout or None)
    return person.ags("logs", "try").stdout


def gets(name: str, *paths: str, between: str = ";") -> str:
    return between.join(f"curl -sS -m 300 https://{name}/{path}" for path in paths)


def test_what_is_allowed_for_a_time_is_asked_anew_after_it(
    internet: Internet, person: Person
) -> None:
    api = internet.origin("api.one.example", tls=True)
    start(
        person,
        gets("api.one.example", "a", "b")
        + "; until [ -e over ]; do sleep 0.1; done; rm over;"
        + gets("api.one.example", "c"),
        "--ask",
        fault=HOURS_PASS,
    )
    first = wait_for(lambda: asked(person))
    assert person.ags("allow", first, "--for", "50m").returncode == 0
    wait_for(lambda: came(api) == ["/a", "/b"] or None)
    (person.state / LATER).touch()
    (person.state / "worktrees/try/over").touch()
    second = wait_for(lambda: asked(person))
    assert second != first and came(api) == ["/a", "/b"]
    assert person.ags("deny", second).returncode == 0
    assert "(ask-denied)" in ended(person) and came(api) == ["/a", "/b"]


def test_what_is_allowed_so_often_is_asked_anew_after_that(
    internet: Internet, person: Person
) -> None:
    api = internet.origin("api.two.example", tls=True)
    start(person, gets("api.two.example", "a", "b", "c"), "--ask")
    first = wait_for(lambda: asked(person))
    assert person.ags("allow", first, "--uses", "2").returncode == 2
    assert person.ags("allow", first, "--for", "1h", "--uses", "2").returncode == 0
    second = wait_for(lambda: asked(person))
    assert second != first and came(api) == ["/a", "/b"]
    assert person.ags("allow", second).returncode == 0
    ended(person)
    assert came(api) == ["/a", "/b", "/c"]


def test_a_denial_holds_for_the_rest_of_the_run(internet: Internet, person: Person) -> None:
    api = internet.origin("api.three.example", tls=True)
    other = internet.origin("other.three.example", tls=True)
    script = gets("api.three.example", "a", "b", "c") + ";" + gets("other.three.example", "d")
    start(person, script, "--ask")
    assert person.ags("deny", wait_for(lambda: asked(person))).returncode == 0
    assert person.ags("allow", wait_for(lambda: asked(person))).returncode == 0
    assert ended(person).count("api.three.example refused (ask-denied)") == 3
    assert api.visits == [] and came(other) == ["/d"]
    assert {query.name for query in internet.queries} == {"other.three.example"}


def test_what_nobody_answers_is_refused(internet: Internet, person: Person) -> None:
    api = internet.origin("api.four.example", tls=True)
    other = internet.origin("other.four.example", tls=True)
    script = gets("api.four.example", "a") + ";" + gets("other.four.example", "b")
    flags = ("--ask", "--allow", "other.four.example")
    start(person, script, *flags, fault=NOBODY_ANSWERS)
    told = ended(person)
    assert "api.four.example refused (ask-timeout)" in told
    assert "gave no answer in time" in told
    assert api.visits == [] and came(other) == ["/b"]
    assert person.ags("asks").stdout == "no run asks for anything\n"


def test_what_is_allowed_for_good_is_in_the_policy(internet: Internet, person: Person) -> None:
    api = internet.origin("api.five.example", tls=True)
    start(person, gets("api.five.example", "a", "b"), "--ask")
    assert person.ags("allow", wait_for(lambda: asked(person)), "--always").returncode == 0
    ended(person)
    assert person.ags("policy", "check", "https://api.five.example/").returncode == 0
    assert person.ags("start", "next", "-a", "shell", gets("api.five.example", "c")).returncode == 0
    assert came(api) == ["/a", "/b", "/c"]


def policy_of(person: Person, text: str) -> Path:
    file = person.state.parent / "policy.yaml"
    file.write_text(text)
    return file


WORK = """
curl -sSN -m 300 'https://long.six.example/drip?count=200&every=0.02' > long &
exec 9<>/dev/tcp/kept.six.example/80
ask() { printf 'GET /%s HTTP/1.1\\r\\nHost: kept.six.example\\r\\n\\r\\n' "$1" >&9; head -1 <&9; }
ask before
echo began; until [ -e go ]; do sleep 0.1; done
curl -sS -m 90 https://long.six.example/anew; curl -sS -m 90 https://next.six.example/
ask after
wait
"""


def test_a_new_policy_holds_for_what_is_new_and_lets_transfers_end(
    internet: Internet, person: Person
) -> None:
    """A request on a connection that was there before is new, where requests are looked at."""
    long = internet.origin("long.six.example", tls=True)
    kept, after = internet.origin("kept.six.example"), internet.origin("next.six.example", tls=True)
    policy = policy_of(person, "domains: [long.six.example, kept.six.example]\n")
    start(person, f"bash -c {quoted(WORK)}", "--policy", str(policy))
    wait_for(lambda: (came(long) and came(kept)) or None)
    policy_of(person, "domains: [next.six.example]\n")
    assert person.ags("policy", "reload").returncode == 0
    folder = person.state / "worktrees/try"
    (folder / "go").touch()
    told = ended(person)
    assert came(long) == ["/drip"] and came(kept) == ["/before"] and came(after) == ["/"]
    assert "long.six.example refused (not-listed)" in told
    assert "kept.six.example:80 GET /after refused (not-listed)" in told
    assert person.ags("diff", "try").stdout.count("." * 200) == 1


def quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def test_a_policy_that_cannot_be_read_leaves_the_last_one(
    internet: Internet, person: Person
) -> None:
    api = internet.origin("api.seven.example", tls=True)
    other = internet.origin("other.seven.example", tls=True)
    policy = policy_of(person, "domains: [api.seven.example]\n")
    script = (
        "until [ -e go ]; do sleep 0.1; done;"
        + gets("api.seven.example", "a")
        + ";"
        + gets("other.seven.example", "b")
    )
    start(person, script, "--policy", str(policy))
    wait_for(lambda: (person.run_dir("try") / "control.sock").exists() or None)
    for bad in ("domains: [other.seven.example]\nunknown: 1\n", "domains: ['*']\n", "]["):
        policy_of(person, bad)
        assert person.ags("policy", "reload").returncode != 0
    (person.state / "worktrees/try/go").touch()
    assert "other.seven.example refused (not-listed)" in ended(person)
    assert came(api) == ["/a"] and other.visits == []


PORTS = "until curl -sSf -m 60 http://api.{}.example:8080/{}; do sleep 0.2; done;"


def test_a_port_comes_goes_and_comes_back(internet: Internet, person: Person) -> None:
    api = internet.origin("api.eight.example", port=8080)
    opened = "domains: [{host: api.eight.example, ports: [8080], protocol: http}]\n"
    policy = policy_of(person, "domains: [other.example]\n")
    wait = "until [ -e {} ]; do sleep 0.1; done;"
    script = (
        PORTS.format("eight", "one")
        + wait.format("closed")
        + "curl -sS -m 60 http://api.eight.example:8080/two;"
        + "touch refused;"
        + PORTS.format("eight", "three")
    )
    start(person, script, "--policy", str(policy))
    wait_for(lambda: (person.run_dir("try") / "control.sock").exists() or None)
    folder = person.state / "worktrees/try"
    reload(person, opened)
    wait_for(lambda: came(api) == ["/one"] or None)
    reload(person, "domains: [other.example]\n")
    (folder / "closed").touch()
    wait_for(lambda: (folder / "refused").exists() or None)
    reload(person, opened)
    ended(person)
    assert came(api) == ["/one", "/three"]


def reload(person: Person, policy: str) -> None:
    policy_of(person, policy)
    assert person.ags("policy", "reload").returncode == 0


def test_a_port_that_cannot_be_opened_leaves_the_last_policy(
    internet: Internet, person: Person
) -> None:
    """Who would open it inside is killed."""
    api = internet.origin("api.nine.example", tls=True)
    new = internet.origin("new.nine.example", port=8080)
    policy = policy_of(person, "domains: [api.nine.example]\n")
    script = (
        "until [ -e go ]; do sleep 0.1; done;"
        + gets("api.nine.example", "a")
        + "; curl -sS -m 60 http://new.nine.example:8080/; true"
    )
    start(person, script, "--policy", str(policy), fault=LATER_HELPERS_KILLED)
    # Before that, a new port is left to the opening of the network, and no later helper is needed.
    wait_for(lambda: runs.load(person.run_dir("try")).state == "running" or None)
    policy_of(person, "domains: [{host: new.nine.example, ports: [8080], protocol: http}]\n")
    assert person.ags("policy", "reload").returncode != 0
    (person.state / "worktrees/try/go").touch()
    ended(person)
    assert came(api) == ["/a"] and new.visits == []
