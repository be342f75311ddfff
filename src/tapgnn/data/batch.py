"""Batch: rows of a file with their values, and how a table becomes one; `values` has the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.columns import Layout
from tapgnn.data.source import Source, Table
from tapgnn.data.values import (
    Bools,
    convert_labels,
    convert_numbers,
    convert_text_ids,
    convert_times,
    convert_typed_ids,
    explain,
)
from tapgnn.events import Events, Floats, Ints, Vocabulary


@dataclass(frozen=True)
class Batch:
    """Rows with their values: `src`, `dst` [E] integers or objects, `time` [E], `features` [E, f], `labels` [E]."""

    src: NDArray[Any]
    dst: NDArray[Any]
    time: Floats
    features: NDArray[np.float32] | None
    labels: Ints | None
    places: Ints

    def __getitem__(self, rows: slice | Bools) -> Batch:
        return Batch(*(None if column is None else column[rows] for column in self._columns()))  # type: ignore[arg-type]

    def _columns(self) -> tuple[NDArray[Any] | None, ...]:
        return self.src, self.dst, self.time, self.features, self.labels, self.places

    @staticmethod
    def joined(batches: Sequence[Batch]) -> Batch:
        """One batch after the other."""
        columns = zip(*(batch._columns() for batch in batches), strict=True)
        return Batch(*(None if parts[0] is None else np.concatenate(parts) for parts in columns))  # type: ignore[arg-type]

    def events(self, vocabulary: Vocabulary) -> Events:
        """These rows as events."""
        return Events.from_arrays(self.src, self.dst, self.time, self.features, self.labels, vocabulary)


def convert_table(table: Table, layout: Layout, source: Source) -> tuple[Batch, int, tuple[int, str] | None]:
    """The good rows, how many are bad, and the place and fault of the first of those."""
    raw, checks = table.columns, []

    def checked(role: str, name: str, convert: Callable[[Any, str], tuple[NDArray[Any], Bools]]) -> NDArray[Any]:
        values, good = convert(raw[name], f"{source.name}: column {name!r}")
        checks.append((role, raw[name], good))
        return values

    ids = convert_typed_ids if source.typed else convert_text_ids
    src, dst = checked("src", layout.src, ids), checked("dst", layout.dst, ids)
    time = checked("time", layout.time, convert_times)
    labels = None if layout.label is None else checked("label", layout.label, convert_labels)
    vectors = [checked(f"feature {name}", name, convert_numbers) for name in layout.features]
    features = np.column_stack(vectors) if vectors else None

    batch = Batch(src, dst, time, features, labels, table.places)
    good = np.logical_and.reduce([mask for _, _, mask in checks])
    faults = table.rejected[:1]
    bad = len(table.rejected) + int((~good).sum())
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        role, cells = next((role, cells) for role, cells, mask in checks if not mask[row])
        faults = [*faults, (int(table.places[row]), explain(role, cells[row]))]
        batch = batch[good]
    return batch, bad, min(faults) if faults else None
