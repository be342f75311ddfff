"""One AP block: transform (dense), AGG, PROP, read (Section 3.4), with what the presets add around it.

    value  = W [h, cos(W_t t + b)] + W_e e + sum of c   times a gate by role of the sender where `roles` is set
    h_next = kernel(value)                             as in the paper
    h_next = LayerNorm(relu(own * h + kernel(value)))  with the self connection
    h_next = own * h + kernel(value)                   with the self connection, without its norm

Where time is told at the input alone, W_t is that of the first block.

e are the numbers of an event, c the learned vectors of its categories.

Dense products are the cost of everything, so there is one a block, and it runs on as few rows as there are: the first
block transforms the distinct nodes of the chunk, and every block each distinct instant once. What tells roles apart,
and a node from its neighbours, are vectors (`gate`, `own`): in trials a matrix each was hardly better.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tapgnn.kernels import find_kernel
from tapgnn.kernels.flow import Flow
from tapgnn.kernels.kernel import BlockEnd, BlockInputs
from tapgnn.model.config import Config


@dataclass(frozen=True)
class Chunk:
    """What every block of one `advance` shares.

    flow           the unfolding
    instant [T]    row of `encoding` for each temporal node
    encoding [I, time_width]   cos(W t + b) of each instant
    edge [E, f]    features of the events, numbers and then codes of categories, or None
    """

    flow: Flow
    instant: Tensor
    encoding: Tensor
    edge: Tensor | None


class Block(nn.Module):
    """An AP block of `config.width` channels."""

    def __init__(self, config: Config, first: bool = True) -> None:
        super().__init__()
        width = config.width
        self.transform = nn.Linear(width, width)
        self.of_time = linear_or_none(config.time_width if first or not config.time_at_input else 0, width)
        self.of_edge = linear_or_none(config.edge_features, width)
        self.of_category = nn.Embedding(sum(config.edge_categories), width) if config.edge_categories else None
        if self.of_category is not None:
            nn.init.normal_(self.of_category.weight, std=0.1)
        codes = torch.tensor([0, *config.edge_categories]).cumsum(0)[:-1]
        self.register_buffer("first_code", codes, persistent=False)
        self.first_code: Tensor
        self.gate = nn.Parameter(torch.empty(2, width).normal_(1.0, 0.1)) if config.roles else None
        self.own = nn.Parameter(torch.ones(width)) if config.self_connection else None
        self.norm = nn.LayerNorm(width) if config.self_connection and config.norm else None
        self.kernel = find_kernel(config.kernel).from_config(config)

    @property
    def end(self) -> BlockEnd | None:
        """The weights of the self connection."""
        if self.own is None:
            return None
        scale, shift = (self.own[:0],) * 2 if self.norm is None else (self.norm.weight, self.norm.bias)
        return BlockEnd(self.own, scale, shift)

    def forward(
        self, table: Tensor, row: Tensor | None, chunk: Chunk, carried: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings [T, d] and the last kernel states [C, .].

        table [R, d] holds the distinct inputs and row [T] which of them is each temporal node's (None: its own).
        Without a carried state [C, .] the kernel aggregates straight from the whole neighbourhood (TAP-GNN*).
        """
        flow, value, place = chunk.flow, self.transform(table), row
        if self.of_time is not None:
            value = value if row is None else value.index_select(0, row)
            value = value + self.of_time(chunk.encoding).index_select(0, chunk.instant)
            place = None
        index = flow.sender if place is None else place.index_select(0, flow.sender)
        mine = value[:0]
        if self.kernel.includes_self:
            mine = value if place is None else value.index_select(0, place)
        if chunk.edge is not None:
            # Every message has a row of its own.
            value = value.index_select(0, index) + self.edges(chunk.edge).index_select(0, flow.event)
            index = torch.arange(len(value), device=value.device)
        return self.kernel.run_block(BlockInputs(value, index, self.gate, table, row, self.end, mine), flow, carried)

    def edges(self, edge: Tensor) -> Tensor:
        """[E, d] what the features [E, f] of events add to their messages."""
        numbers = edge.shape[1] - len(self.first_code)
        added = edge.new_zeros(len(edge), self.transform.out_features)
        if self.of_edge is not None:
            added = added + self.of_edge(edge[:, :numbers])
        if self.of_category is not None:
            added = added + self.of_category(edge[:, numbers:].long() + self.first_code).sum(dim=1)
        return added


def linear_or_none(width_in: int, width_out: int) -> nn.Linear | None:
    """A linear map without bias, or nothing where there is no input."""
    return nn.Linear(width_in, width_out, bias=False) if width_in else None
