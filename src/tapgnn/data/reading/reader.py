"""Readers: a file of events -> `Events`, at once or in chunks.

A row that cannot be read is an error that names the file, the line and the cure; with `skip_bad_rows` it is counted in
the `ReadReport` that the caller may pass, and the logger `tapgnn.data` warns. `columns` has the rules for columns,
`values` those for values.

`read_chunks` cuts between instants, as `Events.chunks` does, and gives the same events and ids as `read_events`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from tapgnn.data.chunking import cut_between_instants
from tapgnn.data.reading.columns import ColumnRoles, RequestedColumns, find_roles, is_header
from tapgnn.data.reading.formats import open_source
from tapgnn.data.reading.table_source import TableSource
from tapgnn.data.reading.typed_rows import TypedRows, collect, convert_table
from tapgnn.errors import DataError
from tapgnn.events import Events
from tapgnn.vocabulary import Vocabulary

_log = logging.getLogger("tapgnn.data")


@dataclass
class ReadReport:
    """What a reader found, filled in while it reads.

    roles    the columns read as src, dst, time, label (None: none) and features (a list)
    ignored  the columns that were not used
    """

    format: str = ""
    rows: int = 0
    skipped: int = 0
    first_skipped: str = ""
    sorted: bool = True
    ignored: tuple[str, ...] = ()
    roles: dict[str, Any] = field(default_factory=dict)

    def skipped_rows(self) -> str:
        """How many rows were skipped, and why the first one was."""
        return f"{self.skipped:,} row{'s' * (self.skipped != 1)} skipped; first: {self.first_skipped}"


class ReadOptions(TypedDict, total=False):
    """How a file is read; options that are not given are detected.

    format               by default from the file name (`formats.SUFFIXES`, text also with `.gz`)
    src, dst, time       column names, by default the usual ones (`columns.ALIASES`)
    label                the same; '' ignores the labels
    features             column names, by default f0, f1, ..., feature, weight and rating
    header               whether the first line is a header, by default detected
    vocabulary           maps the ids to rows and grows with them, by default a new one
    skip_bad_rows        skip and count rows that cannot be read
    report               filled in while the file is read

    The columns of a file without a header are src, dst, time, label, features in this order (for edges and SNAP: src,
    dst, weight, time), or are chosen by their numbers '1', '2', '3'.
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
    """Read a whole file and sort it by time; only one copy of each column is kept in memory."""
    return collect(*_opened(Path(path), options))


def read_chunks(path: str | Path, size: int, **options: Unpack[ReadOptions]) -> Iterator[Events]:
    """Read a file sorted by time as chunks of about `size` events that share one growing vocabulary.

    Memory is bounded by a chunk (and its last instant), not by the file.
    """
    if size < 1:
        raise DataError(f"a chunk must have at least one event, not {size}")
    batches, vocabulary = _opened(Path(path), options, ordered=True)
    return (Events.from_arrays(*chunk[:5], vocabulary) for chunk in cut_between_instants(batches, size))


def _opened(path: Path, options: ReadOptions, ordered: bool = False) -> tuple[Iterator[TypedRows], Vocabulary]:
    """The rows of a file, which must be in order of time if `ordered`, and the vocabulary for their ids."""
    unknown = [name for name in options if name not in ReadOptions.__annotations__]
    if unknown:
        raise TypeError(f"a reader has no option {unknown[0]!r}; it has {', '.join(ReadOptions.__annotations__)}")
    names = (options.get("src"), options.get("dst"), options.get("time"), options.get("label"))
    wanted, header = RequestedColumns(*names, options.get("features")), options.get("header")
    source = open_source(
        path, options.get("format"), lambda cells: is_header(cells, wanted) if header is None else header
    )
    roles, report = find_roles(source, wanted), options.get("report")
    batches = _batches(source, roles, options.get("skip_bad_rows", False), ordered, report or ReadReport())
    vocabulary = options.get("vocabulary")
    return batches, Vocabulary() if vocabulary is None else vocabulary


def _batches(
    source: TableSource, roles: ColumnRoles, skip_bad_rows: bool, ordered: bool, report: ReadReport
) -> Iterator[TypedRows]:
    """The converted rows of a file; a row that cannot be read is an error, or is counted."""
    report.format = source.format
    report.ignored = tuple(name for name in source.columns if name not in roles.columns)
    report.roles = {**asdict(roles), "features": list(roles.features)}
    last = -np.inf
    for table in source.read(roles.columns):
        batch, bad, fault = convert_table(table, roles, source)
        if fault is not None:
            place, reason = fault
            line = f"{source.name} {source.place} {place}: {reason}"
            if not skip_bad_rows:
                unlabelled = ", or --label '' to ignore labels" if reason.startswith("label ") else ""
                raise DataError(f"{line}; fix the row or pass --skip-bad-rows{unlabelled}")
            report.skipped += bad
            report.first_skipped = report.first_skipped or line
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
