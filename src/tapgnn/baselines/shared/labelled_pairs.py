"""Labelled pairs: events and their negatives for training and validation, and logistic regression on two node vectors.

positives        the events
negatives        as many, each an event whose destination is replaced (see `tapgnn.data.negatives`, random)
logit(u, v)      w . [z_u, z_v] + b, w and b by scikit-learn's LogisticRegression (L2, C = 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tapgnn.baselines.shared.row_table import look_up
from tapgnn.data.negatives import NegativeSampler
from tapgnn.errors import ConfigError
from tapgnn.evaluation.metrics import auc
from tapgnn.events import Events, Floats, Ints

Table = NDArray[np.float32]


def diverged(what: str) -> ConfigError:
    """The error of a training that left the finite numbers."""
    return ConfigError(f"training diverged: {what}; lower the learning rate")


@dataclass(frozen=True)
class Pairs:
    """src, dst, time, label [2 E]: the events with label 1, then their negatives with label 0."""

    src: Ints
    dst: Ints
    time: Floats
    label: Ints

    def __len__(self) -> int:
        return len(self.label)

    def auc(self, scores: Floats) -> float:
        """The area under the ROC curve of scores [2 E]; an error where they are not finite."""
        if not np.isfinite(scores).all():
            raise diverged(f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are not finite")
        return auc(self.label, scores)


def labelled(events: Events, sampler: NegativeSampler, rng: np.random.Generator) -> Pairs:
    """The events, and one negative each."""
    dst = np.concatenate([events.dst, sampler.draw(events.src, events.dst, rng)[:, 0]])
    return Pairs(np.tile(events.src, 2), dst, np.tile(events.time, 2), np.repeat([1, 0], len(events)))


class PairClassifier:
    """Logistic regression on [z_u, z_v]; a node that the table [N, d] does not have has the vector zero."""

    def __init__(self, table: Table, pairs: Pairs) -> None:
        if not np.isfinite(table).all():
            broken = int((~np.isfinite(table)).any(axis=1).sum())
            raise diverged(f"the vectors of {broken} of {len(table)} nodes are not finite")
        self.table = table
        model = LogisticRegression(max_iter=1_000).fit(self._features(pairs.src, pairs.dst), pairs.label)
        self._weight, self._bias = model.coef_[0], float(model.intercept_[0])

    def __call__(self, src: Ints, dst: Ints) -> Floats:
        """[Q] above 0 where an event is likelier than not."""
        return np.asarray(self._features(src, dst) @ self._weight + self._bias, dtype=np.float64)

    def _features(self, src: Ints, dst: Ints) -> Floats:
        return np.hstack([look_up(self.table, rows, 0.0) for rows in (src, dst)]).astype(np.float64)
