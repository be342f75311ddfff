"""Refusals: why a request was not served, as the status and words of an answer (RFC 9457).

Two types of problem tell whether a batch may be sent again without a number:

    urn:tapgnn:problem:nothing-taken      certainly nothing of the request was taken in; it may be sent again
    urn:tapgnn:problem:outcome-unknown    the batch may be in the journal; only a numbered one may be sent again

Any other 5xx, and no answer at all, must be read as the second.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from pydantic import ValidationError
from starlette.responses import Response

from tapgnn.errors import (
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


class RefusalError(Exception):
    """A request that is answered with a status of 4xx or 503, and says why."""

    def __init__(
        self, status: int, detail: str, headers: dict[str, str] | None = None, type: str | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.type = status, detail, headers or {}, type

    def answer(self) -> Response:
        """The answer to the one who asked."""
        return problem(self.status, self.detail, self.headers, self.type)


def problem(status: int, detail: str, headers: dict[str, str] | None = None, type: str | None = None) -> Response:
    """An answer that says why not."""
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    if type is not None:
        body["type"] = type
    return Response(json.dumps(body), status, headers, MEDIA_TYPE)


def refusal_of(error: TapgnnError) -> RefusalError:
    """What an error of the library is to the one who asked.

    Late, or not to be undone, is a conflict; what is wrong in itself is 422; what is not there now is 503.
    """
    detail = " ".join(str(error).split())
    if isinstance(error, OverloadError):
        return RefusalError(429, detail, {"Retry-After": str(error.seconds)}, NOTHING_TAKEN)
    if isinstance(error, LateEventError | IrrevocableError):
        return RefusalError(409, detail)
    if isinstance(error, EventError | QueryError | ConfigError):
        return RefusalError(422, detail)
    later = {"Retry-After": str(RETRY_SECONDS)}
    if isinstance(error, UnavailableError):
        return RefusalError(503, detail, later, NOTHING_TAKEN)
    if isinstance(error, OutcomeUnknownError):
        return RefusalError(503, detail, later, OUTCOME_UNKNOWN)
    return RefusalError(503, f"the engine cannot do this now: {detail}", later)


def refusal_of_body(error: ValidationError, what: str = "the body") -> RefusalError:
    """The first thing that is wrong with a body, with its place and never with its content."""
    fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ""
    for step in fault["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else str(step)
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if fault["type"] == "json_invalid":
        return RefusalError(400, f"{what} is not JSON: {fault['msg'].removeprefix('Invalid JSON: ')}")
    return RefusalError(422, f"{place or what}: {fault['msg']}{more}")
