"""TypedRows: rows of a table as ids, times, labels and columns, converted from a raw table by a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.chunking import take_rows
from tapgnn.data.reading.cells import Cells
from tapgnn.data.reading.table_source import RawTable, TableSource
from tapgnn.data.reading.values import (
    convert_booleans,
    convert_categories,
    convert_labels,
    convert_numbers,
    convert_text_ids,
    convert_typed_ids,
    explain,
)
from tapgnn.data.schema import Kind, Schema
from tapgnn.data.wording import COMMAND_LINE, OptionSpelling
from tapgnn.events import Bools, Events, Floats, Ints, interleaved
from tapgnn.vocabulary import Vocabulary

Convert = Callable[[Any, str], tuple[NDArray[Any], Bools]]


class TypedRows(NamedTuple):
    """Converted rows: `src`, `dst` [E] integers or objects, `time` [E], `labels` [E] or None, `columns` by name."""

    src: NDArray[Any]
    dst: NDArray[Any]
    time: Floats
    labels: Ints | None
    columns: dict[str, NDArray[Any]]
    places: Ints


class RowFault(NamedTuple):
    """The first row that cannot be read: its position, the reason, and the options that would let it pass."""

    place: int
    reason: str
    cures: tuple[str, ...] = ()


def collect(batches: Iterable[TypedRows], vocabulary: Vocabulary) -> tuple[Events, Ints]:
    """All rows as events, sorted by time (stable), and the original row [E] of each; one copy of a column is kept."""
    names = Vocabulary()
    parts: dict[Any, list[Any]] = {}
    for batch in batches:
        rows = names.add(interleaved(batch.src, batch.dst))
        fixed = {0: rows[0::2].copy(), 1: rows[1::2].copy(), 2: batch.time, 3: batch.labels}
        for key, column in (fixed | batch.columns).items():
            parts.setdefault(key, []).append(column)
    whole = {key: _joined(held) for key, held in parts.items()}
    appearing: Any = range(len(names))
    order = np.arange(len(whole[2]))
    if (whole[2][1:] < whole[2][:-1]).any():
        order = np.argsort(whole[2], kind="stable")
        for key, column in whole.items():
            whole[key] = None if column is None else column[order]
        place = np.empty(len(names), dtype=np.int64)
        ends = interleaved(whole[0], whole[1])
        place[ends[::-1]] = -np.arange(len(ends))  # the last one written is the first
        appearing = np.argsort(place)
    row = np.empty(len(names), dtype=np.int64)
    row[appearing] = vocabulary.add([names.ids[old] for old in appearing])
    src, dst, time, labels = (whole.pop(key) for key in range(4))
    return Events(row[src], row[dst], time, None, labels, vocabulary, whole), order


def _joined(parts: list[Any]) -> Any:
    """The concatenation of all parts, each freed as soon as it is copied; None if there is no such column."""
    if parts[0] is None:
        return None
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
    start = 0
    for place, part in enumerate(parts):
        whole[start : start + len(part)] = part
        start += len(part)
        parts[place] = None
    return whole


def convert_table(
    table: RawTable, schema: Schema, source: TableSource, wording: OptionSpelling = COMMAND_LINE
) -> tuple[TypedRows, int, RowFault | None]:
    """The good rows, the number of bad ones, and the first bad one; a column that the table lacks is missing."""
    raw, checks, size = table.columns, list[tuple[str, str, Any, Bools]](), len(table.places)

    def checked(role: str, name: str, convert: Convert, kind: str = "") -> NDArray[Any]:
        cells = raw[name] if name in raw else [None] * size
        values, good = convert(cells, f"{source.name}: column {name!r}")
        checks.append((role, kind, cells, good))
        return values

    ids = convert_typed_ids if source.typed else convert_text_ids
    src, dst = checked("src", schema.src, ids), checked("dst", schema.dst, ids)
    time = checked("time", schema.time, schema.clock.convert)
    labels = None
    if schema.label is not None and schema.label in source.columns:
        labels = checked("label", schema.label, partial(convert_labels, values=schema.label_values))
    columns = {name: checked(name, name, converter(kind, source.typed), kind) for name, kind in schema.columns.items()}

    batch = TypedRows(src, dst, time, labels, columns, table.places)
    good = np.logical_and.reduce([mask for *_, mask in checks])
    faults = [RowFault(place, reason) for place, reason in table.rejected[:1]]
    bad = len(table.rejected) + int((~good).sum())
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        role, kind, cells, _ = next(check for check in checks if not check[3][row])
        reason = _reason(role, cells[row], kind, schema)
        faults.append(RowFault(int(table.places[row]), reason, _cures(role, kind, wording)))
        batch = take_rows(batch, good)
    if schema.bipartite:
        batch = batch._replace(src=schema.internal_src(batch.src), dst=schema.internal_dst(batch.dst))
    return batch, bad, min(faults) if faults else None


def converter(kind: Kind, typed: bool) -> Convert:
    """How the cells of a column of this kind are converted."""
    if kind == "category":
        return partial(convert_categories, typed=typed)
    return convert_numbers if kind == "number" else convert_booleans


def convert_column(
    source: TableSource, name: str, cells: Cells, places: Ints, convert: Convert, role: str, kind: str = ""
) -> NDArray[Any]:
    """A column [n] of converted cells; one that cannot be read is an error that names its row."""
    values, good = convert(cells, f"{source.name}: column {name!r}")
    for row in np.flatnonzero(~good)[:1].tolist():
        raise source.fault(int(places[row]), explain(role, cells[row], kind))
    return values


def _reason(role: str, value: Any, kind: str, schema: Schema) -> str:
    if role == "label" and not kind and schema.label_values is not None and value not in (None, ""):
        zero, one = schema.label_values
        return f"label {explain('label', value)[6:].split(' is not ')[0]} is not {zero!r} or {one or 'fraud'!r}"
    if role == "time" and schema.time_format is not None and value not in (None, ""):
        return f"{explain(role, value).split(' is not ')[0]} is not a time written as {schema.time_format}"
    return explain(role, value, kind)


def _cures(role: str, kind: str, wording: OptionSpelling) -> tuple[str, ...]:
    if kind:
        others = ("categorical",) if kind != "category" else ()
        return tuple(wording.option(name, role) for name in (*others, "drop"))
    if role == "label":
        return (f"{wording.option('label', '')} to ignore labels",)
    return ()
