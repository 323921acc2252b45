"""The run's CA and both sides of a connection: whom they believe, and whom real clients believe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest
from cryptography import x509

from ags.egress import tls
from ags.egress.tls import Authority, Cut, Session, Stream, TlsError
from ags.errors import AgsError
from tests.internet.certificates import Authority as Elsewhere

MIB = 1 << 20
HOST = "api.example"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("test")


@pytest.fixture(scope="module")
def elsewhere() -> Elsewhere:
    """Who vouches for real hosts."""
    return Elsewhere()


def trusting(pem: bytes) -> ssl.SSLContext:
    return tls.upstream(tls.certificates(pem))


def exchange(client: Session, server: Session, step: int = 1 << 20) -> None:
    """Carry bytes back and forth, `step` at a time, until both have nothing more to say."""
    busy = True
    while busy:
        busy = False
        for one, other in ((client, server), (server, client)):
            data = one.pending()
            for at in range(0, len(data), step):
                other.receive(data[at : at + step])
                busy = True


def origin_context(chain: bytes, tmp_path: Path) -> ssl.SSLContext:
    (tmp_path / "chain.pem").write_bytes(chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "chain.pem")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.mark.parametrize(
    "host", [HOST, "x" * 60 + "." + "y" * 60 + ".example", "192.0.2.7", "2001:db8::7", "_a.example"]
)
def test_a_leaf_is_believed_for_its_host_by_whoever_trusts_the_ca(
    authority: Authority, host: str
) -> None:
    client = Session(trusting(authority.certificate), host)
    server = Session(authority.leaf(host))
    exchange(client, server)
    assert client.ready and server.ready
    assert client.protocol == server.protocol == "http/1.1"


def test_a_leaf_is_not_believed_for_another_host(authority: Authority) -> None:
    client = Session(trusting(authority.certificate), "other.example")
    with pytest.raises(TlsError, match=r"other\.example.*mismatch"):
        exchange(client, Session(authority.leaf(HOST)))
    assert not client.ready


def test_a_leaf_is_not_believed_where_another_runs_ca_is_trusted(authority: Authority) -> None:
    client = Session(trusting(Authority("test").certificate), HOST)
    with pytest.raises(TlsError, match="unable to get local issuer"):
        exchange(client, Session(authority.leaf(HOST)))


def test_only_http_1_is_spoken_to_programs_inside(authority: Authority) -> None:
    asking = trusting(authority.certificate)
    asking.set_alpn_protocols(["h2"])
    client = Session(asking, HOST)
    server = Session(authority.leaf(HOST))
    exchange(client, server)
    assert client.protocol is None


def test_the_ca_signs_hosts_and_no_further_ca(authority: Authority) -> None:
    found = x509.load_pem_x509_certificate(authority.certificate)
    constraints = found.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical and constraints.value.ca and constraints.value.path_length == 0
    assert found.not_valid_after_utc - datetime.now(UTC) <= tls.LIFETIME


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_leaf_is_kept_and_made_anew_before_it_ends() -> None:
    clock = Clock()
    authority = Authority("test", clock)
    first = authority.leaf(HOST)
    clock.now += tls.LEAF_LIFETIME - tls.RENEW - timedelta(seconds=1)
    assert authority.leaf(HOST) is first
    clock.now += timedelta(seconds=1)
    assert authority.leaf(HOST) is not first


def test_no_leaf_outlives_the_ca_and_after_it_there_is_none() -> None:
    clock = Clock()
    authority = Authority("test", clock)
    clock.now += tls.LIFETIME - timedelta(hours=2)
    last = authority.leaf(HOST)
    clock.now += timedelta(hours=1)
    assert authority.leaf(HOST) is last
    clock.now += timedelta(hours=2)
    with pytest.raises(AgsError, match="the run's CA is over"):
        authority.leaf(HOST)


def test_the_number_of_leaves_that_are_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MOST_LEAVES", 3)
    authority = Authority("test")
    first, second = authority.leaf("0.example"), authority.leaf("1.example")
    authority.leaf("2.example")
    assert authority.leaf("0.example") is first
    authority.leaf("3.example")
    assert authority.leaf("0.example") is first
    assert authority.leaf("1.example") is not second


def test_no_private_key_is_ever_in_a_file_or_a_descriptor_that_stays() -> None:
    script = """
import os, sys
from ags.egress import tls
written = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        if arguments[2] & (os.O_WRONLY | os.O_RDWR):
            written.append(arguments[0])
sys.addaudithook(hook)
open("/dev/null", "w").close()
authority = tls.Authority("test")
authority.leaf("api.example")
links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")[:-1]]
print(written, [link for link in links if "memfd" in link])
"""
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True)
    assert done.stdout == "['/dev/null'] []\n", done.stderr


def test_what_goes_inside_has_no_private_key(authority: Authority, elsewhere: Elsewhere) -> None:
    careless = elsewhere.issue("with.a.key.example")
    assert b"PRIVATE KEY" in careless
    for made in (authority.bundle((), [careless]), authority.truststore((), [careless])):
        assert b"PRIVATE" not in made
    assert len(tls.certificates(authority.bundle((), [careless]))) == 2


def test_the_bundle_has_system_roots_extra_cas_and_the_runs_ca_each_once(
    authority: Authority, elsewhere: Elsewhere
) -> None:
    (root,) = tls.certificates(Elsewhere("a root").certificate)
    (extra,) = tls.certificates(elsewhere.certificate)
    twice = [elsewhere.certificate, b"# a comment: \xff\n" + elsewhere.certificate]
    assert tls.certificates(authority.bundle((root, root), twice)) == (root, extra, authority.der)


@pytest.mark.parametrize(
    ("pem", "why"),
    [
        (b"", "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n", "damaged"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no certificate"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no certificate"),
    ],
)
def test_an_extra_ca_that_is_none_is_an_error(pem: bytes, why: str) -> None:
    with pytest.raises(AgsError, match=why):
        tls.roots((), [pem])


def test_system_roots_are_the_persons_own(tmp_path: Path, elsewhere: Elsewhere) -> None:
    assert len(tls.system_roots({})) > 10
    (tmp_path / "own.pem").write_bytes(elsewhere.certificate)
    own = tls.system_roots({"SSL_CERT_FILE": str(tmp_path / "own.pem")})
    assert own == tls.certificates(elsewhere.certificate)


def test_roots_that_cannot_be_read_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AgsError, match="no such file"):
        tls.system_roots({"SSL_CERT_FILE": str(tmp_path / "none.pem")})
    with pytest.raises(AgsError, match="too large"):
        tls.system_roots({"SSL_CERT_FILE": "/dev/zero"})
    monkeypatch.setattr(tls, "SYSTEM_ROOTS", (str(tmp_path / "none.pem"),))
    with pytest.raises(AgsError, match="there are none"):
        tls.system_roots({})


def test_an_upstream_that_is_who_it_says_is_believed(elsewhere: Elsewhere, tmp_path: Path) -> None:
    client = Session(trusting(elsewhere.certificate), HOST)
    exchange(client, Session(origin_context(elsewhere.issue(HOST), tmp_path)))
    assert client.ready
    assert client.protocol == "http/1.1"


@pytest.mark.parametrize(
    ("name", "lasts", "trusted", "why"),
    [
        ("other.example", 1, True, "mismatch"),
        ("api.example.evil.example", 1, True, "mismatch"),
        (HOST, -1, True, "expired"),
        (HOST, 1, False, "unable to get local issuer"),
    ],
)
def test_an_upstream_that_is_not_who_it_says_is_not_believed(
    elsewhere: Elsewhere, tmp_path: Path, name: str, lasts: int, trusted: bool, why: str
) -> None:
    signer = elsewhere if trusted else Elsewhere("somebody else")
    server = Session(origin_context(signer.issue(name, timedelta(days=lasts)), tmp_path))
    client = Session(trusting(elsewhere.certificate), HOST)
    with pytest.raises(TlsError, match=why):
        exchange(client, server)
    assert client.pending(), "the upstream is told"
    with pytest.raises(TlsError):
        client.send(b"a secret")


def test_a_name_that_is_only_the_common_one_is_not_believed(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    old = elsewhere.issue(HOST, only_common=True)
    client = Session(trusting(elsewhere.certificate), HOST)
    with pytest.raises(TlsError, match="mismatch"):
        exchange(client, Session(origin_context(old, tmp_path)))


def test_nothing_older_than_tls_1_2_is_spoken(authority: Authority) -> None:
    for context in (authority.leaf(HOST), tls.upstream(())):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_no_session_key_is_written_for_whoever_sets_a_variable(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    pair(Authority("test"))
    assert not (tmp_path / "keys").exists()
    # The twin, in a Python that obeys its environment, which the tests' own may not.
    subprocess.run((sys.executable, "-c", "import ssl; ssl.create_default_context()"), check=True)
    assert (tmp_path / "keys").exists()


def test_roots_are_read_when_somebody_is_first_spoken_to(authority: Authority) -> None:
    context = trusting(authority.certificate)
    assert context.cert_store_stats()["x509_ca"] == 0
    for _ in range(2):
        exchange(client := Session(context, HOST), Session(authority.leaf(HOST)))
        assert client.ready and context.cert_store_stats()["x509_ca"] == 1


def test_without_any_root_nobody_is_believed(elsewhere: Elsewhere, tmp_path: Path) -> None:
    client = Session(tls.upstream(()), HOST)
    with pytest.raises(TlsError, match="issuer"):
        exchange(client, Session(origin_context(elsewhere.issue(HOST), tmp_path)))


def pair(authority: Authority, step: int = MIB) -> tuple[Session, Session]:
    client, server = Session(trusting(authority.certificate), HOST), Session(authority.leaf(HOST))
    exchange(client, server, step)
    return client, server


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_how_bytes_are_cut_makes_no_difference(authority: Authority, step: int) -> None:
    client, server = pair(authority, step)
    client.send(b"GET / HTTP/1.1\r\n\r\n" * 100)
    sent = client.pending()
    got = [server.receive(sent[at : at + step]) for at in range(0, len(sent), step)]
    assert b"".join(got) == b"GET / HTTP/1.1\r\n\r\n" * 100


def test_much_goes_through_in_one_piece(authority: Authority) -> None:
    client, server = pair(authority)
    said = os.urandom(5 * MIB)
    server.send(said)
    assert client.receive(server.pending()) == said


def test_a_clean_end_is_told_and_the_other_side_may_still_speak(authority: Authority) -> None:
    client, server = pair(authority)
    client.send(b"last words")
    client.close()
    assert server.receive(client.pending()) == b"last words"
    assert server.ended
    server.send(b"an answer")
    assert client.receive(server.pending()) == b"an answer"
    assert not client.ended
    server.close()
    assert client.receive(server.pending()) == b""
    assert client.ended


def test_a_connection_that_is_cut_is_told_from_one_that_ended(authority: Authority) -> None:
    client, server = pair(authority)
    client.send(b"half of it")
    assert server.receive(client.pending()) == b"half of it"
    with pytest.raises(Cut):
        server.receive(b"")
    assert not server.ended


def test_closing_before_keys_are_agreed_on_says_nothing(authority: Authority) -> None:
    server = Session(authority.leaf(HOST))
    server.close()
    assert server.pending() == b""


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b""])
def test_what_is_no_tls_is_an_error(authority: Authority, data: bytes) -> None:
    server = Session(authority.leaf(HOST))
    with pytest.raises(TlsError):
        server.receive(data)
    assert not server.ready


class Listener:
    """An intercepting server on loopback that greets whoever believes it."""

    def __init__(self, authority: Authority, host: str) -> None:
        self.authority, self.host = authority, host
        self.heads: list[bytes] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TlsError, OSError):
            # As the fence does: the hello is read to see whom it wants, and only then answered.
            first = await reader.read(4096)
            stream = Stream(Session(self.authority.leaf(self.host)), reader, writer)
            await stream.shake(first)
            self.heads.append(await stream.read())
            await stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
            await stream.close()
        writer.close()


@contextlib.asynccontextmanager
async def listening(listener: Listener) -> AsyncIterator[Listener]:
    async with await asyncio.start_server(listener.handle, "127.0.0.1", 0) as server:
        listener.port = server.sockets[0].getsockname()[1]
        yield listener


@pytest.fixture
def listener(authority: Authority) -> Iterator[Listener]:
    """In a thread, so that programs can be waited for."""
    made, started, over = Listener(authority, "localhost"), threading.Event(), threading.Event()

    async def serve() -> None:
        async with listening(made):
            started.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(60)
        yield made
    finally:
        over.set()
        thread.join()


JAVA = """
import java.net.*;
public class Probe {
    public static void main(String[] given) throws Exception {
        System.out.write(new URL(given[0]).openStream().readAllBytes());
        System.out.flush();
    }
}
"""
CLIENTS = {
    "curl": ("curl", "-sS", "URL"),
    "python": (
        "python3", "-I", "-c",
        "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode(), end='')",
        "URL",
    ),
    "node": ("node", "-e", "fetch(process.argv[1]).then(r => r.text()).then(t => "
             "process.stdout.write(t), e => { console.error(e.cause); process.exit(1) })", "URL"),
    "openssl": ("/bin/sh", "-c", "printf 'GET / HTTP/1.1\\r\\n\\r\\n' | openssl s_client -quiet "
                "-verify_return_error -verify_hostname localhost -connect ${1#https://} "
                "2>/dev/null | tail -n 1", "sh", "ADDRESS"),
    "java": ("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "PROBE", "URL"),
}  # fmt: skip


def call(client: str, listener: Listener, folder: Path, env: dict[str, str]) -> str:
    (folder / "Probe.java").write_text(JAVA)
    address = f"localhost:{listener.port}"
    words = {"URL": f"https://{address}/", "ADDRESS": f"https://{address}"}
    words["PROBE"] = str(folder / "Probe.java")
    command = [words.get(word, word) for word in CLIENTS[client]]
    base = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        command, env={**base, **env}, stdout=subprocess.PIPE, text=True, timeout=120
    ).stdout


@pytest.mark.parametrize("client", CLIENTS)
def test_a_real_client_believes_us_by_the_environment_and_not_without(
    client: str, listener: Listener, tmp_path: Path
) -> None:
    system = tls.system_roots({})
    (tmp_path / "bundle.pem").write_bytes(listener.authority.bundle(system))
    (tmp_path / "cacerts").write_bytes(listener.authority.truststore(system))
    assert call(client, listener, tmp_path, {}) == ""
    assert listener.heads == []
    files = (PurePosixPath(tmp_path, name) for name in ("bundle.pem", "cacerts"))
    assert call(client, listener, tmp_path, tls.environment(*files)) == "hello\n"
    assert len(listener.heads) == 1


def test_java_reads_the_truststore_as_its_own_without_a_password(
    listener: Listener, tmp_path: Path
) -> None:
    (tmp_path / "cacerts").write_bytes(listener.authority.truststore(tls.system_roots({})))
    only_path = {"JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.trustStore={tmp_path / 'cacerts'}"}
    assert call("java", listener, tmp_path, only_path) == "hello\n"
    command = ("keytool", "-list", "-keystore", tmp_path / "cacerts", "-storepass", "changeit")
    listed = subprocess.run(command, capture_output=True, text=True)
    expected = len(tls.system_roots({})) + 1
    assert len(re.findall("trustedCertEntry", listed.stdout)) == expected, listed.stdout


def test_every_tool_that_has_its_own_variable_is_told() -> None:
    told = tls.environment(PurePosixPath("/ags/ca.pem"), PurePosixPath("/ags/cacerts"))
    wanted = "NODE_EXTRA_CA_CERTS SSL_CERT_FILE CODEX_CA_CERTIFICATE REQUESTS_CA_BUNDLE"
    for name in (*wanted.split(), "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"):
        assert told[name] == "/ags/ca.pem"
    assert "-Djavax.net.ssl.trustStore=/ags/cacerts" in told["JAVA_TOOL_OPTIONS"]


def test_a_peer_that_sends_all_before_it_reads_is_not_kept_waiting(authority: Authority) -> None:
    size = 8 * MIB

    def client(port: int) -> int:
        context = ssl.create_default_context(cadata=authority.certificate.decode())
        with (
            socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as connection,
        ):
            connection.sendall(bytes(size))
            got = 0
            while got < size and (piece := connection.recv(1 << 16)):
                got += len(piece)
            return got

    async def scene() -> tuple[int, int]:
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def listen(stream: Stream) -> None:
            count = 0
            while count < size and (piece := await stream.read()):
                count += len(piece)
            heard.set_result(count)

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            stream = Stream(Session(authority.leaf(HOST)), reader, writer)
            await stream.shake()
            await asyncio.gather(listen(stream), stream.write(bytes(size)))
            writer.close()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.to_thread(client, port), await heard

    assert asyncio.run(asyncio.wait_for(scene(), 120)) == (size, size)
