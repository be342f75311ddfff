"""The trace of one `advance`: embeddings of the temporal nodes of its events, and answers to what was asked between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.row_lookup import Rows
from tapgnn.events import Events, Floats, Ints
from tapgnn.kernels.flow import Flow
from tapgnn.model.state import Past, State, Tables
from tapgnn.unfold import Unfolding


class ChunkRows(NamedTuple):
    """Rows of the temporal nodes of some events [T, .], those carried into their chains [C, .], and h_{K-1} [T, d].

    Tensors, or arrays where they were made without gradients.
    """

    statistics: Any
    embedding: Any
    sketch: Any
    partners: Any
    carried_statistics: Any
    carried_embedding: Any
    carried_sketch: Any
    carried_partners: Any
    lower: Any


@dataclass
class Trace:
    """Rows of the temporal nodes, of the chains before the first of them, and the state that follows.

    view     the unfolding of the events: nodes, times and chains of the rows
    reached  the rows themselves
    lag      queries see the events in batches of so many: only those before the batch that their time falls into
    """

    view: Unfolding
    reached: ChunkRows
    event_time: Floats
    events_before: int
    clock_before: float
    successor: State
    lag: int = 0

    @property
    def embedding(self) -> Tensor:
        """[T, d] h_K of each temporal node."""
        return torch.as_tensor(self.reached.embedding)

    def check_widths(self, widths: tuple[int, ...]) -> None:
        """Refuse to be asked by a model of another shape."""
        self.successor.check_widths(widths)

    def past(self, node: Ints, time: Floats) -> Past:
        """What was known of each (node, time) strictly before the time, with its gradient."""
        _, row, _ = self.successor.find(node, time, self.clock_before)
        limit = start_of_batch(self.event_time, time, self.lag)
        seen = self.events_before + np.searchsorted(self.event_time, limit, side="left").astype(np.float64)
        return Past(node, self.view.before(node, limit), row, time, seen, self)

    def tables(self) -> Tables:
        """The rows that can be asked for, as tensors."""
        rows = list(map(torch.as_tensor, self.reached))
        return tuple(zip(rows[:4], rows[4:8], self.successor.arenas(), strict=True))

    def embedding_rows(self, past: Past) -> Rows:
        """The embeddings that queries of this trace read, where they stand."""
        place, row = (torch.from_numpy(column).to(self.embedding.device) for column in (past.place, past.row))
        return Rows(place, row, *self.tables()[1])

    def table_arrays(self) -> Tables:
        """The same as arrays."""
        rows = list(map(_array, self.reached))
        return tuple(zip(rows[:4], rows[4:8], self.successor.arrays()[1:], strict=True))


class Observed(NamedTuple):
    """A chunk before its embeddings are made: its events, how kernels see it, and its trace, without them."""

    events: Events
    flow: Flow
    trace: Trace


def start_of_batch(event_time: Floats, time: Floats, lag: int) -> Floats:
    """[Q] the time before which a query sees events that come in batches of so many: when its batch starts, or its own.

    A query after all events is in no batch.
    """
    if lag < 2 or not len(event_time):
        return time
    first = np.searchsorted(event_time, time, side="left")
    start = first - first % lag
    return np.where(start < len(event_time), event_time[np.minimum(start, len(event_time) - 1)], time)


def whole_batches(size: int, lag: int) -> int:
    """The number of events nearest to `size`, but at least one batch, that makes whole batches of so many.

    >>> whole_batches(512, 0), whole_batches(512, 20), whole_batches(512, 2_000)
    (512, 520, 2000)
    """
    return size if lag < 2 else max(1, round(size / lag)) * lag


def _array(rows: Any) -> Any:
    return rows.detach().numpy() if isinstance(rows, Tensor) else rows
