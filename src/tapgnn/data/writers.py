"""Writers: `Events` -> a file that `read_events` reads back as the same events."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tapgnn.data.formats import BATCH_ROWS
from tapgnn.data.values import INTEGER, is_id, shorten
from tapgnn.errors import DataError
from tapgnn.events import Events


def write_events(events: Events, path: str | Path) -> None:
    """Write columns src, dst, time, label, f0, f1, ... as CSV, TSV, JSON lines (each also `.gz`) or Parquet.

    `read_events` gives back the same events. Ids that a format cannot hold exactly are refused, never changed. The file
    appears under its name only when it is complete.
    """
    target = Path(path)
    packed = target.suffix == ".gz"
    ending = Path(target.stem).suffix if packed else target.suffix
    if ending not in (".csv", ".tsv", ".jsonl", ".parquet") or (packed and ending == ".parquet"):
        raise DataError(f"{target.name}: end the name in .csv, .tsv, .jsonl (or one of these and .gz) or .parquet")
    frame = _frame(events, target.name, ending)
    part = target.with_name(target.name + ".part")
    try:
        if ending == ".parquet":
            table = frame.to_arrow()
            pq.write_table(table, part, row_group_size=BATCH_ROWS, compression="zstd", write_page_checksum=True)
        else:
            with cast(BinaryIO, gzip.open(part, "wb")) if packed else open(part, "wb") as stream:
                if ending == ".jsonl":
                    stream.writelines(json.dumps(row).encode() + b"\n" for row in frame.iter_rows(named=True))
                else:
                    frame.write_csv(stream, separator="\t" if ending == ".tsv" else ",")
        os.replace(part, target)
    except OSError as error:
        raise DataError(
            f"{target.name} cannot be written ({error.strerror or error}); check folder and space"
        ) from None
    finally:
        part.unlink(missing_ok=True)


def _frame(events: Events, file: str, ending: str) -> pl.DataFrame:
    names = _checked_names(events, file, ending)
    kind = pl.Int64 if names.dtype == np.int64 else pl.Object if ending == ".jsonl" else pl.String
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


def _checked_names(events: Events, file: str, ending: str) -> NDArray[Any]:
    """The ids by row in a type the format can hold: integers, strings, or (JSON lines) objects of both."""
    ids = events.vocabulary.ids
    used = np.unique(np.concatenate([events.src, events.dst]))
    texts = [name for row in used if isinstance(name := ids[row], str)]
    for name in texts:
        if not is_id(name) or (ending in (".csv", ".tsv") and not _survives_text(name)):
            raise DataError(
                f"{file}: {ending} cannot hold the id {shorten(name)} exactly; write .parquet, or rename it"
            )
    if texts and len(texts) < len(used) and ending == ".parquet":
        raise DataError(f"{file}: some ids are integers and some are strings, Parquet holds one type; write .jsonl")
    names = np.zeros(len(ids), dtype=object if texts else np.int64)
    names[used] = [str(ids[row]) if texts and ending in (".csv", ".tsv") else ids[row] for row in used]
    return names


def _survives_text(name: str) -> bool:
    """Whether a string comes back from CSV as it was: not as an integer, not trimmed, not over two lines."""
    return not (INTEGER.match(name) or name != name.strip(" \t") or any(mark in name for mark in "\n\r\0"))
