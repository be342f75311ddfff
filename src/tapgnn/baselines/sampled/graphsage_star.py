"""GraphSAGE*: GraphSAGE (W. L. Hamilton, R. Ying and J. Leskovec, "Inductive Representation Learning on Large Graphs",
NIPS 2017) on the temporal subgraphs of TGAT (D. Xu et al., "Inductive Representation Learning on Temporal Graphs", ICLR
2020), as the TAP-GNN paper compares with it.

    h_0(v, t) = x_v                                                            a learned vector per node
    h_l(v, t) = ReLU(W_l [h_{l-1}(v, t), mean of h_{l-1}(u, t')]), (u, t') 20 entries drawn from N(v, t), l = 1, 2
    logit     = w ReLU(W [h_2(u, t), h_2(v, t)] + b) + c

N(v, t) are the meetings of v strictly before t, so that a neighbour is read as it was just before it was met, and the
subgraph of a question never holds its own event. Where there are fewer than 20, all are taken and the mean is over
these alone. Time itself is no input. It sees history after training: later events join the neighbourhoods.

Defaults: two layers, 20 uniform neighbours, d = 128; batches of 200 events in order of time, one negative each, Adam
0.001, the weights chosen on validation. fb-forum, paper's protocol, seed 0: 0.881.

Departures: the papers leave the training open; each batch draws its neighbourhoods anew, while what is asked draws with
one fixed seed, by node and time, so that an answer does not depend on what else is asked. The vectors of the nodes
learn at a tenth of the rate, since they overfit first, and unseen nodes share one vector (see `network`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.neighbourhood import distinct
from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.learner import Learner
from tapgnn.baselines.shared.link_network import LinkHead, NodeVectors
from tapgnn.baselines.shared.sage_layer import Draw, SageLayer, drawn
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class SageStarNetwork(nn.Module):
    """The layers, from the vectors of the nodes to the logit of a pair."""

    def __init__(self, train: Events, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.vectors = NodeVectors(train, width)
        self.layers = nn.ModuleList(SageLayer(width, width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        self.head = LinkHead(width, dropout)

    def forward(self, nodes: Ints, draws: list[Draw]) -> Tensor:
        """h [R, d] of the top layer; `nodes` are those at the bottom."""
        rows: Tensor = self.vectors(nodes)
        for layer, draw in zip(self.layers, draws, strict=True):
            rows = self.dropout(torch.relu(layer(rows, draw)))
        return rows


class GraphSAGEStar(Learner):
    """Mean layers over uniformly drawn temporal neighbourhoods, learnt end to end."""

    name = "graphsage-star"

    def __init__(
        self,
        seed: int = 0,
        *,
        width: int = 128,
        epochs: int = 8,
        layers: int = 2,
        neighbours: int = 20,
        dropout: float = 0.1,
        **rest: Any,
    ) -> None:
        super().__init__(seed, width=width, epochs=epochs, **rest)
        if min(layers, neighbours) < 1:
            raise ConfigError(f"layers and neighbours must be at least 1, not {layers} and {neighbours}")
        self.layers, self.neighbours, self.dropout = layers, neighbours, dropout
        self._chance = np.random.default_rng(seed)

    def _build(self, train: Events) -> nn.Module:
        self._chance = np.random.default_rng(self.seed)
        return SageStarNetwork(train, self.width, self.layers, self.dropout)

    def _empty_state(self) -> Adjacency:
        return Adjacency()

    def _along(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        self.state.append(events)
        if not len(src):
            return torch.empty(0)
        network: Any = self.network
        seed = int(self._chance.integers(2**62)) if network.training else self.seed
        roots, place = distinct(np.concatenate([src, dst]), np.tile(time, 2))
        nodes, draws = drawn(self.state, *roots, (self.neighbours,) * self.layers, seed, "event")
        h = network(nodes, draws)[torch.from_numpy(place)]
        logits: Tensor = network.head(h[: len(src)], h[len(src) :])
        return logits
