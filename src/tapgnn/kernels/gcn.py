"""GCN (eq. 3): h(v,t) = sum over u in TN(v,t) of value_u / (sqrt(deg u) sqrt(deg v)).

AGG   a_i = sum of value_u / sqrt(deg u)        PROP  S_i = S_{i-1} + a_i        read  S_i / sqrt(deg v)

deg u is the degree of the sender at the event's instant and stays frozen there. The state is the sum S, to which a
message contributes value_u / sqrt(deg u).
"""

import numpy as np
from torch import Tensor

from tapgnn.compiled.jit import program
from tapgnn.compiled.products import divide_rows
from tapgnn.compiled.scan_loops import gather_messages, sum_chains
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import Kernel, Messages, add_up, ratio


class GCN(Kernel):
    """The symmetric graph convolution."""

    array_form = 0

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read."""
        gathered = flow.scans.gather_sum(value, index, _share(flow), flow.inbox)
        total, last = flow.scans.scan_sum(gathered, None, carried, flow.chain)
        return total * flow.degree.rsqrt().unsqueeze(1), last

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition."""
        receiver, message = flow.neighbourhood()
        scale = _share(flow)[message] * flow.degree[receiver].rsqrt()
        return add_up(value[index[message]] * scale.unsqueeze(1), receiver, flow.size)

    def contributions(self, messages: Messages, now: Tensor, peak: Tensor) -> Tensor:
        """value_u / sqrt(deg u)."""
        return messages.value * messages.degree.rsqrt().unsqueeze(1)

    def read_sums(self, sums: Tensor, degree: Tensor) -> Tensor:
        """S / sqrt(deg v)."""
        return ratio(sums, degree.sqrt().unsqueeze(1).expand_as(sums))


def _share(flow: Flow) -> Tensor:
    """[2E] 1 / sqrt(degree of the sender)."""
    return flow.degree[flow.sender].rsqrt()


@program
def scan_arrays(chunk, value, index, carried):  # type: ignore[no-untyped-def]
    """`scan` on arrays."""
    root = np.sqrt(chunk.degree)
    gathered = gather_messages(value, index, np.reciprocal(root)[chunk.sender], chunk.inbox)
    total, last = sum_chains(gathered, np.empty((len(root), 0)), carried, chunk.chain)
    divide_rows(total, root)
    return total, last
