"""Memory: a vector per node that a recurrent cell updates at each of its instants; what TGN, JODIE and DyRep share.

    s_v      = cell([partner, role, log(1 + gap), f], s_v-)              at each instant in which v is active
    partner  = s_u- + x_u                                                the other end of v's last event in that instant

A minus means: just before the instant, so that events of one instant do not see each other. A query at t reads the
memory after all instants strictly before t, whatever batch it comes in: a batch keeps every version of a memory (one
per temporal node), and a query picks its own. Versions are computed in waves: all those whose inputs are known,
together. A method adds its cell and its way to read a memory.

The last message of each node is *pending*: the state holds the memory before it and the message itself, and the next
batch applies it, with the weights of that moment. So the cell gets a gradient from every node that is read, also where
no node is active twice in one batch. Between batches everything is plain numbers, without gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tapgnn.baselines.shared.adjacency import Neighbours
from tapgnn.baselines.shared.learner import NodeLearner
from tapgnn.baselines.shared.link_network import MergeLayer, event_features, median_gap
from tapgnn.baselines.shared.row_table import grown, look_up
from tapgnn.baselines.shared.temporal_attention import EventHistory, EventNetwork
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
    last: Floats


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
    waves                           the temporal nodes in groups, each after those it needs
    """

    def __init__(self, network: MemoryNetwork, state: MemoryState, events: Events, node: Ints, time: Floats) -> None:
        """The rows of events and queries (node, time) [Q]; the events are appended to the past that messages read."""
        if network.query_neighbours or network.message_neighbours:
            state.past.append(events)
        self.view = view = unfold(events)
        self.time = time
        message = view.inbox[1:] - 1
        sender = view.sender[message]
        partner = view.nodes[view.owner()[sender]]
        of_query = state.past.latest(node, time, network.query_neighbours)
        of_partner = state.past.latest(partner, view.time, network.message_neighbours)
        # Padding is -1, which is also the row of an unknown node; it costs one row of zeros.
        self.nodes = np.unique(np.concatenate([view.nodes, node, of_query.node.ravel(), of_partner.node.ravel()]))
        self.first = len(self.nodes)
        chains = np.searchsorted(self.nodes, view.nodes)
        self.owner = np.concatenate([np.arange(self.first), chains[view.owner()]])
        self.last = np.concatenate([look_up(state.last, self.nodes, -np.inf), view.time])
        self.previous = np.arange(view.size) + self.first - 1
        self.previous[view.chain[:-1]] = chains
        self.partner = self.previous[sender]
        self.row = self._find(node, time)
        self.query_rows, self.query_events = self._find_neighbours(of_query, time), of_query.event
        self.partner_rows = self._find_neighbours(of_partner, view.time)
        self.inputs = self._inputs(message, event_features(events, state.past.features), network.unit)
        self.waves = self._waves()

    def _find(self, nodes: Ints, times: Floats) -> Ints:
        """The row of each (node, time): its memory after everything strictly before the time."""
        row = self.view.before(nodes, times)
        within = (row >= 0) & (row < self.view.size)
        return np.where(within, row + self.first, np.searchsorted(self.nodes, nodes))

    def _find_neighbours(self, met: Neighbours, time: Floats) -> Ints:
        """[Q, n] the row of each neighbour at the time of the query, -1 for padding."""
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
        needs = np.column_stack([self.previous, self.partner, self.partner_rows])
        level = _levels(np.argsort(self.view.instant, kind="stable"), needs - self.first)
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


class MemoryNetwork(EventNetwork):
    """Node vectors, a cell, a readout and a head; queries and messages read this many latest neighbours."""

    query_neighbours = 0
    message_neighbours = 0
    cell: nn.Module

    def __init__(self, train: Events, width: int, dropout: float) -> None:
        super().__init__(train, width)
        self.width, self.unit = width, median_gap(train)
        self.message_width = width + EVENT_INPUTS + self.features
        self.head = MergeLayer(width, 1, dropout)

    def update(self, message: Tensor, memory: Tensor) -> Tensor:
        """The memory [Q, d] after a message [Q, m], whose first d numbers are the partner's: by default, the cell."""
        updated: Tensor = self.cell(message, memory)
        return updated

    def read(self, batch: MemoryBatch, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """h [Q, d] of the queries from the memories and vectors [U + T, d] of all rows: by default, their sum."""
        rows = torch.from_numpy(batch.row)
        return memory[rows] + vector[rows]

    def partner_message(self, batch: MemoryBatch, wave: Ints, memory: Tensor, vector: Tensor) -> Tensor:
        """[W, d] what the partners of the temporal nodes of a wave contribute: their memory and their vector."""
        rows = torch.from_numpy(batch.partner[wave])
        return memory[rows] + vector[rows]

    def unroll(self, batch: MemoryBatch, state: MemoryState) -> tuple[Tensor, Tensor]:
        """The memories [U + T, d] and vectors [U + T, d] of all rows; the state moves to the end of the batch."""
        vector = self.vectors(batch.nodes)[torch.from_numpy(batch.owner)]
        # Before the batch: pending messages applied, zeros where a node was never active.
        active = np.flatnonzero(np.isfinite(batch.last[: batch.first]))
        nodes = torch.from_numpy(batch.nodes[active])
        updated = self.update(state.pending[nodes], state.memory[nodes])
        memory = torch.zeros_like(vector).index_copy(0, torch.from_numpy(active), updated)
        messages = vector.new_zeros(batch.view.size, self.message_width)
        for wave in batch.waves:
            rows = torch.from_numpy(wave)
            message = torch.cat([self.partner_message(batch, wave, memory, vector), batch.inputs[rows]], dim=1)
            replaced = memory[torch.from_numpy(batch.previous[wave])]
            # In place: a copy of all rows for every wave would cost far more than the waves do.
            memory.index_copy_(0, rows + batch.first, self.update(message, replaced))
            messages[rows] = message.detach()
        self._store(batch, state, memory.detach(), messages)
        return memory, vector

    def _store(self, batch: MemoryBatch, state: MemoryState, memory: Tensor, messages: Tensor) -> None:
        """Store, for every active node, the memory before its last message and that message."""
        if not batch.view.size:
            return
        final = batch.view.chain[1:] - 1
        nodes, size = torch.from_numpy(batch.view.nodes), int(batch.view.nodes[-1]) + 1
        tables = (grown(table.numpy(), size) for table in (state.memory, state.pending))
        state.memory, state.pending = map(torch.from_numpy, tables)
        state.last = grown(state.last, size, -np.inf)
        state.memory[nodes] = memory[torch.from_numpy(batch.previous[final])]
        state.pending[nodes] = messages[torch.from_numpy(final)]
        state.last[batch.view.nodes] = batch.view.time[final]


@dataclass(eq=False)
class MemoryLearner(NodeLearner):
    """A method with a memory: the same unrolling in training, in validation and along a stream."""

    has_memory: ClassVar[bool] = True
    network_class: ClassVar[type[MemoryNetwork]]

    learning_rate: float = 3e-3

    def _build(self, train: Events) -> nn.Module:
        return self.network_class(train, self.width, self.dropout)

    def _empty_state(self) -> MemoryState:
        memory, pending = (torch.zeros(0, width) for width in (self.network.width, self.network.message_width))
        return MemoryState(memory, pending, EventHistory(self.network.encoding, self.network.features), np.empty(0))

    def _embed(self, events: Events, node: Ints, time: Floats) -> Tensor:
        batch = MemoryBatch(self.network, self.state, events, node, time)
        memory, vector = self.network.unroll(batch, self.state)
        h: Tensor = self.network.read(batch, memory, vector, self.state.past.table)
        return h
