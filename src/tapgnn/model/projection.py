"""From the past of a node to its representation at the time of a query (eq. 8).

    z(v,t) = W2 relu(W1 [h(v,t'), cos(w p(t - t') + b)])                      without statistics
    z(v,t) = LayerNorm(relu(own * h(v,t') + R statistics(v,t) [+ V h_0(v)]))  with statistics

t' is the node's latest instant before t, and p the pause itself, or its logarithm. That departs from eq. 8: the pauses
of a test are longer than those of training, where cosines repeat themselves; their logarithms are hardly longer. A node
with no history has h = 0 and no time encoding, and its statistics say so. h_0 is added where nodes have given features:
then a node says something before its first event.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tapgnn.compiled.projection_fused import JoinWeights
from tapgnn.model.block import linear_or_none
from tapgnn.model.config import Config
from tapgnn.model.time_encoding import TimeEncoding

# Turns of the fastest cosine where the logarithm is 1, the slowest makes one; that of one span is 1/2. So none repeats
# itself within the log, and none swings at pauses that are longer than those of training.
LOG_CYCLES = 2


class Projection(nn.Module):
    """z(v,t) as in the paper: a two-layer MLP on the embedding and the encoded pause."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        shortest = config.unit / config.span
        self.encoding = TimeEncoding(config.time_width, 1 / LOG_CYCLES if config.log_pause else shortest)
        self.shortest = shortest if config.log_pause else 0.0
        self.hidden = nn.Linear(config.width + config.time_width, config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, embedding: Tensor, pause: Tensor) -> Tensor:
        """z [Q, d] from h [Q, d] and the pause [Q] in spans, infinite where there was no event."""
        never = pause.isinf()
        pause = torch.where(never, 0.0, pause)
        if self.shortest:
            pause = torch.log1p(pause / self.shortest) / (2.0 * math.log1p(1.0 / self.shortest))
        waves = torch.where(never.unsqueeze(1), 0.0, self.encoding(pause))
        hidden = torch.relu(self.hidden(torch.cat([embedding, waves], dim=1)))
        return self.out(self.dropout(hidden))  # type: ignore[no-any-return]


class NoProjection(nn.Module):
    """z(v,t) = h(v,t'), whatever the pause."""

    def forward(self, embedding: Tensor, pause: Tensor) -> Tensor:
        """z [Q, d] from h [Q, d]."""
        return embedding


class StatisticsProjection(nn.Module):
    """z(v,t) from the embedding, the statistics, and, where nodes have given features, what the node is."""

    def __init__(self, config: Config, statistics: int) -> None:
        super().__init__()
        self.of_statistics = nn.Linear(statistics, config.width)
        self.of_node = linear_or_none(config.width if config.node_features else 0, config.width)
        self.own = nn.Parameter(torch.ones(config.width))
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def known(self, statistics: Tensor) -> Tensor:
        """[Q, d] what the statistics [Q, .] say, without the bias; `weights` has it."""
        return statistics @ self.of_statistics.weight.T

    def weights(self) -> JoinWeights:
        """Of the part that joins it with the embedding."""
        return JoinWeights(self.of_statistics.bias, self.own, self.norm.weight, self.norm.bias)


def make_projection(config: Config) -> Projection | NoProjection:
    """That of a model without statistics."""
    return Projection(config) if config.projection else NoProjection()
