"""The application: routes, page, health and metrics, each with the scope it needs, behind the middleware."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute

from tapgnn.errors import TapgnnError, UnavailableError
from tapgnn.model import Config
from tapgnn.online.engine.engine import Engine
from tapgnn.online.journal.event_rows import EventFields
from tapgnn.online.server.event_parsing import JSON
from tapgnn.online.server.event_schema import event_json_schema, example_event
from tapgnn.online.server.http_errors import problem_response
from tapgnn.online.server.middleware import AccessMiddleware, ScopedRoute
from tapgnn.online.server.openapi import EventDescription, openapi_document, problems
from tapgnn.online.server.prometheus_metrics import CONTENT_TYPE
from tapgnn.online.server.rehearsal import rehearse
from tapgnn.online.server.routes import Routes
from tapgnn.online.server.service import Service

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PAGES = {"index.html": "/", "docs.html": "/docs"}
ERRORS = (HTTPException, TapgnnError, RequestValidationError, ClientDisconnect, Exception)


def make_app(service: Service, config: Config) -> AccessMiddleware:
    """The application over a service, which it starts and closes."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await anyio.to_thread.run_sync(service.close)

    async def refuse(_: Request, error: Exception) -> Response:
        return problem_response(error)

    settings = service.settings
    api = Routes(service, config)
    routes = [*api.routes(), *_health(service), *_page()]
    described = list(routes)

    @cache
    def text(fields: EventFields) -> str:
        example = example_event(fields, config.origin + 2 * config.span)
        event = EventDescription(event_json_schema(fields), example, settings.events)
        return json.dumps(openapi_document(described, settings.tokens is not None, event))

    async def document() -> Response:
        # What an event is depends on the model, which is there when the engine is.
        return Response(text(service.queue.engine.rows.fields), media_type=JSON)

    def prepare(engine: Engine) -> None:
        rehearse(engine, config)
        text(engine.rows.fields)

    service.before_ready = prepare

    routes.append(ScopedRoute("/openapi.json", document, access="open", include_in_schema=False))
    # FastAPI's own route to the document would have no scope.
    app = FastAPI(
        routes=list[BaseRoute](routes),
        lifespan=lifespan,
        openapi_url=None,
        # A redirection would repeat the Host header of whoever asks.
        redirect_slashes=False,
        exception_handlers=dict.fromkeys(ERRORS, refuse),
    )
    app.router.route_class = ScopedRoute
    return AccessMiddleware(app, settings.tokens, settings.limits, service.metrics.add_request, settings.tracing)


def _health(service: Service) -> Iterator[ScopedRoute]:
    async def healthz() -> dict[str, str]:
        """Whether the process is up."""
        return {"status": "alive"}

    async def readyz() -> dict[str, str]:
        """Whether the journal is replayed and events are accepted; if not, why."""
        reason = service.unavailable_reason
        if reason is not None:
            raise UnavailableError(reason)
        return {"status": "ready"}

    async def metrics() -> Response:
        """All metrics in the format of Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    text: dict[int | str, Any] = {200: {"content": {"text/plain": {}}}}
    yield ScopedRoute("/healthz", healthz, access="open", responses=problems())
    yield ScopedRoute("/readyz", readyz, access="open", responses=problems(503))
    yield ScopedRoute("/metrics", metrics, access="read", responses={**problems(), **text}, response_class=Response)


def _page() -> Iterator[ScopedRoute]:
    """The pages and their files."""
    for file in (files("tapgnn.online.server") / "page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = PAGES.get(file.name, f"/page/{file.name}")
            yield _file(path, file.read_bytes(), kind)


def _file(path: str, content: bytes, kind: str) -> ScopedRoute:
    """A file that needs no token, kept in memory."""

    async def serve() -> Response:
        return Response(content, media_type=kind)

    return ScopedRoute(path, serve, access="open", include_in_schema=False)
