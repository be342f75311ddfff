"""GCN (eq. 3): h(v,t) = sum over u in TN(v,t) of value_u / (sqrt(deg u) sqrt(deg v)).

AGG   a_i = sum of value_u / sqrt(deg u)        PROP  S_i = S_{i-1} + a_i        read  S_i / sqrt(deg v)

deg u is the degree of the sender at the event's instant and stays frozen there. The state is the sum S.
"""

from torch import Tensor

from tapgnn.compiled.flow import Flow
from tapgnn.compiled.scan_ops import gather_sum, scan_sum
from tapgnn.kernels.kernel import Kernel, add_up


class GCN(Kernel):
    """The symmetric graph convolution."""

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG, PROP, read."""
        gathered = gather_sum(value, index, _share(flow), flow.inbox)
        total, last = scan_sum(gathered, None, carried, flow.chain)
        return total * flow.degree.rsqrt().unsqueeze(1), last

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition."""
        receiver, message = flow.neighbourhood()
        scale = _share(flow)[message] * flow.degree[receiver].rsqrt()
        return add_up(value[index[message]] * scale.unsqueeze(1), receiver, flow.size)


def _share(flow: Flow) -> Tensor:
    """[2E] 1 / sqrt(degree of the sender)."""
    return flow.degree[flow.sender].rsqrt()
