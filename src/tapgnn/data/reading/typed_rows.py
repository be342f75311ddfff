"""TypedRows: rows of a file as ids, times, labels and features, converted from a raw table by the rules of `values`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.chunking import take_rows
from tapgnn.data.reading.columns import ColumnRoles
from tapgnn.data.reading.table_source import RawTable, TableSource
from tapgnn.data.reading.values import (
    Bools,
    convert_labels,
    convert_numbers,
    convert_text_ids,
    convert_times,
    convert_typed_ids,
    explain,
)
from tapgnn.events import Events, Floats, Ints, interleaved
from tapgnn.vocabulary import Vocabulary


class TypedRows(NamedTuple):
    """Converted rows: `src`, `dst` [E] integers or objects, `time` [E], `features` [E, f], `labels` [E]."""

    src: NDArray[Any]
    dst: NDArray[Any]
    time: Floats
    features: NDArray[np.float32] | None
    labels: Ints | None
    places: Ints


def collect(batches: Iterable[TypedRows], vocabulary: Vocabulary) -> Events:
    """All rows as events, sorted by time (stable); ids become numbers at once, and one copy of a column is kept."""
    names = Vocabulary()
    parts: list[list[Any]] = [[] for _ in range(5)]
    for batch in batches:
        rows = names.add(interleaved(batch.src, batch.dst))
        columns = (rows[0::2].copy(), rows[1::2].copy(), batch.time, batch.features, batch.labels)
        for held, column in zip(parts, columns, strict=True):
            held.append(column)
    whole = [_joined(held) for held in parts]
    appearing: Any = range(len(names))
    if (whole[2][1:] < whole[2][:-1]).any():
        order = np.argsort(whole[2], kind="stable")
        whole = [None if column is None else column[order] for column in whole]
        place = np.empty(len(names), dtype=np.int64)
        ends = interleaved(*whole[:2])
        place[ends[::-1]] = -np.arange(len(ends))  # the last one written is the first
        appearing = np.argsort(place)
    row = np.empty(len(names), dtype=np.int64)
    row[appearing] = vocabulary.add([names.ids[old] for old in appearing])
    src, dst, time, features, labels = whole
    return Events(row[src], row[dst], time, features, labels, vocabulary)


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
    table: RawTable, roles: ColumnRoles, source: TableSource
) -> tuple[TypedRows, int, tuple[int, str] | None]:
    """The good rows, the number of bad ones, and the position and fault of the first bad one."""
    raw, checks = table.columns, []

    def checked(role: str, name: str, convert: Callable[[Any, str], tuple[NDArray[Any], Bools]]) -> NDArray[Any]:
        values, good = convert(raw[name], f"{source.name}: column {name!r}")
        checks.append((role, raw[name], good))
        return values

    ids = convert_typed_ids if source.typed else convert_text_ids
    src, dst = checked("src", roles.src, ids), checked("dst", roles.dst, ids)
    time = checked("time", roles.time, convert_times)
    labels = None if roles.label is None else checked("label", roles.label, convert_labels)
    vectors = [checked(f"feature {name}", name, convert_numbers) for name in roles.features]
    features = np.column_stack(vectors) if vectors else None

    batch = TypedRows(src, dst, time, features, labels, table.places)
    good = np.logical_and.reduce([mask for _, _, mask in checks])
    faults = table.rejected[:1]
    bad = len(table.rejected) + int((~good).sum())
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        role, cells = next((role, cells) for role, cells, mask in checks if not mask[row])
        faults = [*faults, (int(table.places[row]), explain(role, cells[row]))]
        batch = take_rows(batch, good)
    return batch, bad, min(faults) if faults else None
