"""What a kernel is: how messages are aggregated at an instant, propagated along a chain, and read as an embedding.

`scan` is the form that everything runs on: AGG over the messages of each temporal node, then PROP along each chain from
the carried state. `scan_arrays`, in the file of a kernel, is the same on plain arrays, for use without gradients.
`reference` is the definition, straight from the whole neighbourhood TN(v, t), at the cost of the links of G_MP; it is
also the paper's TAP-GNN*. All give the same numbers.

What a state holds can be shared out among the messages that made it, where it is a sum of what they contribute:

    sums = older + sum over messages of contribution(message)        read_sums(sums, degree) is linear in the values
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from tapgnn.compiled.jit import fast, program
from tapgnn.compiled.layer_norm import join_and_normalise
from tapgnn.compiled.products import empty_rows
from tapgnn.errors import QueryError
from tapgnn.kernels.flow import Flow


class BlockEnd(NamedTuple):
    """Self connection: own, scale, shift [d] of LayerNorm(relu(own * h + read)); without norm the last two are [0]."""

    own: Tensor
    scale: Tensor
    shift: Tensor


@dataclass(frozen=True)
class BlockInputs:
    """What a block hands to its kernel.

    value [R, d], index [2E]   the message m carries value[index_m]
    gate [2, d]                by role of the sender, or None
    table [S, d], row [T]      the inputs of the block, and which of them is each temporal node's (None: its own)
    end                        the self connection, or None
    message [T, d]             what each temporal node would send itself; without rows where the kernel leaves it out
    """

    value: Tensor
    index: Tensor
    gate: Tensor | None
    table: Tensor
    row: Tensor | None
    end: BlockEnd | None
    message: Tensor

    def own_rows(self) -> Tensor:
        """[T, d] the input of each temporal node."""
        return self.table if self.row is None else self.table.index_select(0, self.row)


@dataclass(frozen=True)
class Messages:
    """M messages that one node received: the event [M] of each, the node's role [M] in it, and what was known then.

    value [M, d] (float64) what the message carried, own [M, d] the receiver's input, degree [M] of the sender, clocks
    [M, 2] when it was.
    """

    event: Tensor
    role: Tensor
    value: Tensor
    own: Tensor
    degree: Tensor
    clocks: Tensor

    def __len__(self) -> int:
        return len(self.event)


class Kernel(nn.Module, ABC):
    """A kernel over messages of `width` channels.

    reads_receiver says whether it looks at the receiver's own embedding, includes_self whether a node is one of its own
    neighbours; array_form is its number among the kernels that have a `scan_arrays` in `tapgnn.kernels`, None for one
    from elsewhere.
    """

    reads_receiver = False
    includes_self = False
    array_form: int | None = None

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """The kernel of a model's configuration."""
        return cls(config.width)

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

    def aggregate_directly(self, value: Tensor, index: Tensor, own: Tensor, flow: Flow) -> Tensor:
        """`reference` on a part of the receivers at a time, so that few links are held at once."""
        parts = [self.reference(value, index, own, part)[part.receivers] for part in flow.blocks()] if flow.size else []
        return torch.cat(parts) if parts else self.reference(value, index, own, flow)

    def run_block(self, inputs: BlockInputs, flow: Flow, carried: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Embeddings [T, d] after the end of the block, and the last states; without carried states, directly."""
        value, index = pass_gate(inputs.value, inputs.index, inputs.gate, flow)
        mine = inputs.own_rows() if self.reads_receiver or inputs.end is not None else inputs.table
        last = None
        if carried is None:
            read = self.aggregate_directly(value, index, mine, flow)
        else:
            read, last = self.scan(value, index, mine, flow, carried)
        return read if inputs.end is None else join_and_normalise(mine, *inputs.end, read), last

    def scan_weights(self) -> Tensor:
        """[2, .] (float64) the weights that `scan_arrays` takes."""
        return torch.zeros(2, 0, dtype=torch.float64)

    def contributions(self, messages: Messages, now: Tensor, peak: Tensor) -> Tensor:
        """[M, state_width] (float64) what each message is worth in sums that were last touched at the clocks `now` [2].

        `peak` is what `find_peak` gave for these sums.
        """
        raise QueryError(
            f"the kernel of this model ({type(self).__name__.lower()}) keeps no sums, in which past events would have "
            "shares; its scores cannot be explained"
        )

    def find_peak(self, sums: Tensor, messages: Messages) -> Tensor:
        """The number that sums [state_width] are relative to, for kernels that have one."""
        return torch.zeros((), dtype=torch.float64)

    def additive(self, sums: Tensor) -> Tensor:
        """Sums [state_width] with 0 in place of what is no sum."""
        return sums

    def decay_sums(self, sums: Tensor, elapsed: Tensor) -> Tensor:
        """Sums [state_width] as they are `elapsed` [2] later; before, where that is negative."""
        return sums

    def summed_values(self) -> slice:
        """The part of a state that is a sum of messages' values, `width` numbers."""
        return slice(0, self.width)

    def read_sums(self, sums: Tensor, degree: Tensor) -> Tensor:
        """[B, d] (float64) what is read from sums [B, state_width] of nodes with degree [B], before `activate`."""
        raise NotImplementedError

    def activate(self, read: Tensor) -> Tensor:
        """What follows the linear part of a reading."""
        return read


def add_up(rows: Tensor, receiver: Tensor, size: int) -> Tensor:
    """Sum of the rows [P, d] of each of `size` receivers, for the definitions."""
    return rows.new_zeros(size, rows.shape[1]).index_add(0, receiver, rows)


def ratio(total: Tensor, by: Tensor) -> Tensor:
    """total / by, 0 where nothing is left to divide by."""
    return torch.where(by > 0, total / torch.where(by > 0, by, 1.0), 0.0)


def pass_gate(value: Tensor, index: Tensor, gate: Tensor | None, flow: Flow) -> tuple[Tensor, Tensor]:
    """Messages (rows and index) weighed by the gate [2, d] of their sender's role."""
    if gate is None:
        return value, index
    return (value.unsqueeze(1) * gate).reshape(-1, value.shape[1]), 2 * index + 1 - flow.role


@program
def pass_gate_arrays(value, index, gate, role):  # type: ignore[no-untyped-def]
    """`pass_gate` on arrays."""
    gated = empty_rows(2 * len(value), value.shape[1], value)
    _gate_rows(value, gate, gated)
    return gated, 2 * index + 1 - role


@fast
def _gate_rows(value: Any, gate: Any, gated: Any) -> None:
    for u in range(len(value)):
        for r in range(2):
            for j in range(value.shape[1]):
                gated[2 * u + r, j] = value[u, j] * gate[r, j]
