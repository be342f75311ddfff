"""The columns of events as they were sent, beside the events that the state absorbs.

The reorder buffer holds what the model takes of an event. What was sent stays in its batch (of the columns that no
model takes, the id of the event), which is kept as long as one of its events waits; position and index lead from the
event to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.events import Ints
from tapgnn.online.journal.event_batch import EventBatch


class SentBatches:
    """Batches by their position in the journal."""

    def __init__(self, id: str | None) -> None:
        """`id` is the column that holds the id of the event."""
        self._id = id
        self._batches: dict[int, EventBatch] = {}
        self._most = 64

    def add(self, position: int, batch: EventBatch) -> None:
        """Keep a batch."""
        self._batches[position] = batch.keeping(self._id)

    def forget_all_but(self, pending: Ints) -> None:
        """Drop batches without a pending event, when enough have gathered to be worth a look."""
        if len(self._batches) > self._most:
            wanted = set(np.unique(pending).tolist())
            self._batches = {at: batch for at, batch in self._batches.items() if at in wanted}
            self._most = max(64, 2 * len(self._batches))

    def columns_of(self, position: Ints, index: Ints) -> SentColumns:
        """The columns of events by position and index [E]."""
        return SentColumns(self._batches, position, index)


class SentColumns(Mapping[str, NDArray[Any]]):
    """Columns by name, gathered when they are asked for; valid until the next record is applied."""

    def __init__(self, batches: Mapping[int, EventBatch], position: Ints, index: Ints) -> None:
        self._batches, self._position, self._index = batches, position, index

    def _parts(self) -> Iterator[tuple[EventBatch, Ints, Ints]]:
        """Each batch, the events that are of it, and their rows in it."""
        for at in np.unique(self._position).tolist():
            batch, mine = self._batches.get(at), np.flatnonzero(self._position == at)
            if batch is None:
                continue
            index = self._index[mine]
            yield batch, mine, index if batch.index is None else np.searchsorted(batch.index, index)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for batch, *_ in self._parts() for name in (*batch.columns, *batch.kept)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> NDArray[Any]:
        cells = np.full(len(self._position), None, dtype=object)
        found = False
        for batch, mine, rows in self._parts():
            if name in batch.columns:
                cells[mine], found = batch.columns[name][rows], True
            elif name in batch.kept:
                cells[mine], found = [batch.kept[name][row] for row in rows.tolist()], True
        if not found:
            raise KeyError(name)
        return cells
