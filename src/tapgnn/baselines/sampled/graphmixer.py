"""GraphMixer: perceptrons over recent links (Cong et al., "Do We Really Need Complicated Model Architectures For
Temporal Networks?", ICLR 2023).

    e(v, t) = Mixer(W_e [link_1, ..., link_n] + b_e)                    link encoder: the n latest links before t
    s(v, t) = x_v + mean of x_u over the m latest links before t        node encoder
    h(v, t) = [e(v, t), s(v, t)]
    logit   = w ReLU(W [h(u, t), h(v, t)] + b) + c                      link classifier

`recent_links` has the links, `mlp_mixer` the mixer. n is `neighbours`, m is `recent`.

Differences, and why: x_v is a learned vector, since these logs have no node features (one-hot features would be the
same); the node encoder takes the m latest links, where the paper takes those of a time window, whose length would
have to be set for every log; the frequencies of the time encoding are spread over the gaps of the log, those of the
paper over fixed powers of ten, so that the unit of time does not matter; the hidden layer across channels has 2 d
units, not 4 d, and no dropout, for speed.

fb-forum, protocol 'paper', seed 0: test AUC 0.926.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.recent_links import RecentLinks, recent_links
from tapgnn.baselines.shared.learner import NodeLearner
from tapgnn.baselines.shared.link_network import MergeLayer, neighbour_mean
from tapgnn.baselines.shared.mlp_mixer import Mixer
from tapgnn.baselines.shared.temporal_attention import EventNetwork
from tapgnn.events import Events, Floats, Ints


class GraphMixerNetwork(EventNetwork):
    """Link encoder, node encoder and link classifier."""

    def __init__(self, train: Events, width: int, layers: int, neighbours: int, dropout: float) -> None:
        super().__init__(train, width)
        self.link = nn.Linear(width + self.features, width)
        self.mixer = Mixer(layers, neighbours, width)
        self.head = MergeLayer(2 * width, 1, dropout)

    def forward(self, node: Ints, links: RecentLinks, recent: Ints) -> Tensor:
        """h [R, 2 d] of the nodes [R] with their links, and the nodes [R, m] whose mean the node encoder takes."""
        rows = self.link(links.inputs) * torch.from_numpy(links.met.mask).unsqueeze(2)
        return torch.cat([self.mixer(rows), self.node_encoding(node, recent)], dim=1)

    def node_encoding(self, node: Ints, recent: Ints) -> Tensor:
        """s [R, d] from the nodes [R] and those that they met [R, m], -1 for none."""
        nodes, place = np.unique(np.concatenate([node, recent.ravel()]), return_inverse=True)
        rows = self.vectors(nodes)
        index = np.where(recent >= 0, place[len(node) :].reshape(recent.shape), -1)
        own: Tensor = rows[torch.from_numpy(place[: len(node)])]
        return own + neighbour_mean(rows, index)


@dataclass(eq=False)
class GraphMixer(NodeLearner):
    """An MLP-Mixer over the recent links of each end, and the mean of the nodes recently met."""

    name = "graphmixer"
    # A query reads so many links that more at a time would only take memory.
    query_batch = 1_024

    learning_rate: float = 1e-2
    vector_rate: float = 0.3
    epochs: int = 8
    layers: int = 2
    neighbours: int = 20
    recent: int = 200

    def _build(self, train: Events) -> nn.Module:
        return GraphMixerNetwork(train, self.width, self.layers, self.neighbours, self.dropout)

    def _embed(self, events: Events, node: Ints, time: Floats) -> Tensor:
        self.state.append(events)
        links = recent_links(self.state, node, time, self.neighbours)
        h: Tensor = self.network(node, links, self.state.latest(node, time, self.recent).node)
        return h
