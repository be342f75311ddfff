"""Readers: a file of events -> `Events`, whole or in chunks.

A row is read completely or it is an error that names file, line and cure; with `skip_bad_rows` it is counted, in the
`ReadReport` that the caller may pass and in a warning of the logger `tapgnn.data`. The rules of the columns stand in
`columns`, those of the values in `values`.

`read_chunks` cuts as `Events.chunks` does, between instants, and gives the same events and rows as `read_events`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from tapgnn.data.reading.columns import Layout, Wanted, find_layout, is_header
from tapgnn.data.reading.formats import open_source
from tapgnn.data.reading.table_source import Source
from tapgnn.data.reading.typed_rows import Batch, Gathering, convert_table
from tapgnn.errors import DataError
from tapgnn.events import Events, Floats
from tapgnn.vocabulary import Vocabulary

_log = logging.getLogger("tapgnn.data")


@dataclass
class ReadReport:
    """What a reader saw, filled in while it reads: pass one to learn more than the events.

    roles    which column was read as src, dst, time, label (None: none) and features (a list)
    ignored  the columns that were not read
    """

    format: str = ""
    rows: int = 0
    skipped: int = 0
    first_skipped: str = ""
    sorted: bool = True
    ignored: tuple[str, ...] = ()
    roles: dict[str, Any] = field(default_factory=dict)


class ReadOptions(TypedDict, total=False):
    """How a file is read; what is left out is found.

    format               by default from the name (`formats.SUFFIXES`, text also with `.gz`)
    src, dst, time       the names of the columns, by default the usual ones (`columns.ALIASES`)
    label                the same; '' reads no label even where there is one
    features             the names of columns, by default f0, f1, ..., feature, weight and rating
    header               whether the first line names the columns, by default by the look of it
    vocabulary           the one that numbers the ids and grows with them, by default a new one
    skip_bad_rows        leave out rows that cannot be read, and count them
    report               filled in while the file is read

    A file without header has its columns in the order src, dst, time, label, features (edges and SNAP: src, dst,
    weight, time), or they are named by their numbers '1', '2', '3'.
    """

    format: str | None
    src: str | None
    dst: str | None
    time: str | None
    label: str | None
    features: Sequence[str] | None
    header: bool | None
    vocabulary: Vocabulary | None
    skip_bad_rows: bool
    report: ReadReport | None


def read_events(path: str | Path, **options: Unpack[ReadOptions]) -> Events:
    """Read a whole file and sort it by time; each column is held once."""
    _, batches, vocabulary = _opened(Path(path), options)
    rows = Gathering()
    for batch in batches:
        rows.add(batch)
    return rows.events(vocabulary)


def read_chunks(path: str | Path, size: int, **options: Unpack[ReadOptions]) -> Iterator[Events]:
    """Read a file sorted by time as chunks of about `size` events that share one growing vocabulary.

    Memory is bounded by a chunk (and its last instant), not by the file.
    """
    if size < 1:
        raise DataError(f"a chunk must hold at least one event, not {size}")
    source, batches, vocabulary = _opened(Path(path), options)
    return (chunk.events(vocabulary) for chunk in _cut(source, batches, size))


def _opened(path: Path, options: ReadOptions) -> tuple[Source, Iterator[Batch], Vocabulary]:
    """A file, its rows to come, and the vocabulary that will number their ids."""
    unknown = [name for name in options if name not in ReadOptions.__annotations__]
    if unknown:
        raise TypeError(f"a reader has no option {unknown[0]!r}; it has {', '.join(ReadOptions.__annotations__)}")
    roles = (options.get("src"), options.get("dst"), options.get("time"), options.get("label"))
    wanted, header = Wanted(*roles, options.get("features")), options.get("header")
    source = open_source(
        path, options.get("format"), lambda cells: is_header(cells, wanted) if header is None else header
    )
    layout, report = find_layout(source, wanted), options.get("report")
    batches = _batches(source, layout, options.get("skip_bad_rows", False), report or ReadReport())
    vocabulary = options.get("vocabulary")
    return source, batches, Vocabulary() if vocabulary is None else vocabulary


def _batches(source: Source, layout: Layout, skip_bad_rows: bool, report: ReadReport) -> Iterator[Batch]:
    """The rows of a file with their values; a bad row is an error, or is counted."""
    report.format = source.format
    report.ignored = tuple(name for name in source.columns if name not in layout.columns)
    report.roles = {**asdict(layout), "features": list(layout.features)}
    last = -np.inf
    for table in source.read(layout.columns):
        batch, bad, fault = convert_table(table, layout, source)
        if fault is not None:
            place, reason = fault
            line = f"{source.name} {source.place} {place}: {reason}"
            if not skip_bad_rows:
                unlabelled = ", or --label '' to read no labels" if reason.startswith("label ") else ""
                raise DataError(f"{line}; fix the row or pass --skip-bad-rows{unlabelled}")
            report.skipped += bad
            report.first_skipped = report.first_skipped or line
        if len(batch.time):
            report.rows += len(batch.time)
            report.sorted &= bool(batch.time[0] >= last and (np.diff(batch.time) >= 0).all())
            last = batch.time[-1]
            yield batch
    if report.skipped:
        _log.warning("%s: %d bad rows skipped, the first: %s", source.name, report.skipped, report.first_skipped)
    if not report.rows:
        raise DataError(f"{source.name} holds no events ({report.skipped} bad rows); at least one event is needed")


def _cut(source: Source, batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """Cut sorted batches anew, each piece at the first border between instants at or after `size` events."""
    held: list[Batch] = []
    last = -np.inf
    for batch in batches:
        _check_sorted(source, batch, last)
        last = batch.time[-1]
        held.append(batch)
        if sum(len(part.time) for part in held) > size:
            rest = Batch.joined(held)
            while (stop := _border(rest.time, size)) < len(rest.time):  # the last instant may go on in the next batch
                yield rest[:stop]
                rest = rest[stop:]
            held = [rest]
    rest = Batch.joined(held)
    while len(rest.time):
        stop = _border(rest.time, size)
        yield rest[:stop]
        rest = rest[stop:]


def _border(time: Floats, size: int) -> int:
    return int(np.searchsorted(time, time[min(size, len(time)) - 1], side="right"))


def _check_sorted(source: Source, batch: Batch, last: float) -> None:
    back = np.flatnonzero(np.diff(batch.time, prepend=last) < 0)
    if len(back):
        row = back[0]
        before = batch.time[row - 1] if row else last
        raise DataError(
            f"{source.name} {source.place} {batch.places[row]}: time {batch.time[row]} comes after {before}, but only "
            "a file sorted by time can be read in chunks; sort it, or read it whole (read_events sorts)"
        )
