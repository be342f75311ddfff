"""Lines of a stream -> batches of events, by the schema of the model and the rules of the file readers (`tapgnn.data`).

Delimited text starts with a header. Its names, like those of an object on a line of JSON, are those of the table that
the model was fitted on; `src`, `dst`, `time` and `label` stand for the columns with these roles, and in JSON `features`
for the list of f0, f1, .... A line that is not an event is an error that names it, unless such lines are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tapgnn.data.chunking import take_rows
from tapgnn.data.reading.cells import without_missing
from tapgnn.data.reading.formats import decode_objects
from tapgnn.data.reading.table_source import RawTable, TableSource, checked_names
from tapgnn.data.reading.typed_rows import RowFault, TypedRows, convert_table
from tapgnn.errors import DataError, EventError
from tapgnn.events import Ints
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.event_rows import RowReader

SEPARATORS = {"csv": ",", "tsv": "\t"}


class LineParser:
    """Parses the lines of one stream, called `name` in messages, in csv, tsv or jsonl, into events of a model."""

    def __init__(
        self, name: str, format: str, rows: RowReader, skip_bad_rows: bool = False, place: str = "line"
    ) -> None:
        if format not in (*SEPARATORS, "jsonl"):
            raise DataError(f"{name}: a stream is csv, tsv or jsonl, not {format!r}")
        self.name, self.format, self.rows, self.skip_bad_rows, self.place = name, format, rows, skip_bad_rows, place
        self._header: list[str] | None = None
        label = rows.schema.label or ("label" if rows.fields.known["label"] == "label" else None)
        self._schema = replace(rows.schema, label=label)

    @property
    def needs_header(self) -> bool:
        """Whether the next line must name the columns."""
        return self.format != "jsonl" and self._header is None

    def read_header(self, line: bytes) -> None:
        """Read the column names from the first line."""
        cells = next(csv.reader([_text(self.name, 1, line)], delimiter=SEPARATORS[self.format]), [])
        self._header = checked_names(self.name, [cell.strip() for cell in cells])
        try:
            self.rows.fields.by_role(dict.fromkeys(self._header, ()), self.name)
        except EventError as error:
            raise DataError(str(error)) from None

    def parse(self, lines: Sequence[bytes], number: int) -> EventBatch | None:
        """The events on these lines, the first of which is line `number`; None where there are none."""
        table = self._objects(lines, number) if self.format == "jsonl" else self._cells(lines, number)
        if not len(table.places):
            self._check(RowFault(*table.rejected[0]) if table.rejected else None)
            return None
        source = TableSource(
            self.name, self.format, list(table.columns), lambda _: iter(()), self.place, typed=self.format == "jsonl"
        )
        rows, _, fault = convert_table(table, self._schema, source)
        self._check(fault)
        return self._batch(rows, table) if len(rows.time) else None

    def _batch(self, rows: TypedRows, table: RawTable) -> EventBatch | None:
        """Converted rows as a batch; where they are out of bounds, those that are not."""
        at = np.searchsorted(table.places, rows.places)
        names = [name for name in self.rows.fields.kept if name in table.columns]
        try:
            return self.rows.from_typed(rows, {name: _picked(table.columns[name], at) for name in names})
        except EventError:
            good = np.array([self._is_good(take_rows(rows, [row])) for row in range(len(rows.time))])
        return self._batch(take_rows(rows, good), table) if good.any() else None

    def _is_good(self, row: TypedRows) -> bool:
        try:
            self.rows.from_typed(row, {})
        except EventError as error:
            self._check(RowFault(int(row.places[0]), str(error).removeprefix("row 0: ")))
            return False
        return True

    def _check(self, fault: RowFault | None) -> None:
        """Stop at a row that is not an event, unless such rows are skipped."""
        if fault is not None and not self.skip_bad_rows:
            where = f"{self.name} {self.place} {fault.place}"
            raise DataError(f"{where}: {fault.reason}; fix the row or pass --skip-bad-rows")

    def _cells(self, lines: Sequence[bytes], number: int) -> RawTable:
        width = len(self._header or [])
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
        frame = pl.DataFrame(rows, schema=dict.fromkeys(self._header or [], pl.String), orient="row")
        cells = dict(zip(map(self._called, frame.columns), frame.get_columns(), strict=True))
        return RawTable(cells, np.array(places, dtype=np.int64), rejected)

    def _objects(self, lines: Sequence[bytes], number: int) -> RawTable:
        texts = [_text(self.name, place, line) for place, line in enumerate(lines, number)]
        records, places, rejected = decode_objects(number, texts)
        good = []
        for place, record in zip(places, records, strict=True):
            try:
                good.append((place, self._named(record)))
            except EventError as error:
                rejected.append((place, str(error).removeprefix("it: ")))
        names = dict.fromkeys(name for _, record in good for name in record)
        cells = {name: [record.get(name) for _, record in good] for name in names}
        return RawTable(cells, np.array([place for place, _ in good], dtype=np.int64), sorted(rejected))

    def _named(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """An object under the names of the table, with one key per feature."""
        vector = self.rows.fields.by_role(record, "it").roles.get("features")
        found = {self._called(name): value for name, value in record.items() if name != "features" or vector is None}
        features = self.rows.fields.features
        if vector is None or features is None:
            return found
        if not isinstance(vector, list) or len(vector) != len(features):
            raise EventError(f"it: features is not a list of {len(features)} numbers")
        return found | dict(zip(features, vector, strict=True))

    def _called(self, name: str) -> str:
        """The table's own name of a field."""
        role = self.rows.fields.known[name]
        return self.rows.fields.called(role) if role in ("src", "dst", "time", "label") else name


def _picked(cells: Any, rows: Ints) -> list[Any]:
    """Chosen cells of a raw column, None where a text says that there is nothing."""
    if isinstance(cells, pl.Series):
        return without_missing(cells).gather(rows).to_list()
    return [cells[row] for row in rows.tolist()]


def _text(name: str, number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise DataError(f"{name} line {number}: it is not UTF-8; save it as UTF-8 text") from None
