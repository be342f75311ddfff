"""Lines of a stream -> columns of events, by the rules of the file readers (`tapgnn.data`).

Delimited text starts with a header with the usual column names. A line of JSON is one object with the same names; its
features may also be in one list, `features`. A line that is not an event is an error that names it, unless such lines
are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tapgnn.data.chunking import take_rows
from tapgnn.data.reading.columns import ALIASES, FEATURE_NAME, find_roles
from tapgnn.data.reading.formats import decode_objects
from tapgnn.data.reading.table_source import RawTable, TableSource, checked_names
from tapgnn.data.reading.typed_rows import Fault, TypedRows, convert_table
from tapgnn.data.schema import Schema, SchemaRequest
from tapgnn.errors import DataError

SEPARATORS = {"csv": ",", "tsv": "\t"}


class LineParser:
    """Parses the lines of one stream, called `name` in messages, in csv, tsv or jsonl."""

    def __init__(self, name: str, format: str, skip_bad_rows: bool = False, place: str = "line") -> None:
        if format not in (*SEPARATORS, "jsonl"):
            raise DataError(f"{name}: a stream is csv, tsv or jsonl, not {format!r}")
        self.name, self.format, self.skip_bad_rows, self.place = name, format, skip_bad_rows, place
        self._columns: list[str] | None = None
        self._schema: Schema | None = None

    @property
    def needs_header(self) -> bool:
        """Whether the next line must name the columns."""
        return self.format != "jsonl" and self._columns is None

    def read_header(self, line: bytes) -> None:
        """Read the column names from the first line."""
        cells = next(csv.reader([_text(self.name, 1, line)], delimiter=SEPARATORS[self.format]), [])
        self._columns = checked_names(self.name, [cell.strip() for cell in cells])
        self._schema = _schema_of(self._source())

    def parse(self, lines: Sequence[bytes], number: int) -> dict[str, Any] | None:
        """Columns of the events on these lines, the first of which is line `number`; None where there are none."""
        table = self._objects(lines, number) if self.format == "jsonl" else self._cells(lines, number)
        if not len(table.places):
            self._check(Fault(*table.rejected[0]) if table.rejected else None)
            return None
        schema = _schema_of(self._source()) if self._schema is None else self._schema
        batch, _, fault = convert_table(table, schema, self._source())
        self._check(fault)
        batch, features = self._features(batch)
        if not len(batch.time):
            return None
        columns = {"src": batch.src, "dst": batch.dst, "time": batch.time}
        rest = {"features": features, "label": batch.labels}
        return columns | {name: column for name, column in rest.items() if column is not None}

    def _features(self, batch: TypedRows) -> tuple[TypedRows, Any]:
        """The rows with all their features, and these [E, f] in float32, None where there are none."""
        if not batch.columns:
            return batch, None
        with np.errstate(over="ignore"):
            features = np.column_stack(list(batch.columns.values())).astype(np.float32)
        good = np.isfinite(features).all(axis=1)
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            name = list(batch.columns)[int(np.flatnonzero(~np.isfinite(features[row]))[0])]
            self._check(Fault(int(batch.places[row]), f"feature {name} is empty or too large"))
        return take_rows(batch, good), features[good]

    def _check(self, fault: Fault | None) -> None:
        """Stop at a row that is not an event, unless such rows are skipped."""
        if fault is not None and not self.skip_bad_rows:
            where = f"{self.name} {self.place} {fault.place}"
            raise DataError(f"{where}: {fault.reason}; fix the row or pass --skip-bad-rows")

    def _source(self) -> TableSource:
        return TableSource(
            self.name, self.format, self._columns or [], lambda _: iter(()), self.place, typed=self.format == "jsonl"
        )

    def _cells(self, lines: Sequence[bytes], number: int) -> RawTable:
        width = len(self._columns or [])
        rows, places, rejected = [], [], []
        for place, line in enumerate(lines, start=number):
            if not line.strip():
                continue
            fields = next(csv.reader([_text(self.name, place, line)], delimiter=SEPARATORS[self.format]), [])
            if len(fields) == width:
                rows.append([cell.strip() or None for cell in fields])
                places.append(place)
            else:
                rejected.append((place, f"it has {len(fields)} fields, expected {width}"))
        frame = pl.DataFrame(rows, schema=dict.fromkeys(self._columns or [], pl.String), orient="row")
        cells = dict(zip(frame.columns, frame.get_columns(), strict=True))
        return RawTable(cells, np.array(places, dtype=np.int64), rejected)

    def _objects(self, lines: Sequence[bytes], number: int) -> RawTable:
        decoded, places, rejected = decode_objects(
            number, [_text(self.name, n, line) for n, line in enumerate(lines, number)]
        )
        records = [_flat(record) for record in decoded]
        if self._columns is None or any(record.keys() - set(self._columns) for record in records):
            fresh = dict.fromkeys(key for record in records for key in record)
            self._columns = list(dict.fromkeys([*(self._columns or []), *fresh]))
        cells = {name: [record.get(name) for record in records] for name in self._columns}
        return RawTable(cells, np.array(places, dtype=np.int64), rejected)


def _schema_of(source: TableSource) -> Schema:
    """The roles by usual names, and the columns with the usual names of features as numbers."""
    roles = find_roles(source, SchemaRequest())
    labels = [name for name in roles.labels if name.lower() in ALIASES["label"]]
    if len(labels) > 1:
        raise DataError(f"{source.name}: {' and '.join(map(repr, labels))} could each be label; rename one of them")
    taken = {roles.src, roles.dst, roles.time, *labels}
    features = [name for name in source.columns if FEATURE_NAME.fullmatch(name.lower()) and name not in taken]
    return Schema(
        roles.src, roles.dst, roles.time, labels[0] if labels else None, columns=dict.fromkeys(features, "number")
    )


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """An object with one key per feature."""
    vector = record.get("features")
    if not isinstance(vector, list):
        return record
    return {key: value for key, value in record.items() if key != "features"} | {
        f"f{place}": value for place, value in enumerate(vector)
    }


def _text(name: str, number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise DataError(f"{name} line {number}: it is not UTF-8; save it as UTF-8 text") from None
