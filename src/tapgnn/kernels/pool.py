"""POOL (eq. 3): h(v,t) = relu(max of value_u over u in TN(v,t)), channel by channel.

AGG   a_i = max of value_u        PROP  M_i = max(M_{i-1}, a_i)        read  relu(M_i)

The state is the running maximum M, -inf for a node with no history. On ties the earliest message gets the gradient. A
maximum is no sum: no message has a share in it.
"""

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import program
from tapgnn.compiled.products import relu
from tapgnn.compiled.scan_loops import max_chains
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import Kernel


class Pool(Kernel):
    """The maximum of all messages."""

    array_form = 2

    def empty(self) -> Tensor:
        """No message yet: -inf."""
        return torch.full((self.state_width,), -torch.inf, dtype=torch.float64)

    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """AGG is the scan of each temporal node's own messages, read at their end; PROP the scan of each chain."""
        nothing = value.new_full((flow.size, self.width), -torch.inf)
        _, gathered = flow.scans.scan_max(value[index], nothing, flow.inbox)
        running, last = flow.scans.scan_max(gathered, carried.to(value.dtype), flow.chain)
        return torch.relu(running), last.to(carried.dtype)

    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The definition."""
        receiver, message = flow.neighbourhood()
        rows, counts = value[index[message]], torch.bincount(receiver, minlength=flow.size)
        largest = [links.max(dim=0).values for links in torch.split(rows, counts[counts > 0].tolist()) if len(links)]
        read = value.new_zeros(flow.size, self.width)
        return torch.relu(read.index_copy(0, counts.nonzero().squeeze(1), torch.stack(largest)) if largest else read)


@program
def scan_arrays(chunk, value, index, carried):  # type: ignore[no-untyped-def]
    """`scan` on arrays."""
    nothing = np.full((len(chunk.degree), value.shape[1]), -np.inf).astype(value.dtype)
    _, _, gathered = max_chains(value[index], nothing, chunk.inbox)
    running, _, last = max_chains(gathered, carried.astype(value.dtype), chunk.chain)
    relu(running)
    return running, last.astype(carried.dtype)
