"""TGAT: attention over temporal neighbourhoods (Xu et al., "Inductive Representation Learning on Temporal Graphs",
ICLR 2020).

    h_0(v, t) = x_v                                                      a learned vector per node
    a         = attention of (v, t) over its n latest neighbours before t, neighbour (u, t') read as h_{l-1}(u, t')
    h_l(v, t) = W_2 ReLU(W_1 [a, h_{l-1}(v, t)] + b_1) + b_2             l = 1 .. layers
    logit     = w ReLU(W [h(u, t), h(v, t)] + b) + c

`temporal_attention` has the equations of a.

Differences, and why: the frequencies of the time encoding are fixed (see `temporal_attention`); the neighbours are the
true most recent ones (the published code samples uniformly, or truncates the history so that the oldest remain); the
input is a learned vector per node instead of features that these logs do not have (the TAP-GNN paper gives it one-hot
inputs, which is the same); h_{l-1} of the node itself is concatenated with a, where the text of the reference has x_v.

Cost: n^layers neighbours per query by definition. Every (node, time) is computed once per batch, however many need it
(`neighbourhood`), no pair of node and neighbour costs a matrix product or a cosine (`temporal_attention`), and no
neighbour's row is copied (`indexed_ops`): all of it exact. `score` answers a batch of queries in that way, with nothing
kept from one batch to the next, so its time is that of TGAT itself and not of a cache.

fb-forum, protocol 'paper', seed 0: test AUC 0.911 (the TAP-GNN paper gives 0.878).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.layered_learner import LayeredLearner
from tapgnn.baselines.shared.link_network import MergeLayer
from tapgnn.baselines.shared.neighbourhood import Frontier
from tapgnn.baselines.shared.temporal_attention import EventHistory, EventNetwork, TemporalAttention, check_heads
from tapgnn.events import Events, Ints


class TGATNetwork(EventNetwork):
    """The layers, from the node vectors to the logit of a pair."""

    def __init__(self, train: Events, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__(train, width)
        self.attention = nn.ModuleList(TemporalAttention(width, width, self.features, heads) for _ in range(layers))
        self.merge = nn.ModuleList(MergeLayer(width, width, dropout) for _ in range(layers))
        self.head = MergeLayer(width, 1, dropout)

    def forward(self, nodes: Ints, frontiers: list[Frontier], past: EventHistory) -> Tensor:
        """h [R, d] of the last frontier; `nodes` are those that the first one lists."""
        rows: Tensor = self.vectors(nodes)
        for frontier, attention, merge in zip(frontiers, self.attention, self.merge, strict=True):
            own = rows[torch.from_numpy(frontier.own)]
            phases = self.encoding(frontier.time)
            attended = attention(own, phases, rows, frontier.index, past.table, frontier.met.event)
            rows = merge(attended, own)
        return rows


@dataclass(eq=False)
class TGAT(LayeredLearner):
    """Temporal graph attention over the true most recent neighbours; each (node, time) is computed once."""

    name = "tgat"

    epochs: int = 8
    learning_rate: float = 3e-3
    vector_rate: float = 0.5
    heads: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.width)

    def _build(self, train: Events) -> nn.Module:
        return TGATNetwork(train, self.width, self.layers, self.heads, self.dropout)

    def _empty_state(self) -> EventHistory:
        return EventHistory(self.network.encoding, self.network.features)
