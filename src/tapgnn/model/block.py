"""One AP block: transform (dense), AGG, PROP, read (Section 3.4), with what the presets add around it.

    value  = W [h, cos(W_t t + b)] + W_e e             times a gate by role of the sender where `roles` is set
    h_next = kernel(value)                             as in the paper
    h_next = LayerNorm(relu(own * h + kernel(value)))  with the self connection

Dense products are the cost of everything, so there is one a block, and it runs on as few rows as there are: the first
block transforms the distinct nodes of the chunk, and every block each distinct instant once. What tells roles apart,
and a node from its neighbours, are vectors (`gate`, `own`): in trials a matrix each was hardly better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tapgnn.compiled.adaptive_fused import fade_and_join
from tapgnn.compiled.flow import Flow
from tapgnn.compiled.layer_norm import join_and_normalise
from tapgnn.kernels import KERNELS, Adaptive, Kernel, pass_gate
from tapgnn.model.config import Config


@dataclass(frozen=True)
class Chunk:
    """What every block of one `advance` shares.

    flow           the unfolding
    instant [T]    row of `encoding` for each temporal node
    encoding [I, time_width]   cos(W t + b) of each instant
    edge [E, f]    features of the events, or None
    """

    flow: Flow
    instant: Tensor
    encoding: Tensor
    edge: Tensor | None


class Block(nn.Module):
    """An AP block from `width_in` channels to `config.width`."""

    def __init__(self, config: Config, width_in: int) -> None:
        super().__init__()
        self.width = config.width
        self.transform = nn.Linear(width_in, self.width)
        self.of_time = linear_or_none(config.time_width, self.width)
        self.of_edge = linear_or_none(config.edge_features, self.width)
        self.gate = nn.Parameter(torch.empty(2, self.width).normal_(1.0, 0.1)) if config.roles else None
        self.own = nn.Parameter(torch.ones(self.width)) if config.self_connection else None
        self.norm = nn.LayerNorm(self.width) if config.self_connection else None
        self.kernel = make_kernel(config, width_in)

    def forward(
        self, table: Tensor, row: Tensor | None, chunk: Chunk, carried: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings [T, d] and the last kernel states [C, .].

        table [R, width_in] holds the distinct inputs and row [T] which of them is each temporal node's (None: its own).
        Without a carried state [C, .] the kernel aggregates straight from the whole neighbourhood (TAP-GNN*).
        """
        value = self.transform(table)
        value_row = row
        if self.of_time is not None:
            value = _expand(value, row) + self.of_time(chunk.encoding).index_select(0, chunk.instant)
            value_row = None
        value, index = self._messages(value, value_row, chunk)
        own, norm, kernel = self.own, self.norm, self.kernel
        if (
            carried is not None
            and own is not None
            and norm is not None
            and isinstance(kernel, Adaptive)
            and _on_cpu(value)
        ):
            gate = value.new_ones(2, self.width) if self.gate is None else self.gate
            weights = (value, gate, kernel.rate(), table, own, norm.weight, norm.bias)
            return fade_and_join(*weights, index, chunk.flow, carried, row)
        mine = _expand(table, row) if kernel.reads_receiver or own is not None else table
        return self._read(*pass_gate(value, index, self.gate, chunk.flow), mine, chunk.flow, carried)

    def _read(
        self, value: Tensor, index: Tensor, mine: Tensor, flow: Flow, carried: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        if carried is None:
            read, last = self.kernel.reference(value, index, mine, flow), None
        else:
            read, last = self.kernel.scan(value, index, mine, flow, carried)
        if self.own is not None and self.norm is not None:
            read = join_and_normalise(mine, self.own, read, self.norm.weight, self.norm.bias)
        return read, last

    def _messages(self, value: Tensor, row: Tensor | None, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """Rows [., d] and, for each message, the row it carries; with edge features every message has its own row."""
        flow = chunk.flow
        index = flow.sender if row is None else row.index_select(0, flow.sender)
        if self.of_edge is not None and chunk.edge is not None:
            value = value.index_select(0, index) + self.of_edge(chunk.edge).index_select(0, flow.event)
            index = torch.arange(len(value), device=value.device)
        return value, index


def make_kernel(config: Config, own_width: int) -> Kernel:
    """The kernel that a configuration names, with the arguments it takes."""
    arguments: dict[str, dict[str, Any]] = {
        "attention": {"own_width": own_width},
        "adaptive": {"rates": config.rates},
    }
    return KERNELS[config.kernel](config.width, **arguments.get(config.kernel, {}))


def linear_or_none(width_in: int, width_out: int) -> nn.Linear | None:
    """A linear map without bias, or nothing where there is no input."""
    return nn.Linear(width_in, width_out, bias=False) if width_in else None


def _on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _expand(table: Tensor, row: Tensor | None) -> Tensor:
    return table if row is None else table.index_select(0, row)
