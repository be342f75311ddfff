"""TGAT: attention over temporal neighbourhoods (Xu et al., "Inductive Representation Learning on Temporal Graphs",
ICLR 2020).

    h_0(v, t) = x_v                                                      a learned vector per node
    a         = attention of (v, t) over its n latest neighbours before t, neighbour (u, t') read as h_{l-1}(u, t')
    h_l(v, t) = W_2 ReLU(W_1 [a, h_{l-1}(v, t)] + b_1) + b_2             l = 1 .. layers
    logit     = w ReLU(W [h(u, t), h(v, t)] + b) + c

`attention` has the equations of a. Defaults: two layers, two heads, 20 neighbours, width 64, dropout 0.1, Adam 3e-3
(half of that for the vectors), batches of 200 events, at most 8 epochs.

Departures, and why: the frequencies of the time encoding are fixed (see `attention`); the neighbours are the true most
recent ones (the published code draws uniformly, or cuts the history so that the oldest are left); the input is a
learned vector per node instead of features that these logs do not have (the paper of TAP-GNN gives it one-hot inputs,
which is the same); h_{l-1} of the node itself stands beside a, where the text of the reference has x_v.

Cost: n^layers neighbours per question by definition. Every (node, time) is computed once per batch, however many need
it (`neighbourhood`), no pair of node and neighbour costs a matrix product or a cosine (`attention`), and no neighbour's
row is copied (`gathering`): all of it exact. `score` answers a batch of questions in that way, with nothing kept from
one batch to the next, so its time is that of TGAT itself and not of a cache.

fb-forum, protocol 'paper', seed 0: test AUC 0.911 (printed for it in the paper of TAP-GNN: 0.878).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.neighbourhood import Frontier, distinct, frontiers
from tapgnn.baselines.sampled.temporal_attention import Clockwork, EventTable, Past, TemporalAttention
from tapgnn.baselines.shared.learner import Learner
from tapgnn.baselines.shared.link_network import LinkHead, NodeVectors
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class TGATNetwork(nn.Module):
    """The layers, from the vectors of the nodes to the logit of a pair."""

    def __init__(self, train: Events, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.vectors = NodeVectors(train, width)
        self.clock = Clockwork(train, width)
        self.attention = nn.ModuleList(
            TemporalAttention(width, width, train.feature_width, heads) for _ in range(layers)
        )
        self.merge = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width))
            for _ in range(layers)
        )
        self.head = LinkHead(width, dropout)

    def forward(self, nodes: Ints, layered: list[Frontier], table: Tensor) -> Tensor:
        """h [R, d] of the last frontier; `nodes` are those that the first one lists."""
        rows = self.vectors(nodes)
        for frontier, attention, merge in zip(layered, self.attention, self.merge, strict=True):
            own = rows[torch.from_numpy(frontier.own)]
            angles = self.clock(frontier.time)
            seen = attention(own, angles, rows, frontier.index, table, frontier.event)
            rows = merge(torch.cat([seen, own], dim=1))
        found: Tensor = rows
        return found


class TGAT(Learner):
    """Temporal graph attention with the true most recent neighbours; duplicates of (node, time) are computed once."""

    name = "tgat"

    def __init__(
        self,
        seed: int = 0,
        *,
        layers: int = 2,
        neighbours: int = 20,
        heads: int = 2,
        dropout: float = 0.1,
        epochs: int = 8,
        learning_rate: float = 3e-3,
        vector_rate: float = 0.5,
        **rest: Any,
    ) -> None:
        super().__init__(seed, epochs=epochs, learning_rate=learning_rate, vector_rate=vector_rate, **rest)
        if min(layers, neighbours, heads) < 1 or self.width % heads:
            raise ConfigError(
                f"layers, neighbours and heads must be at least 1 and the heads divide the width {self.width}, not "
                f"{layers}, {neighbours} and {heads}"
            )
        self.layers, self.neighbours, self.heads, self.dropout = layers, neighbours, heads, dropout

    def _build(self, train: Events) -> nn.Module:
        return TGATNetwork(train, self.width, self.layers, self.heads, self.dropout)

    def _empty_state(self) -> Past:
        network: Any = self.network
        return Past(EventTable(network.clock, network.attention[0].key_event.shape[2] - network.clock.width))

    def _along(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        self.state.append(events)
        if not len(src):
            return torch.empty(0)
        network: Any = self.network
        roots, place = distinct(np.concatenate([src, dst]), np.tile(time, 2))
        nodes, layered = frontiers(self.state.graph, *roots, self.layers, self.neighbours, "event")
        h = network(nodes, layered, self.state.table.rows)[torch.from_numpy(place)]
        logits: Tensor = network.head(h[: len(src)], h[len(src) :])
        return logits
