"""What a model makes of the columns of a batch, at the moment at which the batch is applied or scored.

A journal keeps what was sent, perhaps to another model: a column that this one knows and the batch does not have is
missing, one that this model does not know is ignored, and that is logged once.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.events import Columns
from tapgnn.online.journal.event_batch import EventBatch

log = logging.getLogger(__name__)


class BatchFeatures:
    """Features of batches by a fitted schema; `ignored` are the columns seen that it does not have."""

    def __init__(self, table: FittedSchema) -> None:
        self.table = table
        self.ignored: list[str] = []
        self._last: tuple[EventBatch, NDArray[np.float32] | None] | None = None

    def of(self, batch: EventBatch) -> NDArray[np.float32] | None:
        """Features [E, f] of a batch, None for a model without any; those of the latest batch are kept."""
        if self._last is None or self._last[0] is not batch:
            self._last = batch, self.table.features(self._fitting(batch.columns), len(batch))
        return self._last[1]

    def _fitting(self, columns: Columns) -> dict[str, NDArray[Any]]:
        """The columns that the schema has, each of its kind."""
        kinds = self.table.schema.columns
        if not columns.keys() <= kinds.keys():
            fresh = [name for name in columns if name not in kinds and name not in self.ignored]
            if fresh:
                self.ignored += fresh
                log.warning("columns that the model does not know are ignored: %s", ", ".join(fresh))
        return {
            name: as_texts(column) if kinds[name] == "category" and column.dtype != object else column
            for name, column in columns.items()
            if name in kinds
        }


def as_texts(numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers [E] as the texts that a file would have for them, None where missing."""
    texts = np.empty(len(numbers), dtype=object)
    texts[:] = [
        None if value != value else str(int(value)) if value == int(value) else repr(value)
        for value in numbers.tolist()
    ]
    return texts
