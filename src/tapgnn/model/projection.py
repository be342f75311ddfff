"""From the past of a node to its representation at the time of a query (eq. 8), and the facts it and the head read.

    z(v,t) = W2 relu(W1 [h(v,t'), cos(w (t - t') + b)])                  preset paper
    z(v,t) = LayerNorm(relu(own * h(v,t') + R facts(v,t) [+ V h_0(v)]))  with facts

t' is the node's latest instant before t. A node with no history has h = 0 and no time encoding, and its facts say so.
h_0 is added where nodes have given features: then a node says something before its first event.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.compiled.numba_intrinsics import LINE, fast, new_line, row_address, row_at, spread
from tapgnn.compiled.projection_fused import Weights, join_rows
from tapgnn.model.block import linear_or_none
from tapgnn.model.config import Config
from tapgnn.model.features.node_statistics import COUNT, LAST, RECENT, SEEN
from tapgnn.model.inputs import Inputs
from tapgnn.model.state import Past
from tapgnn.model.time_encoding import TimeEncoding

# Columns that say whether there was ever an event, as source, as destination, in any role.
NEVER = (6, 7, 8)
# Beside one event, so that the logarithm of a faded count levels off.
COUNT_FLOOR = 0.1


class Facts(nn.Module):
    """The facts of a node at the time of a query, centred and scaled as on the training log.

    As source, as destination and in any role: log(1 + pause), log(1 + events of the graph since), and 'never'. Per
    role: the logarithms of the count and of the decayed counts.

    `encode` adds a piecewise linear encoding of every fact but the 'never's: how much of each of `bins` quantile
    intervals of the training log lies below the value. It gives the head a direct, bendable path from recency to score.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.unit = config.unit
        # Per event. No buffer: it stays in float64 whatever the type of the model.
        self.rate = decay_rates(config) / config.events
        self.width = 9 + 2 * (1 + len(self.rate))
        graded = torch.tensor([column for column in range(self.width) if column not in NEVER])
        self.encoded_width = self.width + len(graded) * config.bins
        self.register_buffer("graded", graded, persistent=False)
        self.register_buffer("centre", torch.zeros(self.width))
        self.register_buffer("scale", torch.ones(self.width))
        self.register_buffer("edges", torch.linspace(-2.0, 2.0, config.bins + 1).repeat(len(graded), 1))
        self.centre: Tensor
        self.scale: Tensor
        self.edges: Tensor
        self.graded: Tensor

    def forward(self, past: Past) -> Tensor:
        """[Q, width]"""
        return (self.plain(past) - self.centre) / self.scale

    def describe(self, past: Past) -> tuple[Tensor, Tensor]:
        """The facts [Q, width], and encoded [Q, encoded_width]."""
        if past.facts.device.type != "cpu":
            facts = self(past)
            return facts, self.encode(facts)
        facts = self.centre.new_empty(len(past), self.width)
        encoded = self.centre.new_empty(len(past), self.encoded_width)
        known = (past.facts, past.time, past.seen, self.rate, facts)
        count_facts(self.unit, *(tensor.contiguous().numpy() for tensor in known))
        facts.log_()
        scales = (self.centre, self.scale, self.graded, self.edges)
        encode_facts(*(tensor.numpy() for tensor in (*scales, facts, encoded)))
        return facts, encoded

    def encode(self, facts: Tensor) -> Tensor:
        """[Q, encoded_width] from the facts [Q, width]."""
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        share = ((facts.index_select(1, self.graded).unsqueeze(2) - low) / (high - low)).clamp(0.0, 1.0)
        return torch.cat([facts, share.flatten(1)], dim=1)

    def plain(self, past: Past) -> Tensor:
        """[Q, width] before centring and scaling."""
        facts = past.facts
        never = facts[:, LAST].isinf()
        since = torch.stack([past.time.unsqueeze(1) - facts[:, LAST], past.seen.unsqueeze(1) - facts[:, SEEN]])
        since = torch.where(never, torch.inf, since)
        since = torch.cat([since, since.amin(dim=2, keepdim=True)], dim=2)
        unknown = since.isinf()
        pause, ticks = torch.where(unknown, 0.0, since)
        kept = torch.exp(-ticks[:, 2:] * self.rate.to(facts.device)).repeat_interleave(2, dim=1)
        columns = [
            torch.log1p(pause / self.unit),
            torch.log1p(ticks),
            unknown[0].double(),
            torch.log(facts[:, COUNT] + COUNT_FLOOR),
            torch.log(facts[:, RECENT] * kept + COUNT_FLOOR),
        ]
        return torch.cat(columns, dim=1).to(self.centre.dtype)

    def calibrate(self, rows: Tensor) -> None:
        """Set centre, scale and edges from plain facts [n, width] of queries like those to come."""
        self.centre.copy_(rows.mean(dim=0))
        self.scale.copy_(rows.std(dim=0, correction=0) + 1e-2)
        scaled = (rows - self.centre) / self.scale
        bins = self.edges.shape[1] - 1
        level = torch.linspace(0.01, 0.99, bins + 1, dtype=rows.dtype)
        for place, column in enumerate(self.graded.tolist()):
            # A pause is 0 where there was never an event: that is no pause.
            there = rows[:, NEVER[column % 3]] == 0 if column < NEVER[0] else torch.ones(len(rows), dtype=torch.bool)
            values = scaled[there, column] if bool(there.any()) else scaled[:, column]
            # Quantiles may coincide; a small step between them keeps every interval open.
            self.edges[place] = torch.quantile(values, level) + 1e-3 * torch.arange(bins + 1)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def count_facts(unit: Any, past: Any, time: Any, seen: Any, rate: Any, counts: Any) -> None:
    """Fill counts [Q, width] with the numbers whose logarithms are the columns of `Facts.plain`."""
    for q in range(len(past)):
        row, out = past[q], counts[q]
        for role in range(2):
            never = row[2 + role] == -np.inf
            out[role] = 1.0 if never else 1.0 + (time[q] - row[2 + role]) / unit
            out[3 + role] = 1.0 if never else 1.0 + seen[q] - row[4 + role]
            out[6 + role] = np.e if never else 1.0
            out[9 + role] = row[role] + COUNT_FLOOR
        last = max(row[2], row[3])
        unknown = last == -np.inf
        ticks = 0.0 if unknown else seen[q] - max(row[4], row[5])
        out[2] = 1.0 if unknown else 1.0 + (time[q] - last) / unit
        out[5] = 1.0 + ticks
        out[8] = np.e if unknown else 1.0
        for h in range(len(rate)):
            kept = np.exp(-ticks * rate[h])
            for role in range(2):
                out[11 + 2 * h + role] = row[6 + 2 * h + role] * kept + COUNT_FLOOR


@fast
def encode_facts(centre: Any, scale: Any, graded: Any, edges: Any, facts: Any, encoded: Any) -> None:
    """Centre and scale the facts [Q, width] where they stand, and fill encoded as `Facts.encode` does."""
    width, bins, shares = facts.shape[1], edges.shape[1] - 1, encoded.shape[1] - facts.shape[1]
    low, steepness = new_line(shares, facts), new_line(shares, facts)
    now, after = new_line(shares + LINE, facts), new_line(shares + LINE, facts)
    values, borders = new_line(len(graded), facts), np.arange(len(graded) + 1) * bins
    for g in range(len(graded)):
        for k in range(bins):
            low[g * bins + k], steepness[g * bins + k] = edges[g, k], 1 / (edges[g, k + 1] - edges[g, k])
    # A row is spread while the one before it is encoded: numbers that were just written cannot be read all at once.
    for q in range(len(facts)):
        for j in range(width):
            facts[q, j] = (facts[q, j] - centre[j]) / scale[j]
        for g in range(len(graded)):
            values[g] = facts[q, graded[g]]
        spread(borders, values, after)
        if q > 0:
            _encode_row(facts, q - 1, now, low, steepness, encoded)
        now, after = after, now
    if len(facts):
        _encode_row(facts, len(facts) - 1, now, low, steepness, encoded)


@fast
def _encode_row(facts: Any, q: Any, values: Any, low: Any, steepness: Any, encoded: Any) -> None:
    width, nothing, all_of_it = facts.shape[1], facts.dtype.type(0), facts.dtype.type(1)
    for j in range(width):
        encoded[q, j] = facts[q, j]
    share = row_at(row_address(encoded, q) + width * encoded.itemsize, (len(low),), encoded)
    for k in range(len(low)):
        share[k] = min(max((values[k] - low[k]) * steepness[k], nothing), all_of_it)


class Projection(nn.Module):
    """z(v,t) as in the paper: a two-layer MLP on the embedding and the encoded pause."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.span = config.span
        self.encoding = TimeEncoding(config.time_width, config.unit / config.span)
        self.hidden = nn.Linear(config.width + config.time_width, config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, past: Past) -> Tensor:
        """z [Q, d]"""
        last = past.facts[:, LAST].amax(dim=1)
        never = last.isinf()
        pause = torch.where(never, 0.0, past.time - last) / self.span
        waves = torch.where(never.unsqueeze(1), 0.0, self.encoding(pause))
        hidden = torch.relu(self.hidden(torch.cat([past.embedding.tensor(), waves], dim=1)))
        return self.out(self.dropout(hidden))  # type: ignore[no-any-return]


class FactProjection(nn.Module):
    """z(v,t) from the embedding, the facts, and, where nodes have given features, what the node is."""

    def __init__(self, config: Config, facts: int) -> None:
        super().__init__()
        self.of_facts = nn.Linear(facts, config.width)
        self.of_node = linear_or_none(config.width if config.node_features else 0, config.width)
        self.own = nn.Parameter(torch.ones(config.width))
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, past: Past, facts: Tensor, inputs: Inputs) -> Tensor:
        """z [Q, d] from the past and the facts [Q, .]."""
        more: Tensor | None = None if self.of_node is None else self.of_node(inputs(past.node))
        told, norm = self.of_facts, self.norm
        weights = Weights(told.weight, told.bias, self.own, norm.weight, norm.bias)
        z = join_rows(past.embedding, facts, more, weights)
        return self.dropout(z)  # type: ignore[no-any-return]


def decay_rates(config: Config) -> Tensor:
    """[H] rates of the decayed counts per span of the clock of events."""
    return torch.tensor([math.log(2) / half for half in config.half_lives], dtype=torch.float64)


def sketch_rates(config: Config) -> Tensor:
    """[2, 1 + H] rates of the sketches per span of time and of events: none, then the half-lives on that of events."""
    rates = torch.tensor([0.0, *(math.log(2) / half for half in config.sketch_half_lives)], dtype=torch.float64)
    return torch.stack([torch.zeros_like(rates), rates])
