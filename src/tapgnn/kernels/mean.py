"""MEAN (eq. 3): h(v,t) = relu(mean of value_u over u in TN(v,t)), the bias being part of value.

AGG   a_i = sum of value_u        PROP  S_i = S_{i-1} + a_i        read  relu(S_i / deg v)

The state is the sum S.
"""

import torch
from torch import Tensor

from tapgnn.compiled.flow import Flow
from tapgnn.compiled.scan_ops import gather_sum, scan_sum
from tapgnn.kernels.kernel import Kernel, add_up


class Mean(Kernel):
    """The mean of all messages."""

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read."""
        total, last = scan_sum(gather_sum(value, index, None, flow.inbox), None, carried, flow.chain)
        return torch.relu(total / flow.degree.unsqueeze(1)), last

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition."""
        receiver, message = flow.neighbourhood()
        total = add_up(value[index[message]], receiver, flow.size)
        return torch.relu(total / flow.degree.unsqueeze(1))
