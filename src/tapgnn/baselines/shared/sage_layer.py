"""What GraphSAGE and its temporal form share: neighbourhoods drawn uniformly, and the layer that takes their mean.

    h'(v, t) = W_own h(v, t) + W_mean mean(h(u, t') : u drawn from N(v, t)) + b

where t' is the time of the event that joins them, or t itself. From the top down, the (node, time) that a layer needs
are listed, each once, with the neighbours drawn for them; a draw is a function of the seed, the node and the time, so
that drawing once is the same as drawing for each. A node without neighbours has the mean zero. W [h, mean] of the
reference is the same with W split in two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.baselines.sampled.neighbourhood import Moment, distinct
from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.indexed_ops import mixture
from tapgnn.events import Floats, Ints


@dataclass(frozen=True)
class Draw:
    """Where each node, own [R], and its neighbours, index [R, n], lie in the layer below; -1 for none."""

    own: Ints
    index: Ints


def drawn(
    graph: Adjacency, node: Ints, time: Floats, counts: Sequence[int], seed: int, moment: Moment
) -> tuple[Ints, list[Draw]]:
    """The distinct nodes at the bottom, and the draws of every layer above them, the first layer first.

    node, time [R] are distinct pairs; `counts` holds the neighbours per node from the top layer down. A neighbour is
    read as it was at the event, or as it is at the question (`moment`).
    """
    found: list[Draw] = []
    for depth, count in enumerate(counts):
        met = graph.uniform(node, time, count, seed + depth)
        here = met.mask
        seen_at = met.time[here] if moment == "event" else np.repeat(time, here.sum(axis=1))
        times = np.concatenate([time, seen_at])
        if depth == len(counts) - 1:
            # Below the first layer a node is the same at all times.
            times = np.zeros(len(times))
        (below, then), place = distinct(np.concatenate([node, met.node[here]]), times)
        index = np.full(met.node.shape, -1, dtype=np.int64)
        index[here] = place[len(node) :]
        found.insert(0, Draw(place[: len(node)], index))
        node, time = below, then
    return node, found


class SageLayer(nn.Module):
    """The mean of the drawn neighbours and the linear map; an activation or a norm is the network's matter."""

    def __init__(self, incoming: int, width: int) -> None:
        super().__init__()
        self.own, self.mean = nn.Linear(incoming, width), nn.Linear(incoming, width, bias=False)

    def forward(self, rows: Tensor, draw: Draw) -> Tensor:
        """[R, width] from the rows [S, incoming] of the layer below."""
        listed = torch.from_numpy(draw.index)
        present = (listed >= 0).to(rows.dtype)
        weight = present / present.sum(dim=1, keepdim=True).clamp(min=1.0)
        mean = mixture(weight.unsqueeze(1), rows.unsqueeze(1), listed).squeeze(1)
        found: Tensor = self.own(rows[torch.from_numpy(draw.own)]) + self.mean(mean)
        return found
