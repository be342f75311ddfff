"""One AP block: transform (dense), AGG, PROP, read (Section 3.4), with what the presets add around it.

    value  = W [h, cos(W_t t + b)] + W_e e           per role of the sender where `roles` is set
    h_next = kernel(value)                            as in the paper
    h_next = LayerNorm(relu(W_self h + kernel(value)))  with the self connection

Dense products are the cost of everything, so they run on as few rows as there are: the first block transforms the
distinct nodes of the chunk, and every block each distinct instant once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tapgnn.kernels import KERNELS, Flow, Kernel
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
        self.roles = 2 if config.roles else 1
        self.parts = self.roles + int(config.self_connection)
        self.transform = nn.Linear(width_in, self.parts * self.width)
        self.of_time = linear_or_none(config.time_width, self.parts * self.width)
        self.of_edge = linear_or_none(config.edge_features, self.roles * self.width)
        self.norm = nn.LayerNorm(self.width) if config.self_connection else None
        self.kernel = make_kernel(config, width_in)

    def forward(
        self, table: Tensor, row: Tensor | None, chunk: Chunk, carried: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings [T, d] and the last kernel states [C, .].

        table [R, width_in] holds the distinct inputs and row [T] which of them is each temporal node's (None: its own).
        Without a carried state [C, .] the kernel aggregates straight from the whole neighbourhood (TAP-GNN*).
        """
        flow = chunk.flow
        parts = self.transform(table)
        if self.of_time is not None:
            parts = _expand(parts, row) + self.of_time(chunk.encoding).index_select(0, chunk.instant)
            own_row = None
        else:
            own_row = row
        value, index = self._messages(parts, own_row, chunk)
        own = _expand(table, row) if self.kernel.reads_receiver else table
        if carried is None:
            read, last = self.kernel.reference(value, index, own, flow), None
        else:
            read, last = self.kernel.scan(value, index, own, flow, carried)
        if self.norm is not None:
            mine = _expand(parts[:, self.roles * self.width :], own_row)
            read = self.norm(torch.relu(mine + read))
        return read, last

    def _messages(self, parts: Tensor, row: Tensor | None, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """Rows [R, d] and, for each message, the row it carries; with edge features every message has its own row."""
        flow = chunk.flow
        sender = flow.sender if row is None else row[flow.sender]
        sender_role = (1 - flow.role) if self.roles == 2 else torch.zeros_like(flow.role)
        value = parts.reshape(-1, self.width)
        index = sender * self.parts + sender_role
        if self.of_edge is None or chunk.edge is None:
            return value, index
        edge = self.of_edge(chunk.edge).reshape(-1, self.width)
        value = value.index_select(0, index) + edge.index_select(0, flow.event * self.roles + sender_role)
        return value, torch.arange(len(value), device=value.device)


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


def _expand(table: Tensor, row: Tensor | None) -> Tensor:
    return table if row is None else table.index_select(0, row)
