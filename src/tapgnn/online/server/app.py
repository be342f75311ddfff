"""The application: routes, page, health and metrics, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp

from tapgnn import __version__
from tapgnn.errors import TapgnnError
from tapgnn.model import Config
from tapgnn.online.server.http_errors import RETRY_SECONDS, RefusalError, problem, refusal_of
from tapgnn.online.server.middleware import Guard
from tapgnn.online.server.openapi import document, refusals
from tapgnn.online.server.prometheus_metrics import CONTENT_TYPE
from tapgnn.online.server.routes import Routes
from tapgnn.online.server.service import Service

KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
KINDS |= {"svg": "image/svg+xml"}


def make_app(service: Service, config: Config) -> ASGIApp:
    """The application over a service, which it starts and closes."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await anyio.to_thread.run_sync(service.close)

    app = FastAPI(title="tapgnn", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    routes = Routes(service, config)
    app.include_router(routes.router())
    _add_health(app, service)
    assets = _add_page(app)
    _add_handlers(app)
    secured = service.settings.tokens is not None
    app.openapi = lambda: document(app, routes.bodies, secured)  # type: ignore[method-assign]
    paths = frozenset(app.openapi()["paths"]) | assets
    settings = service.settings
    return Guard(app, paths, settings.tokens, settings.limits, service.metrics.answered)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", responses=refusals())
    async def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "alive"}

    @app.get("/readyz", responses=refusals(503))
    async def readyz() -> dict[str, str]:
        """Whether the journal is replayed and events are taken."""
        if not service.ready:
            why = str(service.failure or "the journal is being replayed, or the server is stopping")
            raise RefusalError(503, why, {"Retry-After": str(RETRY_SECONDS)})
        return {"status": "ready"}

    @app.get("/metrics", responses={**refusals(), 200: {"content": {"text/plain": {}}}}, response_class=Response)
    async def metrics() -> Response:
        """Everything that is counted, for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _add_page(app: FastAPI) -> frozenset[str]:
    """The page and its files, read once; gives their paths."""
    folder = files("tapgnn.online.server") / "page"
    paths = set()
    for file in folder.iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is None:
            continue
        path = "/" if file.name == "index.html" else f"/page/{file.name}"
        app.add_api_route(path, _served(file.read_bytes(), kind), methods=["GET"], include_in_schema=False)
        paths.add(path)
    return frozenset(paths)


def _served(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def serve() -> Response:
        return Response(content, media_type=kind)

    return serve


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
