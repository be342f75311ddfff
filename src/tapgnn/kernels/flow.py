"""What kernels run on: the unfolding of a chunk as tensors, and the scans of a backend.

    scan_sum        S_i = S_{i-1} * decay_i + a_i          decay per row and channel group, or none
    scan_max        M_i = max(M_{i-1}, a_i)
    scan_logsumexp  running maximum, numerator and denominator of a softmax-weighted mean
    gather_sum      A_i = sum of weight_m * value[index_m] over the messages m of temporal node i

i runs along one chain, started from the carried `initial` row of that chain. Each scan returns the value at every
temporal node and the last value of every chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tapgnn.compiled.adaptive_fused import BlockWeights, Links

# Links of G_MP that are held at once.
LINKS = 1 << 20


@dataclass(frozen=True)
class Scans:
    """The scans of one backend.

    scan_sum(value [T, d], decay [T, G] or None, initial [C, d], chain) -> running [T, d], last [C, d]. The decay
    (float64) is the factor applied before row i is added, one for each of G groups of channels (`channel_groups`): in
    float32 a factor close to 1, taken a million times, would lose what it is meant to forget. initial and last are
    float64.
    scan_max(value [T, d], initial [C, d], chain) -> running, last
    gather_sum(value [R, d], index [2E], weight [2E] or None, inbox) -> [T, d]
    adaptive_block    the adaptive kernel with the end of its block in one pass, where there is such a form
    softmax_mean      the attention kernel in one pass, likewise
    """

    scan_sum: Callable[[Tensor, Tensor | None, Tensor, Tensor], tuple[Tensor, Tensor]]
    scan_max: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    gather_sum: Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]
    adaptive_block: Callable[[BlockWeights, Tensor, Links, bool], tuple[Tensor, Tensor]] | None = None
    softmax_mean: Callable[..., tuple[Tensor, Tensor]] | None = None

    def scan_logsumexp(
        self, peak: Tensor, total: Tensor, initial_peak: Tensor, initial_total: Tensor, chain: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scan sums that are stored relative to a running maximum, so that no exponential overflows.

        Row i stands for total_i * exp(peak_i), with peak [T, 1] and total [T, d]; the carried rows likewise. Returns
        the running peak and total, and their last rows. Any quotient of two channels of the total is free of the peak,
        which therefore needs no gradient.
        """
        with torch.no_grad():
            running_peak, last_peak = self.scan_max(peak, initial_peak, chain)
            previous = running_peak.roll(1, 0)
            filled = chain[1:] > chain[:-1]
            previous[chain[:-1][filled]] = initial_peak[filled]
            # exp(-inf - -inf) is nan: nothing has been carried, and 0 says so.
            decay = torch.exp(previous.double() - running_peak.double()).nan_to_num_(nan=0.0)
            scale = torch.exp(peak - running_peak)
        running, last = self.scan_sum(total * scale, decay, initial_total, chain)
        return running_peak, running, last_peak, last


@dataclass(frozen=True)
class Flow:
    """The unfolding of a chunk as a kernel sees it, on the device of the model.

    chain [C+1], inbox [T+1], sender [2E], role [2E], event [2E]: as in `Unfolding`.
    degree [T]   messages received so far, the instant included, those of earlier chunks too
    clocks [T, 2]   when each temporal node happens, on two clocks (float64): time, and events of the whole graph
    elapsed [T, 2]  on both clocks since the node's previous temporal node; 0 where there is none
    receivers       the temporal nodes whose links `neighbourhood` gives

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
    scans: Scans
    receivers: slice = field(default_factory=lambda: slice(None))

    @property
    def size(self) -> int:
        """T, the number of temporal nodes."""
        return len(self.inbox) - 1

    def neighbourhood(self) -> tuple[Tensor, Tensor]:
        """Links of G_MP: the receiving temporal node [P] and the message [P]; of all, P is the sum of degrees."""
        first = self._first_messages()
        chosen = torch.arange(self.size, device=first.device)[self.receivers]
        size = self.inbox[1:][chosen] - first[chosen]
        receiver = torch.repeat_interleave(chosen, size)
        start = torch.repeat_interleave(size.cumsum(0) - size, size)
        return receiver, first[receiver] + torch.arange(len(receiver), device=receiver.device) - start

    def blocks(self, most: int = LINKS) -> list[Flow]:
        """The same, cut into runs of receivers with so many links together, or with those of a single one."""
        ends = (self.inbox[1:] - self._first_messages()).cumsum(0)
        full = torch.tensor([*range(most, int(ends[-1]), most)], dtype=ends.dtype, device=ends.device)
        starts = sorted({0, *torch.searchsorted(ends, full, right=True).tolist()})
        return [replace(self, receivers=slice(*rows)) for rows in zip(starts, [*starts[1:], self.size], strict=True)]

    def _first_messages(self) -> Tensor:
        """[T] the first message of the chain of each temporal node."""
        return self.inbox[self.chain[torch.repeat_interleave(self.chain.diff())]]

    def receiver(self) -> Tensor:
        """[2E] the temporal node that each message reaches."""
        return torch.repeat_interleave(self.inbox.diff())
