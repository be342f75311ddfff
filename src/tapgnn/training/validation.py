"""Validation: how good the weights of the moment are on the validation events, by the metric that chooses among them.

    auc, ap    against one random destination each
    mrr        mean reciprocal rank among `RIVALS` random destinations; of `MOST` events at most, spread evenly

The negatives are drawn once for a seed. Each validation replays the training log with the current weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch

from tapgnn.data.negatives import NegativeSampler, rng_for
from tapgnn.evaluation.metrics import auc, average_precision, mrr, ranks
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model
from tapgnn.training.stream_scoring import rank_along

Metric = Literal["auc", "ap", "mrr"]
METRICS: tuple[Metric, ...] = ("auc", "ap", "mrr")
RIVALS, MOST = 100, 3_000


class Validation:
    """The validation events, and the random destinations that they stand against."""

    def __init__(self, train: Events, valid: Events, sampler: NegativeSampler, metric: Metric, seed: int, lag: int = 0):
        self.train, self.valid, self.metric, self.lag = train, valid, metric, lag
        size = min(len(valid), MOST) if metric == "mrr" else len(valid)
        self.rows: Ints = np.arange(size) * len(valid) // max(size, 1)
        drawn = sampler.draw(
            valid.src[self.rows],
            valid.dst[self.rows],
            rng_for(seed, "validation"),
            RIVALS if metric == "mrr" else 1,
        )
        self.candidates: Ints = np.column_stack([valid.dst[self.rows], drawn])

    @torch.no_grad()
    def measure(self, model: Model) -> float:
        """The metric of a model; NaN without validation events."""
        if not len(self.valid):
            return float("nan")
        state = model.empty_state()
        for piece in self.train.chunks(4_096):
            _, state = model.advance(piece, state)
        src, time = self.valid.src[self.rows], self.valid.time[self.rows]
        scores, _ = rank_along(model, state, self.valid, src, self.candidates, time, lag=self.lag)
        if self.metric == "mrr":
            return mrr(ranks(scores[:, 0], scores[:, 1:]))
        area: Callable[[Ints, Floats], float] = auc if self.metric == "auc" else average_precision
        return area(np.repeat([1, 0], len(scores)), scores.T.ravel())
