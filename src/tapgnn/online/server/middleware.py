"""What every request passes on its way in: the host it names, its token, the size and pace of its body.

An ASGI layer around the application. It also puts the headers of safety on every answer, counts it, and logs one line
about it that has nothing of its content.

    no token file      requests must name a loopback host, so that no page of another site can reach the server
    with a token file  /v1 and /metrics need `Authorization: Bearer ...` with the scope of the path
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapgnn.online.server.http_errors import RefusalError
from tapgnn.online.server.tokens import Tokens

_log = logging.getLogger("tapgnn.online.server")

WRITING = ("/v1/events", "/v1/score-then-observe", "/v1/retract", "/v1/erase")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """Bytes of a body, and seconds that the next piece of one may take."""

    body: int = 16_000_000
    seconds: float = 30.0


class Guard:
    """See the module; `answered` is told the path, status and seconds of every request."""

    def __init__(
        self,
        app: ASGIApp,
        paths: frozenset[str],
        tokens: Tokens | None,
        limits: Limits,
        answered: Callable[[str, int, float], None],
    ) -> None:
        self._app, self._paths, self._tokens, self._limits = app, paths, tokens, limits
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the start and stop of the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 499

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        body = _Body(receive, self._limits)
        try:
            self._check(scope)
            body.check(Headers(scope=scope))
            await self._app(scope, body.receive, answer)
        except RefusalError as refusal:
            await body.discard()
            await refusal.answer()(scope, receive, answer)
        finally:
            self._note(scope, status, time.perf_counter() - start, body.size)

    def _check(self, scope: Scope) -> None:
        """Refuse a request that may not be made."""
        headers, path = Headers(scope=scope), scope["path"]
        if self._tokens is None:
            if not is_loopback(urlsplit(f"//{headers.get('host', '')}").hostname or ""):
                raise RefusalError(421, "without a token file only loopback names are served; use http://127.0.0.1")
            return
        if not (path.startswith("/v1/") or path == "/metrics"):
            return
        kind, _, text = headers.get("authorization", "").partition(" ")
        found = self._tokens.scope_of(text.strip()) if kind.lower() == "bearer" else None
        if found is None:
            ask = {"WWW-Authenticate": 'Bearer realm="tapgnn"'}
            raise RefusalError(401, "a bearer token of this server is needed: Authorization: Bearer tg_...", ask)
        if path in WRITING and found != "write":
            raise RefusalError(403, f"{path} needs a token with scope write; this one may only read")

    def _note(self, scope: Scope, status: int, seconds: float, size: int) -> None:
        # Only paths that exist: an unknown one is text of the user's.
        path = scope["path"] if scope["path"] in self._paths else "(unknown)"
        self._answered(path, status, seconds)
        fields = {
            "method": scope["method"][:10],
            "path": path,
            "status": status,
            "ms": round(seconds * 1e3, 2),
            "bytes": size,
        }
        level = logging.WARNING if status == 500 else logging.INFO
        _log.log(level, "request", extra={"fields": fields})


def is_loopback(host: str) -> bool:
    """Whether a name or address of a host means this machine, and nothing else.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Body:
    """A request's body on its way in, with an end to its size and its patience."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive, self._limits = receive, limits
        self.size, self.ended = 0, False

    def check(self, headers: Headers) -> None:
        """Refuse a body that says itself that it is too long."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._limits.body:
            raise self._too_long()

    async def receive(self) -> Message:
        """The next piece."""
        message = await self._waited(self._receive())
        if message["type"] == "http.request":
            self.size += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
            if self.size > self._limits.body:
                raise self._too_long()
        else:
            self.ended = True
        return message

    async def discard(self) -> None:
        """Read on for a while, so that the one who still sends gets to hear the answer."""
        while not self.ended and self.size < 8 * self._limits.body:
            message = await self._waited(self._receive())
            self.size += len(message.get("body", b""))
            self.ended = message["type"] != "http.request" or not message.get("more_body", False)

    async def _waited(self, message: Awaitable[Message]) -> Message:
        if self.ended:
            # After the body only the end of the connection can come, and that may take any time.
            return await message
        try:
            return await asyncio.wait_for(message, self._limits.seconds)
        except TimeoutError:
            self.ended = True
            raise RefusalError(408, f"the rest of the body did not come within {self._limits.seconds:g} s") from None

    def _too_long(self) -> RefusalError:
        return RefusalError(413, f"a body may hold {self._limits.body:,} bytes; send several requests")
