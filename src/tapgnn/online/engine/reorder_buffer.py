"""Pending: events that are in the journal but not yet absorbed, because their instant is open or others may precede.

They are in the order in which they will be absorbed: time, producer, sequence, position in the journal, index in the
batch. Between producers that order does not depend on whose batch arrived first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.events import Events, Floats, Ints
from tapgnn.online.journal.event_batch import Batch
from tapgnn.online.journal.record import Record
from tapgnn.vocabulary import Vocabulary


@dataclass(frozen=True)
class Pending:
    """Columns [E]: rows of the vocabulary, time, features [E, f], and what orders events of one instant."""

    src: Ints
    dst: Ints
    time: Floats
    features: NDArray[np.float32] | None
    producer: NDArray[np.object_]
    sequence: Ints
    position: Ints
    index: Ints

    @classmethod
    def none(cls, width: int) -> Pending:
        """Nothing."""
        number, name = np.empty(0, dtype=np.int64), np.empty(0, dtype=object)
        features = np.empty((0, width), dtype=np.float32) if width else None
        return cls(number, number, np.empty(0), features, name, number, number, number)

    @classmethod
    def of(cls, record: Record, batch: Batch, rows: Ints) -> Pending:
        """The events of a record, not yet in order; `rows` are those of the batch's ids."""
        size = len(batch)
        return cls(
            rows[batch.src],
            rows[batch.dst],
            batch.time,
            batch.features,
            np.full(size, record.producer or "", dtype=object),
            np.full(size, record.sequence or 0, dtype=np.int64),
            np.full(size, record.position, dtype=np.int64),
            batch.sent_index(),
        )

    def __len__(self) -> int:
        return len(self.time)

    def take(self, rows: Any) -> Pending:
        """Chosen events, in the order given."""
        columns: Any = (getattr(self, name) for name in _COLUMNS)
        taken: Any = (None if column is None else column[rows] for column in columns)
        return Pending(*taken)

    def joined(self, others: Pending) -> Pending:
        """These and others, in order."""
        if len(others) == 0:
            return self
        pairs: Any = ((getattr(self, name), getattr(others, name)) for name in _COLUMNS)
        columns: Any = (None if first is None else np.concatenate([first, second]) for first, second in pairs)
        both = Pending(*columns)
        if (both.time[1:] > both.time[:-1]).all():
            return both
        place = {name: rank for rank, name in enumerate(sorted(set(both.producer.tolist())))}
        rank = np.array([place[name] for name in both.producer.tolist()])
        return both.take(np.lexsort((both.index, both.position, both.sequence, rank, both.time)))

    def nodes(self) -> Ints:
        """The rows that these events touch."""
        return np.unique(np.concatenate([self.src, self.dst]))

    def events(self, vocabulary: Vocabulary) -> Events:
        """These events as `advance` takes them."""
        return Events(self.src, self.dst, self.time, self.features, None, vocabulary)


_COLUMNS = tuple(field.name for field in fields(Pending))
