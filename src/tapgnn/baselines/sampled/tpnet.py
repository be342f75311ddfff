"""TPNet: recent links told apart by temporal walks (Lu et al., "Improving Temporal Link Prediction via Temporal Walk
Matrix Projection", NeurIPS 2024).

    f_ab    = ReLU(W_f log(1 + ReLU(p_ab)) + b_f)            p_ab: the products of a and b in `walk_projections`
    z_i     = W_n x_i + W_l link_i + W_r [f_ui, f_vi] + b    for each of the n latest links of u, to neighbour i
    h_u     = Mixer(z_1, ..., z_n), h_v likewise
    logit   = w ReLU(W [h_u, h_v, f_uv] + b) + c

The links are those of `recent_links`, the mixer that of `mlp_mixer`. The rate of decay is `decay` over the span of the
training events, and a projection has `dimensions` log(2 E) numbers.

Differences, and why: **a query sees the walks strictly before its time**, whatever batch it comes in, where the
public code moves the projections on by whole batches. The paper searches for the rate of decay on each data set; here
it is relative to the span of the log, so that one default fits all. A pair has its products once each, without the
mirror images in the table of all products, and the linear layer that ends the MLP of f in the paper is merged with
those that read f. x_i is a learned vector, since these logs have no node features. One mixer block, not two, and no
dropout in it, for speed.

fb-forum, protocol 'paper', seed 0: test AUC 0.972.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.recent_links import recent_links
from tapgnn.baselines.shared.learner import Learner
from tapgnn.baselines.shared.mlp_mixer import Mixer
from tapgnn.baselines.shared.neighbourhood import distinct
from tapgnn.baselines.shared.temporal_attention import EventHistory, EventNetwork
from tapgnn.baselines.shared.walk_projections import WalkProjections
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class TPNetState(NamedTuple):
    """The links of every node, and the projections of its walks."""

    past: EventHistory
    walks: WalkProjections


class TPNetNetwork(EventNetwork):
    """Relative encodings, link encoder and classifier."""

    def __init__(self, train: Events, width: int, layers: int, neighbours: int, products: int, dropout: float) -> None:
        super().__init__(train, width)
        self.relative = nn.Sequential(nn.Linear(products, width), nn.ReLU())
        self.node = nn.Linear(width, width, bias=False)
        self.link = nn.Linear(width + self.features, width)
        self.both = nn.Linear(2 * width, width, bias=False)
        self.mixer = Mixer(layers, neighbours, width)
        self.head = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1))

    def forward(self, met: Ints, links: Tensor, products: Tensor, between: Tensor) -> Tensor:
        """[Q] logits.

        met [2 Q, n] are the neighbours of every source, then of every destination, -1 for none; links [2 Q, n, d] what
        `link` makes of the links to them, products [2 Q, n, 2, p] those of the neighbour with its own end and with the
        other one, between [Q, p] those of the two ends.
        """
        nodes, place = np.unique(met, return_inverse=True)
        rows = self.node(self.vectors(nodes))[torch.from_numpy(place.reshape(met.shape))] + links
        rows = rows + self.both(self.relate(products).flatten(2))
        h = self.mixer(rows * torch.from_numpy(met >= 0).unsqueeze(2))
        size = len(between)
        logits: Tensor = self.head(torch.cat([h[:size], h[size:], self.relate(between)], dim=1)).squeeze(1)
        return logits

    def relate(self, products: Tensor) -> Tensor:
        """f [..., d] from products [..., p]."""
        f: Tensor = self.relative(products.relu().log1p())
        return f


@dataclass(eq=False)
class TPNet(Learner):
    """Recent links of both ends, each with the temporal walks between its neighbour and both ends."""

    name = "tpnet"
    # A query reads so many links that more at a time would only take memory.
    query_batch = 1_024

    learning_rate: float = 3e-3
    epochs: int = 6
    layers: int = 1
    neighbours: int = 20
    steps: int = 2
    dimensions: float = 10.0
    decay: float = 80.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("dimensions", 1), ("decay", 0)):
            if not getattr(self, name) >= least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")

    def _build(self, train: Events) -> nn.Module:
        span = float(train.time[-1] - train.time[0]) or 1.0
        self._walk_width = math.ceil(self.dimensions * math.log(2.0 * len(train) + 1.0))
        self._rate = self.decay / span
        products = self._new_walks().pair_width
        return TPNetNetwork(train, self.width, self.layers, self.neighbours, products, self.dropout)

    def _new_walks(self) -> WalkProjections:
        return WalkProjections(self.steps, self._walk_width, self._rate, self.seed)

    def _empty_state(self) -> TPNetState:
        return TPNetState(EventHistory(self.network.encoding, self.network.features), self._new_walks())

    def _logits(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        past, walks = self.state
        past.append(events)
        (node, when), place = distinct(np.concatenate([src, dst]), np.tile(time, 2))
        own = recent_links(past, node, when, self.neighbours)
        met = own.met.node[place]
        links = self.network.link(own.inputs)[torch.from_numpy(place)]
        products, between = self._products(walks, events, met, src, dst, time)
        logits: Tensor = self.network(met, links, products, between)
        return logits

    def _products(
        self, walks: WalkProjections, events: Events, met: Ints, src: Ints, dst: Ints, time: Floats
    ) -> tuple[Tensor, Tensor]:
        """What the walks tell of each neighbour and both ends [2 Q, n, 2, p], and of the two ends [Q, p]."""
        here = met >= 0
        ends = np.concatenate([np.column_stack([src, dst]), np.column_stack([dst, src])])
        left = np.repeat(ends[:, None], met.shape[1], axis=1)[here].ravel()
        count = here.sum(axis=1)
        when = np.repeat(np.tile(time, 2), 2 * count)
        right = np.repeat(met[here], 2)
        columns = (np.concatenate([left, src]), np.concatenate([right, dst]), np.concatenate([when, time]))
        found = walks.replay(events, *columns)
        products = np.zeros((*met.shape, 2, walks.pair_width), dtype=np.float32)
        products[here] = found[: len(left)].reshape(-1, 2, walks.pair_width)
        return torch.from_numpy(products), torch.from_numpy(found[len(left) :])
