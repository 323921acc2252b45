"""Single commands behind the fence, and clients that only a whole sandbox makes content."""

from __future__ import annotations

import shutil

import pytest

from bootstrap.packages import find_program
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.supervisor.test_network import CANARY, Person, person

__all__ = ["internet", "person", "the_internet"]


def settings(person: Person, text: str) -> None:
    file = person.state.parent / "home/.config/ags/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def secret(person: Person, host: str, deliver: str = "") -> str:
    kept = person.state.parent / "key"
    kept.write_text(CANARY)
    kept.chmod(0o600)
    bound = f'host = "{host}"\nheader = "X-Api-Key"' if not deliver else f'deliver = "{deliver}"'
    return f'[[secret]]\nname = "api"\nfrom_file = "{kept}"\nenv = "API_KEY"\n{bound}\n'


def test_a_command_has_its_secrets_on_the_wire_alone(internet: Internet, person: Person) -> None:
    api = internet.origin("api.one.example", tls=True)
    other = internet.origin("other.one.example", tls=True)
    settings(person, secret(person, "api.one.example"))
    script = """
        echo "inside: $API_KEY"
        for host in api other; do
            curl -sS -m 90 -H "X-Api-Key: $API_KEY" https://$host.one.example/headers
        done
    """
    allow = ("--allow", "api.one.example", "--allow", "other.one.example")
    ran = person.ags("exec", *allow, "--", "sh", "-c", script)
    assert ran.returncode == 0, ran.stderr
    (seen,) = api.requests
    assert dict(seen.headers)["X-Api-Key"] == CANARY and CANARY not in str(other.requests)
    assert CANARY not in ran.stdout + ran.stderr and "inside: sk-" in ran.stdout
    sealed = person.ags("exec", "--", "sh", "-c", "echo inside: $API_KEY")
    assert sealed.stdout == "inside:\n"


def test_a_secret_that_goes_inside_with_a_command_is_told(
    internet: Internet, person: Person
) -> None:
    settings(person, secret(person, "", "env"))
    ran = person.ags("exec", "--allow", "a.example", "--", "sh", "-c", "echo inside: $API_KEY")
    assert ran.stdout == f"inside: {CANARY}\n"
    assert "weakened: secret inside" in ran.stderr and CANARY not in ran.stderr


def test_a_command_trusts_the_roots_of_the_settings(internet: Internet, person: Person) -> None:
    """Those of the company, where its own TLS passes and where the fence ends it."""
    internet.origin("api.two.example", tls=True)
    company = person.state.parent / "company.pem"
    shutil.copy(internet.ca_file, company)
    policy = person.state.parent / "policy.yaml"
    policy.write_text("domains: [{host: api.two.example, methods: [GET]}]\n")
    get = ("curl", "-sS", "-m", "90", "https://api.two.example/")
    person.trusts(None)
    for flags in (("--allow", "api.two.example"), ("--policy", str(policy))):
        refused = person.ags("exec", *flags, "--", *get)
        assert "hello from" not in refused.stdout, refused
    settings(person, f'[network]\nca = ["{company}"]\n')
    for flags in (("--allow", "api.two.example"), ("--policy", str(policy))):
        ran = person.ags("exec", *flags, "--", *get)
        assert "hello from" in ran.stdout, ran.stderr


def test_a_policy_where_commands_write_is_not_read(internet: Internet, person: Person) -> None:
    """An earlier command may have written it: in the project, or in a folder that is mounted."""
    api = internet.origin("api.five.example", tls=True)
    shared = person.state.parent / "shared"
    shared.mkdir()
    get = ("curl", "-sS", "-m", "90", "https://api.five.example/")
    for folder in (person.project.folder, shared):
        policy = folder / "policy.yaml"
        policy.write_text("domains: [api.five.example]\n")
        flags = ("--mount-rw", str(shared), "--policy", str(policy))
        ran = person.ags("exec", *flags, "--", *get)
        assert ran.returncode == 125 and "where the run writes" in ran.stderr, ran.stderr
    assert api.visits == [] and internet.queries == []
    ran = person.ags("exec", "--mount", str(shared), "--policy", str(policy), "--", *get)
    assert ran.returncode == 0 and len(api.requests) == 1, ran.stderr


def test_roots_that_cannot_be_read_let_nothing_run(internet: Internet, person: Person) -> None:
    settings(person, '[network]\nca = ["/nowhere/company.pem"]\n')
    ran = person.ags("exec", "--allow", "a.example", "--", "touch", "ran")
    assert ran.returncode == 125 and "[network] ca" in ran.stderr
    assert not (person.project.folder / "ran").exists()
    assert person.ags("exec", "--", "touch", "ran").returncode == 0


def test_a_program_that_distrusts_the_fence_is_told_of(internet: Internet, person: Person) -> None:
    """With what to look at, for commands and for runs."""
    internet.origin("api.three.example", tls=True)
    policy = person.state.parent / "policy.yaml"
    policy.write_text("domains: [{host: api.three.example, methods: [GET]}]\n")
    wary = "SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev openssl s_client -verify_return_error "
    wary += "-connect api.three.example:443 </dev/null >/dev/null 2>&1; true"
    ran = person.ags("exec", "--policy", str(policy), "--", "sh", "-c", wary)
    assert "refused: api.three.example:443 (distrusted: the program does not trust" in ran.stderr
    told = person.ags("start", "try", "-a", "shell", "--policy", str(policy), wary).stdout
    assert "── network: api.three.example refused (distrusted)" in told
    assert "$SSL_CERT_FILE" in told
    log = person.ags("policy", "log", "try", "--denied").stdout
    assert "distrusted" in log


@pytest.mark.skipif(not find_program("wget"), reason="there is no wget")
def test_wget_which_knows_only_the_systems_roots_is_content(
    internet: Internet, person: Person
) -> None:
    """It speaks TLS by GnuTLS, which heeds no variable."""
    api = internet.origin("api.four.example", tls=True)
    inner = internet.origin("inner.four.example", tls=True)
    other = internet.origin("other.four.example", tls=True)
    policy = person.state.parent / "policy.yaml"
    policy.write_text("domains: [api.four.example, {host: inner.four.example, methods: [GET]}]\n")
    get = "wget -qO- --tries=1 --timeout=90 --content-on-error https://{}.four.example/;"
    script = "".join(get.format(name) for name in ("api", "inner", "other"))
    ran = person.ags("exec", "--policy", str(policy), "--", "sh", "-c", f"{script} true")
    assert "hello from api.four.example\nhello from inner.four.example\n" in ran.stdout, ran
    assert "ags_policy_refusal" in ran.stdout and other.visits == []
    assert len(api.requests) == len(inner.requests) == 1
