"""Limits on what a connection may take before a request is complete, each with an answer.

    bytes of the head         431
    time to a complete head   408
    open connections          503
    pipelined requests        503
    time to take an answer    the connection ends

uvicorn parses with httptools and reads a head of any size for any time; this is its protocol with these limits. A body
has its own in the middleware. A refused client still sends while it is answered: what it sends is thrown away for a
moment, because a connection that is closed with unread bytes would lose the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tapgnn.online.server.http_errors import RETRY_SECONDS, HTTPProblemError, problem_response
from tapgnn.online.server.limits import Limits
from tapgnn.online.server.middleware import HEADERS

PIPELINED = 16
# Seconds and bytes for which, and connections beyond the limit on which, a refused client is heard.
LINGER_SECONDS, LINGER_BYTES, LINGERING = 1.0, 1_000_000, 250


def limited_protocol(limits: Limits, refused: Callable[[int], None]) -> type[asyncio.Protocol]:
    """The protocol with these limits; `refused` is called with the status of every refusal."""
    return type("LimitedHttpProtocol", (HttpProtocol,), {"limits": limits, "refused": staticmethod(refused)})


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    limits: Limits
    refused: Callable[[int], None]

    # Bytes of the head, and those received since anything was complete: a line of a head, trailers of a body.
    _head = _unused = 0
    _in_head, _complete = True, False
    _over = False
    _timer: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, if there is room."""
        super().connection_made(transport)
        beyond = len(self.connections) - self.limits.connections
        if beyond > LINGERING:
            transport.abort()
        elif beyond > 0:
            self._refuse(503, f"{self.limits.connections:,} connections are open; retry in {RETRY_SECONDS} s")
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes."""
        for timer in (self._timer, self._writing):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; a head that is not complete after it has its time, and no more bytes than it may have."""
        self._unused += len(data)
        if self._over:
            if self._unused > LINGER_BYTES:
                self.transport.abort()
            return
        super().data_received(data)
        if self._over or self.transport.is_closing():
            return
        if self._unused > self.limits.head:
            self._refuse_head()
        else:
            self._limit_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._limit_waiting()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._complete, self._head = True, False, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._head += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer of the body."""
        self._head += len(name) + len(value) + 4
        if self._head <= self.limits.head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Serve the request."""
        if self._head > self.limits.head:
            self._refuse_head()
        elif len(self.pipeline) >= PIPELINED:
            self._refuse(503, f"more than {PIPELINED} requests wait on this connection; read their answers first")
        if self._over:
            return
        self._in_head, self._unused = False, 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unused = 0
        if not self._over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._complete, self._unused = True, 0
        if not self._over:
            self._stop_waiting()
            super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not take its answer: it has a while to do so."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self.limits.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client took some of it."""
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(400, "this is not an HTTP/1.1 request")

    def _is_serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _limit_waiting(self) -> None:
        """Where something is waited for, part of a head or the rest of a body whose answer is out, give it its time."""
        if self._timer is None and not self._is_serving() and (self._unused or not self._complete):
            self._await_head()

    def _await_head(self) -> None:
        seconds = self.limits.head_seconds
        detail = f"the head of the request did not arrive within {seconds:g} s"
        self._timer = self.loop.call_later(seconds, self._refuse, 408, detail)

    def _refuse_head(self) -> None:
        self._refuse(431, f"the head of a request may have {self.limits.head:,} bytes; send fewer or shorter headers")

    def _refuse(self, status: int, detail: str) -> None:
        """Close the connection with an answer, or without one where the client would take it for another's."""
        if self._over or self.transport.is_closing():
            return
        self._over = True
        self._stop_waiting()
        self.refused(status)
        if self._is_serving() or not (self._in_head or self._complete):
            self.transport.abort()
            return
        answer = problem_response(HTTPProblemError(status, detail))
        fields = [*answer.raw_headers, *((name.encode(), value.encode()) for name, value in HEADERS.items())]
        head = b"".join(b"%s: %s\r\n" % field for field in [*fields, (b"connection", b"close")])
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body))
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
