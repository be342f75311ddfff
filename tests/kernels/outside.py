"""A kernel that a package outside offers: the latest message of each node, in sums that halve with every instant."""

import torch

from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import Kernel, Messages, add_up


class Halving(Kernel):
    """S_i = S_{i-1} / 2 + sum of value_u, where i counts the node's own instants; read S_i."""

    def scan(self, value, index, own, flow: Flow, carried):
        """AGG, PROP, read."""
        gathered = flow.scans.gather_sum(value, index, None, flow.inbox)
        half = torch.full((flow.size, 1), 0.5, dtype=torch.float64, device=value.device)
        return flow.scans.scan_sum(gathered, half, carried, flow.chain)

    def reference(self, value, index, own, flow: Flow):
        """The definition."""
        receiver, message = flow.neighbourhood()
        age = (receiver - flow.receiver()[message]).to(value.dtype)
        return add_up(0.5 ** age.unsqueeze(1) * value[index[message]], receiver, flow.size)

    def contributions(self, messages: Messages, now, peak):
        """Each has halved with every later instant."""
        instants = torch.unique(messages.clocks[:, 0])
        later = len(instants) - 1 - torch.searchsorted(instants, messages.clocks[:, 0].contiguous())
        return 0.5 ** later.unsqueeze(1).double() * messages.value

    def read_sums(self, sums, degree):
        """S."""
        return sums
