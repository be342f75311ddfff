"""Pairs: labelled questions for learning, and the logistic regression on two concatenated node vectors.

    positives        the events
    negatives        as many, each an event whose destination is replaced (see `tapgnn.data.negatives`, random)
    logit(u, v)      w . [z_u, z_v] + b, w and b by scikit-learn's LogisticRegression (L2, C = 1)

Invariant: the negatives are a function of the events, the seed and the purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tapgnn.data.negatives import NegativeSampler, Purpose, rng_for
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints

Table = NDArray[np.float32]
ASTRAY, CURE = "the training went astray", "lower the learning rate"


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
            broken = int((~np.isfinite(scores)).sum())
            raise ConfigError(f"{ASTRAY}: {broken} of {len(scores)} scores are not finite; {CURE}")
        return float(roc_auc_score(self.label, scores))


def labelled(events: Events, sampler: NegativeSampler, seed: int, purpose: Purpose) -> Pairs:
    """The events, and one negative each."""
    other = sampler.draw(events.src, events.dst, rng_for(seed, purpose))[:, 0]
    return Pairs(
        np.tile(events.src, 2),
        np.concatenate([events.dst, other]),
        np.tile(events.time, 2),
        np.repeat([1, 0], len(events)),
    )


def rows_of(table: Table, rows: Ints) -> Table:
    """[Q, d] the vectors of rows, zero for a row that the table [N, d] does not have (-1, or beyond its end)."""
    known = (rows >= 0) & (rows < len(table))
    vectors = np.zeros((len(rows), table.shape[1]), dtype=table.dtype)
    vectors[known] = table[rows[known]]
    return vectors


class PairClassifier:
    """Logistic regression on [z_u, z_v]."""

    def __init__(self, table: Table, pairs: Pairs) -> None:
        if not np.isfinite(table).all():
            broken = int((~np.isfinite(table)).any(axis=1).sum())
            raise ConfigError(f"{ASTRAY}: the vectors of {broken} of {len(table)} nodes are not finite; {CURE}")
        self.table = table
        model = LogisticRegression(max_iter=1_000).fit(self._features(pairs.src, pairs.dst), pairs.label)
        self._weight, self._bias = model.coef_[0], float(model.intercept_[0])

    def logits(self, src: Ints, dst: Ints) -> Floats:
        """[Q] above 0 where an event is likelier than not."""
        return np.asarray(self._features(src, dst) @ self._weight + self._bias, dtype=np.float64)

    def _features(self, src: Ints, dst: Ints) -> Floats:
        return np.hstack([rows_of(self.table, src), rows_of(self.table, dst)]).astype(np.float64)
