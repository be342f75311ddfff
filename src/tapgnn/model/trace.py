"""The trace of one `advance`: the embeddings of the temporal nodes of its events, and answers to questions in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tapgnn.events import Floats
from tapgnn.model.rows import Rows
from tapgnn.model.state import Past, State, check_after
from tapgnn.unfold import Unfolding


@dataclass
class Trace:
    """Rows of the temporal nodes [T, .], of the chains before the first of them [C, .], and the state that follows.

    view       the unfolding of the events: nodes, times and chains of the rows
    embedding  [T, d] h_K of each temporal node
    """

    view: Unfolding
    embedding: Tensor
    facts: Tensor
    sketch: Tensor
    carried_embedding: Tensor
    carried_facts: Tensor
    carried_sketch: Tensor
    event_time: Floats
    events_before: int
    clock_before: float
    successor: State

    def past(self, node: Tensor, time: Tensor) -> Past:
        """What was known of each (node, time) strictly before the time, with its gradient."""
        state = self.successor
        state.check_usable()
        check_after(self.clock_before, time)
        asked, when = node.numpy(force=True), time.numpy(force=True)
        place = torch.from_numpy(self.view.before(asked, when)).to(node.device)
        rows = state.rows(node)
        seen = self.events_before + np.searchsorted(self.event_time, when, side="left")
        return Past(
            node,
            time,
            torch.from_numpy(seen).to(time),
            Rows(place, rows, self.facts, self.carried_facts, state.facts).tensor(),
            Rows(place, rows, self.embedding, self.carried_embedding, state.embedding).tensor(),
            Rows(place, rows, self.sketch, self.carried_sketch, state.sketch),
        )
