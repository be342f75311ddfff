"""The trace of one `advance`: the embeddings of the temporal nodes of its events, and answers to questions in between.

A query (v, t) reads v's latest temporal node strictly before t: one of these events', or what was carried into them,
or, for a node that is not active in them, its row in the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor

from tapgnn.events import Floats
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
            pick_rows(place, rows, self.facts, self.carried_facts, state.facts),
            plainly_pick_rows(place, rows, self.embedding, self.carried_embedding, state.embedding),
            pick_rows(place, rows, self.sketch, self.carried_sketch, state.sketch),
        )


def pick_rows(place: Tensor, rows: Tensor, here: Tensor, carried: Tensor, arena: Tensor) -> Tensor:
    """[Q, w] here[place], carried[place - T] where place is beyond the T rows of here, arena[rows] where it is -1."""
    if here.device.type != "cpu":
        return plainly_pick_rows(place, rows, here, carried, arena)
    out = arena.new_empty(len(place), arena.shape[1])
    _pick_rows(*(tensor.numpy() for tensor in (place, rows, here, carried, arena, out)))
    return out


def plainly_pick_rows(place: Tensor, rows: Tensor, here: Tensor, carried: Tensor, arena: Tensor) -> Tensor:
    """`pick_rows` in plain torch, with gradients."""
    elsewhere = (place < 0).nonzero().squeeze(1)
    outside = arena.index_select(0, rows.index_select(0, elsewhere))
    inside = len(here) + len(carried)
    where = place.clone()
    where[elsewhere] = torch.arange(inside, inside + len(elsewhere), device=place.device)
    return torch.cat([here, carried, outside]).index_select(0, where)


@nb.njit(nogil=True, cache=True)
def _pick_rows(place: Any, rows: Any, here: Any, carried: Any, arena: Any, out: Any) -> None:
    size = len(here)
    for q in range(len(place)):
        p = place[q]
        if p < 0:
            out[q] = arena[rows[q]]
        elif p < size:
            out[q] = here[p]
        else:
            out[q] = carried[p - size]
