"""Temporal attention: a node looks at the neighbours it met before t, and at how long ago (Xu et al., ICLR 2020).

    phi(x)   = [cos(w_1 x), ..., cos(w_m x)]                                                     fixed frequencies
    q        = W_q [h_v, phi(0)]
    k_i, v_i = W_k [h_i, phi(t - t_i), f_i], W_v [h_i, phi(t - t_i), f_i]                       neighbour i, event t_i
    a        = sum over i of softmax_i(q k_i / sqrt(d / heads)) v_i                              per head

The frequencies are fixed, from one cycle over the log to one over its shortest gap, spread geometrically. The reference
learns them; fixed ones train more steadily (Cong et al., "Do We Really Need Complicated Model Architectures For
Temporal Networks?", ICLR 2023), and let a cosine of a difference come from tables,

    cos(w (t - t_i)) = cos(w t) cos(w t_i) + sin(w t) sin(w t_i),

so that no cosine is taken, and no key or value is projected, per pair of node and neighbour: W_k and W_v act on each
distinct row once, and their parts for time and features move over to the query (scores) and behind the sum (values).
The result is the formula above. A node without neighbours gets a = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.indexed_ops import dots, mixture
from tapgnn.baselines.shared.link_network import event_features
from tapgnn.events import Events, Floats, Ints


class Clockwork(nn.Module):
    """The fixed frequencies of a log and its origin; times become angles in float64."""

    frequency: Tensor

    def __init__(self, train: Events, width: int) -> None:
        super().__init__()
        self.width = width
        self.origin = float(train.time[0])
        gaps = np.diff(train.time)
        span = float(train.time[-1] - self.origin) or 1.0
        shortest = float(gaps[gaps > 0].min()) if (gaps > 0).any() else span
        spread = np.geomspace(1.0 / span, 1.0 / max(shortest, 1e-7 * span), width)
        self.register_buffer("frequency", torch.from_numpy(2.0 * math.pi * spread))

    def forward(self, time: Floats) -> Tensor:
        """time [Q] -> cosines and sines [Q, 2 m] in float32."""
        angle = torch.from_numpy(time - self.origin).unsqueeze(1) * self.frequency
        return torch.cat([angle.cos(), angle.sin()], dim=1).float()


class EventTable:
    """What attention reads of the events, [E, 2 m + f]: cosines and sines of their times, then their features."""

    def __init__(self, clock: Clockwork, features: int) -> None:
        self.clock, self.features = clock, features
        self.size = 0
        self._rows = torch.empty((0, 2 * clock.width + features))

    def append(self, events: Events) -> None:
        """Add events, in the order in which the adjacency counts them."""
        vectors = event_features(events, self.features)
        rows = torch.cat([self.clock(events.time), torch.from_numpy(vectors)], dim=1)
        need = self.size + len(rows)
        if need > len(self._rows):
            longer = torch.zeros((max(need, 2 * len(self._rows)), self._rows.shape[1]))
            longer[: self.size] = self._rows[: self.size]
            self._rows = longer
        self._rows[self.size : need] = rows
        self.size = need

    @property
    def rows(self) -> Tensor:
        """[E, 1, 2 m + f] the events so far, the same for every head."""
        return self._rows[: max(self.size, 1)].unsqueeze(1)


@dataclass
class Past:
    """What happened so far: who met whom, and the table that attention reads."""

    table: EventTable
    graph: Adjacency = field(default_factory=Adjacency)

    def append(self, events: Events) -> None:
        """Add events at the end."""
        self.table.append(events)
        self.graph.append(events)


class TemporalAttention(nn.Module):
    """The attention of the formula, for rows [S, d] that `index` [R, n] lists as the neighbours of R nodes."""

    def __init__(self, width: int, clock: int, features: int, heads: int) -> None:
        super().__init__()
        self.heads, self.clock = heads, clock
        self.query = nn.Linear(width + clock, width)
        self.key, self.value = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        shape = (heads, width // heads, clock + features)
        bound = 1.0 / math.sqrt(width + clock + features)
        self.key_event = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.value_event = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

    def forward(self, own: Tensor, angles: Tensor, rows: Tensor, index: Ints, table: Tensor, event: Ints) -> Tensor:
        """a [R, d] of own [R, d], the asked times as angles [R, 2 m], rows [S, d]; index, event [R, n], -1 for none."""
        size, m = len(own), self.clock
        listed, of_event = torch.from_numpy(index), torch.from_numpy(event)
        start = torch.cat([own, own.new_ones(size, m)], dim=1)
        query = self.query(start).view(size, self.heads, -1) / math.sqrt(own.shape[1] / self.heads)
        cosine, sine = angles[:, None, :m], angles[:, None, m:]
        reach = torch.einsum("rhd,hdm->rhm", query, self.key_event)
        reach = torch.cat([reach[..., :m] * cosine, reach[..., :m] * sine, reach[..., m:]], dim=2)
        score = dots(query, self._split(self.key(rows)), listed) + dots(reach, table, of_event)
        absent = listed < 0
        # A row of padding alone has no softmax; its weights are set to 0 below.
        weight = torch.softmax(score.masked_fill(absent.unsqueeze(1), -1e9), dim=2)
        weight = weight * (~absent).unsqueeze(1)
        told = mixture(weight, table, of_event)
        told = torch.cat([told[..., :m] * cosine + told[..., m : 2 * m] * sine, told[..., 2 * m :]], dim=2)
        mixed = mixture(weight, self._split(self.value(rows)), listed)
        mixed = mixed + torch.einsum("rhm,hdm->rhd", told, self.value_event)
        return mixed.reshape(size, -1)

    def _split(self, rows: Tensor) -> Tensor:
        return rows.view(len(rows), self.heads, -1)
