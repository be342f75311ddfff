"""DyRep: a memory that hears of its partner's neighbours (Trivedi et al., "DyRep: Learning Representations over Dynamic
Graphs", ICLR 2019), as the variant of the memory network that TGN's framework makes of it.

    s_v    = tanh(W [h_u- + z_u, role, log(1 + gap), f] + V s_v- + b)    at each instant of v, from its last event there
    h_u    = s_u + x_u
    q_i    = softmax over i of log(1 + exp(w [h_u-, h_i-] + c))          over u's 10 latest neighbours i
    z_u    = max over i of sigmoid(q_i (W_h h_i- + b_h))                 channel by channel
    logit  = w ReLU(W [h_u, h_v] + b) + c

A node's message is what its *partner* is surrounded by, so that it reaches two steps away. `memory` says what a minus
means and how messages wait in the store. Defaults: width 64, dropout 0.1, Adam 3e-3 (a tenth of that for the vectors),
batches of 200 events, at most 10 epochs.

Departures, and why: the reference keeps a matrix of attention strengths between all pairs of nodes, N^2 numbers, moved
by the intensity of each event; here the strengths are the intensities themselves, at the present memories. It is
trained as the other methods are, on links against one random negative, not by the likelihood of a point process. The
message carries the partner's own h_u- beside z_u, which is all there is when it has met nobody. A representation is
the memory itself and does not move between events, as in the reference: the time since the last event, which is worth
a great deal in these logs, plays no part in a question, and JODIE and TGN, which see it, do better.

fb-forum, protocol 'paper', seed 0: test AUC 0.901.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tapgnn.baselines.memory.memory_network import MemoryLearner, MemoryNetwork
from tapgnn.baselines.memory.node_memory import Layout
from tapgnn.events import Events, Ints


class DyRepNetwork(MemoryNetwork):
    """A recurrent cell whose message is the neighbourhood of the partner."""

    tells = 10

    def __init__(self, train: Events, width: int, dropout: float) -> None:
        super().__init__(train, width, dropout)
        self.cell = nn.RNNCell(self.message_width, width)
        self.intensity = nn.Linear(2 * width, 1)
        self.neighbour = nn.Linear(width, width)

    def update(self, message: Tensor, memory: Tensor) -> Tensor:
        """The cell."""
        fresh: Tensor = self.cell(message, memory)
        return fresh

    def tell(self, layout: Layout, which: Ints, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """The largest, channel by channel, of the partner's weighted neighbours; its own where it has none."""
        met: Any = layout.partner_met
        rows = torch.from_numpy(met.rows[which])
        absent = rows < 0
        partner = torch.from_numpy(layout.partner[which])
        own = memory[partner] + vector[partner]
        some = rows.clamp(min=0)
        around = memory[some] + vector[some]
        pair = torch.cat([own.unsqueeze(1).expand_as(around), around], dim=2)
        strength = softplus(self.intensity(pair)).squeeze(2).masked_fill(absent, -1e9)
        share = torch.softmax(strength, dim=1).unsqueeze(2)
        heard = torch.sigmoid(share * self.neighbour(around)).masked_fill(absent.unsqueeze(2), 0.0)
        return own + heard.amax(dim=1)

    def read(self, layout: Layout, memory: Tensor, vector: Tensor, table: Tensor) -> Tensor:
        """The memory itself."""
        rows = torch.from_numpy(layout.row)
        return memory[rows] + vector[rows]


class DyRep(MemoryLearner):
    """Recurrent memory whose messages are the partner's neighbourhood."""

    name = "dyrep"

    def __init__(self, seed: int = 0, *, dropout: float = 0.1, learning_rate: float = 3e-3, **rest: Any) -> None:
        super().__init__(seed, learning_rate=learning_rate, **rest)
        self.dropout = dropout

    def _build(self, train: Events) -> nn.Module:
        return DyRepNetwork(train, self.width, self.dropout)
