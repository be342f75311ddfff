"""Streams of Arrow record batches -> columns of cells.

Names and types are checked before any batch is decoded, sizes before they are allocated (see `arrow_messages`), and the
length of texts before they become one text for each row: a dictionary is sent once and used in every row.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tapgnn.errors import EventError
from tapgnn.online.journal.cell_conversion import TEXT_LENGTH
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.server.arrow_messages import check_messages
from tapgnn.online.server.http_errors import HTTPProblemError

# The most bytes of one character of UTF-8.
CHARACTER = 4


class ArrowParser:
    """Parses streams of at most `most` events and of at most `limit` bytes when decompressed."""

    def __init__(self, rows: RowReader, most: int, limit: int) -> None:
        self.rows, self.most, self.limit = rows, most, limit

    def parse(self, body: bytes) -> dict[str, Any]:
        """The columns of a body, by their names."""
        try:
            self._check_schema(check_messages(body, self.most, self.limit))
            with pa.ipc.open_stream(body) as stream:
                batches = []
                for batch in stream:
                    batch.validate(full=True)
                    if batch.num_rows:
                        batches.append(batch)
                table = pa.Table.from_batches(batches, stream.schema)
            if not table.num_rows:
                raise HTTPProblemError(422, "there are no events; send at least one")
            known = self.rows.fields.known
            return {name: self._cells(name, known[name], table[name]) for name in table.column_names}
        except EventError:
            raise
        except (pa.ArrowException, OSError, ValueError, ArithmeticError, struct.error) as error:
            reason = " ".join(str(error).split())[:200]
            raise HTTPProblemError(400, f"the body is not an Arrow stream of events: {reason}") from None

    def _check_schema(self, schema: pa.Schema) -> None:
        """Refuse unknown columns, and types that no column of an event has."""
        names, known = schema.names, self.rows.fields.known
        odd = next((name for name in names if name not in known), None)
        if odd is not None:
            raise self.rows.fields.unknown(odd, "the table")
        if len(set(names)) < len(names):
            raise HTTPProblemError(422, "two columns have one name; give each column its own name")
        for field in schema:
            _check_type(field.name, known[field.name], field.type)

    def _cells(self, name: str, role: str, column: pa.ChunkedArray) -> Any:
        kind = _value_type(column.type)
        number = _is_number(kind)
        if role == "features":
            return self._features(name, column)
        if column.null_count == len(column):
            return [None] * len(column)
        if role in ("src", "dst", "time") and column.null_count:
            raise HTTPProblemError(422, f"column {name} has missing values; fill or remove the rows")
        if _is_text(kind):
            return _texts(name, column, role in ("src", "dst"))
        if role == "time":
            return _moments(name, column.cast(kind)) if pa.types.is_temporal(kind) else _plain(column, number)
        if self.rows.schema.columns.get(name) == "number" and number:
            return column.cast(pa.float64(), safe=False).to_numpy()
        return column.to_pylist() if role in ("src", "dst") else _plain(column, number)

    def _features(self, name: str, column: pa.ChunkedArray) -> Any:
        width = len(self.rows.fields.features or ())
        for chunk in column.chunks:
            lengths = pc.list_value_length(chunk)
            if lengths.null_count or not pc.all(pc.equal(lengths, width)).as_py():
                raise HTTPProblemError(422, f"column {name}: each event needs {width} numbers")
        lists = column.cast(pa.list_(pa.float64())).combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        return lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)


def _check_type(name: str, role: str, column: pa.DataType) -> None:
    kind = _value_type(column)
    if role == "features":
        lists = pa.types.is_list(column) or pa.types.is_large_list(column) or pa.types.is_fixed_size_list(column)
        if not lists or not _is_number(column.value_type):
            raise HTTPProblemError(422, f"column {name} is of type {column}; it holds lists of numbers")
        return
    number, text = _is_number(kind), _is_text(kind)
    if pa.types.is_null(kind):
        return
    if role in ("src", "dst"):
        if not (pa.types.is_integer(kind) or text):
            raise HTTPProblemError(422, f"column {name} is of type {column}; ids are integers or strings")
    elif role == "time" and not (number or text or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise HTTPProblemError(422, f"column {name} is of type {column}; times are numbers or timestamps")
    # What a model drops is kept as it is, but not lists: a few bytes may be very long ones.
    date = role in ("time", "dropped") and pa.types.is_temporal(kind)
    if not (number or text or date or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)):
        raise HTTPProblemError(422, f"column {name} is of type {column}; it holds numbers, texts or booleans")


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _texts(name: str, column: pa.ChunkedArray, filled: bool) -> list[str | None]:
    """Texts, none empty where they are to be `filled`; those that many rows may share are of a bounded length."""
    cells: list[str | None] = []
    for chunk in column.chunks:
        indices, shared = None, pa.types.is_dictionary(chunk.type) or pa.types.is_string_view(chunk.type)
        if pa.types.is_dictionary(chunk.type):
            # Only what is used: a dictionary may be far larger than the rows.
            used = pc.unique(chunk.indices.drop_null())
            indices = pc.index_in(chunk.indices, used).to_pylist()
            chunk = pc.take(chunk.dictionary, used)
        if shared and _longest(chunk) > CHARACTER * TEXT_LENGTH:
            raise HTTPProblemError(422, f"column {name}: a text is longer than {TEXT_LENGTH:,} characters; shorten it")
        texts = chunk.to_pylist()
        if filled and "" in texts:
            raise HTTPProblemError(422, f"column {name} has an empty string, which is no id; fill or remove the row")
        cells += texts if indices is None else [None if place is None else texts[place] for place in indices]
    return cells


def _longest(texts: pa.Array) -> int:
    """Bytes of the longest text."""
    if pa.types.is_string_view(texts.type):
        # A view begins with its length: 16 bytes each.
        views = np.frombuffer(texts.buffers()[1], "<i4").reshape(-1, 4)[texts.offset : texts.offset + len(texts)]
        return int(views[:, 0].max(initial=0))
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)


def _plain(column: pa.ChunkedArray, number: bool) -> Any:
    """Cells as numpy or Python has them."""
    return column.to_numpy() if number and not column.null_count else column.to_pylist()


def _moments(name: str, column: pa.ChunkedArray) -> pl.Series:
    """Dates and timestamps, which are within the range of microseconds; the zone of an instant does not matter."""
    fine, zone = "us", None
    if pa.types.is_timestamp(column.type):
        fine, zone = "ns" if column.type.unit == "ns" else "us", column.type.tz and "UTC"
    try:
        return pl.Series(pl.from_arrow(column.cast(pa.timestamp(fine, zone))))
    except pa.ArrowInvalid:
        raise HTTPProblemError(422, f"column {name} has a time that is out of range; correct it") from None
