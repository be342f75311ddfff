"""Frames: tables in memory -> events through a schema, one event for each row.

A table is a pandas or polars frame, a pyarrow table, a PyTorch Geometric `TemporalData`, a dict of columns, or a list
of dicts. Rows are counted from 0. No row is ever left out: one that cannot be read is an error that names the row, the
column and the cure, in the words of the Python interface.

>>> events, order = frame_events([{"card": "a", "shop": "x", "time": 2}, {"card": "b", "shop": "x", "time": 1}])
>>> events.time, order
(array([1., 2.]), array([1, 0]))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl

from tapgnn.data.reading.cells import Cells, plain_value
from tapgnn.data.reading.reader import ReadOptions, ReadReport, check_options, open_rows
from tapgnn.data.reading.table_source import RawTable, TableSource, checked_names
from tapgnn.data.reading.typed_rows import collect
from tapgnn.data.schema import Schema
from tapgnn.data.wording import PYTHON
from tapgnn.errors import EventError
from tapgnn.events import Events, Ints

NAME = "the table"


def frame_events(
    table: Any, *, absent: Mapping[str, float] | None = None, **options: Unpack[ReadOptions]
) -> tuple[Events, Ints]:
    """The events of a table, sorted by time, and the row [E] of each; without `schema`, it is detected.

    The options are those of `read_events`, without `format`, `header` and `skip_bad_rows`. An answer [E] about the
    events is in the order of the table after `answer_in_order[order] = answer`. `absent` has the value in every row of
    columns that the table may lack, such as the time.
    """
    check_options(options)
    unfit = next((name for name in ("format", "header", "skip_bad_rows") if name in options), None)
    if unfit is not None:
        raise TypeError(f"{unfit} is an option for files, not for a table in memory")
    return collect(*open_rows(frame_source(table, absent), options, PYTHON))


def frame_schema(table: Any, **options: Unpack[ReadOptions]) -> tuple[Schema, list[str]]:
    """The schema of a table and suggestions, from its first rows and what the options declare."""
    report = ReadReport()
    options["report"] = report
    check_options(options)
    open_rows(frame_source(table), options, PYTHON)
    return report.schema or Schema(), report.suggestions


def frame_source(table: Any, absent: Mapping[str, float] | None = None) -> TableSource:
    """A table in memory as the source of a reader."""
    cells, numbers, format = _columns(table)
    sizes = {len(column) for column in cells.values()}
    if len(sizes) > 1:
        raise EventError(f"{NAME} has columns of {min(sizes)} and {max(sizes)} rows; they must be equally long")
    rows = np.arange(sizes.pop() if sizes else 0, dtype=np.int64)
    cells |= {name: pl.Series(np.full(len(rows), value)) for name, value in (absent or {}).items() if name not in cells}

    def read(names: Sequence[str]) -> Iterator[RawTable]:
        if len(rows):
            yield RawTable({name: cells[name] for name in names}, rows)

    place = {"place": "row", "typed": True, "repeatable": True, "skips": False}
    return TableSource(NAME, format, list(cells), read, numbers=numbers, **place)  # type: ignore[arg-type]


def _columns(table: Any) -> tuple[dict[str, Cells], tuple[str, ...], str]:
    """The columns of a table by name, those that are numbers by its kind, and its kind."""
    found = frame_columns(table)
    if found is not None:
        return found, (), "frame"
    if all(hasattr(table, name) for name in ("src", "dst", "t")):
        return _of_temporal_data(table)
    if isinstance(table, Mapping):
        return {str(name): _of_values(column) for name, column in table.items()}, (), "frame"
    if isinstance(table, Sequence) and not isinstance(table, str | bytes):
        odd = next((row for row, record in enumerate(table) if not isinstance(record, Mapping)), None)
        if odd is None:
            keys = dict.fromkeys(key for record in table for key in record)
            return {str(key): [plain_value(record.get(key)) for record in table] for key in keys}, (), "records"
        raise EventError(f"row {odd}: expected a dict of the columns of one event, not {type(table[odd]).__name__}")
    cure = "; read the file with tapgnn.data.read_events" if isinstance(table, str | Path) else ""
    raise EventError(
        f"expected a pandas or polars frame, a pyarrow table, a TemporalData, a dict of columns, a list of dicts or "
        f"Events, not {type(table).__name__}{cure}"
    )


def frame_columns(table: Any) -> dict[str, Cells] | None:
    """The columns of a pandas or polars frame or of a pyarrow table; None for anything else."""
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, pl.DataFrame):
        return dict(zip(table.columns, table.get_columns(), strict=True))
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        names = checked_names(NAME, [str(name) for name in table.columns])
        return {name: _of_pandas(table.iloc[:, place]) for place, name in enumerate(names)}
    if hasattr(table, "to_pylist") and hasattr(table, "column_names"):
        names = checked_names(NAME, table.column_names)
        return {name: pl.Series(pl.from_arrow(table.column(place))) for place, name in enumerate(names)}
    return None


def _of_pandas(column: Any) -> Cells:
    """A pandas column as a series, or as a list where its values are of several types."""
    if column.dtype != object:
        return pl.Series(pl.from_pandas(column.reset_index(drop=True), nan_to_null=True))
    return _of_objects(column.tolist())


def _of_values(column: Any) -> Cells:
    if isinstance(column, pl.Series):
        return column
    if hasattr(column, "iloc"):
        return _of_pandas(column)
    array = np.asarray(column) if hasattr(column, "__array__") else None
    if array is not None and array.ndim != 1:
        raise EventError(f"{NAME} has a column of shape {array.shape}; expected one value per event")
    return _of_objects(list(column)) if array is None or array.dtype == object else pl.Series(array)


def _of_objects(values: list[Any]) -> Cells:
    """Strings alone as a series, which is faster; any other values as they are."""
    plain = [plain_value(value) for value in values]
    if all(value is None or isinstance(value, str) for value in plain):
        try:
            return pl.Series(plain, dtype=pl.String)
        except UnicodeEncodeError:
            return plain
    return plain


def _of_temporal_data(data: Any) -> tuple[dict[str, Cells], tuple[str, ...], str]:
    """A PyTorch Geometric `TemporalData`: `src`, `dst`, `t`, the columns f0, f1, ... of `msg`, and `y`."""
    message, label = getattr(data, "msg", None), getattr(data, "y", None)
    cells: dict[str, Cells] = {name: pl.Series(getattr(data, name).numpy()) for name in ("src", "dst", "t")}
    vectors = np.zeros((len(cells["src"]), 0)) if message is None else message.reshape(len(cells["src"]), -1).numpy()
    numbers = {f"f{place}": pl.Series(np.ascontiguousarray(column)) for place, column in enumerate(vectors.T)}
    if label is not None:
        cells["y"] = pl.Series(label.numpy())
    return cells | numbers, tuple(numbers), "frame"
