"""h_0: what a node is before any event. A learned vector, given features, both added up, or, without either, zero.

Row 0 of the table is the unknown vector; it serves every node that was not there at training time, and is trained by
dropping identities at random. Gradients of the table are sparse: a step touches the rows of the chunk, not all N.
"""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from tapgnn.errors import ConfigError
from tapgnn.events import Ints
from tapgnn.model.config import Config


class Inputs(nn.Module):
    """h_0 [., d] of nodes by their row in the vocabulary."""

    def __init__(self, config: Config, nodes: int) -> None:
        super().__init__()
        self.nodes, self.width = nodes, config.width
        self.identity_dropout = config.identity_dropout
        self.vectors: nn.Embedding | None = None
        self.of_features: nn.Linear | None = None
        if config.node_vectors:
            self.vectors = nn.Embedding(1 + nodes, config.width, sparse=True)
            nn.init.normal_(self.vectors.weight, std=0.1)
            with torch.no_grad():
                self.vectors.weight[0] = 0.0
        if config.node_features:
            self.of_features = nn.Linear(config.node_features, config.width)
        # Row v + 1 holds the features of node v; row 0 those of a node nobody described.
        self.register_buffer("features", torch.zeros(1 + nodes, config.node_features))
        self.features: Tensor

    def describe(self, nodes: ArrayLike | Tensor, features: ArrayLike | Tensor) -> None:
        """Set the features [n, f] of nodes, known ones or new."""
        row = torch.as_tensor(nodes, dtype=torch.int64, device=self.features.device) + 1
        values = torch.as_tensor(features, dtype=self.features.dtype, device=self.features.device)
        if values.shape != (len(row), self.features.shape[1]):
            raise ConfigError(
                f"expected features of shape {(len(row), self.features.shape[1])}, not {tuple(values.shape)}"
            )
        if not bool(torch.isfinite(values).all()):
            raise ConfigError("node features must be finite; fill the missing ones with a number")
        missing = max(row.tolist(), default=0) + 1 - len(self.features)
        if missing > 0:
            self.features = torch.cat([self.features, self.features[:1].expand(missing, -1)])
        self.features[row] = values

    @torch.no_grad()
    def forget(self, nodes: Ints) -> None:
        """Give nodes, by their row in the vocabulary, the unknown vector: those that training never met."""
        if self.vectors is not None:
            table = self.vectors.weight
            table[torch.from_numpy(nodes).to(table.device) + 1] = table[0].clone()

    def forward(self, node: Tensor) -> Tensor:
        """h_0 [len(node), d]; -1 stands for a node nobody knows."""
        parts = []
        if self.vectors is not None:
            row = torch.where(node < self.nodes, node + 1, 0)
            if self.training and self.identity_dropout:
                row = torch.where(torch.rand(row.shape, device=row.device) < self.identity_dropout, 0, row)
            parts.append(self.vectors(row))
        if self.of_features is not None:
            row = torch.where(node < len(self.features) - 1, node + 1, 0)
            parts.append(self.of_features(self.features[row]))
        if not parts:
            return self.features.new_zeros(len(node), self.width)
        return torch.stack(parts).sum(dim=0) if len(parts) > 1 else parts[0]
