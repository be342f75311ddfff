"""Recurrence: the network and the learner around a memory; a method adds its cell and how a memory is read.

The pending messages are applied first (with gradient), then the batch is unrolled wave by wave, then every question
reads its own version, and the state keeps the last ones.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.memory.node_memory import PLAIN, Layout, MemoryState
from tapgnn.baselines.sampled.neighbourhood import distinct
from tapgnn.baselines.sampled.temporal_attention import Clockwork, EventTable, Past
from tapgnn.baselines.shared.learner import Learner
from tapgnn.baselines.shared.link_network import LinkHead, NodeVectors, usual_gap
from tapgnn.events import Events, Floats, Ints


class MemoryNetwork(nn.Module):
    """Vectors of nodes, a cell, a reading and a head.

    reads, tells    how many latest neighbours a reading, and a message, look at
    """

    reads = 0
    tells = 0

    def __init__(self, train: Events, width: int, dropout: float) -> None:
        super().__init__()
        self.width, self.features, self.unit = width, train.feature_width, usual_gap(train)
        self.vectors = NodeVectors(train, width)
        self.clock = Clockwork(train, width)
        self.message_width = width + PLAIN + self.features
        self.head = LinkHead(width, dropout)

    @abstractmethod
    def update(self, message: Tensor, memory: Tensor) -> Tensor:
        """The memory [Q, d] after a message [Q, m], whose first d numbers are the partner's."""

    @abstractmethod
    def read(self, layout: Layout, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """h [Q, d] of the questions from the memories and vectors [U + T, d] of all rows."""

    def tell(self, layout: Layout, which: Ints, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """What the partners of some temporal nodes say, [Q, d]: their memory and their vector."""
        rows = torch.from_numpy(layout.partner[which])
        return memory[rows] + vector[rows]

    def empty_state(self) -> MemoryState:
        """Nobody was ever active."""
        past = Past(EventTable(self.clock, self.features))
        return MemoryState(torch.zeros(0, self.width), torch.zeros(0, self.message_width), past)

    def unroll(self, layout: Layout, state: MemoryState) -> tuple[Tensor, Tensor]:
        """The memories [U + T, d] and vectors [U + T, d] of all rows; the state moves to the end of the batch."""
        vector = self.vectors(layout.nodes)[torch.from_numpy(layout.owner)]
        table = state.past.table.rows
        memory = torch.cat([self._before(layout, state), vector.new_zeros(layout.view.size, self.width)])
        message = vector.new_zeros(layout.view.size, self.message_width)
        for which in layout.waves:
            rows = torch.from_numpy(which)
            sent = torch.cat([self.tell(layout, which, memory, vector, table), layout.plain[rows]], dim=1)
            replaced = memory[torch.from_numpy(layout.earlier[which])]
            # In place: a copy of all rows for every wave would cost far more than the waves do.
            memory.index_copy_(0, rows + layout.first, self.update(sent, replaced))
            message[rows] = sent.detach()
        self._keep(layout, state, memory.detach(), message)
        return memory, vector

    def _before(self, layout: Layout, state: MemoryState) -> Tensor:
        """[U, d] the memories ahead of the batch: pending messages applied, zeros where a node was never active."""
        active = np.flatnonzero(np.isfinite(layout.last[: layout.first]))
        nodes = torch.from_numpy(layout.nodes[active])
        fresh = self.update(state.pending[nodes], state.memory[nodes])
        return fresh.new_zeros(layout.first, self.width).index_copy(0, torch.from_numpy(active), fresh)

    def _keep(self, layout: Layout, state: MemoryState, memory: Tensor, message: Tensor) -> None:
        """Store, for every active node, the memory before its last message and that message."""
        if not layout.view.size:
            return
        final = layout.view.chain[1:] - 1
        state.grow(int(layout.view.nodes[-1]) + 1)
        nodes = torch.from_numpy(layout.view.nodes)
        state.memory[nodes] = memory[torch.from_numpy(layout.earlier[final])]
        state.pending[nodes] = message[torch.from_numpy(final)]
        state.last[layout.view.nodes] = layout.view.time[final]


class MemoryLearner(Learner):
    """A method with a memory: the same unrolling in training, in validation and along a stream."""

    remembers = True
    network: MemoryNetwork

    def _empty_state(self) -> MemoryState:
        return self.network.empty_state()

    def _along(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        network, state = self.network, self.state
        if network.reads or network.tells:
            state.past.append(events)
        (node, when), place = distinct(np.concatenate([src, dst]), np.tile(time, 2))
        layout = Layout(state, events, node, when, network.reads, network.tells, network.unit)
        memory, vector = network.unroll(layout, state)
        if not len(src):
            return torch.empty(0)
        h = network.read(layout, memory, vector, state.past.table.rows)[torch.from_numpy(place)]
        logits: Tensor = network.head(h[: len(src)], h[len(src) :])
        return logits


def elapsed(layout: Layout, unit: float) -> Tensor:
    """[Q, 1] log(1 + time since the asked node was last active), 0 where it never was."""
    gap = layout.time - layout.last[layout.row]
    gap = np.where(np.isinf(gap), 0.0, gap)
    return torch.from_numpy(np.log1p(gap / unit)).float().unsqueeze(1)
