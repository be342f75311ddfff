"""The mean layer that GraphSAGE and its temporal form share.

    h'(v, t) = W_own h(v, t) + W_mean mean(h(u, t') : u sampled from N(v, t)) + b

A node without neighbours has the mean zero. W [h, mean] of the reference is the same with W split in two.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tapgnn.baselines.shared.indexed_ops import weighted_sums
from tapgnn.events import Ints


class SageLayer(nn.Module):
    """The mean of the sampled neighbours and the linear map; the network adds activation and norm."""

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
