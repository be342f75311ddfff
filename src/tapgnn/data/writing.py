"""Writers: events and answers -> files, by the ending of the file name.

    .csv .tsv .jsonl    text, each also with .gz
    .parquet            Parquet
    .arrow .feather     Arrow IPC

`write_events` writes a log that `read_events` reads back as the same events, at once or piece by piece
(`write_stream`): the columns src, dst, time, label, or as a schema names them, and those of the table under their own
names. What a format cannot hold exactly is refused, never changed. `write_table` writes any columns, such as answers.

A cell of text is written as it is, also where a spreadsheet would take it for a formula (it starts with =, +, - or @):
an apostrophe before it would change ids, and answers could no longer be joined to the table they are about. Whoever
opens the file in a spreadsheet asks for `formulas="escape"`, which puts the apostrophe, in CSV and TSV only.

The file appears under its name only when it is complete; writing a stream needs memory for one piece.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, cast

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tapgnn.data.reading.cells import MISSING
from tapgnn.data.reading.formats import BATCH_ROWS
from tapgnn.data.reading.values import INTEGER, is_id, shorten
from tapgnn.data.schema import Schema
from tapgnn.errors import DataError
from tapgnn.events import UNLABELLED, Events
from tapgnn.file_integrity import atomic_write

_TEXT = (".csv", ".tsv", ".jsonl")
_BINARY = (".parquet", ".arrow", ".feather")
ENDINGS = (*_TEXT, *(f"{ending}.gz" for ending in _TEXT), *_BINARY)
Piece = TypeVar("Piece", Events, pl.DataFrame)
# A sign before nothing but a number makes no formula.
_FORMULA = r"^(?:[=@\t\r]|[+\-](?:[0-9.]*[^0-9.]|$))"


def write_table(
    columns: Mapping[str, Any] | pl.DataFrame, path: str | Path, formulas: Literal["keep", "escape"] = "keep"
) -> None:
    """Write columns of equal length in the format of the file name; '-' is CSV on standard output."""
    frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(_series(columns))
    if formulas == "escape" and (str(path) == "-" or Path(path).name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz"))):
        frame = _flat(frame).with_columns(pl.col(pl.String).str.replace(_FORMULA, "'$0"))
    if str(path) == "-":
        sys.stdout.write(_flat(frame).write_csv())
        return
    for _ in write_stream([frame], path):
        pass


def ending_of(path: Path) -> str:
    """The ending that gives the format of a file to write; any other is refused with the list."""
    found = next((ending for ending in ENDINGS if path.name.endswith(ending)), None)
    if found is None or path.is_dir():
        raise DataError(f"{path.name}: the file name must end in one of {', '.join(ENDINGS)}")
    return found


def write_events(events: Events, path: str | Path, schema: Schema | None = None) -> None:
    """Write events; `read_events` reads back the same events, by the same schema if their kinds are not detected so."""
    for _ in write_stream([events], path, schema):
        pass


def write_stream(pieces: Iterable[Piece], path: str | Path, schema: Schema | None = None) -> Iterator[Piece]:
    """Write events that share a vocabulary, or tables of the same columns; yield each piece after it is written."""
    target = Path(path)
    return _written(pieces, target, ending_of(target), schema or Schema())


def _written(pieces: Iterable[Piece], target: Path, ending: str, schema: Schema) -> Iterator[Piece]:
    try:
        with atomic_write(target) as stream, contextlib.ExitStack() as stack:
            write, first = None, pl.DataFrame()
            for piece in pieces:
                frame = piece if isinstance(piece, pl.DataFrame) else _frame(piece, target.name, ending, schema)
                mixed = next((name for name, kind in frame.schema.items() if kind == pl.Object), None)
                if mixed is not None and ending in _BINARY:
                    raise DataError(
                        f"{target.name}: column {mixed!r} holds values of several types, but a column of {ending} has "
                        "one; write .jsonl or .csv"
                    )
                if write is None:
                    write, first = _writer(stream, ending, frame, stack), frame.clear()
                if frame.columns != first.columns or (ending in _BINARY and frame.schema != first.schema):
                    raise DataError(
                        f"{target.name}: the pieces have different columns or id types; "
                        "write them to separate files, or as .jsonl"
                    )
                write(frame)
                yield piece
    except OSError as error:
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}); check the folder and the free space"
        ) from None


def _writer(
    stream: BinaryIO, ending: str, first: pl.DataFrame, stack: contextlib.ExitStack
) -> Callable[[pl.DataFrame], Any]:
    """A function that appends a frame to the file; the stack closes what it opened."""
    if ending in _BINARY:
        schema = first.to_arrow().schema
        if ending == ".parquet":
            table = stack.enter_context(pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True))
            return lambda frame: table.write_table(frame.to_arrow(), row_group_size=BATCH_ROWS)
        batches = stack.enter_context(pa.ipc.new_file(stream, schema))
        return lambda frame: batches.write_table(frame.to_arrow(), BATCH_ROWS)
    if ending.endswith(".gz"):
        stream = cast(BinaryIO, stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0)))
    if ending.startswith(".jsonl"):
        return lambda frame: _write_json_lines(frame, stream)
    mark = "\t" if ending.startswith(".tsv") else ","
    _flat(first.clear()).write_csv(stream, separator=mark)
    return lambda frame: _flat(frame).write_csv(stream, separator=mark, include_header=False)


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Cells that text can hold: values of several types as their text, lists as JSON."""
    texts = {
        name: pl.Series(name, [None if cell is None else _spelled(cell) for cell in frame[name]], dtype=pl.String)
        for name, kind in frame.schema.items()
        if kind == pl.Object or kind.is_nested()
    }
    return frame.with_columns(**texts)


def _spelled(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    return json.dumps(cell.to_list() if isinstance(cell, pl.Series) else cell)


def _write_json_lines(frame: pl.DataFrame, stream: BinaryIO) -> None:
    """One object per row; polars writes columns of a single type, but ids may have two."""
    if pl.Object in frame.dtypes:
        stream.writelines(json.dumps(row).encode() + b"\n" for row in frame.iter_rows(named=True))
    else:
        frame.with_columns(pl.selectors.float().fill_nan(None)).write_ndjson(stream)


def _series(columns: Mapping[str, Any]) -> list[pl.Series]:
    """Columns of any sequence; values of several types stay what they are."""
    return [pl.Series(str(name), *_typed(column)) for name, column in columns.items()]


def _typed(column: Any) -> tuple[Any, Any]:
    if isinstance(column, pl.Series) or (isinstance(column, np.ndarray) and column.dtype != object):
        return column, None
    values = [cell.item() if isinstance(cell, np.generic) else cell for cell in column]
    kinds = {type(cell) for cell in values if cell is not None}
    return values, pl.Object if {int, str} <= kinds else None


def _frame(events: Events, file: str, ending: str, schema: Schema) -> pl.DataFrame:
    names, kind = _checked_names(events, file, ending, schema)
    columns: list[tuple[str, Any]] = [
        (schema.src, pl.Series(names[events.src].tolist(), dtype=kind)),
        (schema.dst, pl.Series(names[events.dst].tolist(), dtype=kind)),
        (schema.time, pl.Series(events.time)),
    ]
    if events.labels is not None:
        marks = pl.Series(events.labels)
        known = marks.zip_with(marks != UNLABELLED, pl.Series([None], dtype=pl.Int64))
        if schema.label_values is not None:
            zero, one = schema.label_values
            known = known.replace_strict({0: zero, 1: one or "fraud"}, return_dtype=pl.String)
        columns.append((schema.label or "label", known))
    if events.features is not None:
        columns += [
            (f"f{place}", pl.Series(column)) for place, column in enumerate(events.features.T.astype(np.float64))
        ]
    columns += [(name, _cells(name, column, file, ending, schema)) for name, column in events.columns.items()]
    given = [name for name, _ in columns]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{file}: two columns would be named {twice!r}; rename the column, or pass the schema")
    return pl.DataFrame([column.alias(name) for name, column in columns])


def _cells(name: str, column: NDArray[Any], file: str, ending: str, schema: Schema) -> pl.Series:
    """A column of a table: missing cells are null, booleans true and false where the schema says so."""
    if column.dtype != object:
        numbers = pl.Series(column.astype(np.float64)).fill_nan(None)
        return numbers.cast(pl.Boolean) if schema.columns.get(name) == "boolean" else numbers
    plain = ending.startswith((".csv", ".tsv"))
    for text in set(column.tolist()) - {None}:
        lost = text == "" or text != text.encode("utf-8", "replace").decode()
        if lost or (plain and (text != text.strip(" \t") or text.lower() in MISSING or any(m in text for m in "\r\0"))):
            raise DataError(
                f"{file}: {ending} cannot store {shorten(text)} of column {name!r} exactly; "
                "write .parquet, or rename the value"
            )
    return pl.Series(column.tolist(), dtype=pl.String)


def _checked_names(events: Events, file: str, ending: str, schema: Schema) -> tuple[NDArray[Any], Any]:
    """The user's ids by row, in a type that the format can hold: integers, strings, or (JSON lines) both."""
    ids = schema.external(events.vocabulary.ids)
    used = np.unique(np.concatenate([events.src, events.dst]))
    texts = [name for row in used if isinstance(name := ids[row], str)]
    plain = ending.startswith((".csv", ".tsv"))
    for name in texts:
        if not is_id(name) or (plain and not _survives_text(name)):
            raise DataError(
                f"{file}: {ending} cannot store the id {shorten(name)} exactly; write .parquet, or rename the id"
            )
    mixed = 0 < len(texts) < len(used)
    if mixed and ending in _BINARY:
        format = "a Parquet" if ending == ".parquet" else "an Arrow"
        raise DataError(
            f"{file}: some ids are integers and some are strings, but {format} column has one type; write .jsonl"
        )
    names = np.zeros(len(ids), dtype=object if texts else np.int64)
    names[used] = [str(ids[row]) if mixed and plain else ids[row] for row in used]
    return names, pl.Object if mixed and not plain else pl.String if texts else pl.Int64


def _survives_text(name: str) -> bool:
    """Whether CSV returns a string unchanged: not as an integer, not trimmed, not split over two lines."""
    return not (INTEGER.match(name) or name != name.strip(" \t") or any(mark in name for mark in "\n\r\0"))
