"""The unfolding of a chunk as kernels see it: tensors on the device of the model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Flow:
    """The unfolding of a chunk as a kernel sees it, on the device of the model.

    chain [C+1], inbox [T+1], sender [2E], role [2E], event [2E]: as in `Unfolding`.
    degree [T]   messages received so far, the instant included, those of earlier chunks too
    clocks [T, 2]   when each temporal node happens, on two clocks (float64): time, and events of the whole graph
    elapsed [T, 2]  on both clocks since the node's previous temporal node; 0 where there is none

    Both clocks run in spans of the model: 1 is as long as the log it was fitted to.
    """

    chain: Tensor
    inbox: Tensor
    sender: Tensor
    role: Tensor
    event: Tensor
    degree: Tensor
    clocks: Tensor
    elapsed: Tensor

    @property
    def size(self) -> int:
        """T, the number of temporal nodes."""
        return len(self.inbox) - 1

    def neighbourhood(self) -> tuple[Tensor, Tensor]:
        """Every link of G_MP: the receiving temporal node [P] and the message [P], P the sum of degrees."""
        owner = torch.repeat_interleave(self.chain.diff())
        first = self.inbox[self.chain[owner]]
        size = self.inbox[1:] - first
        receiver = torch.repeat_interleave(size)
        start = size.cumsum(0) - size
        place = torch.arange(len(receiver), device=receiver.device) - start[receiver]
        return receiver, first[receiver] + place

    def receiver(self) -> Tensor:
        """[2E] the temporal node that each message reaches."""
        return torch.repeat_interleave(self.inbox.diff())
