"""What a model makes of the columns of a batch, at the moment at which the batch is applied or scored.

A journal keeps what was sent, perhaps to a model with other columns. A column that this one knows and the batch does
not have is missing; one that was of another kind, or dropped, is read by the rules for files, and what does not fit is
missing; one that this model does not know is ignored. The last two are logged once for each column.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.reading.values import convert_booleans, convert_categories, convert_numbers
from tapgnn.errors import DataError, EventError
from tapgnn.online.journal.cell_conversion import CONVERT, shown
from tapgnn.online.journal.event_batch import EventBatch

log = logging.getLogger(__name__)

_BY_FILE_RULES: dict[str, Any] = {
    "number": convert_numbers,
    "boolean": convert_booleans,
    "category": partial(convert_categories, typed=True),
}


class BatchFeatures:
    """Features of batches by a fitted schema.

    ignored   the columns seen that it does not have
    unfit     of columns seen that were of another kind, how many cells do not fit
    """

    def __init__(self, table: FittedSchema) -> None:
        self.table = table
        self.ignored: list[str] = []
        self.unfit: dict[str, int] = {}
        schema = table.schema
        self._not_taken = {*schema.dropped, schema.id}
        self._last: tuple[EventBatch, NDArray[np.float32] | None] | None = None

    def of(self, batch: EventBatch) -> NDArray[np.float32] | None:
        """Features [E, f] of a batch, None for a model without any; those of the latest batch are kept."""
        if self._last is None or self._last[0] is not batch:
            self._last = batch, self.table.features(self._fitting(batch), len(batch))
        return self._last[1]

    def _fitting(self, batch: EventBatch) -> dict[str, NDArray[Any]]:
        """The columns that the schema has, each of its kind."""
        kinds = self.table.schema.columns
        others = (batch.columns.keys() - kinds.keys()) | (batch.kept.keys() - kinds.keys() - self._not_taken)
        fresh = sorted(others.difference(self.ignored))
        if fresh:
            self.ignored += fresh
            log.warning("columns that the model does not know are ignored: %s", ", ".join(fresh))
        found = {}
        for name, kind in kinds.items():
            sent = _sent_kind(batch, name)
            if sent == kind:
                found[name] = batch.columns[name]
            elif sent is not None:
                found[name] = self._converted(name, kind, _cells(batch, name, sent))
        return found

    def _converted(self, name: str, kind: str, cells: list[Any]) -> NDArray[Any]:
        """Cells [E] as the kind that the schema has for their column; those that do not fit are missing."""
        try:
            return CONVERT[kind](name, cells)
        except EventError:
            pass
        try:
            column, good = _BY_FILE_RULES[kind](cells, name)
        except DataError:
            column, good = np.full(len(cells), None if kind == "category" else np.nan), np.zeros(len(cells), dtype=bool)
        unfit = np.flatnonzero(~good)
        if len(unfit):
            if name not in self.unfit:
                log.warning("%s: what is no %s is missing, such as %s", name, kind, shown(cells[unfit[0]]))
            self.unfit[name] = self.unfit.get(name, 0) + len(unfit)
            column[unfit] = None if kind == "category" else np.nan
        return column  # type: ignore[no-any-return]


def _sent_kind(batch: EventBatch, name: str) -> str | None:
    """The kind of a column when it was sent, 'dropped' of one that was only kept; None where it was not sent."""
    if name not in batch.columns:
        return "dropped" if name in batch.kept else None
    return "category" if batch.columns[name].dtype == object else "boolean" if name in batch.booleans else "number"


def _cells(batch: EventBatch, name: str, kind: str) -> list[Any]:
    """The cells [E] of a column as JSON has them; a number is written as briefly as it can be."""
    if kind == "dropped":
        return list(batch.kept[name])
    cells: list[Any] = batch.columns[name].tolist()
    if kind == "category":
        return cells
    shorter = bool if kind == "boolean" else lambda cell: int(cell) if cell.is_integer() else cell
    return [None if cell != cell else shorter(cell) for cell in cells]
