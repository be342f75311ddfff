"""TGN: memory and temporal attention (Rossi et al., "Temporal Graph Networks for Deep Learning on Dynamic Graphs",
2020).

    s_v      = GRU([s_u- + x_u, role, log(1 + gap), f], s_v-)            at each instant of v, from its last event there
    h_0(v,t) = s_v(t) + x_v                                              s_v(t): after all instants before t
    a        = attention of (v, t) over its 10 latest neighbours before t, neighbour u read as h_0(u, t)
    h(v, t)  = W_2 ReLU(W_1 [a, h_0(v, t)] + b_1) + b_2
    logit    = w ReLU(W [h(u, t), h(v, t)] + b) + c

`memory_network` explains the minus and the pending messages, `temporal_attention` has the equations of a.

**Events of the same batch are visible**: a query at t sees all events strictly before t, those of its own batch
included, in training as in testing. The reference hides them: there a batch of 200 sees the memory as it was before
it, and of several events of one node in a batch only the last reaches the memory. Here only events of one instant are
hidden from each other, of which the last reaches the memory ('most recent' aggregation).

The best weights are kept and restored together with memory, pending messages and neighbours: those that training
carried along, or those that the weights themselves make of the training events, whichever validate better (`learner`).

Further differences, and why: a message leaves out s_v-, which the GRU has as its state; it includes the partner's
vector, without which messages of a log without features do not identify the partner; time enters as a logarithm.

fb-forum, protocol 'paper', seed 0: test AUC 0.938 (the TAP-GNN paper gives 0.889).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tapgnn.baselines.memory.memory_network import MemoryBatch, MemoryLearner, MemoryNetwork
from tapgnn.baselines.shared.link_network import MergeLayer
from tapgnn.baselines.shared.temporal_attention import TemporalAttention, check_heads
from tapgnn.events import Events


class TGNNetwork(MemoryNetwork):
    """A GRU cell, and one attention layer over the latest neighbours."""

    query_neighbours = 10

    def __init__(self, train: Events, width: int, heads: int, dropout: float) -> None:
        super().__init__(train, width, dropout)
        self.cell = nn.GRUCell(self.message_width, width)
        self.attention = TemporalAttention(width, width, self.features, heads)
        self.merge = MergeLayer(width, width, dropout)

    def read(self, batch: MemoryBatch, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """Attention of each query over its neighbours, merged with its own memory."""
        rows = memory + vector
        own = rows[torch.from_numpy(batch.row)]
        phases = self.encoding(batch.time)
        attended = self.attention(own, phases, rows, batch.query_rows, table, batch.query_events)
        h: Tensor = self.merge(attended, own)
        return h


@dataclass(eq=False)
class TGN(MemoryLearner):
    """Temporal graph network: GRU memory with pending messages, one attention layer over the 10 latest neighbours."""

    name = "tgn"

    heads: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.width)

    def _build(self, train: Events) -> nn.Module:
        return TGNNetwork(train, self.width, self.heads, self.dropout)
