"""Requests over HTTP. Whatever comes back is bounded, and only our own errors leave here."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

from ags.client.address import Address
from ags.client.errors import Broken, Refused, Unreached, refusal
from ags.client.fit import fit
from ags.client.sse import Parser, Sent
from ags.errors import AgsError, Unfit
from ags.frozen import frozen
from ags.model import KIB, MIB
from ags.text import utf8

T = TypeVar("T")
MOST = 256 * MIB
"""Bytes of an answer; a long diff is the longest."""
MOST_PROBLEM = 1 * MIB
PIECE = 64 * KIB
BEAT = 45.0
"""Seconds without a byte after which a stream is given up: the server sends one every 15."""
HIDDEN = "…"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,4096}")


@frozen
class Request:
    method: str
    path: str
    query: Mapping[str, object] | None = None
    body: object = None
    headers: Mapping[str, str] | None = None
    timeout: float | None = None


class Link:
    """One connection for each request: so that one can be made while a stream is read."""

    def __init__(self, address: Address, token: str, ca: Path | None, timeout: float) -> None:
        if not _TOKEN.fullmatch(token):
            cause = "there are characters in it that no token has" if token else "it is empty"
            raise Unfit("use the token", cause=cause)
        self.address = address
        self.timeout = timeout
        self._token = token
        self._ca = ca

    def bearer(self) -> str:
        """As a WebSocket has to carry it."""
        return f"bearer.{self._token}"

    def tls(self) -> ssl.SSLContext | None:
        if self.address.scheme == "http":
            return None
        try:
            return ssl.create_default_context(cafile=self._ca)
        except (OSError, ssl.SSLError) as error:
            cause = (error.strerror or str(error)).lower()
            raise AgsError("read the authority", subject=self._ca, cause=cause) from error

    def json(self, request: Request, shape: type[T]) -> T:
        """The answer, which has this shape."""
        with self.response(request) as found:
            media, body = _media(found), self._body(found, MOST)
        if media != "application/json":
            raise self._odd(f"its answer is {media[:60] or 'of no kind'}, not JSON")
        try:
            return fit(json.loads(body), shape)
        except RecursionError:
            raise self._odd("its answer is nested too deeply") from None
        except ValueError as error:
            raise self._odd(f"its answer is not as expected: {str(error)[:200]}") from error

    def nothing(self, request: Request) -> None:
        with self.response(request):
            return

    def data(self, request: Request) -> bytes:
        with self.response(request) as found:
            return self._body(found, MOST)

    def events(self, path: str, last_id: str, most: int) -> Iterator[Sent]:
        """Until the server, or somebody on the way, ends it."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        parser = Parser(most, last_id)
        with self.response(Request("GET", path, headers=headers, timeout=BEAT)) as found:
            if (media := _media(found)) != "text/event-stream":
                raise self._odd(f"its answer is {media[:60] or 'of no kind'}, not events")
            while piece := self._piece(found):
                try:
                    yield from parser.feed(piece)
                except ValueError as error:
                    raise self._odd(str(error)) from error

    @contextlib.contextmanager
    def response(self, request: Request) -> Iterator[http.client.HTTPResponse]:
        """An answer that is no refusal, while its connection lasts."""
        connection = self._connection(request.timeout or self.timeout)
        sent = None if request.body is None else json.dumps(request.body).encode()
        kind = {} if sent is None else {"Content-Type": "application/json"}
        headers = {"Authorization": f"Bearer {self._token}", **kind, **(request.headers or {})}
        target = self.target(request.path, request.query)
        try:
            with self._telling(Unreached):
                connection.connect()
            with self._telling():
                connection.request(request.method, target, sent, headers)
                found = connection.getresponse()
            with found:
                if not 200 <= found.status < 300:
                    raise self._refusal(found)
                yield found
        finally:
            connection.close()

    def target(self, path: str, query: Mapping[str, object] | None) -> str:
        """With what is None left out, and lists repeated."""
        given = {name: each for name, each in (query or {}).items() if each not in (None, (), [])}
        asked = f"?{urlencode(_worded(given), doseq=True)}" if given else ""
        return f"{self.address.prefix}/api/v1{path}{asked}"

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        # Neither of them looks at proxies of the environment, which could read the token.
        if (context := self.tls()) is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)

    def _refusal(self, found: http.client.HTTPResponse) -> AgsError:
        if 300 <= found.status < 400:
            return self._odd(
                f"it leads elsewhere ({found.status}), where the token is not meant for"
            )
        is_for_now = found.getheader("Retry-After") is not None
        body = self._body(found, MOST_PROBLEM)
        return self.refusal(found.status, _media(found), body, is_for_now=is_for_now)

    def refusal(
        self, status: int, media: str, body: bytes, *, is_for_now: bool = False
    ) -> AgsError:
        """In the server's words, but for a token that it sends back."""
        hidden = body.replace(self._token.encode(), HIDDEN.encode())
        return refusal(status, media, hidden, is_for_now=is_for_now)

    def _body(self, found: http.client.HTTPResponse, most: int) -> bytes:
        pieces, size = [], 0
        while piece := self._piece(found):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise self._odd(f"its answer is longer than {most >> 20} MiB")
        # http.client takes an end for the end, in the middle of the headers too.
        if found.length or (found.length is None and not found.chunked):
            raise self._broken("it broke off in the middle of its answer")
        return b"".join(pieces)

    def _piece(self, found: http.client.HTTPResponse) -> bytes:
        with self._telling():
            return found.read1(PIECE)

    @contextlib.contextmanager
    def _telling(self, sort: type[Broken] = Broken) -> Iterator[None]:
        """Whatever goes wrong on the way, in our words."""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            hint = "if its authority is your own, say where it is: SSL_CERT_FILE=FILE"
            raise self._odd(f"its certificate is not good: {error.verify_message}", hint) from error
        except (TimeoutError, http.client.IncompleteRead) as error:
            late = isinstance(error, TimeoutError)
            cause = "it does not answer" if late else "it broke off in the middle of its answer"
            raise self._broken(cause, sort) from error
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLError) as error:
            raise self._broken(_cause(error), sort) from error
        except http.client.HTTPException as error:
            raise self._odd("what it answers is not HTTP, or too long") from error
        except OSError as error:
            raise self._broken(_cause(error), sort) from error
        except ValueError as error:  # how http.client takes an odd number of bytes
            raise self._odd("what it answers is not HTTP") from error

    def _broken(self, cause: str, sort: type[Broken] = Broken) -> Broken:
        hint = "is it running? `ags up` starts one" if self.address.is_loopback else ""
        return sort("reach the server", subject=self.address, cause=cause, hint=hint)

    def _odd(self, cause: str, hint: str = "is it a server of AGS, of this version?") -> Refused:
        told = cause.replace(self._token, HIDDEN)
        return Refused("use the server", subject=self.address, cause=told, hint=hint, status=0)


def _media(found: http.client.HTTPResponse) -> str:
    return (found.getheader("Content-Type") or "").partition(";")[0].strip().lower()


def _cause(error: Exception) -> str:
    if isinstance(error, http.client.RemoteDisconnected):
        return "it ended the connection without an answer"
    return (getattr(error, "strerror", None) or str(error)).lower()


def _worded(given: Mapping[str, object]) -> dict[str, object]:
    def word(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else utf8(str(value))

    return {
        name: [word(each) for each in value] if isinstance(value, list | tuple) else word(value)
        for name, value in given.items()
    }
