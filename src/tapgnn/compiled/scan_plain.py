"""The scans in plain torch: for every device and every order of derivative, and the oracle of the compiled ones.

A scan along chains takes about log2(longest chain) passes: each doubles how far back a row has looked.
"""

from __future__ import annotations

import torch
from torch import Tensor


def channel_groups(width: int, groups: int) -> Tensor:
    """[width] which of the groups each channel belongs to; their sizes differ by one at most."""
    borders = torch.tensor([g * width // groups for g in range(groups + 1)])
    return torch.repeat_interleave(borders.diff(), output_size=width)


def scan_sum(value: Tensor, decay: Tensor | None, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """Decayed running sums; see `Scans`."""
    rows, width = value.shape
    exact = initial.dtype
    factor = torch.ones(rows, 1, dtype=exact, device=value.device) if decay is None else decay.to(exact)
    factor = factor[:, channel_groups(width, factor.shape[1]).to(value.device)]
    owner, place = _places(chain, rows)
    running = value.to(exact)
    span = 1
    while rows and span <= int(place.max()):
        reaches = (place >= span).unsqueeze(1)
        running = running + torch.where(reaches, factor * running.roll(span, 0), 0.0)
        factor = torch.where(reaches, factor * factor.roll(span, 0), factor)
        span *= 2
    running = running + factor * initial[owner]
    return running.to(value.dtype), _last(running, initial, chain)


def scan_max(value: Tensor, initial: Tensor, chain: Tensor) -> tuple[Tensor, Tensor]:
    """Running maxima; see `Scans`."""
    owner, place = _places(chain, len(value))
    running = value
    span = 1
    while len(value) and span <= int(place.max()):
        reaches = (place >= span).unsqueeze(1)
        running = torch.where(reaches, torch.maximum(running.roll(span, 0), running), running)
        span *= 2
    running = torch.maximum(initial[owner], running)
    return running, _last(running, initial, chain)


def gather_sum(value: Tensor, index: Tensor, weight: Tensor | None, inbox: Tensor) -> Tensor:
    """Sums of the messages of each temporal node; see `Scans`."""
    message = value[index] if weight is None else value[index] * weight.unsqueeze(1)
    receiver = torch.repeat_interleave(inbox.diff())
    return value.new_zeros(len(inbox) - 1, value.shape[1]).index_add(0, receiver, message)


def _places(chain: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The chain of each row, and its place in it."""
    owner = torch.repeat_interleave(chain.diff())
    return owner, torch.arange(rows, device=chain.device) - chain[owner]


def _last(running: Tensor, initial: Tensor, chain: Tensor) -> Tensor:
    filled = (chain[1:] > chain[:-1]).unsqueeze(1)
    if len(running) == 0:
        return initial
    return torch.where(filled, running[(chain[1:] - 1).clamp(min=0)], initial)
