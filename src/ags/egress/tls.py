"""TLS that the fence ends itself: the CA of one run, and both sides of a connection.

The CA's private key lives in this process's memory alone. It is written to no file, and nothing
that is meant for inside (`bundle`, `truststore`, `environment`) is made from it.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import re
import ssl
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Protocol

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ags.egress import certificate
from ags.egress.certificate import Term
from ags.errors import AgsError

PROTOCOLS = ["http/1.1"]
LIFETIME = timedelta(days=14)
LEAF_LIFETIME = timedelta(days=2)
RENEW = timedelta(days=1)
"""A leaf with less than this left is made anew."""
BEHIND = timedelta(hours=1)
"""How far back a clock inside may be; there is none of its own, but some programs round."""
MOST_LEAVES = 128
MOST_ROOTS = 8 << 20
PIECE = 1 << 16
RECORD = 1 << 14
"""The most that comes out of TLS at once."""

SYSTEM_ROOTS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
# OpenSSL, Python, Ruby, Go and rustls-native read the first; the others have names of their own.
BUNDLE_VARIABLES = (
    "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO",
    "DENO_CERT", "HTTPLIB2_CA_CERTS", "NIX_SSL_CERT_FILE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)  # fmt: skip
TRUSTSTORE_PASSWORD = "changeit"  # noqa: S105  (what Java expects; it guards nothing)

_BLOCK = rb"-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----"
_JKS_MAGIC, _JKS_VERSION, _JKS_TRUSTED = 0xFEEDFEED, 2, 2

Clock = Callable[[], datetime]


class TlsError(AgsError):
    """A connection that cannot be trusted, or is none. `pending` may hold an alert to send."""

    def __init__(self, host: str | None, cause: str) -> None:
        super().__init__("speak TLS", subject=host, cause=cause)


class Cut(TlsError):
    """The peer went away without saying that it was done: what came may not be all."""


def _now() -> datetime:
    return datetime.now(UTC)


class Authority:
    """The CA of one run."""

    def __init__(self, run: str, clock: Clock = _now) -> None:
        self._clock = clock
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        # Two CAs of one name with different keys confuse whoever looks an issuer up by its name.
        self._name = f"ags {run[:24]} {os.urandom(8).hex()}"
        begin = clock()
        self._last = begin + LIFETIME
        self.der = certificate.authority(self._name, self._key, Term(begin - BEHIND, self._last))
        self._leaves: OrderedDict[str, tuple[datetime, ssl.SSLContext]] = OrderedDict()

    @property
    def certificate(self) -> bytes:
        """As PEM, without the key: this is what goes inside."""
        return ssl.DER_cert_to_PEM_cert(self.der).encode()

    def leaf(self, host: str) -> ssl.SSLContext:
        """To speak to programs inside as `host`, which is in its canonical form."""
        now = self._clock()
        until, context = self._leaves.get(host, (now, None))
        if context is None or now >= until:
            until, context = self._make(host, now)
        self._leaves[host] = (until, context)
        self._leaves.move_to_end(host)
        while len(self._leaves) > MOST_LEAVES:
            self._leaves.popitem(last=False)
        return context

    def bundle(self, system: Sequence[bytes], extra: Iterable[bytes] = ()) -> bytes:
        """What programs inside trust: system roots (DER), extra CAs (PEM), and this CA, as PEM."""
        trusted = roots(system, extra)
        return b"".join(ssl.DER_cert_to_PEM_cert(der).encode() for der in (*trusted, self.der))

    def truststore(self, system: Sequence[bytes], extra: Iterable[bytes] = ()) -> bytes:
        """The same for Java, in the format of its `cacerts` that needs no password to be read."""
        return _java((*roots(system, extra), self.der))

    def _make(self, host: str, now: datetime) -> tuple[datetime, ssl.SSLContext]:
        if now >= self._last:
            hint = "restart the run"
            raise AgsError(
                "vouch for a host", subject=host, cause="the run's CA is over", hint=hint
            )
        end = min(now + LEAF_LIFETIME, self._last)
        term = Term(now - BEHIND, end)
        made = certificate.leaf(host, self._leaf_key, term, self._name, self._key)
        # One that ends with the CA has nothing to gain from being made anew.
        until = self._last if end == self._last else end - RENEW
        return until, _server_side(made, self._leaf_key)


def _server_side(der: bytes, key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(PROTOCOLS)
    chain = (
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + ssl.DER_cert_to_PEM_cert(der).encode()
    )
    # The ssl module takes keys from files only. This one is in memory and has no name.
    fd = os.memfd_create("ags-leaf", os.MFD_CLOEXEC)
    with open(fd, "wb") as file:
        file.write(chain)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    return context


class Upstream(ssl.SSLContext):
    """Reads its roots when it first speaks to somebody: all of a system's take tens of
    milliseconds and a megabyte, and many a run never needs them."""

    unread: tuple[bytes, ...] = ()

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        if self.unread:
            self.load_verify_locations(cadata=b"".join(self.unread))
            self.unread = ()
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def upstream(trusted: Iterable[bytes]) -> ssl.SSLContext:
    """To speak to the real host: its certificate and its name are verified. Roots are DER.

    Make it once for all hosts.
    """
    context = Upstream(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(PROTOCOLS)
    context.unread = tuple(trusted)
    return context


def system_roots(environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """The person's own: what their SSL_CERT_FILE names, else what the system has."""
    named = environ.get("SSL_CERT_FILE")
    found = (path for path in SYSTEM_ROOTS if os.access(path, os.R_OK))
    path = named or next(found, None)
    if path is None:
        hint = "install your system's ca-certificates, or name a file in SSL_CERT_FILE"
        raise AgsError("find the system's trusted CAs", cause="there are none", hint=hint)
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_ROOTS + 1)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("read trusted CAs", subject=path, cause=cause) from error
    if len(content) > MOST_ROOTS:
        raise AgsError("read trusted CAs", subject=path, cause="the file is far too large")
    return certificates(content, Path(path))


def certificates(pem: bytes, subject: object = None) -> tuple[bytes, ...]:
    """The certificates in a PEM text, as DER. What else it holds, such as a key, stays there."""
    try:
        found = tuple(
            binascii.a2b_base64(block.translate(None, b" \t\r\n"), strict_mode=True)
            for block in re.findall(_BLOCK, pem)
        )
    except binascii.Error:
        raise AgsError("read trusted CAs", subject=subject, cause="it is damaged") from None
    if not found:
        cause = "there is no certificate in it"
        raise AgsError("read trusted CAs", subject=subject, cause=cause, hint="it must be PEM text")
    return found


def roots(system: Sequence[bytes], extra: Iterable[bytes] = ()) -> tuple[bytes, ...]:
    """System roots (DER) and extra CAs (PEM), each once, as DER."""
    added = [der for pem in extra for der in certificates(pem, "extra CA")]
    for der in added:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
        except ssl.SSLError:
            cause = "one of them is no certificate"
            raise AgsError("read trusted CAs", subject="extra CA", cause=cause) from None
    return tuple(dict.fromkeys((*system, *added)))


def _java(trusted: Sequence[bytes]) -> bytes:
    """A Java key store: unlike PKCS#12, every Java reads its certificates without a password."""
    parts = [struct.pack(">III", _JKS_MAGIC, _JKS_VERSION, len(trusted))]
    for number, der in enumerate(trusted):
        head = struct.pack(">I", _JKS_TRUSTED) + _java_text(f"ags-{number}") + bytes(8)
        parts.append(head + _java_text("X.509") + struct.pack(">I", len(der)) + der)
    body = b"".join(parts)
    secret = TRUSTSTORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    return body + hashlib.sha1(secret + body, usedforsecurity=False).digest()


def _java_text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def environment(bundle: PurePosixPath, truststore: PurePosixPath) -> dict[str, str]:
    """Variables that make programs inside trust what is in the two files there."""
    java = {
        "trustStore": str(truststore),
        "trustStoreType": "JKS",
        "trustStorePassword": TRUSTSTORE_PASSWORD,
    }
    options = " ".join(f"-Djavax.net.ssl.{name}={value}" for name, value in java.items())
    return {**dict.fromkeys(BUNDLE_VARIABLES, str(bundle)), "JAVA_TOOL_OPTIONS": options}


class Session:
    """One side of a TLS connection: bytes go in and come out, and no socket is touched.

    After every call, `pending` has what must go to the peer; after an error too (an alert).
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        host: str | None = None,
        earlier: ssl.SSLSession | None = None,
    ) -> None:
        """With a host it is the client's side, and that is who the peer must be. `earlier` is of a
        connection to the same host and by the same context, whose keys are gone on with."""
        self.host = host
        self.context = context
        self.ready = False
        self.ended = False
        """The peer said that it is done; we may still have something to say."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=host is None,
            server_hostname=host,
            session=earlier,
        )
        self._shake()

    @property
    def protocol(self) -> str | None:
        """What both sides agreed to speak (ALPN)."""
        return self._tls.selected_alpn_protocol()

    @property
    def resumed(self) -> bool:
        """The peer went on with the keys of an earlier connection."""
        return bool(self._tls.session_reused)

    @property
    def resumable(self) -> ssl.SSLSession | None:
        """For the next connection to the same host."""
        return self._tls.session

    def receive(self, data: bytes) -> bytes:
        """What the peer sent; returns what it says. No bytes at all mean that it went away."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        if not self.ready:
            self._shake()
        return self._read() if self.ready else b""

    def send(self, data: bytes) -> None:
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise self._wrong(error) from error

    def close(self) -> None:
        """Say that we are done."""
        try:
            self._tls.unwrap()
        except ssl.SSLError:  # it wants the peer's word too, which nobody has to wait for
            return

    def pending(self) -> bytes:
        return self._outgoing.read()

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
            self.ready = True
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise self._wrong(error) from error

    def _read(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._tls.read(RECORD):
                parts.append(part)
                if not (self._incoming.pending or self._tls.pending()):
                    break  # to ask for more would only raise
            else:
                self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLEOFError as error:
            # What came before the cut is given out; the next call tells of it.
            if not parts:
                raise self._wrong(error) from error
        except ssl.SSLError as error:
            raise self._wrong(error) from error
        return b"".join(parts)

    def _wrong(self, error: ssl.SSLError) -> TlsError:
        if isinstance(error, ssl.SSLEOFError):
            return Cut(self.host, "the connection was cut")
        if isinstance(error, ssl.SSLCertVerificationError):
            return TlsError(self.host, error.verify_message.lower().rstrip("."))
        reason = (error.reason or "it is not TLS").lower().replace("_", " ")
        return TlsError(self.host, reason)


class Reader(Protocol):
    async def read(self, n: int, /) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...


class Stream:
    """A session over asyncio's streams, or what looks like them. Closing those is the caller's."""

    def __init__(self, session: Session, reader: Reader, writer: Writer) -> None:
        self.session = session
        self._reader = reader
        self._writer = writer
        self._early = b""

    async def shake(self, first: bytes = b"") -> None:
        """Agree on keys. `first` is what was read from the peer already, to see whom it wants."""
        if first:
            self._early += self._take(first)
        await self._flush()
        while not self.session.ready:
            self._early += self._take(await self._reader.read(PIECE))
            await self._writer.drain()

    async def read(self) -> bytes:
        """What comes next; nothing means the end."""
        early, self._early = self._early, b""
        if early:
            return early
        while not self.session.ended:
            if said := self._take(await self._reader.read(PIECE)):
                return said
        return b""

    async def write(self, data: bytes) -> None:
        self.session.send(data)
        await self._flush()

    async def close(self) -> None:
        self.session.close()
        await self._flush()

    def _take(self, data: bytes) -> bytes:
        # Reading never waits for the peer to read: one that only sends would wait for us in turn.
        try:
            return self.session.receive(data)
        finally:
            self._writer.write(self.session.pending())

    async def _flush(self) -> None:
        self._writer.write(self.session.pending())
        await self._writer.drain()
