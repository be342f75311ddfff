"""The trace of one `advance`: the embeddings of the temporal nodes of its events, and answers to questions in between.

A query (v, t) reads v's latest temporal node strictly before t: one of these events', or what was carried into them,
or, for a node that is not active in them, its row in the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tapgnn.events import Floats
from tapgnn.model.state import Past, State, check_before
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
    successor: State

    def past(self, node: Tensor, time: Tensor) -> Past:
        """What was known of each (node, time) strictly before the time, with its gradient."""
        self.successor.check_usable()
        asked, when = node.cpu().numpy(), time.cpu().numpy()
        place = self.view.before(asked, when)
        elsewhere = np.flatnonzero(place < 0)
        inside = self.view.size + len(self.view.nodes)
        place[elsewhere] = inside + np.arange(len(elsewhere))
        rows = self.successor.rows(node[torch.from_numpy(elsewhere).to(node.device)])
        index = torch.from_numpy(place).to(node.device)
        seen = self.events_before + np.searchsorted(self.event_time, when, side="left")
        successor = self.successor
        past = Past(
            node,
            time,
            torch.from_numpy(seen).to(time),
            torch.cat([self.facts, self.carried_facts, successor.facts[rows]])[index],
            torch.cat([self.embedding, self.carried_embedding, successor.embedding[rows]])[index],
            torch.cat([self.sketch, self.carried_sketch, successor.sketch[rows]])[index],
        )
        check_before(past)
        return past
