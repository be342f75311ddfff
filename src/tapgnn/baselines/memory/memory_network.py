"""Memory network: the network and the learner around a memory; a method adds its cell and its way to read a memory.

The pending messages are applied first (with gradient), then the batch is unrolled wave by wave, then every query reads
its own version, and the state keeps the last ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.memory.memory_batch import EVENT_INPUTS, MemoryBatch, MemoryState
from tapgnn.baselines.shared.learner import Learner
from tapgnn.baselines.shared.link_network import LinkHead, NodeVectors, median_gap
from tapgnn.baselines.shared.temporal_attention import EventHistory, FixedTimeEncoding
from tapgnn.events import Events, Floats, Ints


class MemoryNetwork(nn.Module):
    """Node vectors, a cell, a readout and a head.

    query_neighbours, message_neighbours    how many latest neighbours a query, and a message, read
    """

    query_neighbours = 0
    message_neighbours = 0
    cell: nn.Module

    def __init__(self, train: Events, width: int, dropout: float) -> None:
        super().__init__()
        self.width, self.features, self.unit = width, train.feature_width, median_gap(train)
        self.vectors = NodeVectors(train, width)
        self.encoding = FixedTimeEncoding(train, width)
        self.message_width = width + EVENT_INPUTS + self.features
        self.head = LinkHead(width, dropout)

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

    def empty_state(self) -> MemoryState:
        """No node was ever active."""
        past = EventHistory(self.encoding, self.features)
        return MemoryState(torch.zeros(0, self.width), torch.zeros(0, self.message_width), past)

    def batch(self, state: MemoryState, events: Events, node: Ints, time: Floats) -> MemoryBatch:
        """The rows of events and queries (node, time) [Q]; the events are appended to the past that messages read."""
        if self.query_neighbours or self.message_neighbours:
            state.past.append(events)
        return MemoryBatch(state, events, node, time, self.query_neighbours, self.message_neighbours, self.unit)

    def unroll(self, batch: MemoryBatch, state: MemoryState) -> tuple[Tensor, Tensor]:
        """The memories [U + T, d] and vectors [U + T, d] of all rows; the state moves to the end of the batch."""
        vector = self.vectors(batch.nodes)[torch.from_numpy(batch.owner)]
        memory = torch.cat([self._before(batch, state), vector.new_zeros(batch.view.size, self.width)])
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

    def _before(self, batch: MemoryBatch, state: MemoryState) -> Tensor:
        """[U, d] the memories ahead of the batch: pending messages applied, zeros where a node was never active."""
        active = np.flatnonzero(np.isfinite(batch.last[: batch.first]))
        nodes = torch.from_numpy(batch.nodes[active])
        updated = self.update(state.pending[nodes], state.memory[nodes])
        return updated.new_zeros(batch.first, self.width).index_copy(0, torch.from_numpy(active), updated)

    def _store(self, batch: MemoryBatch, state: MemoryState, memory: Tensor, messages: Tensor) -> None:
        """Store, for every active node, the memory before its last message and that message."""
        if not batch.view.size:
            return
        final = batch.view.chain[1:] - 1
        state.grow(int(batch.view.nodes[-1]) + 1)
        nodes = torch.from_numpy(batch.view.nodes)
        state.memory[nodes] = memory[torch.from_numpy(batch.previous[final])]
        state.pending[nodes] = messages[torch.from_numpy(final)]
        state.last[batch.view.nodes] = batch.view.time[final]


@dataclass(eq=False)
class MemoryLearner(Learner):
    """A method with a memory: the same unrolling in training, in validation and along a stream."""

    has_memory: ClassVar[bool] = True
    network_class: ClassVar[type[MemoryNetwork]]

    learning_rate: float = 3e-3

    def _build(self, train: Events) -> nn.Module:
        return self.network_class(train, self.width, self.dropout)

    def _empty_state(self) -> MemoryState:
        state: MemoryState = self.network.empty_state()
        return state

    def _embed(self, events: Events, node: Ints, time: Floats) -> Tensor:
        batch = self.network.batch(self.state, events, node, time)
        memory, vector = self.network.unroll(batch, self.state)
        h: Tensor = self.network.read(batch, memory, vector, self.state.past.table)
        return h
