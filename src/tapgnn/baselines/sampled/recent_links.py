"""Recent links: what GraphMixer, DyGFormer and TPNet read of a node, the latest events in which it took part before t.

    link i = [cos(w_1 (t - t_i)), ..., cos(w_m (t - t_i)), f_i], 0 where there are fewer links

with the fixed frequencies w of `temporal_attention` and the features f_i of the event, where it has any.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tapgnn.baselines.shared.adjacency import Neighbours
from tapgnn.baselines.shared.temporal_attention import EventHistory
from tapgnn.events import Floats, Ints


class RecentLinks(NamedTuple):
    """The latest links of Q nodes, the last one first: who was met, and the inputs [Q, n, m + f]."""

    met: Neighbours
    inputs: Tensor


def recent_links(past: EventHistory, node: Ints, time: Floats, count: int) -> RecentLinks:
    """The `count` latest links of each (node, time), strictly before the time."""
    met = past.latest(node, time, count)
    m = past.encoding.width
    if not past.events:
        return RecentLinks(met, torch.zeros(*met.node.shape, m + past.features))
    rows = past.table[:, 0][torch.from_numpy(met.event)]
    phases = past.encoding(time).unsqueeze(1)
    # The cosine of a difference, from the tables of both times.
    angles = rows[..., : 2 * m] * phases
    inputs = torch.cat([angles[..., :m] + angles[..., m:], rows[..., 2 * m :]], dim=2)
    return RecentLinks(met, inputs * torch.from_numpy(met.mask).unsqueeze(2))
