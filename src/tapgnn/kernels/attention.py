"""Attention (Appendix B, corrected): a softmax-weighted mean of the messages of the whole neighbourhood.

    alpha_uv = LeakyReLU(q_u . value_u + q_v . h_v)         both at the event's instant, frozen there
    h(v,t)   = sum over u of exp(alpha_uv) value_u / sum over u of exp(alpha_uv)

AGG   numerator and denominator of one instant, relative to the largest alpha of the instant
PROP  m_i = max(m_{i-1}, m), both sums rescaled to it and added to the carried ones        read  numerator / denominator

The paper's appendix drops the carried numerator and lets exp overflow. The state is (m, numerator, denominator).
Without gradients AGG, PROP and read are one loop.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from tapgnn.compiled.flow import Flow
from tapgnn.compiled.scan_loops import over_segments, softmax_forward, view
from tapgnn.compiled.scan_ops import gather_sum, scan_logsumexp, scan_max
from tapgnn.kernels.kernel import Kernel, add_up


class Attention(Kernel):
    """Graph attention over all messages."""

    reads_receiver = True

    def __init__(self, width: int, own_width: int) -> None:
        super().__init__(width)
        self.of_sender = nn.Linear(width, 1, bias=False)
        self.of_receiver = nn.Linear(own_width, 1, bias=False)

    @property
    def state_width(self) -> int:
        """m, the numerator, the denominator."""
        return self.width + 2

    def empty(self) -> Tensor:
        """m = -inf, both sums 0."""
        state = super().empty()
        state[0] = -torch.inf
        return state

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read."""
        if value.device.type == "cpu" and not torch.is_grad_enabled():
            read = value.new_empty(flow.size, self.width)
            last = carried.clone(memory_format=torch.contiguous_format)
            given = (flow.inbox, index, self.of_sender(value)[:, 0], self.of_receiver(own)[:, 0], value)
            states = (np.arange(len(last)), 0, last.numpy())
            over_segments(softmax_forward, view(flow.chain), self.width, *map(view, given), *states, view(read))
            return read, last
        alpha = self._alpha(value, index, own, flow)
        with torch.no_grad():
            nothing = alpha.new_full((flow.size, 1), -torch.inf)
            _, peak = scan_max(alpha.unsqueeze(1), nothing, flow.inbox)
        weight = torch.exp(alpha - peak[flow.receiver(), 0])
        with_one = torch.cat([value, value.new_ones(len(value), 1)], dim=1)
        total = gather_sum(with_one, index, weight, flow.inbox)
        _, total, last_peak, last_total = scan_logsumexp(
            peak, total, carried[:, :1].to(value.dtype), carried[:, 1:], flow.chain
        )
        return total[:, :-1] / total[:, -1:], torch.cat([last_peak.to(carried.dtype), last_total], dim=1)

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition, with the usual shift by the largest alpha."""
        alpha = self._alpha(value, index, own, flow)
        receiver, message = flow.neighbourhood()
        weight = torch.exp(alpha[message] - alpha.detach().max()).unsqueeze(1)
        numerator = add_up(weight * value[index[message]], receiver, flow.size)
        return numerator / add_up(weight, receiver, flow.size)

    def _alpha(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """[2E] the score of each message."""
        scores = self.of_sender(value)[index, 0] + self.of_receiver(own)[flow.receiver(), 0]
        return leaky_relu(scores, 0.2)
