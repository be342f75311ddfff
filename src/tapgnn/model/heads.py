"""Link heads: the score of a pair, a logit, from two representations.

dot       z_u . z_v                                     eq. 9
additive  w . relu(A z_u + B z_v)                       what was published
mlp       two hidden layers over z_u, z_v, z_u * z_v, the facts of both and what their sketches have in common
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
    """A small network that also sees what is known of the pair without weights: a direct path to the score."""

    def __init__(self, config: Config, pair: int) -> None:
        super().__init__()
        hidden = config.head_width
        self.of_pair = nn.Linear(3 * config.width + pair, hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, left: Tensor, right: Tensor, pair: Tensor | None) -> Tensor:
        """Logits [Q]; pair [Q, .] holds facts and walks."""
        columns = [left, right, left * right, *([] if pair is None else [pair])]
        first = torch.relu(self.of_pair(torch.cat(columns, dim=1)))
        return self.out(torch.relu(self.hidden(first))).squeeze(1)  # type: ignore[no-any-return]


def make_head(config: Config, pair: int) -> nn.Module:
    """The head that a configuration names; `pair` numbers describe the pair itself."""
    if config.head == "dot":
        return Dot()
    return Additive(config) if config.head == "additive" else PairMLP(config, pair)
