"""Link heads: the score of a pair, a logit, from two representations.

Right ends come in blocks as long as the left ends: the i-th of every block is paired with the i-th left end.

dot       z_u . z_v                                     eq. 9
additive  w . relu(A z_u + B z_v)                       what was published
mlp       w . relu(A z_u + B z_v) + c . (z_u * z_v) + two hidden layers over the facts of both and what their sketches
          have in common
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from tapgnn.model.block import linear_or_none
from tapgnn.model.config import Config


@dataclass
class Side:
    """One end of some pairs: representations z [n, d], and encoded facts [n, .] where the model has them."""

    z: Tensor
    facts: Tensor | None


class Dot(nn.Module):
    """The dot product."""

    def forward(self, left: Side, right: Side, walks: Tensor | None) -> Tensor:
        """Logits [Q]."""
        return (in_blocks(right.z, left.z) * left.z).sum(dim=2).flatten()


class Additive(nn.Module):
    """One hidden layer over the sum of two transforms."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.of_left = nn.Linear(config.width, config.width)
        self.of_right = nn.Linear(config.width, config.width, bias=False)
        self.out = nn.Linear(config.width, 1)

    def forward(self, left: Side, right: Side, walks: Tensor | None) -> Tensor:
        """Logits [Q]."""
        ours = self.of_left(left.z)
        hidden = in_blocks(self.of_right(right.z), ours) + ours
        return self.out(torch.relu(hidden)).flatten()  # type: ignore[no-any-return]


class Direct(nn.Module):
    """An MLP over what is known of a pair without weights: the facts of both ends, and the cosines of their sketches.

    The first layer runs on each end once, however many pairs it is in.
    """

    def __init__(self, config: Config, facts: int, walks: int) -> None:
        super().__init__()
        hidden = config.head_width
        self.of_left, self.of_right = linear_or_none(facts, hidden), linear_or_none(facts, hidden)
        self.of_walks = linear_or_none(walks, hidden)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, left: Side, right: Side, walks: Tensor | None) -> Tensor:
        """Logits [Q]."""
        hidden: Tensor = self.bias
        if self.of_walks is not None and walks is not None:
            hidden = linear(walks, self.of_walks.weight, self.bias)
        if self.of_left is not None and self.of_right is not None:
            ours = self.of_left(left.facts)
            hidden = in_blocks(hidden + self.of_right(right.facts), ours) + ours
        return self.rest(hidden).flatten()  # type: ignore[no-any-return]


class PairMLP(nn.Module):
    """The sum of two networks: one over what is known without weights, one over the representations.

    The second starts at 0 and adds what the first cannot know.
    """

    def __init__(self, config: Config, facts: int, walks: int) -> None:
        super().__init__()
        self.direct = Direct(config, facts, walks) if facts or walks else None
        hidden, width = config.head_width, config.width
        self.of_left, self.of_right = nn.Linear(width, hidden), nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.out.weight)
        self.of_product = nn.Parameter(torch.zeros(width))

    def forward(self, left: Side, right: Side, walks: Tensor | None) -> Tensor:
        """Logits [Q]."""
        ours = self.of_left(left.z)
        hidden = in_blocks(self.of_right(right.z), ours) + ours
        product = (in_blocks(right.z, left.z) * left.z) @ self.of_product
        logit: Tensor = (self.out(torch.relu(hidden)).squeeze(2) + product).flatten()
        return logit if self.direct is None else logit + self.direct(left, right, walks)


def in_blocks(right: Tensor, left: Tensor) -> Tensor:
    """[blocks, n, .] the rows of right ends, so that those of the n left ends fit to each block."""
    return right.view(len(right) // max(len(left), 1), len(left), right.shape[1])


def make_head(config: Config, facts: int, walks: int) -> nn.Module:
    """The head that a configuration names; an end has `facts` encoded facts, a pair `walks` cosines."""
    if config.head == "dot":
        return Dot()
    return Additive(config) if config.head == "additive" else PairMLP(config, facts, walks)
