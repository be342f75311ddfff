"""A simulated stream into a file, piece by piece: memory is bounded by a piece, whatever the length of the stream.

The columns are those of `tapgnn.data.write_events`: src, dst, time, label, f0, f1, ...
"""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tapgnn.errors import DataError
from tapgnn.events import Events

ENDINGS = (".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".parquet")


def ending_of(path: Path) -> str:
    """The ending of a name that says the format; a name without one is refused."""
    found = next((ending for ending in ENDINGS if path.name.endswith(ending)), None)
    if found is None or path.is_dir():
        raise DataError(f"{path}: pass a file whose name ends in one of {', '.join(ENDINGS)}")
    return found


def write_stream(pieces: Iterator[Events], path: Path) -> Iterator[Events]:
    """Write pieces that share a vocabulary, and hand on each when it is written; the file appears when all are."""
    ending = ending_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as stream, contextlib.ExitStack() as stack:
            write = None
            for piece in pieces:
                frame = _frame(piece)
                if write is None:
                    write = _writer(stream, ending, frame, stack)
                write(frame)
                yield piece
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _writer(stream: BinaryIO, ending: str, first: pl.DataFrame, stack: contextlib.ExitStack) -> Any:
    """What appends a frame to the file; the stack closes what it needs."""
    if ending == ".parquet":
        schema = first.to_arrow().schema
        table = stack.enter_context(pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True))
        return lambda frame: table.write_table(frame.to_arrow())
    if ending.endswith(".gz"):
        stream = cast(BinaryIO, stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0)))
    if ending.startswith(".jsonl"):
        return lambda frame: frame.write_ndjson(stream)
    mark = "\t" if ending.startswith(".tsv") else ","
    first.clear().write_csv(stream, separator=mark)
    return lambda frame: frame.write_csv(stream, separator=mark, include_header=False)


def _frame(piece: Events) -> pl.DataFrame:
    names = np.array(piece.vocabulary.ids, dtype=object)
    columns: dict[str, Any] = {
        "src": pl.Series(names[piece.src].tolist(), dtype=pl.String),
        "dst": pl.Series(names[piece.dst].tolist(), dtype=pl.String),
        "time": piece.time,
        "label": piece.labels,
    }
    if piece.features is not None:
        columns |= {f"f{place}": column for place, column in enumerate(piece.features.T)}
    return pl.DataFrame(columns)
