"""Request bodies -> batches of events: JSON, one JSON object a line, or a stream of Arrow record batches.

An event has the columns of the table that the model was fitted on, by their own names (see `event_rows`). JSON is
parsed and validated in one pass by pydantic's core, by a schema that is built once. An error names the row and the
field; nothing has reached the engine then.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from tapgnn.data.reading.cells import is_unicode
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.server.arrow_parsing import ArrowParser
from tapgnn.online.server.event_schema import event_list_schema
from tapgnn.online.server.http_errors import HTTPProblemError, problem_in_body, too_many_events
from tapgnn.online.server.json_size import check_values

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


class EventParser:
    """Parses bodies of at most `most` events, of at most `limit` bytes when decompressed."""

    def __init__(self, rows: RowReader, most: int, limit: int) -> None:
        self.rows, self.most = rows, most
        self._arrow = ArrowParser(rows, most, limit)
        # An event is an object, its fields, and its features; one more field has the body.
        self._values = (most + 1) * (2 + len(rows.fields.known) + len(rows.fields.features or ()))
        self._validator = SchemaValidator(event_list_schema(rows.fields, most))
        # These two have no name in the table, where they are known at all.
        plain = ("features",) if rows.schema.label is not None else ("label", "features")
        unnamed = [name for name in plain if rows.fields.known.get(name) == name]
        self._names = dict.fromkeys([*rows.fields.names, *unnamed]).keys()

    def parse(self, body: bytes, media_type: str) -> EventBatch:
        """The events of a body."""
        kind = media_type.partition(";")[0].strip().lower()
        if kind == JSON:
            return self.rows.from_columns(self._json(body, "the body"))
        if kind == NDJSON:
            return self.rows.from_columns(self._lines(body))
        if kind == ARROW:
            return self.rows.from_columns(self._arrow.parse(body))
        raise HTTPProblemError(415, f"Content-Type is {kind[:80]!r}; send {JSON}, {NDJSON} or {ARROW}")

    def _json(self, body: bytes, what: str) -> dict[str, Any]:
        check_values(body, self._values, f"{self.most:,} events, the most of a request, have")
        try:
            found = self._validator.validate_json(body)
        except ValidationError as error:
            raise self._problem(error, body, what) from None
        rows = found["events"]
        self._check_names(found, rows)
        columns = {name: [row.get(name) for row in rows] for name in self._names}
        required = (self.rows.schema.src, self.rows.schema.dst, self.rows.schema.time)
        return {name: cells for name, cells in columns.items() if name in required or cells.count(None) < len(cells)}

    def _lines(self, body: bytes) -> dict[str, Any]:
        if body.count(b"\n") > 2 * self.most:
            raise too_many_events(self.most)
        lines = [line for line in body.split(b"\n") if line.strip()]
        columns = self._json(b'{"events":[' + b",".join(lines) + b"]}", "a line")
        count = len(columns[self.rows.schema.time])
        if count != len(lines):
            raise HTTPProblemError(422, f"{len(lines)} lines hold {count} events; write one JSON object per line")
        return columns

    def _problem(self, error: ValidationError, body: bytes, what: str) -> HTTPProblemError:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        if fault["type"] == "too_long" and fault["loc"] == ("events",):
            return too_many_events(self.most)
        if fault["type"] == "json_invalid" and ("surrogate" in fault["msg"] or "escape" in fault["msg"]):
            place = _half_surrogate(body)
            if place is not None:
                return HTTPProblemError(422, f"{place}: half a surrogate pair, which is not valid Unicode")
        return problem_in_body(error, what)

    def _check_names(self, body: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """Refuse fields that no event has."""
        if len(body) > 1:
            odd = next(name for name in body if name != "events")
            raise HTTPProblemError(422, f"{odd[:80]}: there is no such field; a body has events")
        known = self._names
        for row, event in enumerate(rows):
            if not event.keys() <= known:
                odd = next(name for name in event if name not in known)
                if odd not in self.rows.fields.known:
                    raise self.rows.fields.unknown(odd, f"events[{row}]")
                own = self.rows.fields.called(self.rows.fields.known[odd])
                raise HTTPProblemError(422, f"events[{row}].{odd}: it is the same field as {own}; give one of them")


def _half_surrogate(body: bytes) -> str | None:
    """The first place in a body of events that has half a surrogate pair; None where the body is no such object."""
    try:
        events = json.loads(body)["events"]
        for row, event in enumerate(events):
            for name, value in event.items():
                if not is_unicode(str(name)):
                    return f"events[{row}], a name of a field"
                if isinstance(value, str) and not is_unicode(value):
                    return f"events[{row}].{name[:80]}"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return None
