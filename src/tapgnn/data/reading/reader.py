"""Readers: a file of events -> `Events`, at once or in chunks.

What the columns mean is a `Schema`: given, or detected from the first rows (`detection`) with what the caller declares.
A row that cannot be read is an error that names the file, the line and the cure; with `skip_bad_rows` it is counted in
the `ReadReport` that the caller may pass, and the logger `tapgnn.data` warns. `columns` has the rules for roles,
`values` those for values.

`read_chunks` cuts between instants, as `Events.chunks` does, and gives the same events and ids as `read_events`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import polars as pl

from tapgnn.data.chunking import cut_between_instants
from tapgnn.data.reading import formats
from tapgnn.data.reading.cells import Cells
from tapgnn.data.reading.column_preview import ColumnPreview, preview
from tapgnn.data.reading.columns import columns_of, is_header, positional_names
from tapgnn.data.reading.detection import detect_schema
from tapgnn.data.reading.table_source import RawTable, TableSource, joined_cells
from tapgnn.data.reading.typed_rows import TypedRows, collect, convert_table
from tapgnn.data.schema import Schema, SchemaRequest
from tapgnn.data.wording import COMMAND_LINE, OptionSpelling
from tapgnn.errors import DataError
from tapgnn.events import Events, Ints, interleaved
from tapgnn.vocabulary import Vocabulary

_log = logging.getLogger("tapgnn.data")


@dataclass
class ReadReport:
    """What a reader found, filled in while it reads.

    typed        whether the cells have types of their own, and are not text
    schema       what the columns mean
    suggestions  what the table may mean instead, one line each
    previews     of each column, what its first rows hold; empty where the schema was given
    """

    format: str = ""
    typed: bool = False
    rows: int = 0
    skipped: int = 0
    first_skipped: str = ""
    sorted: bool = True
    schema: Schema | None = None
    suggestions: list[str] = field(default_factory=list)
    previews: dict[str, ColumnPreview] = field(default_factory=dict, compare=False)

    def skipped_rows(self) -> str:
        """How many rows were skipped, and why the first one was."""
        return f"{self.skipped:,} row{'s' * (self.skipped != 1)} skipped; first: {self.first_skipped}"


class ReadOptions(TypedDict, total=False):
    """How a file is read; options that are not given are detected.

    format                              by default from the file name (`formats.SUFFIXES`, text also with `.gz`)
    schema                              what the columns mean, as found in an earlier file; then nothing is detected
    src, dst, time                      column names, by default the usual ones (`columns.ALIASES`)
    label, id                           the same; '' ignores the labels, or the ids of events
    numeric, categorical, boolean, drop names of columns, by default detected
    features                            exactly these columns, their kinds detected
    bipartite                           whether sources and destinations have ids of their own
    time_unit, time_format, time_zone   of numeric times; of dates, as in strptime; of dates without an offset
    header                              whether the first line is a header, by default detected
    vocabulary                          maps the ids to rows and grows with them, by default a new one
    skip_bad_rows                       skip and count rows that cannot be read
    report                              filled in while the file is read
    wording                             how messages name options, by default as flags

    The columns of a file without a header are src, dst, time, label, f0, f1, ... in this order (for edges and SNAP:
    src, dst, weight, time), or are chosen by their numbers '1', '2', '3'.
    """

    format: str | None
    schema: Schema | None
    src: str | None
    dst: str | None
    time: str | None
    label: str | None
    id: str | None
    features: Sequence[str] | None
    numeric: Sequence[str]
    categorical: Sequence[str]
    boolean: Sequence[str]
    drop: Sequence[str]
    bipartite: bool | None
    time_unit: str | None
    time_format: str | None
    time_zone: str | None
    header: bool | None
    vocabulary: Vocabulary | None
    skip_bad_rows: bool
    report: ReadReport | None
    wording: OptionSpelling


def read_events(path: str | Path, **options: Unpack[ReadOptions]) -> Events:
    """Read a whole file and sort it by time; only one copy of each column is kept in memory."""
    return collect(*open_rows(_opened(Path(path), options), options))[0]


def read_chunks(path: str | Path, size: int, **options: Unpack[ReadOptions]) -> Iterator[Events]:
    """Read a file sorted by time as chunks of about `size` events that share one growing vocabulary.

    Memory is bounded by a chunk (and its last instant), not by the file.
    """
    if size < 1:
        raise DataError(f"a chunk must have at least one event, not {size}")
    batches, vocabulary = open_rows(_opened(Path(path), options), options, ordered=True)
    return (_events(chunk, vocabulary) for chunk in cut_between_instants(batches, size))


def read_table(path: str | Path, **options: Unpack[ReadOptions]) -> tuple[Events, Ints, pl.DataFrame]:
    """Read a whole file as its events, the row [E] of each in the file, and the file's own rows, of text or typed.

    With them an answer about every row can be written in the order of the file, beside any of its columns. A row that
    was skipped is among the rows, empty where it could not be split into columns, and is in no event.
    """
    source, kept, read = _opened(Path(path), options), list[RawTable](), list[Ints]()

    def keep(_: Sequence[str]) -> Iterator[RawTable]:
        kept.clear()
        for table in source.read(source.columns):
            kept.append(table)
            yield table

    batches, vocabulary = open_rows(replace(source, read=keep), options)

    def counted() -> Iterator[TypedRows]:
        for batch in batches:
            read.append(batch.places)
            yield batch

    events, order = collect(counted(), vocabulary)
    places = np.concatenate([[*table.places, *(place for place, _ in table.rejected)] for table in kept])
    by_place = np.argsort(places, kind="stable")
    position = np.searchsorted(places[by_place], np.concatenate(read))
    rows = pl.DataFrame([_kept_column(name, kept, by_place) for name in kept[0].columns])
    return events, position[order], rows


def _kept_column(name: str, tables: Sequence[RawTable], order: Ints) -> pl.Series:
    """The cells of a column in this order, as they are, also where integers and strings are mixed; rejected rows last
    in every table, empty."""
    parts = [table.columns[name] for table in tables]
    if not isinstance(parts[0], list):
        empty = [pl.Series([None] * len(table.rejected), dtype=parts[0].dtype) for table in tables]
        whole = pl.concat([piece for pair in zip(parts, empty, strict=True) for piece in pair])
        return whole.gather(order).alias(name)
    cells = [cell for part, table in zip(parts, tables, strict=True) for cell in [*part, *[None] * len(table.rejected)]]
    kinds = {type(cell) for cell in cells if cell is not None}
    mixed = str in kinds and len(kinds) > 1
    return pl.Series(name, [cells[row] for row in order.tolist()], dtype=pl.Object if mixed else None, strict=False)


def request_of(options: Any) -> SchemaRequest:
    """What the options declare of a schema."""
    names = [each.name for each in fields(SchemaRequest)]
    return SchemaRequest(**{name: options[name] for name in names if options.get(name) is not None})


def check_options(options: Any) -> None:
    """Refuse an option that no reader has, and a schema beside what it settles."""
    unknown = [name for name in options if name not in ReadOptions.__annotations__]
    if unknown:
        raise TypeError(f"a reader has no option {unknown[0]!r}; it has {', '.join(ReadOptions.__annotations__)}")
    declared = request_of(options)
    if options.get("schema") is not None and declared != SchemaRequest():
        raise TypeError("pass either a schema or what it should be, not both")


def _events(rows: TypedRows, vocabulary: Vocabulary) -> Events:
    ends = vocabulary.add(interleaved(rows.src, rows.dst))
    return Events(ends[0::2].copy(), ends[1::2].copy(), rows.time, None, rows.labels, vocabulary, rows.columns)


def _opened(path: Path, options: ReadOptions) -> TableSource:
    """A file as a table whose columns have names, also where it has no header."""
    check_options(options)
    given, header = options.get("schema"), options.get("header")
    # The columns that a header must have, or numbers that a file without one must.
    named = request_of(options) if given is None else SchemaRequest(given.src, given.dst, given.time)
    source = formats.open_source(
        path, options.get("format"), lambda cells: is_header(cells, named) if header is None else header
    )
    return source.renamed(positional_names(source, named)) if source.by_position else source


def open_rows(
    source: TableSource, options: ReadOptions, wording: OptionSpelling = COMMAND_LINE, ordered: bool = False
) -> tuple[Iterator[TypedRows], Vocabulary]:
    """The rows of a source, which must be in order of time if `ordered`, and the vocabulary for their ids.

    The schema is the given one, or is detected; `wording` is that of messages, where the options name none.
    """
    given, wording = options.get("schema"), options.get("wording", wording)
    report = options.get("report") or ReadReport()
    report.format, report.typed = source.format, source.typed
    if given is None:
        tables, first = _first_rows(source)
        schema, report.suggestions = detect_schema(first, source, request_of(options), wording)
        report.previews = {name: preview(cells) for name, cells in first.items()}
    else:
        tables, schema = None, given
        _check_columns(source, schema)
    report.schema = schema
    if tables is None or source.repeatable:
        tables = source.read([name for name in schema.read_columns if name in source.columns and name != schema.id])
    batches = _batches(tables, source, schema, options.get("skip_bad_rows", False), ordered, report, wording)
    vocabulary = options.get("vocabulary")
    return batches, Vocabulary() if vocabulary is None else vocabulary


def _first_rows(source: TableSource) -> tuple[Iterator[RawTable], dict[str, Cells]]:
    """All tables of a source, and the cells of the first rows by column."""
    tables, held = source.read(source.columns), list[RawTable]()
    for table in tables:
        held.append(table)
        if sum(len(each.places) for each in held) >= formats.FIRST_ROWS:
            break
    return chain(held, tables), joined_cells(held, source.columns)


def _check_columns(source: TableSource, schema: Schema) -> None:
    """A column of the schema may be left out where rows name their own columns; labels and ids always."""
    loose = list(schema.columns) if source.format in ("jsonl", "records") else []
    for name in schema.read_columns:
        if name not in (*source.columns, *loose, schema.label, schema.id):
            raise DataError(f"{source.name} has no column {name!r}; {columns_of(source)}")


def _batches(
    tables: Iterator[RawTable],
    source: TableSource,
    schema: Schema,
    skip_bad_rows: bool,
    ordered: bool,
    report: ReadReport,
    wording: OptionSpelling,
) -> Iterator[TypedRows]:
    """The converted rows of a file; a row that cannot be read is an error, or is counted."""
    last = -np.inf
    for table in tables:
        batch, bad, fault = convert_table(table, schema, source, wording)
        if fault is not None:
            if not skip_bad_rows:
                cures = [wording.option("skip_bad_rows"), *fault.cures] if source.skips else list(fault.cures)
                more = f" or pass {_listed(cures)}" if cures else ""
                raise source.fault(fault.place, fault.reason, f"; fix the row{more}")
            report.skipped += bad
            report.first_skipped = report.first_skipped or str(source.fault(fault.place, fault.reason, ""))
        if len(batch.time):
            report.rows += len(batch.time)
            back = np.flatnonzero(np.diff(batch.time, prepend=last) < 0)
            report.sorted &= not len(back)
            if ordered and len(back):
                row = back[0]
                raise DataError(
                    f"{source.name} {source.place} {batch.places[row]}: time {batch.time[row]} comes after "
                    f"{batch.time[row - 1] if row else last}, but only a file sorted by time can be read in chunks; "
                    "sort it, or use read_events, which sorts"
                )
            last = batch.time[-1]
            yield batch
    if report.skipped:
        _log.warning("%s: %s", source.name, report.skipped_rows())
    if not report.rows:
        why = f" ({report.skipped_rows()})" if report.skipped else ""
        raise DataError(f"{source.name} contains no events{why}; at least one event is needed")


def _listed(options: list[str]) -> str:
    """Options in a sentence: a, b or c."""
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
