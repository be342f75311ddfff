"""HTTP errors: why a request was refused, as problem details (RFC 9457).

Two types of problem tell whether a batch without a sequence number may be sent again:

    urn:tapgnn:problem:nothing-taken      certainly nothing of the request was taken in; it may be sent again
    urn:tapgnn:problem:outcome-unknown    the batch may be in the journal; only a numbered one may be sent again

Any other 5xx, and no response at all, must be read as the second.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tapgnn.errors import (
    AnswerGoneError,
    ConfigError,
    EventError,
    IrrevocableError,
    LateEventError,
    OutcomeUnknownError,
    OverloadError,
    QueryError,
    TapgnnError,
    UnavailableError,
)
from tapgnn.online.client import NOTHING_TAKEN, OUTCOME_UNKNOWN

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2


class HTTPProblemError(HTTPException):
    """A request that is refused with a status of 4xx or 503, and why; after 503 it may be sent again soon."""

    def __init__(
        self, status: int, detail: str, headers: dict[str, str] | None = None, type: str | None = None
    ) -> None:
        super().__init__(status, detail, headers or ({"Retry-After": str(RETRY_SECONDS)} if status == 503 else None))
        self.type = type


def too_many_events(most: int) -> HTTPProblemError:
    """A body with more than `most` events."""
    return HTTPProblemError(413, f"a request may hold {most:,} events; send several requests")


def problem_response(error: Exception) -> Response:
    """An error as problem details."""
    problem = problem_from(error)
    status, kind = problem.status_code, getattr(problem, "type", None)
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": str(problem.detail)}
    return Response(json.dumps(body if kind is None else {**body, "type": kind}), status, problem.headers, MEDIA_TYPE)


def problem_from(error: Exception) -> HTTPException:
    """Any error as a problem.

    Late events and events that cannot be undone are a conflict (409), invalid input is 422, any other error of the
    library 503, and what nobody expected 500.
    """
    told = error.told("http") if isinstance(error, TapgnnError) else str(error)
    detail = " ".join(told.split())
    match error:
        case HTTPException():
            return error
        case RequestValidationError():
            fault = error.errors()[0]
            return HTTPProblemError(422, f"{fault['loc'][-1]}: {fault['msg']}")
        case ClientDisconnect():
            return HTTPProblemError(400, "the connection closed in the middle of the body")
        case OverloadError():
            return HTTPProblemError(429, detail, {"Retry-After": str(error.seconds)}, NOTHING_TAKEN)
        case AnswerGoneError():
            return HTTPProblemError(410, detail)
        case LateEventError() | IrrevocableError():
            return HTTPProblemError(409, detail)
        case EventError() | QueryError() | ConfigError():
            return HTTPProblemError(422, detail)
        case UnavailableError():
            return HTTPProblemError(503, detail, type=NOTHING_TAKEN)
        case OutcomeUnknownError():
            return HTTPProblemError(503, detail, type=OUTCOME_UNKNOWN)
        case TapgnnError():
            return HTTPProblemError(503, f"the server cannot do this now: {detail}")
    return HTTPProblemError(500, "internal error; see the server log")


def problem_in_body(error: ValidationError, what: str = "the body") -> HTTPProblemError:
    """The first error in a body, with its place and never with its content."""
    fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ""
    for step in fault["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else str(step)
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if fault["type"] == "json_invalid":
        return HTTPProblemError(400, f"{what} is not JSON: {fault['msg'].removeprefix('Invalid JSON: ')}")
    return HTTPProblemError(422, f"{place or what}: {fault['msg']}{more}")
