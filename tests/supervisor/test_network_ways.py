"""Further ways out of a run: what prepares its workspace, and a company's proxy."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet
from tests.supervisor.test_network import Person, person

__all__ = ["internet", "person", "the_internet"]

# Says what it was asked, and dials by itself: names are looked up here and not by the fence.
PROXY = """
import socket, sys, threading

def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

def serve(client):
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        data = client.recv(1)
        if not data:
            return
        head += data
    with open(sys.argv[1], "ab") as log:
        log.write(head)
    host, _, port = head.split()[1].decode().rpartition(":")
    if b"Basic YWRhOnMzY3JldA==" not in head:
        client.sendall(b"HTTP/1.1 407 Who are you\\r\\n\\r\\n")
        return client.close()
    origin = socket.create_connection((host, int(port)), 90)
    client.sendall(b"HTTP/1.1 200 Connection established\\r\\n\\r\\n")
    threading.Thread(target=copy, args=(origin, client), daemon=True).start()
    copy(client, origin)

listening = socket.create_server(("127.0.0.1", 3128))
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""
BESIDE = """
proxy=$1 log=$2; shift 2
"$PYTHON" "$proxy" "$log" & pid=$!
while ! (exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null; do sleep 0.05; done
"$PYTHON" -m ags.cli.main "$@"; code=$?
kill $pid; wait $pid
exit $code
"""


def settings(person: Person, text: str) -> None:
    folder = person.state.parent / "home/.config/ags"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def test_what_makes_a_workspace_ready_has_the_network_of_the_run(
    internet: Internet, person: Person
) -> None:
    api = internet.origin("packages.ways.example", tls=True)
    other = internet.origin("other.ways.example", tls=True)
    reach = "curl -sS -m 90 https://packages.ways.example/ > fetched"
    settings(person, f'[workspace]\nsetup = "{reach}; curl -sSm 90 https://other.ways.example/"\n')
    ran = person.ags("start", "a", "-a", "shell", "--allow", "packages.ways.example", "cat fetched")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "hello from packages.ways.example" in ran.stdout
    assert len(api.requests) == 1 and other.visits == []
    sealed = person.ags("start", "b", "-a", "shell", "--no-network", "cat fetched")
    assert sealed.returncode != 0 and len(api.requests) == 1


def behind(person: Person, place: Path, *arguments: str) -> str:
    """`ags`, with the company's proxy beside it."""
    (place / "proxy.py").write_text(PROXY)
    words = (str(place / "proxy.py"), str(place / "proxy.log"), *arguments)
    env = person.environ | {"PYTHON": sys.executable}
    command = ("/bin/bash", "-c", BESIDE, "sh", *words)
    ran = person.internet.run(command, cwd=person.project.folder, env=env)
    return str(ran.stdout + ran.stderr)


def test_behind_a_companys_proxy_all_that_is_allowed_goes_through_it(
    internet: Internet, person: Person, tmp_path: Path
) -> None:
    place = person.state.parent
    tls, plain = internet.origin("tls.ways.example", tls=True), internet.origin("http.ways.example")
    settings(person, '[network]\nproxy = "http://ada:s3cret@127.0.0.1:3128"\n')
    allow = ("--allow", "tls.ways.example", "--allow", "http.ways.example")
    script = (
        "for url in https://tls.ways.example/ http://http.ways.example/ https://no.ways.example/;"
        " do curl -sS -m 90 $url; done"
    )
    said = behind(person, place, "start", "a", "-a", "shell", *allow, script)
    assert "hello from tls.ways.example" in said and "hello from http.ways.example" in said
    asked = (place / "proxy.log").read_text()
    assert "CONNECT tls.ways.example:443" in asked and "CONNECT http.ways.example:80" in asked
    assert "no.ways.example" not in asked, "judged before anybody is asked"
    assert len(tls.requests) == 1 and len(plain.requests) == 1
    shown = person.ags("show", "a").stdout
    assert "company proxy" in shown and "s3cret" not in shown
    assert "s3cret" not in (person.run_dir("a") / "run.json").read_text()


def test_a_proxy_that_does_not_know_us_is_told_of_and_nothing_goes_around_it(
    internet: Internet, person: Person
) -> None:
    api = internet.origin("api.ways.example")
    settings(person, '[network]\nproxy = "http://127.0.0.1:3128"\n')
    order = ("start", "a", "-a", "shell", "--allow", "api.ways.example")
    said = behind(person, person.state.parent, *order, "curl -sS -m 90 http://api.ways.example/")
    assert "407 Who are you" in said and api.visits == []
