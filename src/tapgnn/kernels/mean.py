"""MEAN (eq. 3): h(v,t) = relu(mean of value_u over u in TN(v,t)), the bias being part of value.

AGG   a_i = sum of value_u        PROP  S_i = S_{i-1} + a_i        read  relu(S_i / deg v)

The state is the sum S, to which a message contributes value_u.

MEAN with self: the node itself is one of its neighbours, with its message of now: relu((S_i + value_v) / (1 + deg v)).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import fast, program
from tapgnn.compiled.layer_norm import join_and_normalise
from tapgnn.compiled.products import divide_rows, empty_rows, relu
from tapgnn.compiled.scan_loops import gather_messages, sum_chains
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import BlockInputs, Kernel, Messages, add_up, pass_gate, ratio


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


class MeanWithSelf(Mean):
    """The mean of all messages and the node's own."""

    array_form = 5
    includes_self = True
    # What is read is no longer the sum of the messages alone.
    contributions = Kernel.contributions

    def run_block(self, inputs: BlockInputs, flow: Flow, carried: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Embeddings [T, d] after the end of the block, and the last states; without carried states, directly."""
        value, index = pass_gate(inputs.value, inputs.index, inputs.gate, flow)
        last = None
        if carried is None:
            receiver, message = flow.neighbourhood()
            total = add_up(value[index[message]], receiver, flow.size)
        else:
            gathered = flow.scans.gather_sum(value, index, None, flow.inbox)
            total, last = flow.scans.scan_sum(gathered, None, carried, flow.chain)
        read = torch.relu((total + inputs.message) / (flow.degree + 1).unsqueeze(1))
        return read if inputs.end is None else join_and_normalise(inputs.own_rows(), *inputs.end, read), last


@program
def scan_with_self(chunk, value, index, message, place, carried):  # type: ignore[no-untyped-def]
    """`scan_arrays` with the node's own message, row `place` [T] of `message`."""
    gathered = gather_messages(value, index, chunk.degree[:0], chunk.inbox)
    total, last = sum_chains(gathered, np.empty((len(gathered), 0)), carried, chunk.chain)
    read = empty_rows(total.shape[0], total.shape[1], total)
    _add_own(total, message, place, chunk.degree, read)
    return read, last


@fast
def _add_own(total: Any, message: Any, place: Any, degree: Any, read: Any) -> None:
    """Fill read [T, d]."""
    zero, one = read.dtype.type(0), read.dtype.type(1)
    for i in range(len(read)):
        share, mine = one / (degree[i] + one), place[i]
        for j in range(read.shape[1]):
            read[i, j] = max((total[i, j] + message[mine, j]) * share, zero)


@program
def scan_arrays(chunk, value, index, carried):  # type: ignore[no-untyped-def]
    """`scan` on arrays."""
    gathered = gather_messages(value, index, chunk.degree[:0], chunk.inbox)
    total, last = sum_chains(gathered, np.empty((len(gathered), 0)), carried, chunk.chain)
    divide_rows(total, chunk.degree)
    relu(total)
    return total, last
