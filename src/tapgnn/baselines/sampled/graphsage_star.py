"""GraphSAGE*: GraphSAGE (W. L. Hamilton, R. Ying and J. Leskovec, "Inductive Representation Learning on Large Graphs",
NIPS 2017) on the temporal subgraphs of TGAT (D. Xu et al., "Inductive Representation Learning on Temporal Graphs", ICLR
2020), as the TAP-GNN paper compares with it.

    h_0(v, t) = x_v                                                            a learned vector per node
    h_l(v, t) = ReLU(W_l [h_{l-1}(v, t), mean of h_{l-1}(u, t')]), (u, t') 20 entries drawn from N(v, t), l = 1, 2
    logit     = w ReLU(W [h_2(u, t), h_2(v, t)] + b) + c

N(v, t) are the events of v strictly before t, so that a neighbour is read as it was just before the event that joins
them, and the subgraph of a query never holds its own event. Where there are fewer than 20, all are taken and the mean
is over these alone. Time itself is not an input. Later events join the neighbourhoods: it sees history after training.

fb-forum, paper's protocol, seed 0: 0.881.

Differences: the papers leave the training open; each training batch draws new neighbourhoods, while queries use one
fixed seed, by node and time, so that a score does not depend on the other queries. The node vectors learn at a tenth of
the rate, since they overfit first, and unseen nodes share one vector (see `link_network`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.layered_learner import LayeredLearner
from tapgnn.baselines.shared.adjacency import Adjacency, Neighbours
from tapgnn.baselines.shared.link_network import MergeLayer, NodeVectors, SageLayer
from tapgnn.baselines.shared.neighbourhood import Frontier
from tapgnn.events import Events, Floats, Ints


class SageStarNetwork(nn.Module):
    """The layers, from the node vectors to the logit of a pair."""

    def __init__(self, train: Events, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.vectors = NodeVectors(train, width)
        self.layers = nn.ModuleList(SageLayer(width, width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        self.head = MergeLayer(width, 1, dropout)

    def forward(self, nodes: Ints, frontiers: list[Frontier], past: Adjacency) -> Tensor:
        """h [R, d] of the last frontier; `nodes` are those that the first one lists."""
        rows: Tensor = self.vectors(nodes)
        for layer, frontier in zip(self.layers, frontiers, strict=True):
            rows = self.dropout(torch.relu(layer(rows, frontier.own, frontier.index)))
        return rows


@dataclass(eq=False)
class GraphSAGEStar(LayeredLearner):
    """Mean layers over uniformly sampled temporal neighbourhoods, trained end to end."""

    name = "graphsage-star"

    width: int = 128
    epochs: int = 8

    def _build(self, train: Events) -> nn.Module:
        self._rng = np.random.default_rng(self.seed)
        return SageStarNetwork(train, self.width, self.layers, self.dropout)

    def _embed(self, events: Events, node: Ints, time: Floats) -> Tensor:
        self._sample_seed = int(self._rng.integers(2**62)) if self.network.training else self.seed
        return super()._embed(events, node, time)

    def _sample(self, node: Ints, time: Floats, depth: int) -> Neighbours:
        """Uniformly drawn neighbours."""
        drawn: Neighbours = self.state.uniform(node, time, self.neighbours, self._sample_seed + depth)
        return drawn
