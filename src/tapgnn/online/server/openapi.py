"""The OpenAPI document: request bodies from the types that validate them, examples that can be sent as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from tapgnn import __version__
from tapgnn.online.server.event_parsing import ARROW, JSON, NDJSON
from tapgnn.online.server.middleware import ScopedRoute
from tapgnn.online.server.schemas import Problem

TITLE = "tapgnn"
REFERENCE = "#/components/schemas/{model}"
ABOUT = """Scores, embeddings and rankings from a live temporal graph model, and the events that it learns from.

Send events to `/v1/events`: a batch answered with 200 is in the journal and in the model. Give `producer` and
`sequence`, and resend whatever got no response: a batch is never taken in twice. Without them, resend a batch only
after 429, or after 503 with type `urn:tapgnn:problem:nothing-taken`. Queries see every event that was acknowledged
before them; they cannot be about a time in the past."""

REASONS = {
    400: "The body cannot be read.",
    401: "The token is missing or wrong.",
    403: "The scope of the token is too small.",
    408: "The rest of the body did not arrive in time.",
    409: "An event is older than what the model has absorbed, or can no longer be undone.",
    410: "The batch was taken in before, and the scores that it was given are no longer kept.",
    413: "The body or the batch is too large.",
    415: "The content type of the body is not supported.",
    421: "The request names another host.",
    422: "The body is not valid; `detail` names the field and the reason.",
    429: "The queue is full; retry after the seconds in Retry-After.",
    503: "The server is not ready, or the outcome of a batch is unknown: `type` says which. Retry after the seconds "
    "in Retry-After.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route, beside those that every route has."""
    content = {"application/problem+json": {"schema": {"$ref": REFERENCE.format(model="Problem")}}}
    return {status: {"description": REASONS[status], "content": content} for status in sorted({401, 421, *statuses})}


def body(kind: type[BaseModel], example: Any) -> dict[str, Any]:
    """The JSON request body of a route, for `openapi_extra`."""
    schema = {"$ref": REFERENCE.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}}}


def _describe_events(document: dict[str, Any], event: EventDescription) -> None:
    """Say in a document what an event is."""
    schemas = document["components"]["schemas"]
    schemas["Event"] = event.schema
    schemas["EventsBody"]["properties"]["events"] |= {
        "items": {"$ref": REFERENCE.format(model="Event")},
        "maxItems": event.most,
    }
    for item in document["paths"].values():
        content = item.get("post", {}).get("requestBody", {}).get("content", {})
        if NDJSON in content:
            content[JSON]["example"] = {"events": [event.example]}


def events_body(kind: type[BaseModel], _: Any) -> dict[str, Any]:
    """The body of a route that takes events in three forms; the example comes with the model."""
    described = body(kind, None)
    described["requestBody"]["content"] |= {
        NDJSON: {"schema": {"type": "string", "description": "One event as a JSON object on each line."}},
        ARROW: {
            "schema": {"type": "string", "format": "binary", "description": "A column for every field of an event."}
        },
    }
    return described


class EventDescription(NamedTuple):
    """One event of the model that is served, as JSON Schema and as an example, and how many a request may hold."""

    schema: dict[str, Any]
    example: dict[str, Any]
    most: int


def openapi_document(routes: Sequence[ScopedRoute], secured: bool, event: EventDescription) -> dict[str, Any]:
    """The whole document."""
    found = get_openapi(title=TITLE, version=__version__, description=ABOUT, routes=routes)
    bodies: list[type[BaseModel]] = [Problem, *(route.body for route in routes if route.body is not None)]
    _, schemas = models_json_schema([(kind, "validation") for kind in bodies], ref_template=REFERENCE)
    found["components"]["schemas"] |= schemas["$defs"]
    _describe_events(found, event)
    for name in ("HTTPValidationError", "ValidationError"):
        found["components"]["schemas"].pop(name, None)
    if secured:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for route in routes:
            for operation in found["paths"].get(route.path, {}).values():
                operation["security"] = [] if route.access == "open" else [{"token": [route.access]}]
    return found
