"""Formats: a file of events -> its `TableSource`, by its file name extension or as requested.

`delimited` splits delimited text. `json` decodes JSON: polars infers one type per column and batch, but 7 and "7" are
different ids. `pyarrow` decodes Parquet and Arrow: on a damaged file it raises an error, where polars aborts the
process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tapgnn.data.reading.delimited import IsHeader, open_delimited
from tapgnn.data.reading.table_source import RawTable, TableSource, checked_names
from tapgnn.data.reading.text_blocks import read_blocks
from tapgnn.errors import DataError

FORMATS = ("csv", "tsv", "parquet", "arrow", "jsonl", "jodie", "edges", "snap")
SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl"}
SUFFIXES |= {
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".edges": "edges",
    ".txt": "snap",
}
BATCH_ROWS = 1 << 17
FIRST_ROWS = 10_000  # of which the columns and their kinds are found


def open_source(path: Path, format: str | None, is_header: IsHeader) -> TableSource:
    """Detect the format of a file and its column names, which are 1, 2, 3, ... without a header."""
    if not path.is_file():
        if path.exists() and not path.is_dir():
            raise DataError(f"{path} is a pipe or a device, not a regular file; save its content to a file first")
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {what}; pass the path of a file of events")
    chosen = format or _format_of(path)
    if chosen not in FORMATS:
        raise DataError(f"{path.name}: unknown format {chosen!r}; pass --format with one of {', '.join(FORMATS)}")
    if chosen in ("parquet", "arrow"):
        return _open_parquet(path) if chosen == "parquet" else _open_arrow(path)
    return _open_json_lines(path) if chosen == "jsonl" else open_delimited(path, chosen, is_header)


def _format_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    plain = suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes
    found = SUFFIXES.get(plain[-1]) if plain else None
    if found is None:
        endings = ", ".join(SUFFIXES)
        raise DataError(
            f"{path.name}: the file name does not end in one of {endings} (optionally with .gz); pass --format"
        )
    return found


def _open_json_lines(path: Path) -> TableSource:
    """One JSON object per line; the columns are the keys of the objects in the first block."""
    blocks = read_blocks(path)
    number, block = next(((line, text) for line, text in blocks if text.strip()), (1, b""))
    if block.lstrip()[:1] == b"[":
        raise DataError(f"{path.name} line {number}: this is a JSON list; write one JSON object per line")
    first, places, rejected = decode_objects(number, block.decode().split("\n"))
    while len(first) < FIRST_ROWS and (more := next(blocks, None)) is not None:
        records, lines, bad = decode_objects(more[0], more[1].decode().split("\n"))
        first, places, rejected = first + records, places + lines, rejected + bad
    columns = list(dict.fromkeys(key for record in first for key in record))
    if not columns:
        where, why = rejected[0] if rejected else (number, "it is empty")
        raise DataError(f"{path.name} line {where}: {why}; write one JSON object per line")

    def read(names: Sequence[str]) -> Iterator[RawTable]:
        later = (decode_objects(start, text.decode().split("\n")) for start, text in blocks)
        for records, lines, bad in chain([(first, places, rejected)], later):
            cells = {name: [record.get(name) for record in records] for name in names}
            yield RawTable(cells, np.array(lines, dtype=np.int64), bad)

    return TableSource(path.name, "jsonl", columns, read, typed=True)


def decode_objects(number: int, lines: Sequence[str]) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]:
    """The objects of some lines from `number` on, their line numbers, and the lines without an object."""
    records, places, rejected = [], [], []
    for line, text in enumerate(lines, start=number):
        if not text.strip():
            continue
        try:
            record = _JSON.decode(text)
        except (ValueError, RecursionError) as error:
            cause = str(error) if isinstance(error, DataError) else "it is not valid JSON"
            rejected.append((line, cause))
            continue
        if isinstance(record, dict):
            records.append(record)
            places.append(line)
        else:
            rejected.append((line, "it is not a JSON object"))
    return records, places, rejected


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise DataError("it has a duplicate key")
    return record


_JSON = json.JSONDecoder(object_pairs_hook=_record)
_FAULTS = (OSError, pa.ArrowException, pl.exceptions.PolarsError, UnicodeDecodeError, OverflowError, MemoryError)


def _open_parquet(path: Path) -> TableSource:
    """Parquet with flat columns; page checksums are verified if the file has them."""
    damage = f"{path.name} is damaged or not a Parquet file; check --format, or download the file again"
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        columns = checked_names(path.name, file.schema_arrow.names)
    except _FAULTS:
        raise DataError(damage) from None

    def batches(names: Sequence[str]) -> Iterator[Any]:
        return iter(file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False))

    return _arrow_source(path.name, "parquet", columns, batches, damage)


def _open_arrow(path: Path) -> TableSource:
    """An Arrow IPC file, also called Feather."""
    damage = f"{path.name} is damaged or not an Arrow file; check --format, or write the file again"
    try:
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        columns = checked_names(path.name, file.schema.names)
    except _FAULTS:
        raise DataError(damage) from None

    def batches(names: Sequence[str]) -> Iterator[Any]:
        for place in range(file.num_record_batches):
            batch = file.get_batch(place)
            batch.validate(full=True)
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.select(list(names)).slice(start, BATCH_ROWS)

    return _arrow_source(path.name, "arrow", columns, batches, damage)


def _arrow_source(
    name: str, format: str, columns: list[str], batches: Callable[[Sequence[str]], Iterator[Any]], damage: str
) -> TableSource:
    def read(names: Sequence[str]) -> Iterator[RawTable]:
        start = 1
        try:
            for batch in batches(names):
                batch.validate(full=True)
                cells = {name: pl.from_arrow(batch.column(name)) for name in names}
                yield RawTable(cells, np.arange(start, start + batch.num_rows, dtype=np.int64))
                start += batch.num_rows
        except _FAULTS:
            raise DataError(damage) from None

    return TableSource(name, format, columns, read, place="row", typed=True, repeatable=True)
