"""Time as numbers a layer can use: cos(W t + b) of the temporal activation (eq. 7)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.compiled.jit import compiled, program
from tapgnn.compiled.products import empty_rows

TURN = 2.0 * math.pi
# The series of sin(x) / x in x squared, last term first: within a quarter turn good to 1e-9.
SINE = tuple(np.float32((-1.0) ** k / math.factorial(2 * k + 1)) for k in reversed(range(7)))


class TimeEncoding(nn.Module):
    """cos(W t + b) with learned W and b; frequencies start spread geometrically from one span down to `shortest`.

    Phases are taken in float64: a fast frequency over a long log has no digits left in float32.
    """

    def __init__(self, width: int, shortest: float) -> None:
        super().__init__()
        cycles = torch.logspace(0.0, -math.log10(shortest), width) if width else torch.empty(0)
        self.frequency = nn.Parameter(TURN * cycles)
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, time: Tensor) -> Tensor:
        """time [I] in spans (float64) -> [I, width]."""
        angle = time.unsqueeze(1) * self.frequency.double() + self.phase.double()
        return torch.cos(angle).to(self.phase.dtype)


@program
def encode_times(time, frequency, phase):  # type: ignore[no-untyped-def]
    """The same on arrays; zeros where the time is infinite."""
    waves = empty_rows(len(time), len(phase), phase)
    _encode(time, frequency, phase, waves)
    return waves


@program
def log_pauses(pause, shortest):  # type: ignore[no-untyped-def]
    """log(1 + pause / shortest) of pauses [Q] in spans, a span being 1/2."""
    return np.log1p(pause / shortest) / (2.0 * np.log1p(1.0 / shortest))


@compiled
def _encode(time: Any, frequency: Any, phase: Any, waves: Any) -> None:
    """Fill waves [I, width] with cos(W t + b), to the digits of their type; zeros where the time is infinite.

    For float32 whole turns go off in float64. Of the rest x, cos(2 pi x) = sin(2 pi (1/4 - |x|)) is the sine of a
    quarter turn at most.
    """
    for i in range(len(time)):
        row = waves[i]
        if np.isinf(time[i]):
            row[:] = 0.0
        elif waves.dtype == time.dtype:
            for j in range(len(row)):
                row[j] = np.cos(time[i] * frequency[j] + phase[j])
        else:
            for j in range(len(row)):
                turns = (time[i] * frequency[j] + phase[j]) * (1.0 / TURN)
                row[j] = TURN * (0.25 - abs(turns - np.floor(turns + 0.5)))
            for j in range(len(row)):
                angle = row[j]
                square, series = angle * angle, np.float32(0.0)
                for coefficient in SINE:
                    series = series * square + coefficient
                row[j] = angle * series
