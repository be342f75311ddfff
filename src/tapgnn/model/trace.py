"""The trace of one `advance`: embeddings of the temporal nodes of its events, and answers to what was asked between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from tapgnn.events import Floats, Ints
from tapgnn.model.state import Past, Places, State, Tables, check_after
from tapgnn.unfold import Unfolding


class Reached(NamedTuple):
    """Rows of the temporal nodes of some events [T, .], those carried into their chains [C, .], and h_{K-1} [T, d]."""

    facts: Tensor
    embedding: Tensor
    sketch: Tensor
    carried_facts: Tensor
    carried_embedding: Tensor
    carried_sketch: Tensor
    lower: Tensor


@dataclass
class Trace:
    """Rows of the temporal nodes [T, .], of the chains before the first of them [C, .], and the state that follows.

    view       the unfolding of the events: nodes, times and chains of the rows
    embedding  [T, d] h_K of each temporal node
    lower      [T, d] h_{K-1}, of which the last block made its messages; without gradient
    """

    view: Unfolding
    facts: Tensor
    embedding: Tensor
    sketch: Tensor
    carried_facts: Tensor
    carried_embedding: Tensor
    carried_sketch: Tensor
    lower: Tensor
    event_time: Floats
    events_before: int
    clock_before: float
    successor: State

    def check_widths(self, widths: tuple[int, ...]) -> None:
        """Refuse to be asked by a model of another shape."""
        self.successor.check_widths(widths)

    def past(self, node: Tensor, time: Tensor) -> Past:
        """What was known of each (node, time) strictly before the time, with its gradient."""
        return self.find(node.numpy(force=True), time.numpy(force=True)).past()

    def find(self, node: Ints, time: Floats) -> Places:
        """Where (node, time) is known, strictly before the time."""
        state = self.successor
        state.check_usable()
        check_after(self.clock_before, time)
        seen = self.events_before + np.searchsorted(self.event_time, time, side="left")
        return Places(node, self.view.before(node, time), state.rows(node), time, seen.astype(np.float64), self)

    def tables(self) -> tuple[Tables, ...]:
        """See `Known`."""
        state = self.successor
        return (
            (self.facts, self.carried_facts, state.facts),
            (self.embedding, self.carried_embedding, state.embedding),
            (self.sketch, self.carried_sketch, state.sketch),
        )

    def table_arrays(self) -> tuple[tuple[Any, ...], ...]:
        """See `Known`."""
        return tuple(tuple(table.detach().numpy() for table in tables) for tables in self.tables())
