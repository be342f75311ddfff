"""What the networks of several methods share: node vectors, the mean layer, and the head that scores a pair.

    x_v = a learned vector for each node of the training events, one 'unknown' vector for every other
    h'(v, t) = W_own h(v, t) + W_mean mean(h(u, t') : u sampled from N(v, t)) + b
    logit(u, v) = w ReLU(W [h_u, h_v] + b) + c

The paper gives every method one-hot node features, which a linear layer turns into learned vectors. The unknown vector
is trained in the place of known ones, drawn at random. A node without neighbours has the mean zero; W [h, mean] of
GraphSAGE's reference is the same with W split in two.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from tapgnn.baselines.shared.indexed_ops import weighted_sums
from tapgnn.baselines.shared.row_table import look_up
from tapgnn.errors import EventError
from tapgnn.events import Events, Ints


class NodeVectors(nn.Module):
    """A learned vector per training node, with sparse gradients; row 0 is the unknown one."""

    def __init__(self, train: Events, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        seen = np.unique(np.concatenate([train.src, train.dst]))
        self.place = np.zeros(int(seen[-1]) + 1, dtype=np.int64)
        self.place[seen] = np.arange(1, len(seen) + 1)
        self.dropout = dropout
        self.weight = nn.Parameter(torch.randn(len(seen) + 1, width) / width**0.5)

    def forward(self, nodes: Ints) -> Tensor:
        """x [Q, d]; in training some nodes are replaced by the unknown one."""
        rows = torch.from_numpy(look_up(self.place, nodes, 0))
        if self.training and self.dropout:
            rows = rows * (torch.rand(len(rows)) >= self.dropout)
        return embedding(rows, self.weight, sparse=True)


class SageLayer(nn.Module):
    """The mean of the sampled neighbours and the linear map of GraphSAGE; the network adds activation and norm."""

    def __init__(self, incoming: int, width: int) -> None:
        super().__init__()
        self.own, self.mean = nn.Linear(incoming, width), nn.Linear(incoming, width, bias=False)

    def forward(self, rows: Tensor, own: Ints, index: Ints) -> Tensor:
        """[R, width] from rows [S, incoming] of the layer below; own [R], index [R, n] with -1 for padding."""
        neighbours = torch.from_numpy(index)
        present = (neighbours >= 0).to(rows.dtype)
        weight = present / present.sum(dim=1, keepdim=True).clamp(min=1.0)
        mean = weighted_sums(weight.unsqueeze(1), rows.unsqueeze(1), neighbours).squeeze(1)
        out: Tensor = self.own(rows[torch.from_numpy(own)]) + self.mean(mean)
        return out


class LinkHead(nn.Module):
    """The logit of a pair from the representations of its ends."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(2 * width, width), nn.Linear(width, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[Q] logits of left [Q, d] and right [Q, d]."""
        hidden = torch.relu(self.hidden(torch.cat([left, right], dim=1)))
        logits: Tensor = self.out(self.dropout(hidden)).squeeze(1)
        return logits


def median_gap(train: Events) -> float:
    """The median time between two events of one node, or the whole span where no node has two."""
    node, time = np.concatenate([train.src, train.dst]), np.tile(train.time, 2)
    order = np.lexsort((time, node))
    gap = np.diff(time[order])[np.diff(node[order]) == 0]
    positive = gap[gap > 0]
    return float(np.median(positive)) if len(positive) else float(train.time[-1] - train.time[0]) or 1.0


def event_features(events: Events, width: int) -> NDArray[np.float32]:
    """[E, width] the features of the events; an empty log may have any number of them."""
    if events.feature_width != width and len(events):
        raise EventError(f"the training events have {width} features, these have {events.feature_width}; give the same")
    return np.zeros((len(events), width), dtype=np.float32) if events.features is None else events.features
