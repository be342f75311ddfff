"""Link heads: the score of a pair, a logit, from the representations z of its two ends.

A head is given the left ends first and then the right ends, in blocks as long as the left ends: the i-th of every block
is paired with the i-th left end.

dot       z_u . z_v                                                 eq. 9
role-dot  (A z_u + a) . (B z_v + b) / sqrt(d)                       eq. 9 with a projection for each role
additive  w . [z_u, z_v] + c                                        what was run for the published results
mlp       a . z_u + b . z_v + c . (z_u * z_v) + two hidden layers over the statistics of both, the cosines of their
          sketches and the facts of the pair

The network of the last has an output for each of the two questions about a link: is this the destination, given that
the source acts now; and does this event happen now. The others have one answer to both.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from tapgnn.model.backend import Backend
from tapgnn.model.block import linear_or_none
from tapgnn.model.config import Config

Question = Literal["destination", "event"]
QUESTIONS: tuple[Question, ...] = ("destination", "event")


class PairInputs(NamedTuple):
    """What a head is given: z [n, d], the encoded statistics [n, .] of all ends, the cosines [Q, .] of the sketches of
    pairs and their encoded facts [Q, .] (None where a model has none), and how many ends are left ends.
    """

    z: Tensor
    statistics: Tensor | None
    walks: Tensor | None
    pairs: Tensor | None
    left: int


class Dot(nn.Module):
    """The dot product."""

    scale = 1.0

    def forward(self, inputs: PairInputs, backend: Backend) -> Tensor:
        """Logits [Q, 1]."""
        z, left = inputs.z, inputs.left
        return (in_blocks(z[left:], left) * z[:left]).sum(dim=2).view(-1, 1)


class RoleDot(nn.Module):
    """The dot product of two transforms: a destination can be active without saying the same of the source."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.of_left = nn.Linear(config.width, config.width)
        self.of_right = nn.Linear(config.width, config.width)
        self.scale = config.width**-0.5

    def forward(self, inputs: PairInputs, backend: Backend) -> Tensor:
        """Logits [Q, 1]."""
        z, left = inputs.z, inputs.left
        product = in_blocks(self.of_right(z[left:]), left) * self.of_left(z[:left])
        logits: Tensor = product.sum(dim=2).view(-1, 1) * self.scale
        return logits


class Additive(nn.Module):
    """One linear layer over both representations side by side: f(u, t) + g(v, t), nothing of the pair."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.of_both = nn.Linear(2 * config.width, 1)

    def forward(self, inputs: PairInputs, backend: Backend) -> Tensor:
        """Logits [Q, 1]."""
        z, left = inputs.z, inputs.left
        of_left, of_right = self.of_both.weight.view(2, -1)
        logits: Tensor = in_blocks(z[left:], left) @ of_right + z[:left] @ of_left + self.of_both.bias
        return logits.view(-1, 1)


class Direct(nn.Module):
    """An MLP over what is known of a pair without weights: statistics of both ends, cosines of sketches, past events.

    The first layer runs on each end once, however many pairs it is in.
    """

    def __init__(self, config: Config, statistics: int, walks: int, pairs: int) -> None:
        super().__init__()
        hidden = config.head_width
        self.of_left, self.of_right = linear_or_none(statistics, hidden), linear_or_none(statistics, hidden)
        self.of_walks, self.of_pairs = linear_or_none(walks, hidden), linear_or_none(pairs, hidden)
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.second, self.out = nn.Linear(hidden, hidden), nn.Linear(hidden, len(QUESTIONS))

    def forward(self, inputs: PairInputs) -> Tensor:
        """Logits [Q, 2]."""
        _, statistics, walks, pairs, left = inputs
        given, weights = [], []
        if self.of_left is not None and self.of_right is not None and statistics is not None:
            given += [statistics[:left], statistics[left:]]
            weights += [self.of_left.weight, self.of_right.weight]
        if self.of_walks is not None and walks is not None:
            given.append(walks)
            weights.append(self.of_walks.weight)
        if self.of_pairs is not None and pairs is not None:
            given.append(pairs)
            weights.append(self.of_pairs.weight)
        rest = (self.bias, self.second.weight, self.second.bias, self.out.weight, self.out.bias)
        return _DirectFunction.apply(left, given, *rest, *weights)  # type: ignore[no-untyped-call,no-any-return]


class _DirectFunction(torch.autograd.Function):
    """The two hidden layers with their gradient to the weights; the inputs, which have no weights, get none.

    An input as long as the left ends adds to every block; the last one has a row a pair.
    """

    @staticmethod
    def forward(
        ctx: Any,
        left: int,
        inputs: list[Tensor],
        bias: Tensor,
        second: Tensor,
        second_bias: Tensor,
        out: Tensor,
        out_bias: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        hidden = torch.addmm(bias, inputs[-1], weights[-1].T)
        for rows, weight in zip(inputs[:-1], weights[:-1], strict=True):
            if len(rows) == len(hidden):
                hidden.addmm_(rows, weight.T)
            else:
                in_blocks(hidden, left).add_(rows @ weight.T)
        hidden.relu_()
        deep = torch.addmm(second_bias, hidden, second.T).relu_()
        ctx.save_for_backward(hidden, deep, second, out, *inputs)
        ctx.left = left
        return torch.addmm(out_bias, deep, out.T)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, deep, second, out, *inputs = ctx.saved_tensors
        grad_out = grad.T @ deep
        grad_deep = _relu_backward(grad @ out, deep)
        grad_second = grad_deep.T @ hidden
        grad_hidden = _relu_backward(grad_deep @ second, hidden)
        by_left = in_blocks(grad_hidden, ctx.left).sum(dim=0)
        grad_weights = [(rows.T @ (grad_hidden if len(rows) == len(grad) else by_left)).T for rows in inputs]
        rest = (grad_hidden.sum(dim=0), grad_second, grad_deep.sum(dim=0), grad_out, grad.sum(dim=0))
        return None, None, *rest, *grad_weights


def _relu_backward(grad: Tensor, out: Tensor) -> Tensor:
    """The gradient before a relu, in one pass."""
    return torch.ops.aten.threshold_backward(grad, out, 0)  # type: ignore[no-any-return]


class PairMLP(nn.Module):
    """The sum of a network over what is known without weights, and of what the representations say.

    The second, `of_pair` [3, d] for z_u, z_v and their product, starts at 0 and adds what the first cannot know.
    """

    def __init__(self, config: Config, statistics: int, walks: int, pairs: int) -> None:
        super().__init__()
        self.direct = Direct(config, statistics, walks, pairs) if statistics or walks or pairs else None
        self.of_pair = nn.Parameter(torch.zeros(3, config.width))

    def forward(self, inputs: PairInputs, backend: Backend) -> Tensor:
        """Logits [Q, 2], or [Q, 1] without that network."""
        logit = backend.weigh_pairs(inputs.z, inputs.left, self.of_pair).unsqueeze(1)
        return logit if self.direct is None else logit + self.direct(inputs)


def in_blocks(right: Tensor, left: int) -> Tensor:
    """[blocks, left, .] the rows of right ends, so that those of the left ends fit to each block."""
    return right.view(len(right) // max(left, 1), left, right.shape[1])


def make_head(config: Config, statistics: int, walks: int, pairs: int) -> Dot | RoleDot | Additive | PairMLP:
    """The head that a configuration names, for so many encoded statistics of an end, cosines and facts of a pair."""
    if config.head == "dot":
        return Dot()
    if config.head == "role-dot":
        return RoleDot(config)
    return Additive(config) if config.head == "additive" else PairMLP(config, statistics, walks, pairs)
