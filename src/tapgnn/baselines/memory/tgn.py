"""TGN: memory and temporal attention (Rossi et al., "Temporal Graph Networks for Deep Learning on Dynamic Graphs",
2020).

    s_v      = GRU([s_u- + x_u, role, log(1 + gap), f], s_v-)            at each instant of v, from its last event there
    h_0(v,t) = s_v(t) + x_v                                              s_v(t): after all instants before t
    a        = attention of (v, t) over its 10 latest neighbours before t, neighbour u read as h_0(u, t)
    h(v, t)  = W_2 ReLU(W_1 [a, h_0(v, t)] + b_1) + b_2
    logit    = w ReLU(W [h(u, t), h(v, t)] + b) + c

`memory` says what a minus means and how messages wait in the store, `attention` has the equations of a. Defaults: one
attention layer, two heads, width 64, dropout 0.1, Adam 3e-3 (a tenth of that for the vectors), batches of 200 events,
at most 10 epochs.

**Events of the same batch are visible**: a question at t sees all events strictly before t, those of its own batch
included, in training as in testing. The reference hides them: there a batch of 200 sees the memory as it was before
it, and of several events of one node in a batch only the last reaches the memory. Here only events of one instant are
hidden from each other, of which the last reaches the memory ('most recent' aggregation).

The best weights are kept and restored together with memory, pending messages and neighbours: those that training left
behind, or those that the weights themselves make of the training events, whichever is better on validation (`learner`).

Further departures, and why: a message leaves out s_v-, which the GRU has as its state; it carries the partner's vector,
without which messages of a log without features say nothing of who the partner is; time enters it as a logarithm.

fb-forum, protocol 'paper', seed 0: test AUC 0.938 (printed for it in the paper of TAP-GNN: 0.889).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tapgnn.baselines.memory.memory_network import MemoryLearner, MemoryNetwork
from tapgnn.baselines.memory.node_memory import Layout
from tapgnn.baselines.sampled.temporal_attention import TemporalAttention
from tapgnn.errors import ConfigError
from tapgnn.events import Events


class TGNNetwork(MemoryNetwork):
    """A GRU cell, and one attention layer over the latest neighbours."""

    reads = 10

    def __init__(self, train: Events, width: int, heads: int, dropout: float) -> None:
        super().__init__(train, width, dropout)
        self.cell = nn.GRUCell(self.message_width, width)
        self.attention = TemporalAttention(width, width, self.features, heads)
        self.merge = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width))

    def update(self, message: Tensor, memory: Tensor) -> Tensor:
        """The GRU."""
        fresh: Tensor = self.cell(message, memory)
        return fresh

    def read(self, layout: Layout, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """Attention of each question over its neighbours, merged with its own memory."""
        rows = memory + vector
        own = rows[torch.from_numpy(layout.row)]
        met: Any = layout.met
        seen = self.attention(own, self.clock(layout.time), rows, met.rows, table, met.event)
        h: Tensor = self.merge(torch.cat([seen, own], dim=1))
        return h


class TGN(MemoryLearner):
    """Temporal graph network: GRU memory with a message store, one attention layer over 10 latest neighbours."""

    name = "tgn"

    def __init__(
        self, seed: int = 0, *, heads: int = 2, dropout: float = 0.1, learning_rate: float = 3e-3, **rest: Any
    ) -> None:
        super().__init__(seed, learning_rate=learning_rate, **rest)
        if heads < 1 or self.width % heads:
            raise ConfigError(f"the heads must divide the width {self.width}, not {heads}")
        self.heads, self.dropout = heads, dropout

    def _build(self, train: Events) -> nn.Module:
        return TGNNetwork(train, self.width, self.heads, self.dropout)
