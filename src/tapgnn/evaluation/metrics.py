"""Metrics of link prediction and classification, exact where scores tie.

    auc                 P(score of a positive > score of a negative) + P(equal) / 2, from average ranks
    average precision   sum over thresholds of (recall gained) * precision, equal scores being one threshold
    rank                1 + (negatives above + negatives at or above) / 2: the mean of the optimistic and the
                        pessimistic rank, as the Temporal Graph Benchmark has it; MRR and hits@k follow from it
    calibration error   sum over bins of (share of the bin) * |mean probability - share of positives|

Infinite scores are ranked like any others ('never seen' is -inf); NaN is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tapgnn.errors import QueryError
from tapgnn.events import Floats, Ints


@dataclass(frozen=True)
class TimeCurve:
    """AUC along time, one row a bin: first and last time [B], AUC [B] (NaN where one class is absent), queries [B]."""

    start: Floats
    stop: Floats
    auc: Floats
    count: Ints


@dataclass(frozen=True)
class Calibration:
    """The expected calibration error and its reliability bins; `predicted` and `observed` are NaN in empty bins.

    edges [B+1], predicted [B] mean probability, observed [B] share of positives, count [B] queries.
    """

    error: float
    edges: Floats
    predicted: Floats
    observed: Floats
    count: Ints


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve.

    >>> auc([0, 1, 1], [0.2, 0.2, 0.9])
    0.75
    """
    positive, values = _checked(labels, scores)
    hits = int(positive.sum())
    misses = len(positive) - hits
    if not hits or not misses:
        raise QueryError(f"AUC compares positives with negatives; there are {hits} positives and {misses} negatives")
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2
    return float((rank[which[positive]].sum() - hits * (hits + 1) / 2) / (hits * misses))


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Average precision, without interpolation.

    >>> round(average_precision([0, 1, 1], [0.2, 0.2, 0.9]), 4)
    0.8333
    """
    positive, values = _checked(labels, scores)
    if not positive.any():
        raise QueryError("average precision needs at least one positive; there is none")
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(values[order][1:] != values[order][:-1]), len(values) - 1)
    hits = np.cumsum(positive[order])[ends]
    gained = np.diff(hits, prepend=0) / hits[-1]
    return float((gained * hits / (ends + 1)).sum())


def accuracy(labels: ArrayLike, probabilities: ArrayLike, threshold: float = 0.5) -> float:
    """The share of queries on the right side of the threshold; at the threshold means positive.

    >>> accuracy([0, 1, 1], [0.2, 0.5, 0.9])
    1.0
    """
    positive, values = _checked(labels, probabilities)
    return float(((values >= threshold) == positive).mean())


def ranks(positive: ArrayLike, negative: ArrayLike) -> Floats:
    """[E] the rank of each positive score [E] among its own negatives [E, n], ties at the mean of their places.

    >>> ranks([0.5, 0.5], [[0.1, 0.2], [0.5, 0.9]])
    array([1. , 2.5])
    """
    own = _finite_or_infinite(positive)
    others = _finite_or_infinite(negative)
    if own.ndim != 1 or others.ndim != 2 or len(others) != len(own) or not others.size:
        raise QueryError(f"expected positives [E] and negatives [E, n], not shapes {own.shape} and {others.shape}")
    above = (others > own[:, None]).sum(axis=1)
    at_least = (others >= own[:, None]).sum(axis=1)
    return np.asarray(0.5 * (above + at_least) + 1.0)


def mrr(positive: ArrayLike, negative: ArrayLike) -> float:
    """Mean reciprocal rank of positives [E] among their negatives [E, n]."""
    return float((1.0 / ranks(positive, negative)).mean())


def hits(positive: ArrayLike, negative: ArrayLike, k: int = 10) -> float:
    """The share of positives [E] that stand among the first k of themselves and their negatives [E, n]."""
    return float((ranks(positive, negative) <= k).mean())


def auc_along_time(labels: ArrayLike, scores: ArrayLike, time: ArrayLike, bins: int = 10) -> TimeCurve:
    """AUC within consecutive bins of about equally many queries; an instant is never cut, so bins may be fewer."""
    positive, values = _checked(labels, scores)
    when = np.asarray(time, dtype=np.float64)
    if when.shape != values.shape or bins < 1:
        raise QueryError(f"expected one time per query and a positive number of bins, not {when.shape} and {bins}")
    order = np.argsort(when, kind="stable")
    positive, values, when = positive[order], values[order], when[order]
    wanted = np.linspace(0, len(when), bins + 1)[1:-1].astype(np.int64)
    borders = np.unique(np.concatenate([[0], np.searchsorted(when, when[wanted], side="left"), [len(when)]]))
    areas = [
        auc(positive[a:b], values[a:b]) if 0 < positive[a:b].sum() < b - a else np.nan for a, b in pairwise(borders)
    ]
    return TimeCurve(when[borders[:-1]], when[borders[1:] - 1], np.array(areas), np.diff(borders))


def calibration(labels: ArrayLike, probabilities: ArrayLike, bins: int = 10) -> Calibration:
    """Expected calibration error over bins of equal width; a bin holds its lower edge, the last holds 1 as well.

    >>> round(calibration([0, 1], [0.1, 0.7]).error, 4)
    0.2
    """
    positive, values = _checked(labels, probabilities)
    if bins < 1 or values.min() < 0 or values.max() > 1:
        raise QueryError(
            f"calibration needs probabilities from 0 to 1 and a positive number of bins, not "
            f"{values.min()} to {values.max()} and {bins}; turn scores into probabilities first"
        )
    edges = np.linspace(0.0, 1.0, bins + 1)
    which = np.searchsorted(edges[1:-1], values, side="right")
    count = np.bincount(which, minlength=bins)
    filled = np.where(count > 0, count, np.nan)
    predicted = np.bincount(which, weights=values, minlength=bins) / filled
    observed = np.bincount(which, weights=positive, minlength=bins) / filled
    error = float(np.nansum(count * np.abs(predicted - observed)) / len(values))
    return Calibration(error, edges, predicted, observed, count)


def _checked(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], Floats]:
    marks, values = np.asarray(labels), _finite_or_infinite(scores)
    if marks.ndim != 1 or marks.shape != values.shape or not len(marks):
        raise QueryError(f"expected one label per score and at least one, not shapes {marks.shape} and {values.shape}")
    positive = marks == 1
    other = np.flatnonzero(~positive & (marks != 0))
    if len(other):
        raise QueryError(f"row {other[0]}: label {marks[other[0]]} is neither 0 nor 1")
    return positive, values


def _finite_or_infinite(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if np.isnan(values).any():
        raise QueryError(f"score {int(np.flatnonzero(np.isnan(values))[0])} is NaN; a score must be comparable")
    return values
