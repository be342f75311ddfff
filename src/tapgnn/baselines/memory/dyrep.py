"""DyRep: a memory that receives its partner's neighbourhood (Trivedi et al., "DyRep: Learning Representations over
Dynamic Graphs", ICLR 2019), as the variant of the memory network that TGN's framework makes of it.

    s_v    = tanh(W [h_u- + z_u, role, log(1 + gap), f] + V s_v- + b)    at each instant of v, from its last event there
    h_u    = s_u + x_u
    q_i    = softmax over i of log(1 + exp(w [h_u-, h_i-] + c))          over u's 10 latest neighbours i
    z_u    = max over i of sigmoid(q_i (W_h h_i- + b_h))                 channel by channel
    logit  = w ReLU(W [h_u, h_v] + b) + c

A node's message is the neighbourhood of its *partner*, so that it reaches two steps away. `memory_network` explains the
minus and the pending messages.

Differences, and why: the reference keeps a matrix of attention strengths between all pairs of nodes, N^2 numbers,
updated by the intensity of each event; here the strengths are the intensities themselves, at the present memories. It
is trained like the other methods, on links against one random negative, not by the likelihood of a point process. The
message adds the partner's own h_u- to z_u, which is all there is when it has no neighbours. A representation is the
memory itself and does not change between events, as in the reference: the time since the last event, a strong signal in
these logs, is not an input to a query, and JODIE and TGN, which see it, do better.

fb-forum, protocol 'paper', seed 0: test AUC 0.901.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tapgnn.baselines.memory.memory_network import MemoryBatch, MemoryLearner, MemoryNetwork
from tapgnn.events import Events, Ints


class DyRepNetwork(MemoryNetwork):
    """A recurrent cell whose message is the neighbourhood of the partner."""

    message_neighbours = 10

    def __init__(self, train: Events, width: int, dropout: float) -> None:
        super().__init__(train, width, dropout)
        self.cell = nn.RNNCell(self.message_width, width)
        self.intensity = nn.Linear(2 * width, 1)
        self.neighbour = nn.Linear(width, width)

    def partner_message(self, batch: MemoryBatch, wave: Ints, memory: Tensor, vector: Tensor) -> Tensor:
        """The partner's own, plus the maximum, channel by channel, of its weighted neighbours where it has any."""
        rows = torch.from_numpy(batch.partner_rows[wave])
        padding = rows < 0
        own = super().partner_message(batch, wave, memory, vector)
        listed = rows.clamp(min=0)
        neighbours = memory[listed] + vector[listed]
        pair = torch.cat([own.unsqueeze(1).expand_as(neighbours), neighbours], dim=2)
        strength = softplus(self.intensity(pair)).squeeze(2).masked_fill(padding, -1e9)
        weight = torch.softmax(strength, dim=1).unsqueeze(2)
        weighted = torch.sigmoid(weight * self.neighbour(neighbours)).masked_fill(padding.unsqueeze(2), 0.0)
        return own + weighted.amax(dim=1)


@dataclass(eq=False)
class DyRep(MemoryLearner):
    """Recurrent memory whose messages are the partner's neighbourhood."""

    name = "dyrep"
    network_class = DyRepNetwork
