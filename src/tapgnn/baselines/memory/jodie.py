"""JODIE: two coupled recurrences and a projection along time (Kumar et al., "Predicting Dynamic Embedding Trajectory in
Temporal Interaction Networks", KDD 2019), in the variant with a link head.

    s_u        = tanh(W [s_v- + x_v, role, log(1 + gap), f] + V s_u- + b)     at each instant of u; W, V and b by role
    s_u(t)     = (1 + w log(1 + (t - t_u)) + b) * s_u                         t_u: when u was last active
    h(u, t)    = s_u(t) + x_u                                                 x_u: the static vector
    logit      = w ReLU(W [h(u, t), h(v, t)] + b) + c

`memory` says what a minus means and how messages wait in the store. Defaults: width 64, dropout 0.1, Adam 3e-3 (a tenth
of that for the vectors), batches of 200 events, at most 10 epochs.

Departures, and why: the reference predicts the vector of the next item with a squared loss and looks for the nearest
one; here, as in the frameworks that compare such methods, **a head gives the logit of a pair and is trained with
binary cross-entropy against one random negative**. Time enters as a logarithm, since gaps span seconds to months.
Batches are cut by the number of events and unrolled inside (`memory`), which is what the reference's t-batches are for.
A node may be a source here and a destination there; it has one memory, written by the cell of its role.

fb-forum, protocol 'paper', seed 0: test AUC 0.943 (printed for it in the paper of TAP-GNN: 0.815).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tapgnn.baselines.memory.memory_network import MemoryLearner, MemoryNetwork, elapsed
from tapgnn.baselines.memory.node_memory import Layout
from tapgnn.events import Events


class JODIENetwork(MemoryNetwork):
    """Two recurrent cells, one for each role, and a projection along time."""

    def __init__(self, train: Events, width: int, dropout: float) -> None:
        super().__init__(train, width, dropout)
        self.as_source = nn.RNNCell(self.message_width, width)
        self.as_destination = nn.RNNCell(self.message_width, width)
        self.drift = nn.Linear(1, width)
        nn.init.normal_(self.drift.weight, std=0.1)
        nn.init.zeros_(self.drift.bias)

    def update(self, message: Tensor, memory: Tensor) -> Tensor:
        """The cell of the role that the node had."""
        source = message[:, self.width : self.width + 1] > 0
        return torch.where(source, self.as_source(message, memory), self.as_destination(message, memory))

    def read(self, layout: Layout, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """The memory, moved along by the time since it was written."""
        rows = torch.from_numpy(layout.row)
        moved: Tensor = memory[rows] * (1.0 + self.drift(elapsed(layout, self.unit)))
        return moved + vector[rows]


class JODIE(MemoryLearner):
    """Recurrent memory with time projection, a link head and binary cross-entropy."""

    name = "jodie"

    def __init__(self, seed: int = 0, *, dropout: float = 0.1, learning_rate: float = 3e-3, **rest: Any) -> None:
        super().__init__(seed, learning_rate=learning_rate, **rest)
        self.dropout = dropout

    def _build(self, train: Events) -> nn.Module:
        return JODIENetwork(train, self.width, self.dropout)
