"""Negatives for training: a mixture that teaches both questions of a link.

Which destination? Every event has k false destinations. One is drawn from

    q'(v) = (1 - b) / P + b [v is among the m that the source had met] / m

P are all candidates, b the share `met_share`. Random destinations alone hardly ever are ones that the source knows,
though these are the ones that are hard to tell apart. What this does to the odds is known: a logit f is taught as
f - log(P q'), so that f still compares the true destination with a random one.

Does the event happen at all? Beside each chunk there are pairs that met in the past, at times of the present: both ends
are plausible, but not now. A share of the loss (`historical_share`) is theirs. Most are drawn from all pairs, some
log-uniformly from the latest, so that young pairs are doubted too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapgnn.data.negatives import NegativeSampler
from tapgnn.events import Bools, Events, Floats, Ints

# Old pairs for each event that their share of the loss stands for; and those of them drawn from the latest.
OLD_PAIRS = 0.5
RECENT_SHARE = 0.25


class DrawnNegatives(NamedTuple):
    """Negatives of a chunk of E events.

    dst [E, k], the false destinations; shift [1 + k, E], log(P q') of the true destination and of each false one;
    uniform [E, k], whether it was drawn from all candidates; old_src, old_dst, old_row [H]: pairs that met before,
    and the event of the chunk whose time they take; old_share, their share of the loss.
    """

    dst: Ints
    shift: Floats
    uniform: Bools
    old_src: Ints
    old_dst: Ints
    old_row: Ints
    old_share: float


class NegativeMixture:
    """Draws negatives for the events of a training log."""

    def __init__(
        self, train: Events, sampler: NegativeSampler, count: int, met_share: float, historical_share: float
    ) -> None:
        self.train, self.sampler, self.count = train, sampler, count
        self.met_share, self.historical_share = met_share, historical_share
        # Both directions of every event, by node: an event is even, the other direction odd.
        ends = np.stack([train.src, train.dst], axis=1)
        node, partner = ends.ravel(), ends[:, ::-1].ravel()
        _, first = np.unique(node * np.int64(len(train.vocabulary)) + partner, return_index=True)
        new = np.zeros(len(node), dtype=bool)
        new[first] = True
        order = np.argsort(node, kind="stable")
        before = np.cumsum(new[order]) - new[order]
        start = before[np.searchsorted(node[order], node[order])]
        self._start, self._met = np.empty_like(node), np.empty_like(node)
        self._start[order], self._met[order] = start, before - start
        # The first event of every pair.
        self._first = np.flatnonzero(new[::2])
        self._start, self._met, self._again = self._start[::2], self._met[::2], ~new[::2]
        # The partners of all nodes, each in the order in which they were met.
        self._partner = partner[order][new[order]]

    def draw(self, first: int, piece: Events, rng: np.random.Generator) -> DrawnNegatives:
        """For a piece of the log that starts with event `first`."""
        rows, size = slice(first, first + len(piece)), len(piece)
        uniform = self.sampler.draw(piece.src, piece.dst, rng, self.count)
        met, shape = self._met[rows, None], (size, self.count)
        place = self._start[rows, None] + (rng.random(shape) * met).astype(np.int64)
        known = self._partner[np.minimum(place, len(self._partner) - 1)]
        chosen = (rng.random(shape) < self.met_share) & (met > 0) & (known != piece.dst[:, None])
        share = np.where(self._met[rows] > 0, self.met_share, 0.0)
        usual = np.log1p(-share)
        richer = np.log(1.0 - share + share * len(self.sampler.pool) / np.maximum(self._met[rows], 1))
        shift = np.where(np.column_stack([self._again[rows], chosen]).T, richer, usual)
        old = self._old_pairs(first, round(OLD_PAIRS * self.historical_share * size), rng)
        row = rng.permutation(size)[: len(old)]
        dst = np.where(chosen, known, uniform)
        return DrawnNegatives(dst, shift, ~chosen, self.train.src[old], self.train.dst[old], row, self.historical_share)

    def _old_pairs(self, first: int, count: int, rng: np.random.Generator) -> Ints:
        """Events [H], each the first of its pair, of those before the event `first`."""
        known = int(np.searchsorted(self._first, first))
        if not known:
            return np.empty(0, dtype=np.int64)
        back = np.floor(known ** rng.random(count)).astype(np.int64)
        place = np.where(rng.random(count) < RECENT_SHARE, known - back, rng.integers(known, size=count))
        return self._first[place]
