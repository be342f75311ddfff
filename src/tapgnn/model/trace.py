"""The trace of one `advance`: embeddings of the temporal nodes of its events, and answers to what was asked between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tapgnn.events import Floats, Ints
from tapgnn.model.state import Past, State, Tables
from tapgnn.unfold import Unfolding


class Reached(NamedTuple):
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
    reached: Reached
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
        until, limit = np.searchsorted(self.event_time, time, side="left"), time
        if self.lag > 1 and len(self.event_time):
            batch = until - until % self.lag
            limit = np.where(
                batch < len(self.event_time), self.event_time[np.minimum(batch, len(self.event_time) - 1)], time
            )
            until = np.searchsorted(self.event_time, limit, side="left")
        seen = self.events_before + until.astype(np.float64)
        return Past(node, self.view.before(node, limit), row, time, seen, self)

    def tables(self) -> Tables:
        """The rows that can be asked for, as tensors."""
        rows = list(map(torch.as_tensor, self.reached))
        return tuple(zip(rows[:4], rows[4:8], self.successor.arenas(), strict=True))

    def table_arrays(self) -> Tables:
        """The same as arrays."""
        rows = list(map(_array, self.reached))
        return tuple(zip(rows[:4], rows[4:8], self.successor.arrays()[1:], strict=True))


def _array(rows: Any) -> Any:
    return rows.detach().numpy() if isinstance(rows, Tensor) else rows
