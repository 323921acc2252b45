"""What a run's fence finds out by itself, and what it is told anew while the run goes on."""

from __future__ import annotations

from pathlib import Path

from tests.attack.egress.faults import INDEXES_WAITED_FOR
from tests.egress.clients import shop
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.internet.world import Origin
from tests.supervisor.test_network import Person, person, wait_for

__all__ = ["internet", "person", "the_internet"]


def written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def home(person: Person) -> Path:
    return person.state.parent / "home"


def test_files_that_an_index_keeps_elsewhere_can_be_read_and_not_written(
    internet: Internet, person: Person
) -> None:
    files = internet.origin("files.nine.example", tls=True)
    site = person.state.parent / "site"
    link = '<a href="https://files.nine.example/pip.whl">pip</a>'
    written(site / "simple/pip/index.html", link)
    written(home(person) / ".pip/pip.conf", "[global]\nindex-url = https://nine.example/simple\n")
    policy = written(home(person) / ".config/ags/policy.yaml", "domains: [nine.example]\n")
    get = "curl -sS -m 90 https://files.nine.example/x; "
    script = get + "curl -sS -m 90 -X PUT https://files.nine.example/x"
    with shop.opened(internet, "nine.example", site):
        person.ags("start", "without", "-a", "shell", script)
        assert files.visits == []
        policy.write_text("services: [pip]\n")
        ran = person.ags("start", "with", "-a", "shell", script, fault=INDEXES_WAITED_FOR)
        assert [seen.method for seen in files.requests] == ["GET"], ran.stdout + ran.stderr
        assert "pip: files are at files.nine.example" in person.ags("show", "with").stdout
        once = ("exec", "--allow", "x.example", "--", "sh", "-c", get)
        one = person.ags(*once, fault=INDEXES_WAITED_FOR)
    assert "hello from files.nine.example" in one.stdout, one.stderr
    assert [seen.method for seen in files.requests] == ["GET", "GET"]


SETTINGS = """
[[secret]]
name = "api"
env = "API_KEY"
host = "{}"
header = "X-Api-Key"
"""


def test_a_run_uses_a_secret_as_it_was_read_last(internet: Internet, person: Person) -> None:
    api = internet.origin("api.ten.example", tls=True)
    settings = written(home(person) / ".config/ags/config.toml", SETTINGS.format(api.name))
    kept = written(person.state / "secrets/api.file", "first-value-of-the-secret")
    script = (
        'while [ ! -e end ]; do curl -sS -m 90 -H "X-Api-Key: $API_KEY" '
        "https://api.ten.example/; sleep 0.1; done"
    )
    person.ags("start", "try", "-a", "shell", "--detach", "--allow", api.name, script)
    try:
        follow(internet, person, kept, settings, api)
    finally:
        person.ags("stop", "--now", "try")
    for file in person.state.rglob("*"):
        if file.is_file():
            assert b"first-value-of" not in file.read_bytes(), file


def follow(internet: Internet, person: Person, kept: Path, settings: Path, api: Origin) -> None:
    def sent() -> set[str]:
        return {dict(seen.headers)["X-Api-Key"] for seen in api.requests}

    wait_for(lambda: sent() or None)
    assert sent() == {"first-value-of-the-secret"}
    # Of another shape, which would have had another placeholder: inside, there is still the old.
    kept.write_text("2nd")
    internet.clear()
    wait_for(lambda: sent() or None)
    assert sent() == {"first-value-of-the-secret"}
    assert person.ags("policy", "reload").returncode == 0
    wait_for(lambda: "2nd" in sent() or None)  # one may have been on its way
    internet.clear()
    wait_for(lambda: sent() or None)
    assert sent() == {"2nd"}

    kept.write_text("")
    refused = person.ags("policy", "reload")
    assert refused.returncode == 1 and "it is empty" in refused.stderr
    internet.clear()
    wait_for(lambda: sent() or None)
    assert sent() == {"2nd"}
    assert "stay as they were" in person.ags("logs", "try").stdout

    settings.write_text("")
    assert person.ags("policy", "reload").returncode == 0
    audit = person.run_dir("try") / "egress.jsonl"
    wait_for(lambda: "secret-gone" in audit.read_text() or None)
    internet.clear()
    wait_for(lambda: audit.read_text().count("secret-gone") > 3 or None)
    assert "refused (secret-gone)" in person.ags("logs", "try").stdout
    assert person.ags("policy", "log", "try", "--denied").stdout.count("\n") > 3
    assert api.requests == []


def test_a_run_in_place_reads_no_policy_that_it_could_write(
    internet: Internet, person: Person
) -> None:
    """E16. A person's settings may be links into a folder of theirs, such as one of dotfiles."""
    api = internet.origin("api.eleven.example", tls=True)
    inner = written(person.project.folder / "policy.yaml", f"domains: [{api.name}]\n")
    own = home(person) / ".config/ags/policy.yaml"
    own.parent.mkdir(parents=True)
    own.symlink_to(inner)
    arguments = ("--", "-c", f"curl -sS -m 90 https://{api.name}/")
    here = ("--agent", "shell", str(person.project.folder))
    refused = person.ags(*here, "--name", "one", *arguments)
    assert refused.returncode != 0 and "where the run writes" in refused.stdout + refused.stderr
    assert api.visits == []
    own.unlink()
    written(own, inner.read_text())
    assert person.ags(*here, "--name", "two", *arguments).returncode == 0
    assert len(api.requests) == 1
