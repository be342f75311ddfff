"""Bodies of events -> columns: JSON, one JSON object a line, or a stream of Arrow record batches.

JSON is parsed and validated in one pass by pydantic's core, straight from the bytes; nothing is copied through Python
objects but the ids. Whatever is wrong is a refusal that names the place; nothing has reached the engine then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pydantic import TypeAdapter, ValidationError

from tapgnn.online.server.http_errors import RefusalError, refusal_of_body
from tapgnn.online.server.schemas import events_adapter

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
# How the frames begin that compressed buffers of an Arrow stream consist of: LZ4, zstd.
FRAMES = (0x184D2204, 0xFD2FB528)


@dataclass(frozen=True)
class Rows:
    """Columns of `size` events as the engine takes them."""

    columns: dict[str, Any]
    size: int


class EventParser:
    """Reads bodies of at most `most` events with `width` features, `limit` bytes unpacked."""

    def __init__(self, width: int, most: int, limit: int) -> None:
        self.width, self.most, self.limit = width, most, limit
        self.adapter: TypeAdapter[Any] = events_adapter(width, most)

    def parse(self, body: bytes, media_type: str) -> Rows:
        """The events of a body."""
        kind = media_type.partition(";")[0].strip().lower()
        if kind == JSON:
            return self._json(body, "the body")
        if kind == NDJSON:
            return self._lines(body)
        if kind == ARROW:
            return self._arrow(body)
        raise RefusalError(415, f"Content-Type is {kind[:80]!r}; send {JSON}, {NDJSON} or {ARROW}")

    def _json(self, body: bytes, what: str) -> Rows:
        try:
            rows = self.adapter.validate_json(body)["events"]
        except ValidationError as error:
            raise self._refusal(error, what) from None
        return _columns(rows)

    def _lines(self, body: bytes) -> Rows:
        lines = [line for line in body.split(b"\n") if line.strip()]
        rows = self._json(b'{"events":[' + b",".join(lines) + b"]}", "a line")
        if rows.size != len(lines):
            raise RefusalError(422, f"{len(lines)} lines hold {rows.size} events; write one JSON object per line")
        return rows

    def _refusal(self, error: ValidationError, what: str) -> RefusalError:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        if fault["type"] == "too_long" and fault["loc"] == ("events",):
            return RefusalError(413, f"a request may hold {self.most:,} events; send several")
        return refusal_of_body(error, what)

    def _arrow(self, body: bytes) -> Rows:
        self._check_unpacked_size(body)
        try:
            with pa.ipc.open_stream(body) as stream:
                batches, count = [], 0
                for batch in stream:
                    count += batch.num_rows
                    if count > self.most:
                        raise RefusalError(413, f"a request may hold {self.most:,} events; send several")
                    batch.validate(full=True)
                    batches.append(batch)
                table = pa.Table.from_batches(batches, stream.schema)
            return self._table(table)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RefusalError(400, f"the body is not an Arrow stream of events: {reason}") from None

    def _check_unpacked_size(self, body: bytes) -> None:
        """Refuse a small body whose compressed buffers say that they unpack to a large one."""
        words = np.frombuffer(body, "<u4", len(body) // 4)
        frames = np.flatnonzero(np.isin(words, FRAMES))
        frames = frames[frames >= 2]
        size = (words[frames - 1].astype(np.uint64) << np.uint64(32)) + words[frames - 2]
        # Before a frame stands its size; other bytes that look like a frame have no such number before them.
        if int(size[size < 2**48].sum()) > self.limit:
            raise RefusalError(413, f"the Arrow stream unpacks to more than {self.limit:,} bytes; send several")

    def _table(self, table: pa.Table) -> Rows:
        if not table.num_rows:
            raise RefusalError(422, "there are no events; send at least one row")
        named = {"src", "dst", "time", "label"} | ({"features"} if self.width else set())
        unknown = [name for name in table.column_names if name not in named]
        missing = [name for name in ("src", "dst", "time") if name not in table.column_names]
        if unknown or missing or len(set(table.column_names)) < len(table.column_names):
            raise RefusalError(422, f"the columns of an event are {', '.join(sorted(named))}; label may be left out")
        for name in table.column_names:
            if table[name].null_count:
                raise RefusalError(422, f"column {name} has missing values; fill or remove the rows")
        columns = {"src": _ids(table["src"], "src"), "dst": _ids(table["dst"], "dst"), "time": _times(table["time"])}
        if "label" in table.column_names:
            columns["label"] = table["label"].cast(pa.int64()).to_numpy()
        if self.width:
            columns["features"] = self._features(table)
        return Rows(columns, table.num_rows)

    def _features(self, table: pa.Table) -> Any:
        if "features" not in table.column_names:
            raise RefusalError(422, f"the model takes {self.width} features per event; add a list column, features")
        lists = table["features"].cast(pa.list_(pa.float64())).combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        values = lists.flatten()
        if values.null_count or set(lists.value_lengths().to_pylist()) != {self.width}:
            raise RefusalError(422, f"column features: each event needs {self.width} numbers")
        return values.to_numpy().reshape(-1, self.width)


def _columns(rows: list[dict[str, Any]]) -> Rows:
    columns: dict[str, Any] = {
        "src": [row["src"] for row in rows],
        "dst": [row["dst"] for row in rows],
        "time": np.array([row["time"] for row in rows]),
    }
    for name in ("features", "label"):
        given = [row[name] for row in rows if name in row]
        if given and len(given) < len(rows):
            raise RefusalError(422, f"{name} is given in some events and not in others; give it in all or in none")
        if given:
            columns[name] = np.array(given)
    return Rows(columns, len(rows))


def _ids(column: pa.ChunkedArray, name: str) -> list[str | int]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise RefusalError(422, f"column {name} is of type {column.type}; ids are integers or strings")
    ids: list[str | int] = column.to_pylist()
    if "" in ids:
        raise RefusalError(422, f"column {name} has an empty string, which is no id; fill or remove the row")
    return ids


def _times(column: pa.ChunkedArray) -> Any:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() / 1e6
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise RefusalError(422, f"column time is of type {column.type}; times are numbers or timestamps")
    return column.cast(pa.float64(), safe=False).to_numpy()
