"""Request bodies -> columns of events: JSON, one JSON object a line, or a stream of Arrow record batches.

JSON is parsed and validated in one pass by pydantic's core. An error names the place; nothing has reached the engine
then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pydantic import ValidationError

from tapgnn.online.server.http_errors import HTTPProblemError, problem_in_body
from tapgnn.online.server.schemas import events_body

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
# The magic numbers of compressed frames in an Arrow stream: LZ4, zstd.
FRAMES = (0x184D2204, 0xFD2FB528)
Columns = dict[str, Any]


class EventParser:
    """Parses bodies of at most `most` events with `width` features, of at most `limit` bytes when decompressed."""

    def __init__(self, width: int, most: int, limit: int) -> None:
        self.width, self.most, self.limit = width, most, limit
        self.body = events_body(width, most)

    def parse(self, body: bytes, media_type: str) -> Columns:
        """The events of a body."""
        kind = media_type.partition(";")[0].strip().lower()
        if kind == JSON:
            return self._json(body, "the body")
        if kind == NDJSON:
            return self._lines(body)
        if kind == ARROW:
            return self._arrow(body)
        raise HTTPProblemError(415, f"Content-Type is {kind[:80]!r}; send {JSON}, {NDJSON} or {ARROW}")

    def _json(self, body: bytes, what: str) -> Columns:
        try:
            rows = self.body.model_validate_json(body).events
        except ValidationError as error:
            raise self._problem(error, what) from None
        return _columns(rows)

    def _lines(self, body: bytes) -> Columns:
        lines = [line for line in body.split(b"\n") if line.strip()]
        columns = self._json(b'{"events":[' + b",".join(lines) + b"]}", "a line")
        count = len(columns["time"])
        if count != len(lines):
            raise HTTPProblemError(422, f"{len(lines)} lines hold {count} events; write one JSON object per line")
        return columns

    def _problem(self, error: ValidationError, what: str) -> HTTPProblemError:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        if fault["type"] == "too_long" and fault["loc"] == ("events",):
            return HTTPProblemError(413, f"a request may hold {self.most:,} events; send several requests")
        return problem_in_body(error, what)

    def _arrow(self, body: bytes) -> Columns:
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

    def _table(self, table: pa.Table) -> Columns:
        if not table.num_rows:
            raise HTTPProblemError(422, "there are no events; send at least one")
        named = {"src", "dst", "time", "label"} | ({"features"} if self.width else set())
        unknown = [name for name in table.column_names if name not in named]
        missing = [name for name in ("src", "dst", "time") if name not in table.column_names]
        if unknown or missing or len(set(table.column_names)) < len(table.column_names):
            raise HTTPProblemError(
                422, f"the columns of an event are {', '.join(sorted(named))}; label may be left out"
            )
        for name in table.column_names:
            if table[name].null_count:
                raise HTTPProblemError(422, f"column {name} has missing values; fill or remove the rows")
        columns: Columns = {
            "src": _ids(table["src"], "src"),
            "dst": _ids(table["dst"], "dst"),
            "time": _times(table["time"]),
        }
        if "label" in table.column_names:
            columns["label"] = table["label"].cast(pa.int64()).to_numpy()
        if self.width:
            columns["features"] = self._features(table)
        return columns

    def _features(self, table: pa.Table) -> Any:
        if "features" not in table.column_names:
            raise HTTPProblemError(422, f"the model takes {self.width} features per event; add a list column, features")
        lists = table["features"].cast(pa.list_(pa.float64())).combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        values = lists.flatten()
        if values.null_count or set(lists.value_lengths().to_pylist()) != {self.width}:
            raise HTTPProblemError(422, f"column features: each event needs {self.width} numbers")
        return values.to_numpy().reshape(-1, self.width)


def _columns(rows: list[dict[str, Any]]) -> Columns:
    columns: Columns = {
        "src": [row["src"] for row in rows],
        "dst": [row["dst"] for row in rows],
        "time": np.array([row["time"] for row in rows]),
    }
    for name in ("features", "label"):
        given = [row[name] for row in rows if name in row]
        if given and len(given) < len(rows):
            raise HTTPProblemError(422, f"{name} is given in some events and not in others; give it in all or in none")
        if given:
            columns[name] = np.array(given)
    return columns


def _ids(column: pa.ChunkedArray, name: str) -> list[str | int]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise HTTPProblemError(422, f"column {name} is of type {column.type}; ids are integers or strings")
    ids: list[str | int] = column.to_pylist()
    if "" in ids:
        raise HTTPProblemError(422, f"column {name} has an empty string, which is not an id; fill or remove the row")
    return ids


def _times(column: pa.ChunkedArray) -> Any:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise HTTPProblemError(422, f"column time is of type {column.type}; times are numbers or timestamps")
    return column.cast(pa.float64(), safe=False).to_numpy()
