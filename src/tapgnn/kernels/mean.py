"""MEAN (eq. 3): h(v,t) = relu(mean of value_u over u in TN(v,t)), the bias being part of value.

AGG   a_i = sum of value_u        PROP  S_i = S_{i-1} + a_i        read  relu(S_i / deg v)

The state is the sum S, to which a message contributes value_u.
"""

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import program
from tapgnn.compiled.products import divide_rows, relu
from tapgnn.compiled.scan_loops import gather_messages, sum_chains
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import Kernel, Messages, add_up, ratio


class Mean(Kernel):
    """The mean of all messages."""

    array_form = 1

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read."""
        gathered = flow.scans.gather_sum(value, index, None, flow.inbox)
        total, last = flow.scans.scan_sum(gathered, None, carried, flow.chain)
        return torch.relu(total / flow.degree.unsqueeze(1)), last

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition."""
        receiver, message = flow.neighbourhood()
        total = add_up(value[index[message]], receiver, flow.size)
        return torch.relu(total / flow.degree.unsqueeze(1))

    def contributions(self, messages: Messages, now: Tensor, peak: Tensor) -> Tensor:
        """value_u."""
        return messages.value

    def read_sums(self, sums: Tensor, degree: Tensor) -> Tensor:
        """S / deg v."""
        return ratio(sums, degree.unsqueeze(1).expand_as(sums))

    def activate(self, read: Tensor) -> Tensor:
        """relu."""
        return torch.relu(read)


@program
def scan_arrays(chunk, value, index, carried):  # type: ignore[no-untyped-def]
    """`scan` on arrays."""
    gathered = gather_messages(value, index, chunk.degree[:0], chunk.inbox)
    total, last = sum_chains(gathered, np.empty((len(gathered), 0)), carried, chunk.chain)
    divide_rows(total, chunk.degree)
    relu(total)
    return total, last
