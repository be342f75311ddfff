"""Request bodies -> batches of events: JSON, one JSON object a line, or a stream of Arrow record batches.

An event has the columns of the table that the model was fitted on, by their own names (see `event_rows`). JSON is
parsed and validated in one pass by pydantic's core, by a schema that is built once. An error names the row and the
field; nothing has reached the engine then.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pydantic import ValidationError
from pydantic_core import SchemaValidator

from tapgnn.data.reading.cells import is_unicode
from tapgnn.errors import EventError
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.server.event_schema import event_list_schema
from tapgnn.online.server.http_errors import HTTPProblemError, problem_in_body

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
# The magic numbers of compressed frames in an Arrow stream: LZ4, zstd.
FRAMES = (0x184D2204, 0xFD2FB528)


class EventParser:
    """Parses bodies of at most `most` events, of at most `limit` bytes when decompressed."""

    def __init__(self, rows: RowReader, most: int, limit: int) -> None:
        self.rows, self.most, self.limit = rows, most, limit
        self._validator = SchemaValidator(event_list_schema(rows.fields, most))
        known = rows.fields.known
        roles = {name: known[name] for name in rows.fields.names}
        # These two have no name in the table, where they are known at all.
        plain: dict[str, str] = {name: name for name in ("label", "features") if known.get(name) == name}
        roles |= plain if rows.schema.label is None else {name: name for name in plain if name != "label"}
        self._names = roles.keys()
        self._fields = [name for name, role in roles.items() if role not in ("id", "dropped")]

    def parse(self, body: bytes, media_type: str) -> EventBatch:
        """The events of a body."""
        kind = media_type.partition(";")[0].strip().lower()
        if kind == JSON:
            return self.rows.from_columns(self._json(body, "the body"))
        if kind == NDJSON:
            return self.rows.from_columns(self._lines(body))
        if kind == ARROW:
            return self.rows.from_columns(self._arrow(body))
        raise HTTPProblemError(415, f"Content-Type is {kind[:80]!r}; send {JSON}, {NDJSON} or {ARROW}")

    def _json(self, body: bytes, what: str) -> dict[str, Any]:
        try:
            found = self._validator.validate_json(body)
        except ValidationError as error:
            raise self._problem(error, body, what) from None
        rows = found["events"]
        self._check_names(found, rows)
        columns = {name: [row.get(name) for row in rows] for name in self._fields}
        required = (self.rows.schema.src, self.rows.schema.dst, self.rows.schema.time)
        return {name: cells for name, cells in columns.items() if name in required or cells.count(None) < len(cells)}

    def _lines(self, body: bytes) -> dict[str, Any]:
        lines = [line for line in body.split(b"\n") if line.strip()]
        columns = self._json(b'{"events":[' + b",".join(lines) + b"]}", "a line")
        count = len(columns[self.rows.schema.time])
        if count != len(lines):
            raise HTTPProblemError(422, f"{len(lines)} lines hold {count} events; write one JSON object per line")
        return columns

    def _problem(self, error: ValidationError, body: bytes, what: str) -> HTTPProblemError:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        if fault["type"] == "too_long" and fault["loc"] == ("events",):
            return HTTPProblemError(413, f"a request may hold {self.most:,} events; send several requests")
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

    def _arrow(self, body: bytes) -> dict[str, Any]:
        self._check_decompressed_size(body)
        try:
            with pa.ipc.open_stream(body) as stream:
                batches, count = [], 0
                for batch in stream:
                    count += batch.num_rows
                    if count > self.most:
                        raise HTTPProblemError(413, f"a request may hold {self.most:,} events; send several requests")
                    batch.validate(full=True)
                    batches.append(batch)
                table = pa.Table.from_batches(batches, stream.schema)
            return self._table(table)
        except EventError:
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            reason = " ".join(str(error).split())[:200]
            raise HTTPProblemError(400, f"the body is not an Arrow stream of events: {reason}") from None

    def _check_decompressed_size(self, body: bytes) -> None:
        """Refuse a small body whose compressed buffers declare a large decompressed size."""
        words = np.frombuffer(body, "<u4", len(body) // 4)
        frames = np.flatnonzero(np.isin(words, FRAMES))
        frames = frames[frames >= 2]
        size = (words[frames - 1].astype(np.uint64) << np.uint64(32)) + words[frames - 2]
        # A frame follows its size; other bytes that look like a frame do not follow such a number.
        if int(size[size < 2**48].sum()) > self.limit:
            raise HTTPProblemError(
                413, f"the Arrow stream decompresses to more than {self.limit:,} bytes; send several requests"
            )

    def _table(self, table: pa.Table) -> dict[str, Any]:
        """The columns of a table as cells."""
        if not table.num_rows:
            raise HTTPProblemError(422, "there are no events; send at least one")
        names, known = table.column_names, self.rows.fields.known
        if len(set(names)) < len(names):
            raise HTTPProblemError(422, "two columns have one name; give each column its own name")
        odd = next((name for name in names if name not in known), None)
        if odd is not None:
            raise self.rows.fields.unknown(odd, "the table")
        return {name: self._cells(name, known[name], table[name]) for name in names if known[name] != "dropped"}

    def _cells(self, name: str, role: str, column: pa.ChunkedArray) -> Any:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        if role == "features":
            return self._features(name, column)
        if column.null_count == len(column):
            return [None] * len(column)
        if role in ("src", "dst", "time") and column.null_count:
            raise HTTPProblemError(422, f"column {name} has missing values; fill or remove the rows")
        if role in ("src", "dst"):
            return _ids(column, kind, name)
        if role == "time":
            if not (number or _is_text(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
                raise HTTPProblemError(422, f"column {name} is of type {column.type}; times are numbers or timestamps")
            return _series(column) if pa.types.is_temporal(kind) else _plain(column, number)
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_temporal(kind):
            raise HTTPProblemError(422, f"column {name} is of type {column.type}; it holds numbers, texts or booleans")
        if self.rows.schema.columns.get(name) == "number" and number:
            return column.cast(pa.float64(), safe=False).to_numpy()
        return _plain(column, number)

    def _features(self, name: str, column: pa.ChunkedArray) -> Any:
        width = len(self.rows.fields.features or ())
        lists = column.cast(pa.list_(pa.float64())).combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        if lists.null_count or set(lists.value_lengths().to_pylist()) != {width}:
            raise HTTPProblemError(422, f"column {name}: each event needs {width} numbers")
        return lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)


def _ids(column: pa.ChunkedArray, kind: Any, name: str) -> list[str | int]:
    if not (pa.types.is_integer(kind) or _is_text(kind)):
        raise HTTPProblemError(422, f"column {name} is of type {column.type}; ids are integers or strings")
    ids: list[str | int] = column.to_pylist()
    if "" in ids:
        raise HTTPProblemError(422, f"column {name} has an empty string, which is not an id; fill or remove the row")
    return ids


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _plain(column: pa.ChunkedArray, number: bool) -> Any:
    """Cells as numpy or Python has them."""
    return column.to_numpy() if number and not column.null_count else column.to_pylist()


def _series(column: pa.ChunkedArray) -> Any:
    import polars as pl

    return pl.Series(pl.from_arrow(column))


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
