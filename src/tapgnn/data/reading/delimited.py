"""Delimited text: CSV, TSV, JODIE, edges and SNAP -> tables of text columns.

Polars splits each block. A block with quotes, comments, blank lines or ragged rows takes a slow path, which tracks the
line number of every row and rejects rows with a wrong number of fields.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl

from tapgnn.data.reading.table_source import RawTable, TableSource, checked_names
from tapgnn.data.reading.text_blocks import read_blocks
from tapgnn.errors import DataError

JODIE = ("user_id", "item_id", "timestamp", "state_label")
JODIE_FEATURES = "comma_separated_list_of_features"
_COMMENT = re.compile(rb"^[ \t]*[%#]", re.MULTILINE)

IsHeader = Callable[[Sequence[str]], bool]


def open_delimited(path: Path, format: str, is_header: IsHeader) -> TableSource:
    """CSV, TSV and JODIE (quoted fields, no comments); edges and SNAP (% and # comments, commas or blanks)."""
    quoted = format not in ("edges", "snap")
    blocks = read_blocks(path, quoted)
    filled = ((line, text) for line, text in blocks if any(True for _ in _rows(text, ",", quoted)))
    number, block = next(filled, (1, b""))
    separator = _separator(format, block)
    rows = _rows(block, separator, quoted)
    start, first = next(rows, (0, []))
    if not first:
        raise DataError(f"{path.name} is empty or starts with a malformed row; at least one event is needed")
    if format == "csv" and first[-1].lower() == JODIE_FEATURES:
        format = "jodie"
    header = is_header(first)
    start, data = next(rows, (block.count(b"\n"), first)) if header else (start, first)
    names = first if header else [str(place + 1) for place in range(len(data))]
    numbers: tuple[str, ...] = ()
    if format == "jodie":  # its header names fewer columns than the file has
        numbers = tuple(f"f{place}" for place in range(len(data) - len(JODIE)))
        names = [*JODIE, *numbers][: len(data)]
    columns = checked_names(path.name, names)

    def read(_: Sequence[str]) -> Iterator[RawTable]:
        for line, text in chain([(number + start, block.split(b"\n", start)[-1])], blocks):
            table = _split(text, line, columns, separator, quoted)
            if format == "jodie":  # users and items have separate numberings, so their ids must differ
                for name, side in (("user_id", "u"), ("item_id", "i")):
                    table.columns[name] = side + table.columns[name]
            yield table

    by_position = not header and format != "jodie"
    return TableSource(path.name, format, columns, read, by_position=by_position, numbers=numbers)


def _separator(format: str, block: bytes) -> str:
    """The field separator, judged by the first line that is not a comment."""
    if format in ("tsv", "jodie"):
        return "\t" if format == "tsv" else ","
    lines = (line for line in block.decode().split("\n") if line.strip())
    if format == "csv":
        line = next(lines, "")
        return max(",;\t|", key=line.count)
    line = next((line.strip() for line in lines if line.lstrip()[0] not in "%#"), "")
    # An event has at least three fields: with fewer tabs than that, tabs are ordinary blanks.
    return "," if "," in line else "\t" if line.count("\t") > 1 else " "


def _rows(block: bytes, separator: str, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """The slow path: the line within the block and the fields of each row; no fields if the quoting is malformed."""
    if not quoted:
        for offset, line in enumerate(block.decode().split("\n")):
            text = line.strip(" \t")
            if text and text[0] not in "%#":
                cells = text.split() if separator == " " else text.split(separator)
                yield offset, [cell.strip(" \t") for cell in cells]
        return
    reader = csv.reader(io.StringIO(block.decode(), newline="\n"), delimiter=separator, strict=True)
    while True:
        offset = reader.line_num
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield offset, []
        else:
            if fields:
                yield offset, [cell.strip(" \t") for cell in fields]


def _split(block: bytes, number: int, columns: list[str], separator: str, quoted: bool) -> RawTable:
    """The rows of a block; rows with a wrong number of fields are rejected."""
    frame = _split_evenly(block, columns, separator, quoted)
    if frame is not None:
        return RawTable(frame.to_dict(), number + np.arange(frame.height))
    rows, places, rejected = [], [], []
    for offset, fields in _rows(block, separator, quoted):
        if len(fields) == len(columns):
            rows.append([cell or None for cell in fields])
            places.append(number + offset)
        else:
            reason = f"it has {len(fields)} fields, expected {len(columns)}" if fields else "its quoting is malformed"
            rejected.append((number + offset, reason))
    split = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
    return RawTable(split.to_dict(), np.array(places, dtype=np.int64), rejected)


def _split_evenly(block: bytes, columns: list[str], separator: str, quoted: bool) -> pl.DataFrame | None:
    """The fast path: columns of text, or None unless every row is one line with the same number of fields."""
    mixed_blanks = separator == " " and b"\t" in block
    if b'"' in block if quoted else mixed_blanks or _COMMENT.search(block):
        return None
    try:
        frame = pl.read_csv(
            block, has_header=False, schema=dict.fromkeys(columns, pl.String), separator=separator, quote_char=None
        )
    except pl.exceptions.PolarsError:
        return None
    if frame.height != block.count(b"\n") or frame[:, -1].null_count():
        return None
    if b" " in block or b"\t" in block:
        frame = frame.select(pl.all().str.strip_chars(" \t").replace("", None))
    return frame
