"""What the networks of several methods share: node vectors, the mean layer, and the layer that merges two vectors.

    x_v = a learned vector for each node of the training events, one 'unknown' vector for every other
    h'(v, t) = W_own h(v, t) + W_mean mean(h(u, t') : u sampled from N(v, t)) + b
    merge(a, b) = W_2 ReLU(W_1 [a, b] + b_1) + b_2

The paper gives every method one-hot node features, which a linear layer turns into learned vectors. The unknown vector
is trained in the place of known ones, drawn at random. A node without neighbours has the mean zero; W [h, mean] of
GraphSAGE's reference is the same with W split in two. Merging joins what a node attended to with the node itself, and
with one output it is the head that gives the logit of a pair, as in the reference of TGAT.
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
from tapgnn.unfold import unfold


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
        out: Tensor = self.own(rows[torch.from_numpy(own)]) + self.mean(neighbour_mean(rows, index))
        return out


def neighbour_mean(rows: Tensor, index: Ints) -> Tensor:
    """[R, d] the mean of the rows that index [R, n] lists, -1 for padding; zero where it lists none."""
    neighbours = torch.from_numpy(index)
    present = (neighbours >= 0).to(rows.dtype)
    weight = present / present.sum(dim=1, keepdim=True).clamp(min=1.0)
    return weighted_sums(weight.unsqueeze(1), rows.unsqueeze(1), neighbours).squeeze(1)


class MergeLayer(nn.Module):
    """Two vectors [Q, d] each, through a hidden layer, to one [Q, out]."""

    def __init__(self, width: int, out: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, out))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """[Q, out] of left and right [Q, d]."""
        merged: Tensor = self.layers(torch.cat([left, right], dim=1))
        return merged


def median_gap(train: Events) -> float:
    """The median time between two events of one node, or the whole span where no node has two."""
    view = unfold(train)
    gap = np.diff(view.time)[np.diff(view.owner()) == 0]
    return float(np.median(gap)) if len(gap) else float(train.time[-1] - train.time[0]) or 1.0


def event_features(events: Events, width: int) -> NDArray[np.float32]:
    """[E, width] the features of the events; an empty log may have any number of them."""
    if events.feature_width != width and len(events):
        raise EventError(f"the training events have {width} features, these have {events.feature_width}; give the same")
    return np.zeros((len(events), width), dtype=np.float32) if events.features is None else events.features
