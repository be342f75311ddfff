"""TypedRows: rows of a file as ids, times, labels and features, converted from a raw table by the rules of `values`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from tapgnn.events import Events, Floats, Ints
from tapgnn.vocabulary import Vocabulary


@dataclass(frozen=True)
class TypedRows:
    """Converted rows: `src`, `dst` [E] integers or objects, `time` [E], `features` [E, f], `labels` [E]."""

    src: NDArray[Any]
    dst: NDArray[Any]
    time: Floats
    features: NDArray[np.float32] | None
    labels: Ints | None
    places: Ints

    def take(self, rows: slice | Bools) -> TypedRows:
        """Some of the rows."""
        return TypedRows(*(None if column is None else column[rows] for column in self._columns()))  # type: ignore[arg-type]

    def _columns(self) -> tuple[NDArray[Any] | None, ...]:
        return self.src, self.dst, self.time, self.features, self.labels, self.places

    @staticmethod
    def joined(batches: Sequence[TypedRows]) -> TypedRows:
        """The rows of all batches, in order."""
        columns = zip(*(batch._columns() for batch in batches), strict=True)
        return TypedRows(*(None if parts[0] is None else np.concatenate(parts) for parts in columns))  # type: ignore[arg-type]

    def events(self, vocabulary: Vocabulary) -> Events:
        """These rows as events."""
        return Events.from_arrays(self.src, self.dst, self.time, self.features, self.labels, vocabulary)


class RowCollector:
    """Collects the rows of a file: ids become numbers immediately, and only one copy of a column is kept."""

    def __init__(self) -> None:
        self._names = Vocabulary()
        self._columns: list[list[NDArray[Any] | None]] = [[] for _ in range(5)]
        self._sorted, self._last = True, -np.inf

    def add(self, batch: TypedRows) -> None:
        """Add rows."""
        kind = np.int64 if batch.src.dtype == batch.dst.dtype == np.int64 else object
        ends = np.empty(2 * len(batch.time), dtype=kind)
        ends[0::2], ends[1::2] = batch.src, batch.dst
        rows = self._names.add(ends)
        columns = (rows[0::2].copy(), rows[1::2].copy(), batch.time, batch.features, batch.labels)
        for parts, column in zip(self._columns, columns, strict=True):
            parts.append(column)
        self._sorted &= bool(batch.time[0] >= self._last and (np.diff(batch.time) >= 0).all())
        self._last = float(batch.time[-1])

    def events(self, vocabulary: Vocabulary) -> Events:
        """The rows as events, sorted by time (stable), with ids in order of first appearance."""
        time = _joined(self._columns[2])
        order = None if self._sorted else np.argsort(time, kind="stable")
        src, dst, features, labels = (
            column if column is None or order is None else column[order]
            for column in (_joined(self._columns[place]) for place in (0, 1, 3, 4))
        )
        ids = self._names.ids
        appearing = range(len(ids)) if order is None else _by_appearance(src, dst, len(ids))
        row = np.empty(len(ids), dtype=np.int64)
        row[appearing] = vocabulary.add([ids[old] for old in appearing])
        time = time if order is None else time[order]
        return Events(row[src], row[dst], time, features, labels, vocabulary)


def _joined(parts: list[NDArray[Any] | None]) -> Any:
    """The concatenation of all parts, each freed as soon as it is copied; None if there is no such column."""
    first = parts[0]
    if first is None:
        return None
    whole = np.empty((sum(len(part) for part in parts if part is not None), *first.shape[1:]), dtype=first.dtype)
    start = 0
    for place, part in enumerate(parts):
        if part is not None:
            whole[start : start + len(part)] = part
            start += len(part)
        parts[place] = None
    return whole


def _by_appearance(src: Ints, dst: Ints, size: int) -> Ints:
    """[N] the rows in order of first appearance in src[0], dst[0], src[1], dst[1], ..."""
    first = np.full(size, 2 * len(src))
    for offset, column in enumerate((src, dst)):
        place = np.full(size, 2 * len(src))
        place[column[::-1]] = np.arange(2 * (len(column) - 1), -2, -2) + offset  # the last one written is the first
        first = np.minimum(first, place)
    return np.argsort(first, kind="stable")


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
        batch = batch.take(good)
    return batch, bad, min(faults) if faults else None
