"""Metrics of link prediction and classification, exact where scores tie.

    auc                 P(score of a positive > score of a negative) + P(equal) / 2
    average precision   sum over thresholds of (recall gained) * precision, equal scores being one threshold
    rank                1 + (negatives above + negatives at or above) / 2: the mean of the optimistic and the
                        pessimistic rank, as in the Temporal Graph Benchmark; MRR and hits@k follow from it
    log-loss            log(1 + exp(-logit)) of a positive, log(1 + exp(logit)) of a negative
    alert budget        precision and recall where the highest scores alone, a share of all, raise an alert
    calibration error   sum over bins of (share of the bin) * |mean probability - share of positives|

Infinite scores are ranked like any others ('never seen' is -inf), which scikit-learn refuses; NaN is an error. These
are the only implementations in the package: training, baselines, evaluation and report all call them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tapgnn.errors import QueryError
from tapgnn.events import Bools, Floats, Ints


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


@dataclass(frozen=True)
class Alerts:
    """Alerts for the `budget` share of queries with the highest scores: how many, and their precision and recall."""

    budget: float
    count: int
    precision: float
    recall: float


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve.

    >>> auc([0, 1, 1], [0.2, 0.2, 0.9])
    0.75
    """
    _, hits, misses = threshold_counts(labels, scores)
    if not hits[-1] or not misses[-1]:
        raise QueryError(
            f"AUC compares positives with negatives; there are {hits[-1]:.0f} positives and {misses[-1]:.0f} negatives"
        )
    # Twice the number of pairs in order, ties half: whole numbers, so that the only rounding is that of the division.
    pairs = (np.diff(hits, prepend=0) * (2 * misses[-1] - misses - np.append(0, misses[:-1]))).sum()
    return float(pairs / 2 / (hits[-1] * misses[-1]))


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Average precision, without interpolation.

    >>> round(average_precision([0, 1, 1], [0.2, 0.2, 0.9]), 4)
    0.8333
    """
    _, hits, misses = threshold_counts(labels, scores)
    if not hits[-1]:
        raise QueryError("average precision needs at least one positive; there is none")
    return float((np.diff(hits, prepend=0) / hits[-1] * hits / (hits + misses)).sum())


def log_loss(labels: ArrayLike, logits: ArrayLike) -> Floats:
    """[Q] the log-loss of each query.

    >>> log_loss([0, 1], [0.0, 0.0]).round(4)
    array([0.6931, 0.6931])
    """
    positive, values = _checked(labels, logits)
    return np.asarray(np.logaddexp(0.0, np.where(positive, -values, values)))


def alerts(labels: ArrayLike, scores: ArrayLike, budget: float) -> Alerts:
    """Precision and recall of alerts for a share of the queries; of equal scores at the border, a share of each class.

    >>> alerts([0, 1, 0, 1], [0.1, 0.9, 0.3, 0.2], 0.5)
    Alerts(budget=0.5, count=2, precision=0.5, recall=0.5)
    """
    _, hits, misses = threshold_counts(labels, scores)
    count = min(max(round(budget * float(hits[-1] + misses[-1])), 1), int(hits[-1] + misses[-1]))
    found = float(np.interp(count, np.append(0.0, hits + misses), np.append(0.0, hits)))
    return Alerts(budget, count, found / count, found / float(hits[-1]) if hits[-1] else math.nan)


def accuracy(labels: ArrayLike, probabilities: ArrayLike, threshold: float = 0.5) -> float:
    """The share of queries on the right side of the threshold; at the threshold means positive.

    >>> accuracy([0, 1, 1], [0.2, 0.5, 0.9])
    1.0
    """
    positive, values = _checked(labels, probabilities)
    return float(((values >= threshold) == positive).mean())


def best_threshold(labels: ArrayLike, scores: ArrayLike) -> float:
    """The threshold with the highest accuracy: halfway between the lowest score that is called positive and the next.

    >>> best_threshold([1, 0, 1, 0], [0.9, 0.1, 0.7, 0.3])
    0.5
    """
    values, hits, misses = threshold_counts(labels, scores)
    best = int(np.argmax(hits - misses))
    lowest, below = values[best], values[min(best + 1, len(values) - 1)]
    return float(0.5 * (lowest + below) if np.isfinite(lowest) and np.isfinite(below) else lowest)


def ranks(positive: ArrayLike, negative: ArrayLike, among: Bools | None = None) -> Floats:
    """[E] the rank of each positive score [E] among its own negatives [E, n], ties at the mean of their places.

    `among` [E, n] says which of the negatives count; by default all.

    >>> ranks([0.5, 0.5], [[0.1, 0.2], [0.5, 0.9]])
    array([1. , 2.5])
    """
    own = _finite_or_infinite(positive)
    others = _finite_or_infinite(negative)
    if own.ndim != 1 or others.ndim != 2 or len(others) != len(own) or not others.size:
        raise QueryError(f"expected positives [E] and negatives [E, n], not shapes {own.shape} and {others.shape}")
    counted = True if among is None else among
    above = ((others > own[:, None]) & counted).sum(axis=1)
    at_least = ((others >= own[:, None]) & counted).sum(axis=1)
    return np.asarray(0.5 * (above + at_least) + 1.0)


def mrr(places: Floats) -> float:
    """Mean reciprocal of ranks [E]."""
    return float((1.0 / places).mean())


def hits(places: Floats, k: int = 10) -> float:
    """The share of ranks [E] up to k."""
    return float((places <= k).mean())


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


def sigmoid(logits: ArrayLike) -> Floats:
    """Probabilities of logits, without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, dtype=np.float64))))


def threshold_counts(labels: ArrayLike, scores: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The distinct scores from the highest down, and how many positives and negatives lie at or above each."""
    positive, values = _checked(labels, scores)
    order = np.argsort(-values)
    ranked = values[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    hits = np.cumsum(positive[order])[ends].astype(np.float64)
    return ranked[ends], hits, ends + 1 - hits


def _checked(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], Floats]:
    given, values = np.asarray(labels), _finite_or_infinite(scores)
    if given.ndim != 1 or given.shape != values.shape or not len(given):
        raise QueryError(f"expected one label per score and at least one, not shapes {given.shape} and {values.shape}")
    positive = given == 1
    other = np.flatnonzero(~positive & (given != 0))
    if len(other):
        raise QueryError(f"row {other[0]}: label {given[other[0]]} is neither 0 nor 1")
    return positive, values


def _finite_or_infinite(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if np.isnan(values).any():
        raise QueryError(f"score {int(np.flatnonzero(np.isnan(values))[0])} is NaN; a score must be comparable")
    return values
