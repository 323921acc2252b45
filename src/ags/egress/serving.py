"""A request for the desk, read to its end, and what the desk asks of the real host."""

from __future__ import annotations

import asyncio
import http
from typing import Protocol

import h11

from ags.egress.desk import Answer, Asked
from ags.egress.fence import Fence
from ags.egress.http import Headers, RequestHead
from ags.egress.inject import Hidden
from ags.egress.link import Plain
from ags.egress.tls import Session, Stream
from ags.egress.wire import Refused
from ags.model import KIB

MOST_ASKED = 64 * KIB
MOST_ANSWERED = 256 * KIB
PATIENCE = 30.0
"""Seconds in which a request has to be whole, and the same for the real host's answer."""

# Of these the fence writes its own.
_OWN = frozenset(
    (
        *(b"host", b"connection", b"content-length", b"transfer-encoding", b"expect"),
        *(b"accept-encoding", b"te", b"trailer", b"upgrade", b"keep-alive"),
    )
)


class Talk(Protocol):
    async def read(self) -> bytes: ...
    async def write(self, data: bytes, /) -> None: ...


async def whole(inner: Talk, head: RequestHead, rest: bytes) -> bytes | Refused:
    """The request's body."""
    reader = h11.Connection(h11.SERVER)
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            if head.first(b"expect"):
                await inner.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            reader.receive_data(head.raw + rest)
            while True:
                event = reader.next_event()
                if event is h11.NEED_DATA:
                    reader.receive_data(await inner.read())
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    return bytes(body)
                elif not isinstance(event, h11.Request):
                    return Refused("cut", "the request is not whole")
                if len(body) > MOST_ASKED:
                    return Refused("too-large", "the body of the request is too large")
    except (h11.ProtocolError, TimeoutError):
        return Refused("protocol", "the body of the request did not come, or is not HTTP/1.1")


def written(answer: Answer) -> bytes:
    """A whole response, after which the connection closes."""
    try:
        phrase = http.HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Other"
    head = (
        f"HTTP/1.1 {answer.status} {phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + bytes(answer.body)


async def post(fence: Fence, asked: Asked) -> Answer:
    """To the host that the request is for. No redirect is followed."""
    async with asyncio.timeout(PATIENCE):
        link, _ = await fence.dial(asked.request)
        try:
            session = Session(fence.verified(asked.request.host), asked.request.host)
            stream = Stream(session, link, link)
            await stream.shake()
            return await _exchanged(stream, asked)
        except h11.ProtocolError:
            # Its message may quote what was sent.
            raise ConnectionError("the answer is not HTTP/1.1") from None
        finally:
            link.close()


async def _exchanged(talk: Stream | Plain, asked: Asked) -> Answer:
    said = h11.Connection(h11.CLIENT)
    asking = h11.Request(method="POST", target=asked.target, headers=list(_headers(asked)))
    events = (asking, h11.Data(data=bytes(asked.body)), h11.EndOfMessage())
    await talk.write(b"".join(filter(None, map(said.send, events))))
    status, body = 0, bytearray()
    while True:
        event = said.next_event()
        if event is h11.NEED_DATA:
            said.receive_data(await talk.read())
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, Hidden(body))
        elif not isinstance(event, h11.InformationalResponse):
            raise ConnectionError("the answer is not whole")
        if len(body) > MOST_ANSWERED:
            raise ConnectionError("the answer is too large")


def _headers(asked: Asked) -> Headers:
    kept = tuple(header for header in asked.headers if header[0].lower() not in _OWN)
    own = {
        b"Host": asked.request.host.encode("ascii"),
        b"Content-Length": b"%d" % len(asked.body),
        b"Accept-Encoding": b"identity",
        b"Connection": b"close",
    }
    return (*own.items(), *kept)
