"""Curves and maps as arrays: ROC, precision-recall, principal components.

Equal scores share a threshold, as in `tapgnn.evaluation.metrics`: the area under `roc` is `auc`, and the area under the
steps of `precision_recall` is `average_precision`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import QueryError
from tapgnn.evaluation.metrics import threshold_counts
from tapgnn.events import Floats


def roc(labels: NDArray[Any], scores: NDArray[Any]) -> tuple[Floats, Floats]:
    """False and true positive rate at each threshold, from (0, 0) to (1, 1).

    >>> roc(np.array([0, 1, 1]), np.array([0.2, 0.2, 0.9]))
    (array([0., 0., 1.]), array([0. , 0.5, 1. ]))
    """
    _, hits, misses = threshold_counts(labels, scores)
    return np.append(0.0, misses / misses[-1]), np.append(0.0, hits / hits[-1])


def precision_recall(labels: NDArray[Any], scores: NDArray[Any]) -> tuple[Floats, Floats]:
    """Recall and precision as the steps whose area is the average precision.

    >>> precision_recall(np.array([0, 1, 1]), np.array([0.2, 0.2, 0.9]))
    (array([0. , 0.5, 0.5, 1. ]), array([1.        , 1.        , 0.66666667, 0.66666667]))
    """
    _, hits, misses = threshold_counts(labels, scores)
    recall, precision = hits / hits[-1], hits / (hits + misses)
    return np.append(0.0, np.repeat(recall, 2)[:-1]), np.repeat(precision, 2)


def components(embeddings: NDArray[Any]) -> tuple[Floats, Floats]:
    """The first two principal components [n, 2] of rows [n, d], their larger side positive; their variance shares [2].

    Rows of one dimension, and a single row, have a second component of zeros.
    """
    rows = np.asarray(embeddings, dtype=np.float64)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise QueryError(f"the map needs finite embeddings [n, d] with at least one row, not shape {rows.shape}")
    rows = rows - rows.mean(axis=0)
    # Of the products of the columns, of which there are far fewer than rows; the largest comes last.
    sizes, directions = np.linalg.eigh(rows.T @ rows)
    sizes = np.maximum(sizes[::-1], 0.0)
    points = np.pad(rows @ directions[:, ::-1][:, :2], [(0, 0), (0, 1)])[:, :2]
    # The signs are not determined; fixing them makes the page the same on every machine.
    points *= np.where(points.max(axis=0) < -points.min(axis=0), -1.0, 1.0)
    return points, np.pad(sizes / (sizes.sum() or 1.0), (0, 1))[:2]
