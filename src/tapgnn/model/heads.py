"""Link heads: the score of a pair, a logit, from two representations.

dot       z_u . z_v                                     eq. 9
additive  w . relu(A z_u + B z_v)                       what was published
mlp       MLP[z_u, z_v, z_u * z_v, facts of both, log walk counts]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from tapgnn.model.config import Config


class Dot(nn.Module):
    """The dot product."""

    def forward(self, left: Tensor, right: Tensor, pair: Tensor | None) -> Tensor:
        """Logits [Q]."""
        return (left * right).sum(dim=1)


class Additive(nn.Module):
    """One hidden layer over the sum of two transforms."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.of_source = nn.Linear(config.width, config.width)
        self.of_destination = nn.Linear(config.width, config.width, bias=False)
        self.out = nn.Linear(config.width, 1)

    def forward(self, left: Tensor, right: Tensor, pair: Tensor | None) -> Tensor:
        """Logits [Q]."""
        return self.out(torch.relu(self.of_source(left) + self.of_destination(right))).squeeze(1)  # type: ignore[no-any-return]


class PairMLP(nn.Module):
    """A small network that also sees what the pair has in common."""

    def __init__(self, config: Config, pair: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(3 * config.width + pair, config.width)
        self.out = nn.Linear(config.width, 1)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, left: Tensor, right: Tensor, pair: Tensor | None) -> Tensor:
        """Logits [Q]; pair [Q, .] holds facts and walk counts."""
        columns = [left, right, left * right, *([] if pair is None else [pair])]
        return self.out(self.dropout(gelu(self.hidden(torch.cat(columns, dim=1))))).squeeze(1)  # type: ignore[no-any-return]


def make_head(config: Config, pair: int) -> nn.Module:
    """The head that a configuration names; `pair` numbers describe the pair itself."""
    if config.head == "dot":
        return Dot()
    return Additive(config) if config.head == "additive" else PairMLP(config, pair)
