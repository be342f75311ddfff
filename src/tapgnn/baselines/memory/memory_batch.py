"""Memory: a vector per node that a recurrent cell updates at each of its instants; what TGN, JODIE and DyRep share.

    s_v      = cell([partner, role, log(1 + gap), f], s_v-)              at each instant in which v is active
    partner  = s_u- + x_u                                                the other end of v's last event in that instant

A minus means: just before the instant, so that events of one instant do not see each other. A query at t reads the
memory after all instants strictly before t, whatever batch it comes in: a batch keeps every version of a memory (one
per temporal node), and a query picks its own. Versions are computed in waves: all those whose inputs are known,
together.

The last message of each node is *pending*: the state holds the memory before it and the message itself, and the next
batch applies it, with the weights of that moment. So the cell gets a gradient from every node that is read, also where
no node is active twice in one batch. Between batches everything is plain numbers, without gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.baselines.shared.adjacency import Neighbours
from tapgnn.baselines.shared.link_network import event_features
from tapgnn.baselines.shared.row_table import grown, look_up
from tapgnn.baselines.shared.temporal_attention import EventHistory
from tapgnn.compiled.jit import compile_loop
from tapgnn.events import Events, Floats, Ints
from tapgnn.unfold import SOURCE, unfold

# As source, as destination, log gap, first event: what a message has besides its partner and the event's features.
EVENT_INPUTS = 4


@dataclass
class MemoryState:
    """What is known of every node; nodes beyond N have never been active.

    memory [N, d]    before the pending message
    pending [N, m]   the last message of each node, not yet applied
    past             the events so far
    last [N]         when each node was last active, -inf for never
    """

    memory: Tensor
    pending: Tensor
    past: EventHistory
    last: Floats = field(default_factory=lambda: np.empty(0))

    def grow(self, size: int) -> None:
        """Make room for at least so many nodes."""
        self.memory, self.pending = (
            torch.from_numpy(grown(table.numpy(), size)) for table in (self.memory, self.pending)
        )
        self.last = grown(self.last, size, -np.inf)


class MemoryBatch:
    """A batch of events and queries: rows 0..U-1 are the memories before it, then one row per temporal node.

    nodes [U]                       the nodes that are involved, ascending
    owner [U + T]                   whose memory each row is, as a place in `nodes`
    last [U + T]                    when that node was last active, -inf for never
    row [Q]                         the row that each query reads
    query_rows, query_events        [Q, n] rows of the queries' latest neighbours and the events, -1 for padding
    previous [T]                    the row that each temporal node replaces
    partner [T]                     the row of its partner
    inputs [T, p]                   what its message has besides the partner
    partner_rows [T, n]             rows of the partner's latest neighbours, -1 for padding
    waves                           the temporal nodes in groups, each after all that it needs
    """

    def __init__(
        self,
        state: MemoryState,
        events: Events,
        node: Ints,
        time: Floats,
        query_neighbours: int,
        message_neighbours: int,
        unit: float,
    ) -> None:
        graph = state.past.graph
        self.view = view = unfold(events)
        self.time = time
        message = view.inbox[1:] - 1
        sender = view.sender[message]
        partner = view.nodes[view.owner()[sender]]
        of_query = graph.latest(node, time, query_neighbours) if query_neighbours else None
        of_partner = graph.latest(partner, view.time, message_neighbours) if message_neighbours else None
        met = [part.node.ravel() for part in (of_query, of_partner) if part is not None]
        # Padding is -1, which is also the row of an unknown node; it costs one row of zeros.
        self.nodes = np.unique(np.concatenate([view.nodes, node, *met]))
        self.first = len(self.nodes)
        chains = np.searchsorted(self.nodes, view.nodes)
        self.owner = np.concatenate([np.arange(self.first), chains[view.owner()]])
        self.last = np.concatenate([look_up(state.last, self.nodes, -np.inf), view.time])
        self.previous = np.arange(view.size) + self.first - 1
        self.previous[view.chain[:-1]] = chains
        self.partner = self.previous[sender]
        self.row = self._find(node, time)
        self.query_rows = self._find_neighbours(of_query, time)
        self.query_events = None if of_query is None else of_query.event
        self.partner_rows = self._find_neighbours(of_partner, view.time)
        self.inputs = self._inputs(message, event_features(events, state.past.features), unit)
        self.waves = self._waves()

    def _find(self, nodes: Ints, times: Floats) -> Ints:
        """The row of each (node, time): its memory after all that came strictly before the time."""
        row = self.view.before(nodes, times)
        within = (row >= 0) & (row < self.view.size)
        return np.where(within, row + self.first, np.searchsorted(self.nodes, nodes))

    def _find_neighbours(self, met: Neighbours | None, time: Floats) -> Any:
        """[Q, n] the row of each neighbour at the time of the query, -1 for padding."""
        if met is None:
            return None
        rows = self._find(met.node.ravel(), np.repeat(time, met.node.shape[1])).reshape(met.node.shape)
        return np.where(met.mask, rows, -1)

    def _inputs(self, message: Ints, features: NDArray[np.float32], unit: float) -> Tensor:
        """[T, p] role, log gap, whether it is the first event, and the event's features."""
        role = self.view.role[message]
        gap = self.view.time - self.last[self.previous]
        first = np.isinf(gap)
        columns = [role == SOURCE, role != SOURCE, np.log1p(np.where(first, 0.0, gap) / unit), first]
        columns += list(features[self.view.event[message]].T)
        return torch.from_numpy(np.column_stack(columns).astype(np.float32))

    def _waves(self) -> list[Ints]:
        if not self.view.size:
            return []
        needs = [self.previous, self.partner]
        if self.partner_rows is not None:
            needs += list(self.partner_rows.T)
        order = np.argsort(self.view.instant, kind="stable")
        level = _levels(order, np.column_stack(needs) - self.first)
        order = np.argsort(level, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


@compile_loop
def _levels(order: Any, needs: Any) -> Any:
    """[T] one more than the highest level among the temporal nodes that each one needs; negative ones are none."""
    level = np.zeros(len(order), dtype=np.int64)
    for i in order:
        for k in range(needs.shape[1]):
            if needs[i, k] >= 0:
                level[i] = max(level[i], level[needs[i, k]] + 1)
    return level
