"""The application: routes, page, health and metrics, each with the scope it needs, behind the middleware."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tapgnn import __version__
from tapgnn.errors import TapgnnError
from tapgnn.model import Config
from tapgnn.online.server.event_parsing import JSON
from tapgnn.online.server.http_errors import RETRY_SECONDS, HTTPProblemError, problem_from, problem_response
from tapgnn.online.server.middleware import AccessMiddleware, OpenRoute, ReadRoute, ScopedRoute
from tapgnn.online.server.openapi import openapi_document, problems
from tapgnn.online.server.prometheus_metrics import CONTENT_TYPE
from tapgnn.online.server.routes import Routes
from tapgnn.online.server.service import Service

KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
KINDS |= {"svg": "image/svg+xml"}


def make_app(service: Service, config: Config) -> AccessMiddleware:
    """The application over a service, which it starts and closes."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await anyio.to_thread.run_sync(service.close)

    # FastAPI's own route to the document would have no scope.
    app = FastAPI(title="tapgnn", version=__version__, lifespan=lifespan, openapi_url=None)
    app.router.route_class = ScopedRoute
    routes, settings = Routes(service, config), service.settings
    routes.add_to(app.router)
    _add_health(app.router, service)
    _add_page(app.router)
    openapi = openapi_document(app, routes.bodies, settings.tokens is not None)
    _add_file(app.router, "/openapi.json", json.dumps(openapi).encode(), JSON)
    _add_handlers(app)
    return AccessMiddleware(app, settings.tokens, settings.limits, service.metrics.add_request)


def _add_health(router: APIRouter, service: Service) -> None:
    async def healthz() -> dict[str, str]:
        """Whether the process is up."""
        return {"status": "alive"}

    async def readyz() -> dict[str, str]:
        """Whether the journal is replayed and events are accepted; if not, why."""
        unavailable_reason = service.unavailable_reason
        if unavailable_reason is not None:
            raise HTTPProblemError(503, " ".join(unavailable_reason.split()), {"Retry-After": str(RETRY_SECONDS)})
        return {"status": "ready"}

    async def metrics() -> Response:
        """All metrics in the format of Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    text: dict[int | str, Any] = {200: {"content": {"text/plain": {}}}}
    table: tuple[tuple[str, Any, type[ScopedRoute], dict[str, Any]], ...] = (
        ("/healthz", healthz, OpenRoute, {"responses": problems()}),
        ("/readyz", readyz, OpenRoute, {"responses": problems(503)}),
        ("/metrics", metrics, ReadRoute, {"responses": {**problems(), **text}, "response_class": Response}),
    )
    for path, handler, kind, described in table:
        router.add_api_route(path, handler, methods=["GET"], route_class_override=kind, **described)


def _add_page(router: APIRouter) -> None:
    """The page and its files."""
    for file in (files("tapgnn.online.server") / "page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            _add_file(router, path, file.read_bytes(), kind)


def _add_file(router: APIRouter, path: str, content: bytes, kind: str) -> None:
    """A file that needs no token, kept in memory."""

    async def serve() -> Response:
        return Response(content, media_type=kind)

    router.add_api_route(path, serve, methods=["GET"], include_in_schema=False, route_class_override=OpenRoute)


def _add_handlers(app: FastAPI) -> None:
    """Every error is answered with problem details."""

    async def http(_: Request, error: Any) -> Response:
        return problem_response(error)

    async def library(_: Request, error: Any) -> Response:
        return problem_response(problem_from(error))

    async def invalid(_: Request, error: Any) -> Response:
        fault = error.errors()[0]
        return problem_response(HTTPException(422, f"{fault['loc'][-1]}: {fault['msg']}"))

    async def disconnected(_: Request, error: Any) -> Response:
        return problem_response(HTTPException(400, "the connection closed in the middle of the body"))

    async def broken(_: Request, error: Any) -> Response:
        return problem_response(HTTPException(500, "internal error; see the server log"))

    for kind, handler in (
        (HTTPException, http),
        (TapgnnError, library),
        (RequestValidationError, invalid),
        (ClientDisconnect, disconnected),
        (Exception, broken),
    ):
        app.add_exception_handler(kind, handler)
