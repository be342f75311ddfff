"""Time as numbers a layer can use: cos(W t + b) of the temporal activation (eq. 7)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class TimeEncoding(nn.Module):
    """cos(W t + b) with learned W and b; frequencies start spread geometrically from one span down to `shortest`.

    Phases are taken in float64: a fast frequency over a long log has no digits left in float32.
    """

    def __init__(self, width: int, shortest: float) -> None:
        super().__init__()
        cycles = torch.logspace(0.0, -math.log10(shortest), width) if width else torch.empty(0)
        self.frequency = nn.Parameter(2.0 * math.pi * cycles)
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, time: Tensor) -> Tensor:
        """time [I] in spans (float64) -> [I, width]."""
        angle = time.unsqueeze(1) * self.frequency.double() + self.phase.double()
        return torch.cos(angle).to(self.phase.dtype)
