"""TDGNN: neighbours weighted by how recently they were met (Qu et al., "Continuous-Time Link Prediction via Temporal
Dependent Graph Neural Network", WWW 2020).

    h_0(v, t) = x_v                                                      a learned vector per node
    alpha_i   = exp(-rate_l (t - t_i)) / sum over j of exp(-rate_l (t - t_j))
    h_l(v, t) = ReLU(W_l (h_{l-1}(v, t) + sum over i of alpha_i h_{l-1}(u_i, t)) / 2 + b_l)         l = 1 .. layers
    logit     = w ReLU(W [h(u, t), h(v, t)] + b) + c

u_i was met at t_i, strictly before t.

Differences, and why: **an event does not see itself.** The public code takes neighbours with t_i <= t from a log that
contains the test events, so that the two ends of a true pair are always each other's neighbours; a test shows how much
that gains on noise. Further: the rate is learned per layer, starting at one over the median gap of a node, where the
reference divides by a constant 100 that suits one data set; the 20 latest neighbours stand for all, as the weights of
older ones vanish; both ends of an event are neighbours of each other, where the public code lists only the destination
for the source; x_v is learned, not a fixed random vector; the head has a hidden layer.

fb-forum, protocol 'paper', seed 0: test AUC 0.833 (the TAP-GNN paper gives 0.744).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.layered_learner import LayeredLearner
from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.indexed_ops import weighted_sums
from tapgnn.baselines.shared.link_network import MergeLayer, NodeVectors, median_gap
from tapgnn.baselines.shared.neighbourhood import Frontier
from tapgnn.events import Events, Ints


class TDGNNNetwork(nn.Module):
    """The layers, from the node vectors to the logit of a pair."""

    def __init__(self, train: Events, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.vectors = NodeVectors(train, width)
        self.unit = median_gap(train)
        self.rate = nn.Parameter(torch.zeros(layers))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        self.head = MergeLayer(width, 1, dropout)

    def forward(self, nodes: Ints, frontiers: list[Frontier], past: Adjacency) -> Tensor:
        """h [R, d] of the last frontier; `nodes` are those that the first one lists."""
        rows: Tensor = self.vectors(nodes)
        for frontier, layer, rate in zip(frontiers, self.layers, self.rate.exp(), strict=True):
            neighbours = torch.from_numpy(frontier.index)
            age = torch.from_numpy((frontier.time[:, None] - frontier.met.time) / self.unit).float()
            weight = torch.softmax((-rate * age).masked_fill(neighbours < 0, -torch.inf), dim=1)
            # A node without neighbours has weights 0, not the 0 / 0 of an empty softmax.
            weight = weight.masked_fill((neighbours < 0).all(dim=1, keepdim=True), 0.0)
            mean = weighted_sums(weight.unsqueeze(1), rows.unsqueeze(1), neighbours).squeeze(1)
            own = rows[torch.from_numpy(frontier.own)]
            rows = self.dropout(torch.relu(layer(0.5 * (own + mean))))
        return rows


@dataclass(eq=False)
class TDGNN(LayeredLearner):
    """Exponentially time-weighted aggregation over the neighbours met strictly before the query."""

    name = "tdgnn"
    moment = "query"

    epochs: int = 15
    learning_rate: float = 1e-2
    vector_rate: float = 0.3

    def _build(self, train: Events) -> nn.Module:
        return TDGNNNetwork(train, self.width, self.layers, self.dropout)
