"""The middleware around the application: host, token, size and pace of the body of every request.

It also sets the security headers of every response, counts it, traces it, and logs one line about it without any of its
content but `X-Request-ID`, which is repeated in the response and the log: a new one where none came that is fit for it.

    no token file      requests must name a loopback host, so that no page of another site can reach the server
    with a token file  `Authorization: Bearer ...` must have the scope that the matched route declares

Access is decided by the route that serves the request, never by the text of its path: a path can be spelt in more than
one way. A route that declares no scope is served to nobody.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from tapgnn.errors import ConfigError
from tapgnn.online.client import NOTHING_TAKEN
from tapgnn.online.server.http_errors import RETRY_SECONDS, HTTPProblemError, problem_response
from tapgnn.online.server.ingest_queue import STOPPING
from tapgnn.online.server.limits import Limits
from tapgnn.online.server.tokens import TokenChecker
from tapgnn.online.server.tracing import RequestSpan, Tracing

_log = logging.getLogger("tapgnn.online.server")

Access = Literal["open", "read", "write"]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REQUEST_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,64}")
# What a piece of a body takes besides its bytes.
PIECE_BYTES = 100
# Seconds for which the rest of a refused body is read before the answer.
DISCARD_SECONDS = 5.0
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ScopedRoute(APIRoute):
    """A route that needs the scope it declares: none ("open"), any ("read"), or "write".

    Without a declaration it is served to nobody. `body` is the model of a JSON body, for the OpenAPI document.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        access: Access | None = None,
        body: type[BaseModel] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, endpoint, **options)
        self.access, self.body = access, body

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that the middleware admits, and refuse any other before its body is read."""
        scope["tapgnn.admit"](self)
        await super().handle(scope, receive, send)


class AccessMiddleware:
    """See the module; `answered` is called with the route's path, the status and the seconds of every request."""

    def __init__(
        self,
        app: FastAPI,
        tokens: TokenChecker | None,
        limits: Limits,
        answered: Callable[[str, int, float], None],
        tracing: Tracing | None = None,
    ) -> None:
        for route in app.routes:
            if not isinstance(route, ScopedRoute) or route.access is None:
                raise ConfigError(f"{route} declares no scope; add it as a ScopedRoute with access open, read or write")
        self.app, self._tokens, self._limits, self._answered = app, tokens, limits, answered
        self._tracing = tracing
        self._bodies = _Bodies(limits.bodies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the start and stop of the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with nullcontext() if self._tracing is None else self._tracing.request(scope) as span:
            await self._serve(scope, receive, send, span)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, span: RequestSpan | None) -> None:
        start, status, identity = time.perf_counter(), 499, _request_id(scope)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status >= 400:
                    await body.discard()
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = identity
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        body = _Body(receive, self._limits, self._bodies)
        try:
            self._check_host(scope)
            scope["tapgnn.hold"] = body.hold
            scope["tapgnn.admit"] = partial(self._admit, Headers(scope=scope), body)
            await self.app(scope, body.receive, answer)
        except HTTPProblemError as problem:
            await problem_response(problem)(scope, receive, answer)
        finally:
            body.release()
            self._report(scope, status, time.perf_counter() - start, body.size, identity, span)

    def _check_host(self, scope: Scope) -> None:
        """Refuse a request for another host, where no token protects the server."""
        try:
            name = urlsplit(f"//{Headers(scope=scope).get('host', '')}").hostname or ""
        except ValueError:
            # Brackets that do not hold an address.
            name = ""
        if self._tokens is None and not is_loopback(name):
            raise HTTPProblemError(421, "without a token file only loopback hosts are served; use http://127.0.0.1")

    def _admit(self, headers: Headers, body: _Body, route: ScopedRoute) -> None:
        """Refuse a request without the scope of this route, or with a Content-Length that is too large."""
        if route.access is None:
            raise HTTPProblemError(403, f"{route.path} declares no scope and is served to nobody")
        if self._tokens is not None and route.access != "open":
            kind, _, text = headers.get("authorization", "").partition(" ")
            found = self._tokens.scope_of(text.strip()) if kind.lower() == "bearer" else None
            if found is None:
                ask = {"WWW-Authenticate": 'Bearer realm="tapgnn"'}
                raise HTTPProblemError(401, "a token is needed: send Authorization: Bearer tg_...", ask)
            if route.access == "write" and found != "write":
                raise HTTPProblemError(403, f"{route.path} needs a token with scope write; this one may only read")
        body.check(headers)

    def _report(
        self, scope: Scope, status: int, seconds: float, size: int, identity: str, span: RequestSpan | None
    ) -> None:
        # The path of the route, never that of the request, which is user input.
        path = getattr(scope.get("route"), "path", "(unknown)")
        self._answered(path, status, seconds)
        fields = {
            "method": scope["method"][:10],
            "path": path,
            "status": status,
            "ms": round(seconds * 1e3, 2),
            "bytes": size,
            "request_id": identity,
        }
        if span is not None:
            fields["trace_id"] = span.end(path, status, identity)
        level = logging.WARNING if status == 500 else logging.INFO
        _log.log(level, "request", extra={"fields": fields})


def _request_id(scope: Scope) -> str:
    """The identity that a request brings, or a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid4().hex


def is_loopback(host: str) -> bool:
    """Whether a host name or address is that of this machine only.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Bodies:
    """The bytes of all bodies that are being received or served."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0


class _Body:
    """The body of a request, with limits to its size, to the time until it is complete, and to all bodies together."""

    def __init__(self, receive: Receive, limits: Limits, bodies: _Bodies) -> None:
        self._receive, self._limits, self._bodies = receive, limits, bodies
        self._deadline = time.monotonic() + limits.body_seconds
        self.size, self.ended, self._held = 0, False, 0

    def check(self, headers: Headers) -> None:
        """Refuse a body whose Content-Length is too large."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._limits.body:
            raise self._too_long()

    async def receive(self) -> Message:
        """The next piece."""
        message = await self._next_message()
        if self.size > self._limits.body:
            raise self._too_long()
        self.hold(len(message.get("body", b"")) + PIECE_BYTES)
        return message

    async def discard(self) -> None:
        """Read on for a while, so that a client that still sends gets the response."""
        self.release()
        self._deadline = min(self._deadline, time.monotonic() + DISCARD_SECONDS)
        with suppress(HTTPProblemError):
            while not self.ended and self.size < 8 * self._limits.body:
                await self._next_message()

    def release(self) -> None:
        """The body is no longer needed."""
        self._bodies.held -= self._held
        self._held = 0

    def hold(self, size: int) -> None:
        """Count bytes that are kept until the request is answered; refuse it where those of all would be too many."""
        if self._bodies.held + size > self._bodies.most:
            detail = f"{self._bodies.held:,} bytes of other requests are being served; retry in {RETRY_SECONDS} s"
            raise HTTPProblemError(503, detail, type=NOTHING_TAKEN)
        self._bodies.held += size
        self._held += size

    async def _next_message(self) -> Message:
        # After the body only a disconnect can come, at any time.
        patience = None if self.ended else self._deadline - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), patience)
        except TimeoutError:
            self.ended = True
            seconds = self._limits.body_seconds
            raise HTTPProblemError(408, f"the rest of the body did not arrive within {seconds:g} s") from None
        except asyncio.CancelledError:
            # A stop waits no longer; what comes after the body ends in other ways.
            if self.ended:
                raise
            self.ended = True
            raise HTTPProblemError(503, STOPPING, type=NOTHING_TAKEN) from None
        self.size += len(message.get("body", b""))
        self.ended = not message.get("more_body", False)
        return message

    def _too_long(self) -> HTTPProblemError:
        return HTTPProblemError(413, f"a body may hold {self._limits.body:,} bytes; send several requests")
