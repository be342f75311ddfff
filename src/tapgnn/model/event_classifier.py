"""Classifiers of events: the logit of the positive label from what is known of an event just before it happens.

An event (u, v, t) is described by a row of numbers (`description_columns`): facts of its ends and of the pair, the link
logit, the cosines of the walk sketches, and the event's own features. NaN stands for what never was.

    FactClassifier              logit = shift + mean over members of (b + w . e + MLP(e)),   e = encoded description
    RepresentationClassifier    logit = MLP([z(u,t), z(v,t), features])                      the protocol of the paper

A number is encoded by its shares in intervals between quantiles of the training events, and 1 where it is missing: it
may be of any scale, and outliers are bounded. `typical` is the average encoding of the training events. The members are
trained on samples of their own; in serving they are one network.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tapgnn.compiled.jit import whole
from tapgnn.events import Ints
from tapgnn.model.config import Config
from tapgnn.model.features.event_facts import fact_names

# Codes of a category with a column of their own in a description, and the code of the rare and the unseen.
MOST_CODES, OTHER = 64, 1
PIECES, MEMBERS, HIDDEN, SECOND = 4, 5, 32, 16
# Of an encoded number for the network of a member, and of its hidden layer, in training.
INPUT_DROPOUT, DROPOUT = 0.1, 0.1


def description_columns(config: Config) -> dict[str, list[str]]:
    """The columns of a description of an event, in order, by what they tell of."""
    walks = ((config.sketch_steps + 1) ** 2 - 1) * (1 + len(config.sketch_half_lives)) if config.sketched else 0
    return {
        "facts": list(fact_names(len(config.half_lives), config.partners)),
        "link": ["link_logit"],
        "walks": [f"walks_{column}" for column in range(walks)],
        "features": [f"feature_{column}" for column in range(sum(dense_widths(config)))],
    }


def dense_widths(config: Config) -> list[int]:
    """How many columns the numbers of an event have in a description, and then each of its categories: one a code."""
    return _dense_sizes(config.edge_features, tuple(config.edge_categories))[0].tolist()  # type: ignore[no-any-return]


def dense_features(features: NDArray[np.float32], config: Config) -> NDArray[np.float32]:
    """[Q, .] the features [Q, f] of events as a description has them; codes beyond the most frequent are 'other'."""
    if not config.edge_categories:
        return features
    widths, whole_width = _dense_sizes(config.edge_features, tuple(config.edge_categories))
    dense = np.zeros((len(features), whole_width), dtype=np.float32)
    _spread_codes(features, widths, dense)
    return dense


@cache
def _dense_sizes(numbers: int, categories: tuple[int, ...]) -> tuple[Ints, int]:
    """`dense_widths` as an array, and their sum."""
    widths = np.array([numbers, *(min(size, MOST_CODES) for size in categories)])
    return widths, int(widths.sum())


@whole
def codes_fit(features: Any, numbers: Any, sizes: Any) -> Any:
    """Whether the codes in features [E, f], which follow the numbers, are below the sizes [c] of their categories."""
    for e in range(len(features)):
        for c in range(len(sizes)):
            if not 0 <= features[e, numbers + c] < sizes[c]:
                return False
    return True


@whole
def _spread_codes(features: Any, widths: Any, dense: Any) -> None:
    numbers, start = widths[0], widths[0]
    dense[:, :numbers] = features[:, :numbers]
    for c in range(1, len(widths)):
        for q in range(len(dense)):
            code = int(features[q, numbers + c - 1])
            dense[q, start + (code if code < widths[c] else min(OTHER, widths[c] - 1))] = 1.0
        start += widths[c]


class FactClassifier(nn.Module):
    """Logits [Q] of events from the columns `used` [F] of their descriptions [Q, D]."""

    def __init__(
        self, used: Ints, pieces: int = PIECES, members: int = MEMBERS, hidden: int = HIDDEN, second: int = SECOND
    ) -> None:
        super().__init__()
        inputs = len(used) * (pieces + 1)
        self.register_buffer("used", torch.from_numpy(used))
        self.register_buffer("low", torch.zeros(len(used), pieces))
        self.register_buffer("steepness", torch.zeros(len(used), pieces))
        self.register_buffer("shift", torch.zeros(1))
        self.register_buffer("typical", torch.zeros(inputs))
        self.used: Tensor
        self.low: Tensor
        self.steepness: Tensor
        self.shift: Tensor
        self.typical: Tensor
        self.additive = nn.Parameter(torch.zeros(members, inputs))
        self.bias = nn.Parameter(torch.zeros(members))
        self.first, self.first_bias = _uniform(members, inputs, hidden), _uniform(members, hidden, fan_in=inputs)
        self.second, self.second_bias = _uniform(members, hidden, second), _uniform(members, second, fan_in=hidden)
        self.out = nn.Parameter(_uniform(members, second, fan_in=second).detach() * 0.1)

    @classmethod
    def shaped_as(cls, tensors: Mapping[str, Tensor]) -> FactClassifier:
        """One of the shape that saved tensors have."""
        members, _, hidden = tensors["first"].shape
        used = tensors["used"]
        if used.dtype != torch.int64 or used.dim() != 1:
            raise ValueError("used is not a list of columns")
        return cls(used.numpy().copy(), tensors["low"].shape[1], members, hidden, tensors["second"].shape[2])

    def fit_pieces(self, rows: NDArray[np.float32]) -> None:
        """Set the intervals from the descriptions [n, D] of training events."""
        pieces = self.low.shape[1]
        for place, column in enumerate(self.used.tolist()):
            edges = _edges(rows[:, column].astype(np.float64), pieces)
            self.low[place] = self.steepness[place] = 0.0
            count = len(edges) - 1
            self.low[place, :count] = torch.from_numpy(edges[:-1])
            self.steepness[place, :count] = torch.from_numpy(1.0 / np.diff(edges))
        parts = torch.split(torch.from_numpy(rows), 1 << 16)
        self.typical.copy_(torch.stack([self.encode(part).sum(dim=0) for part in parts]).sum(dim=0) / len(rows))

    def encode(self, rows: Tensor) -> Tensor:
        """[..., F (pieces + 1)] shares of the intervals, and whether a number is missing, of descriptions [..., D]."""
        rows = rows.index_select(-1, self.used)
        missing = rows.isnan().unsqueeze(-1)
        known = rows.nan_to_num().to(self.low.dtype).unsqueeze(-1)
        share = ((known - self.low) * self.steepness).clamp(0.0, 1.0).masked_fill(missing, 0.0)
        return torch.cat([share, missing.to(share.dtype)], dim=-1).flatten(-2)

    def members(self, encoded: Tensor) -> Tensor:
        """Logits [M, n] of the members; encoded [n, I], or [M, n, I] where each has rows of its own."""
        rows = encoded.expand(len(self.bias), *encoded.shape[-2:])
        logits = self.bias.unsqueeze(1) + (rows @ self.additive.unsqueeze(2)).squeeze(2)
        if self.training:
            size = self.low.shape[1] + 1
            kept = torch.rand(*rows.shape[:2], len(self.used), device=rows.device) >= INPUT_DROPOUT
            scale = kept.to(rows.dtype) / (1 - INPUT_DROPOUT)
            rows = rows * scale.repeat_interleave(size, dim=2)
        hidden = torch.relu(torch.baddbmm(self.first_bias.unsqueeze(1), rows, self.first))
        hidden = nn.functional.dropout(hidden, DROPOUT, self.training)
        deep = torch.relu(torch.baddbmm(self.second_bias.unsqueeze(1), hidden, self.second))
        return logits + (deep @ self.out.unsqueeze(2)).squeeze(2)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits [Q]."""
        return self.members(self.encode(rows)).mean(dim=0) + self.shift


class RepresentationClassifier(nn.Module):
    """Logits [Q] of events from [z(u,t), z(v,t), features] [Q, w], standardised as on the training events."""

    def __init__(self, width: int, hidden: int = 80, second: int = 10) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.centre: Tensor
        self.scale: Tensor
        self.layers = nn.Sequential(
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(hidden, second),
            nn.ReLU(),
            nn.Linear(second, 1),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_normal_(layer.weight)

    def forward(self, description: Tensor) -> Tensor:
        """Logits [Q]."""
        rows = description.to(self.centre.dtype)
        return self.layers((rows - self.centre) / self.scale).squeeze(1)  # type: ignore[no-any-return]

    def judge(self, z: Tensor, features: Tensor | None) -> Tensor:
        """Logits [Q] from the representations [2Q, d] of the sources and then of the destinations, and the features."""
        half = len(z) // 2
        return self(torch.cat([z[:half], z[half:], z[:half, :0] if features is None else features], dim=1))  # type: ignore[no-any-return]


EventClassifier = FactClassifier | RepresentationClassifier


def _uniform(*shape: int, fan_in: int = 0) -> nn.Parameter:
    """Weights that start as those of a linear layer do."""
    bound = (fan_in or shape[-2]) ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def _edges(values: NDArray[np.float64], pieces: int) -> NDArray[np.float64]:
    """Ascending borders, at most pieces + 1: quantiles of the values, or of the distinct ones where few repeat."""
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(1)
    edges = np.unique(np.quantile(known, np.linspace(0.002, 0.998, pieces + 1)))
    if len(edges) < pieces // 2 + 1:
        among = np.quantile(np.unique(known), np.linspace(0, 1, pieces + 1 - len(edges)))
        edges = np.unique(np.concatenate([edges, among]))
    return edges
