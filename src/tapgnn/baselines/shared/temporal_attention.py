"""Temporal attention: a node attends to the neighbours it met before t, and to how long ago (Xu et al., "Inductive
Representation Learning on Temporal Graphs", ICLR 2020).

    phi(x)   = [cos(w_1 x), ..., cos(w_m x)]                                                     fixed frequencies
    q        = W_q [h_v, phi(0)]
    k_i, v_i = W_k [h_i, phi(t - t_i), f_i], W_v [h_i, phi(t - t_i), f_i]                       neighbour i, event t_i
    a        = sum over i of softmax_i(q k_i / sqrt(d / heads)) v_i                              per head

The frequencies are fixed, spread geometrically from one cycle over the log to one over its shortest gap. The reference
learns them; fixed ones train more stably (Cong et al., "Do We Really Need Complicated Model Architectures For Temporal
Networks?", ICLR 2023), and let the cosine of a difference come from tables,

    cos(w (t - t_i)) = cos(w t) cos(w t_i) + sin(w t) sin(w t_i),

so that no cosine, key or value is computed per pair of node and neighbour: W_k and W_v act on each distinct row once,
and their parts for time and features are applied to the query (scores) and after the sum (values). The result is the
formula above. A node without neighbours gets a = 0.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.indexed_ops import dot_products, weighted_sums
from tapgnn.baselines.shared.link_network import NodeVectors, event_features
from tapgnn.baselines.shared.row_table import grown
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class FixedTimeEncoding(nn.Module):
    """The fixed frequencies of a log and its origin; phases are computed in float64."""

    frequency: Tensor

    def __init__(self, train: Events, width: int) -> None:
        super().__init__()
        self.width = width
        self.origin = float(train.time[0])
        span = float(train.time[-1] - self.origin) or 1.0
        shortest = np.diff(np.unique(train.time)).min(initial=span)
        cycles = np.geomspace(1.0 / span, 1.0 / max(shortest, 1e-7 * span), width)
        self.register_buffer("frequency", torch.from_numpy(2.0 * math.pi * cycles))

    def forward(self, time: Floats) -> Tensor:
        """time [Q] -> cosines and sines [Q, 2 m] in float32."""
        phase = torch.from_numpy(time - self.origin).unsqueeze(1) * self.frequency
        return torch.cat([phase.cos(), phase.sin()], dim=1).float()


class EventNetwork(nn.Module):
    """What a network that reads an `EventHistory` begins with: node vectors, the encoding of time, event features."""

    def __init__(self, train: Events, width: int, vector_width: int | None = None) -> None:
        super().__init__()
        self.features = train.feature_width
        self.vectors = NodeVectors(train, vector_width or width)
        self.encoding = FixedTimeEncoding(train, width)


class EventHistory(Adjacency):
    """The past that attention reads: the neighbours of every node, and a table of the events."""

    def __init__(self, encoding: FixedTimeEncoding, features: int) -> None:
        super().__init__()
        self.encoding, self.features = encoding, features
        self._rows = np.empty((0, 2 * encoding.width + features), dtype=np.float32)

    def append(self, events: Events) -> None:
        """Add events at the end."""
        vectors = event_features(events, self.features)
        start = self.events
        super().append(events)
        self._rows = grown(self._rows, self.events)
        self._rows[start : self.events] = np.hstack([self.encoding(events.time).numpy(), vectors])

    @property
    def table(self) -> Tensor:
        """[E, 1, 2 m + f] cosines and sines of the events' times, then their features; the same for every head."""
        return torch.from_numpy(self._rows[: self.events]).unsqueeze(1)


class TemporalAttention(nn.Module):
    """The attention of the formula, for rows [S, d] that `index` [R, n] lists as the neighbours of R nodes."""

    def __init__(self, width: int, time_width: int, features: int, heads: int) -> None:
        super().__init__()
        self.heads, self.time_width = heads, time_width
        self.query = nn.Linear(width + time_width, width)
        self.key, self.value = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        shape = (heads, width // heads, time_width + features)
        bound = 1.0 / math.sqrt(width + time_width + features)
        self.key_event = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.value_event = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

    def forward(self, own: Tensor, phases: Tensor, rows: Tensor, index: Ints, table: Tensor, event: Ints) -> Tensor:
        """a [R, d] of own [R, d], the encoded query times [R, 2 m], rows [S, d]; index, event [R, n], -1 for none."""
        m = self.time_width
        neighbours, events = torch.from_numpy(index), torch.from_numpy(event)
        start = torch.cat([own, own.new_ones(len(own), m)], dim=1)
        query = self._split(self.query(start)) / math.sqrt(own.shape[1] / self.heads)
        cosine, sine = phases[:, None, :m], phases[:, None, m:]
        by_event = torch.einsum("rhd,hdm->rhm", query, self.key_event)
        by_event = torch.cat([by_event[..., :m] * cosine, by_event[..., :m] * sine, by_event[..., m:]], dim=2)
        score = dot_products(query, self._split(self.key(rows)), neighbours) + dot_products(by_event, table, events)
        padding = (neighbours < 0).unsqueeze(1)
        # A row of padding alone has no softmax; its weights are set to 0 below.
        weight = torch.softmax(score.masked_fill(padding, -1e9), dim=2) * ~padding
        told = weighted_sums(weight, table, events)
        told = torch.cat([told[..., :m] * cosine + told[..., m : 2 * m] * sine, told[..., 2 * m :]], dim=2)
        values = weighted_sums(weight, self._split(self.value(rows)), neighbours)
        return (values + torch.einsum("rhm,hdm->rhd", told, self.value_event)).flatten(1)

    def _split(self, rows: Tensor) -> Tensor:
        return rows.view(len(rows), self.heads, rows.shape[1] // self.heads)


def check_heads(heads: int, width: int) -> None:
    """Refuse a number of heads that does not divide the width."""
    if heads < 1 or width % heads:
        raise ConfigError(f"heads must divide the width {width}, not {heads}")
