"""What a kernel is: how messages are aggregated at an instant, propagated along a chain, and read as an embedding.

`scan` is the form that everything runs on (for the default model on the CPU `fading.py` does the same in one pass): AGG
over the messages of each temporal node, then PROP along each chain from the carried state. `reference` is the
definition, straight from the whole neighbourhood TN(v, t), at the cost of the links of G_MP; it is also the paper's
TAP-GNN*. Both give the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from tapgnn.compiled.flow import Flow


class Kernel(nn.Module, ABC):
    """A kernel over messages of `width` channels; the message m carries value[index_m].

    reads_receiver says whether it looks at the receiver's own embedding.
    """

    reads_receiver = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @property
    def state_width(self) -> int:
        """How many numbers a node keeps."""
        return self.width

    def empty(self) -> Tensor:
        """[state_width] the state of a node with no history."""
        return torch.zeros(self.state_width, dtype=torch.float64)

    @abstractmethod
    def scan(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow, carried: Tensor) -> tuple[Tensor, Tensor]:
        """Read every temporal node [T, d] and the last state of every chain [C, state_width].

        value [R, d] and index [2E] give the messages, own [T, .] the receivers' embeddings of the previous layer (where
        reads_receiver is set), and carried [C, state_width] (float64) the states that the chains start from.
        """

    @abstractmethod
    def reference(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """The same reading [T, d] of a stream that starts here, from the definition."""


def add_up(rows: Tensor, receiver: Tensor, size: int) -> Tensor:
    """Sum of the rows [P, d] of each of `size` receivers, for the definitions."""
    return rows.new_zeros(size, rows.shape[1]).index_add(0, receiver, rows)


def pass_gate(value: Tensor, index: Tensor, gate: Tensor | None, flow: Flow) -> tuple[Tensor, Tensor]:
    """Messages (rows and index) weighed by the gate [2, d] of their sender's role."""
    if gate is None:
        return value, index
    return (value.unsqueeze(1) * gate).reshape(-1, value.shape[1]), 2 * index + 1 - flow.role
