"""Writers: `Events` -> a file that `read_events` reads back as the same events, at once or piece by piece.

The columns are src, dst, time, label, f0, f1, ... Ids that a format cannot hold exactly are refused, never changed. The
file appears under its name only when it is complete; writing a stream needs memory for one piece.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tapgnn.data.reading.formats import BATCH_ROWS
from tapgnn.data.reading.values import INTEGER, is_id, shorten
from tapgnn.errors import DataError
from tapgnn.events import Events
from tapgnn.file_integrity import atomic_write

_TEXT = (".csv", ".tsv", ".jsonl")
ENDINGS = (*_TEXT, *(f"{ending}.gz" for ending in _TEXT), ".parquet")


def write_events(events: Events, path: str | Path) -> None:
    """Write events as CSV, TSV, JSON lines (each also `.gz`) or Parquet; `read_events` reads back the same events."""
    for _ in write_stream([events], path):
        pass


def write_stream(pieces: Iterable[Events], path: str | Path) -> Iterator[Events]:
    """Write pieces that share a vocabulary, and yield each one after it is written."""
    target = Path(path)
    ending = next((ending for ending in ENDINGS if target.name.endswith(ending)), None)
    if ending is None or target.is_dir():
        raise DataError(f"{target.name}: the file name must end in one of {', '.join(ENDINGS)}")
    return _written(pieces, target, ending)


def _written(pieces: Iterable[Events], target: Path, ending: str) -> Iterator[Events]:
    try:
        with atomic_write(target) as stream, contextlib.ExitStack() as stack:
            write, first = None, pl.DataFrame()
            for piece in pieces:
                frame = _frame(piece, target.name, ending)
                if write is None:
                    write, first = _writer(stream, ending, frame, stack), frame.clear()
                if frame.columns != first.columns or (ending == ".parquet" and frame.schema != first.schema):
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
    if ending == ".parquet":
        schema = first.to_arrow().schema
        table = stack.enter_context(pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True))
        return lambda frame: table.write_table(frame.to_arrow(), row_group_size=BATCH_ROWS)
    if ending.endswith(".gz"):
        stream = cast(BinaryIO, stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0)))
    if ending.startswith(".jsonl"):
        return lambda frame: _write_json_lines(frame, stream)
    mark = "\t" if ending.startswith(".tsv") else ","
    first.clear().write_csv(stream, separator=mark)
    return lambda frame: frame.write_csv(stream, separator=mark, include_header=False)


def _write_json_lines(frame: pl.DataFrame, stream: BinaryIO) -> None:
    """One object per row; polars writes columns of a single type, but ids may have two."""
    if pl.Object in frame.dtypes:
        stream.writelines(json.dumps(row).encode() + b"\n" for row in frame.iter_rows(named=True))
    else:
        frame.write_ndjson(stream)


def _frame(events: Events, file: str, ending: str) -> pl.DataFrame:
    names, kind = _checked_names(events, file, ending)
    columns: dict[str, Any] = {
        "src": pl.Series(names[events.src].tolist(), dtype=kind),
        "dst": pl.Series(names[events.dst].tolist(), dtype=kind),
        "time": events.time,
    }
    if events.labels is not None:
        columns["label"] = events.labels
    if events.features is not None:
        columns |= {f"f{place}": column for place, column in enumerate(events.features.T)}
    return pl.DataFrame(columns)


def _checked_names(events: Events, file: str, ending: str) -> tuple[NDArray[Any], Any]:
    """The ids by row, in a type that the format can hold: integers, strings, or (JSON lines) both."""
    ids = events.vocabulary.ids
    used = np.unique(np.concatenate([events.src, events.dst]))
    texts = [name for row in used if isinstance(name := ids[row], str)]
    plain = ending.startswith((".csv", ".tsv"))
    for name in texts:
        if not is_id(name) or (plain and not _survives_text(name)):
            raise DataError(
                f"{file}: {ending} cannot store the id {shorten(name)} exactly; write .parquet, or rename the id"
            )
    mixed = 0 < len(texts) < len(used)
    if mixed and ending == ".parquet":
        raise DataError(
            f"{file}: some ids are integers and some are strings, but a Parquet column has one type; write .jsonl"
        )
    names = np.zeros(len(ids), dtype=object if texts else np.int64)
    names[used] = [str(ids[row]) if mixed and plain else ids[row] for row in used]
    return names, pl.Object if mixed and not plain else pl.String if texts else pl.Int64


def _survives_text(name: str) -> bool:
    """Whether CSV returns a string unchanged: not as an integer, not trimmed, not split over two lines."""
    return not (INTEGER.match(name) or name != name.strip(" \t") or any(mark in name for mark in "\n\r\0"))
