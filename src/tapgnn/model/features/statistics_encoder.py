"""Node statistics at the time of a query, as numbers that layers can use, centred and scaled as on the training log.

PAUSE    log(1 + time since the latest event / unit)        as source, as destination, in any role
TICKS    log(1 + events of the graph since then)            likewise
NEVER    1 where there was no such event, else 0            likewise; pause and ticks are 0 then
COUNTS   log(count + floor), then log(decayed count + floor) at each half-life, as source and as destination

Where partners are remembered, then follow log(new partners + floor), as source and as destination, and log(decayed new
partners + floor) at each half-life.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tapgnn.compiled.jit import compiled, fast, program
from tapgnn.compiled.numba_intrinsics import LINE, new_line, row_address, row_at, spread
from tapgnn.compiled.parallel import view
from tapgnn.compiled.products import empty_rows
from tapgnn.compiled.row_lookup import Rows, find_address, plain_pick
from tapgnn.model.config import Config
from tapgnn.model.features.node_statistics import (
    COUNT,
    LAST,
    RECENT,
    SEEN,
    both_roles,
    last_active,
    last_seen,
    recent_counts,
)
from tapgnn.model.features.recent_partners import NEW
from tapgnn.model.features.recent_partners import RECENT as NEW_RECENT
from tapgnn.model.features.row_layout import COUNT_FLOOR as COUNT_FLOOR

# The first column of each.
PAUSE, TICKS, NEVER, COUNTS = 0, 3, 6, 9


class Encoding(NamedTuple):
    """What loops take: the unit of time, the rates [H] per event, and centre, scale, graded and edges as arrays."""

    unit: float
    rate: Any
    centre: Any
    scale: Any
    graded: Any
    edges: Any


class StatisticsEncoder(nn.Module):
    """See the module. Beside the columns there is a piecewise linear encoding of each but NEVER.

    How much of each of `bins` quantile intervals of the training log lies below the value: it gives the head a direct,
    bendable path from recency to score.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.unit = config.unit
        # Per event. No buffer: it stays in float64 whatever the type of the model.
        self.rate = torch.from_numpy(config.count_rates() / config.events)
        self.partners = config.partners > 0
        self.width = COUNTS + 2 * (1 + len(self.rate)) + (2 + len(self.rate) if self.partners else 0)
        graded = torch.tensor([column for column in range(self.width) if not NEVER <= column < COUNTS])
        self.encoded_width = self.width + len(graded) * config.bins
        self.register_buffer("graded", graded, persistent=False)
        self.register_buffer("centre", torch.zeros(self.width))
        self.register_buffer("scale", torch.ones(self.width))
        self.register_buffer("edges", torch.linspace(-2.0, 2.0, config.bins + 1).repeat(len(graded), 1))
        self.centre: Tensor
        self.scale: Tensor
        self.edges: Tensor
        self.graded: Tensor

    def arrays(self) -> Encoding:
        """The same memory, for loops."""
        return Encoding(self.unit, self.rate.numpy(), *map(view, (self.centre, self.scale, self.graded, self.edges)))

    def forward(self, past: Tensor, partners: Tensor, time: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """[Q, width] from statistics [Q, F] and partners [Q, .] at some times, and encoded [Q, encoded_width]."""
        rows = (self.plain(past, partners, time, seen) - self.centre) / self.scale
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        share = ((rows.index_select(1, self.graded).unsqueeze(2) - low) / (high - low)).clamp(0.0, 1.0)
        return rows, torch.cat([rows, share.flatten(1)], dim=1)

    def plain(self, past: Tensor, partners: Tensor, time: Tensor, seen: Tensor) -> Tensor:
        """[Q, width] before centring and scaling."""
        last = both_roles(past, LAST)
        since = torch.stack([time.unsqueeze(1) - last, seen.unsqueeze(1) - both_roles(past, SEEN)])
        since = torch.where(last.isinf(), torch.inf, since)
        since = torch.cat([since, since.amin(dim=2, keepdim=True)], dim=2)
        unknown = since.isinf()
        pause, ticks = torch.where(unknown, 0.0, since)
        kept = torch.exp(-ticks[:, 2:] * self.rate.to(past.device))
        columns = [
            torch.log1p(pause / self.unit),
            torch.log1p(ticks),
            unknown[0].double(),
            torch.log(both_roles(past, COUNT) + COUNT_FLOOR),
            torch.log(recent_counts(past) * kept.repeat_interleave(2, dim=1) + COUNT_FLOOR),
        ]
        if self.partners:
            columns.append(torch.log(both_roles(partners, NEW) + COUNT_FLOOR))
            columns.append(torch.log(partners[:, NEW_RECENT : NEW_RECENT + len(self.rate)] * kept + COUNT_FLOOR))
        return torch.cat(columns, dim=1).to(self.centre.dtype)

    def calibrate(self, rows: Tensor) -> None:
        """Set centre, scale and edges from plain rows [n, width] of queries like those to come."""
        self.centre.copy_(rows.mean(dim=0))
        self.scale.copy_(rows.std(dim=0, correction=0) + 1e-2)
        scaled = (rows - self.centre) / self.scale
        bins = self.edges.shape[1] - 1
        level = torch.linspace(0.01, 0.99, bins + 1, dtype=rows.dtype)
        for place, column in enumerate(self.graded.tolist()):
            # A pause is 0 where there was never an event: that is no pause.
            there = rows[:, NEVER + column % 3] == 0 if column < NEVER else torch.ones(len(rows), dtype=torch.bool)
            values = scaled[there, column] if bool(there.any()) else scaled[:, column]
            # Quantiles may coincide; a small step between them keeps every interval open.
            self.edges[place] = torch.quantile(values, level) + 1e-3 * torch.arange(bins + 1)


def encode_statistics(
    encoder: StatisticsEncoder, past: Tensor, partners: Rows, time: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """`StatisticsEncoder.forward` in compiled loops, which read the partners where they stand."""
    rows = Rows(*map(view, partners))
    described, encoded = encode_rows(view(past), rows, view(time), view(seen), encoder.arrays())
    return torch.from_numpy(described), torch.from_numpy(encoded)


def plain_encode_statistics(
    encoder: StatisticsEncoder, past: Tensor, partners: Rows, time: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """`StatisticsEncoder.forward`."""
    return encoder(past, plain_pick(partners), time, seen)  # type: ignore[no-any-return]


@program
def encode_rows(past, partners, time, seen, encoding):  # type: ignore[no-untyped-def]
    """`encode_statistics` on arrays."""
    rows = empty_rows(len(past), len(encoding.centre), encoding.centre)
    encoded = empty_rows(
        len(past), len(encoding.centre) + len(encoding.graded) * (encoding.edges.shape[1] - 1), encoding.centre
    )
    fill_encoded(past, partners, time, seen, encoding, rows, encoded)
    return rows, encoded


@program
def fill_encoded(past, partners, time, seen, encoding, rows, encoded):  # type: ignore[no-untyped-def]
    """Fill rows [Q, width] and encoded [Q, encoded_width]."""
    _count(encoding.unit, encoding.rate, past, partners, time, seen, rows)
    np.log(rows, rows)
    _encode(encoding, rows, encoded)


@compiled
def _count(unit: Any, rate: Any, past: Any, partners: Any, time: Any, seen: Any, counts: Any) -> None:
    """Fill counts [Q, width] with the numbers whose logarithms are the columns."""
    follows = COUNTS + 2 * (1 + len(rate))
    remembers = counts.shape[1] > follows
    for q in range(len(past)):
        row, out = past[q], counts[q]
        for role in range(2):
            never = row[LAST + role] == -np.inf
            out[PAUSE + role] = 1.0 if never else 1.0 + (time[q] - row[LAST + role]) / unit
            out[TICKS + role] = 1.0 if never else 1.0 + seen[q] - row[SEEN + role]
            out[NEVER + role] = np.e if never else 1.0
            out[COUNTS + role] = row[COUNT + role] + COUNT_FLOOR
        last = last_active(row)
        unknown = last == -np.inf
        ticks = 0.0 if unknown else seen[q] - last_seen(row)
        out[PAUSE + 2] = 1.0 if unknown else 1.0 + (time[q] - last) / unit
        out[TICKS + 2] = 1.0 + ticks
        out[NEVER + 2] = np.e if unknown else 1.0
        met = row_at(find_address(partners, q), (partners.arena.shape[1],), partners.arena)
        if remembers:
            out[follows], out[follows + 1] = met[NEW] + COUNT_FLOOR, met[NEW + 1] + COUNT_FLOOR
        for h in range(len(rate)):
            kept = np.exp(-ticks * rate[h])
            for role in range(2):
                column = 2 * h + role
                out[COUNTS + 2 + column] = row[RECENT + column] * kept + COUNT_FLOOR
            if remembers:
                out[follows + 2 + h] = met[NEW_RECENT + h] * kept + COUNT_FLOOR


@fast
def _encode(encoding: Any, rows: Any, encoded: Any) -> None:
    """Centre and scale the rows [Q, width] where they stand, and fill encoded as `StatisticsEncoder.forward` does."""
    _, _, centre, scale, graded, edges = encoding
    width, bins, shares = rows.shape[1], edges.shape[1] - 1, encoded.shape[1] - rows.shape[1]
    low, steepness = new_line(shares, rows), new_line(shares, rows)
    now, after = new_line(shares + LINE, rows), new_line(shares + LINE, rows)
    values, borders = new_line(len(graded), rows), np.arange(len(graded) + 1) * bins
    for g in range(len(graded)):
        for k in range(bins):
            low[g * bins + k], steepness[g * bins + k] = edges[g, k], 1 / (edges[g, k + 1] - edges[g, k])
    # A row is spread while the one before it is encoded: numbers that were just written cannot be read all at once.
    for q in range(len(rows)):
        for j in range(width):
            rows[q, j] = (rows[q, j] - centre[j]) / scale[j]
        for g in range(len(graded)):
            values[g] = rows[q, graded[g]]
        spread(borders, values, after)
        if q > 0:
            _encode_row(rows, q - 1, now, low, steepness, encoded)
        now, after = after, now
    if len(rows):
        _encode_row(rows, len(rows) - 1, now, low, steepness, encoded)


@fast
def _encode_row(rows: Any, q: Any, values: Any, low: Any, steepness: Any, encoded: Any) -> None:
    width, zero, one = rows.shape[1], rows.dtype.type(0), rows.dtype.type(1)
    for j in range(width):
        encoded[q, j] = rows[q, j]
    share = row_at(row_address(encoded, q) + width * encoded.itemsize, (len(low),), encoded)
    for k in range(len(low)):
        share[k] = min(max((values[k] - low[k]) * steepness[k], zero), one)
