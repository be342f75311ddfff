"""The application: routes, page, health and metrics, each with the scope it needs, behind the guard."""

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
from tapgnn.online.server.http_errors import RETRY_SECONDS, RefusalError, problem, refusal_of
from tapgnn.online.server.middleware import Guard, GuardedRoute, OpenRoute, ReadRoute
from tapgnn.online.server.openapi import document, refusals
from tapgnn.online.server.prometheus_metrics import CONTENT_TYPE
from tapgnn.online.server.routes import Routes
from tapgnn.online.server.service import Service

KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
KINDS |= {"svg": "image/svg+xml"}


def make_app(service: Service, config: Config) -> Guard:
    """The application over a service, which it starts and closes."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await anyio.to_thread.run_sync(service.close)

    # Its own route to the document would be one without a scope.
    app = FastAPI(title="tapgnn", version=__version__, lifespan=lifespan, openapi_url=None)
    app.router.route_class = GuardedRoute
    routes, settings = Routes(service, config), service.settings
    routes.add_to(app.router)
    _add_health(app.router, service)
    _add_page(app.router)
    described = document(app, routes.bodies, settings.tokens is not None)
    _add_file(app.router, "/openapi.json", json.dumps(described).encode(), JSON)
    _add_handlers(app)
    return Guard(app, settings.tokens, settings.limits, service.metrics.answered)


def _add_health(router: APIRouter, service: Service) -> None:
    async def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "alive"}

    async def readyz() -> dict[str, str]:
        """Whether the journal is replayed and events are taken; if not, why."""
        trouble = service.trouble
        if trouble is not None:
            raise RefusalError(503, " ".join(trouble.split()), {"Retry-After": str(RETRY_SECONDS)})
        return {"status": "ready"}

    async def metrics() -> Response:
        """Everything that is counted, for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    text: dict[int | str, Any] = {200: {"content": {"text/plain": {}}}}
    table: tuple[tuple[str, Any, type[GuardedRoute], dict[str, Any]], ...] = (
        ("/healthz", healthz, OpenRoute, {"responses": refusals()}),
        ("/readyz", readyz, OpenRoute, {"responses": refusals(503)}),
        ("/metrics", metrics, ReadRoute, {"responses": {**refusals(), **text}, "response_class": Response}),
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
    """A file that is open to everybody, kept in memory."""

    async def serve() -> Response:
        return Response(content, media_type=kind)

    router.add_api_route(path, serve, methods=["GET"], include_in_schema=False, route_class_override=OpenRoute)


def _add_handlers(app: FastAPI) -> None:
    """Whatever goes wrong is said in the same form."""

    async def refused(_: Request, error: Any) -> Response:
        return error.answer()  # type: ignore[no-any-return]

    async def library(_: Request, error: Any) -> Response:
        return refusal_of(error).answer()

    async def http(_: Request, error: Any) -> Response:
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))

    async def invalid(_: Request, error: Any) -> Response:
        fault = error.errors()[0]
        return problem(422, f"{fault['loc'][-1]}: {fault['msg']}")

    async def gone(_: Request, error: Any) -> Response:
        return problem(400, "the connection ended in the middle of the body")

    async def broken(_: Request, error: Any) -> Response:
        return problem(500, "something is wrong with the server itself; its log has more")

    for kind, handler in (
        (RefusalError, refused),
        (TapgnnError, library),
        (HTTPException, http),
        (RequestValidationError, invalid),
        (ClientDisconnect, gone),
        (Exception, broken),
    ):
        app.add_exception_handler(kind, handler)
