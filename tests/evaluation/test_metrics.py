"""Metrics: equal to scikit-learn's and to the Temporal Graph Benchmark's own, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.errors import QueryError
from tapgnn.evaluation.metrics import (
    accuracy,
    auc,
    auc_along_time,
    average_precision,
    best_threshold,
    calibration,
    hits,
    mrr,
    ranks,
    sigmoid,
)

# Few distinct scores, so that most of them tie.
queries = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=60)
ranked = st.integers(1, 12).flatmap(
    lambda count: st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), min_size=count, max_size=count)),
        min_size=1,
        max_size=30,
    )
)


@given(queries)
def test_auc_and_average_precision_are_those_of_scikit_learn(rows: list[tuple[bool, int]]) -> None:
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    labels, scores = (np.array(column) for column in zip(*rows, strict=True))
    if labels.all() or not labels.any():
        with pytest.raises(QueryError, match="positives"):
            auc(labels, scores)
        return
    assert auc(labels, scores) == pytest.approx(sklearn.roc_auc_score(labels, scores), abs=1e-12)
    assert average_precision(labels, scores) == pytest.approx(
        sklearn.average_precision_score(labels, scores), abs=1e-12
    )


@given(queries)
def test_auc_is_the_share_of_pairs_in_order_and_minus_infinity_is_the_lowest(rows: list[tuple[bool, int]]) -> None:
    labels, scores = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    scores[scores == 0] = -np.inf
    high, low = scores[labels == 1][:, None], scores[labels == 0]
    if high.size and low.size:
        assert auc(labels, scores) == pytest.approx(((high > low) + 0.5 * (high == low)).mean(), abs=1e-12)


@given(ranked, st.integers(1, 12))
def test_mrr_and_hits_are_those_of_the_temporal_graph_benchmark(rows: list[tuple[int, list[int]]], k: int) -> None:
    tgb = pytest.importorskip("tgb.linkproppred.evaluate", reason="py-tgb is not installed")
    positive = np.array([row[0] for row in rows], dtype=float)
    negative = np.array([row[1] for row in rows], dtype=float)
    theirs = tgb.Evaluator("tgbl-wiki", k_value=k).eval(
        {"y_pred_pos": positive, "y_pred_neg": negative, "eval_metric": ["mrr", "hits@"]}
    )
    # Theirs is rounded to float32.
    assert mrr(ranks(positive, negative)) == pytest.approx(theirs["mrr"], abs=1e-6)
    assert hits(ranks(positive, negative), k) == pytest.approx(theirs[f"hits@{k}"], abs=1e-6)


@given(ranked)
def test_the_rank_is_the_mean_place_over_all_orders_of_the_tied(rows: list[tuple[int, list[int]]]) -> None:
    for positive, negative in rows:
        above = sum(score > positive for score in negative)
        tied = sum(score == positive for score in negative)
        places = np.arange(above + 1, above + tied + 2)
        assert ranks([positive], [negative])[0] == places.mean()


@given(queries, st.integers(1, 8))
def test_the_bins_of_time_hold_every_query_once_and_cut_no_instant(rows: list[tuple[bool, int]], bins: int) -> None:
    labels, scores = (np.array(column) for column in zip(*rows, strict=True))
    time = np.random.default_rng(len(rows)).integers(0, 9, len(rows)).astype(float)
    curve = auc_along_time(labels, scores, time, bins)
    assert curve.count.sum() == len(rows)
    assert len(curve.auc) <= bins
    assert (curve.stop[:-1] < curve.start[1:]).all()
    for start, stop, area, count in zip(curve.start, curve.stop, curve.auc, curve.count, strict=True):
        inside = (time >= start) & (time <= stop)
        assert inside.sum() == count
        if 0 < labels[inside].sum() < count:
            assert area == auc(labels[inside], scores[inside])
        else:
            assert np.isnan(area)


@given(queries, st.integers(1, 8))
def test_the_calibration_error_is_the_weighted_gap_of_its_bins(rows: list[tuple[bool, int]], bins: int) -> None:
    labels, scores = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    probabilities = scores / 6
    result = calibration(labels, probabilities, bins)
    expected = 0.0
    for bin_ in range(bins):
        low, high = result.edges[bin_], result.edges[bin_ + 1]
        inside = (probabilities >= low) & ((probabilities < high) | (bin_ == bins - 1))
        assert result.count[bin_] == inside.sum()
        if inside.any():
            assert result.predicted[bin_] == pytest.approx(probabilities[inside].mean())
            assert result.observed[bin_] == pytest.approx(labels[inside].mean())
            expected += inside.mean() * abs(probabilities[inside].mean() - labels[inside].mean())
        else:
            assert np.isnan(result.predicted[bin_])
    assert result.error == pytest.approx(expected, abs=1e-12)


def test_perfect_probabilities_have_no_calibration_error_and_full_accuracy() -> None:
    assert calibration([0, 0, 1], [0.0, 0.0, 1.0]).error == 0.0
    assert accuracy([0, 0, 1], [0.0, 0.4, 0.5]) == 1.0


@pytest.mark.parametrize(
    "scores", [[0.9, 0.1, 0.7, 0.3], [1.0, 1.0, 0.0, 0.0], [-np.inf, 3.0, 2.0, -np.inf], [1.0] * 4]
)
@pytest.mark.parametrize("labels", [[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
def test_no_other_threshold_is_better(scores: list[float], labels: list[int]) -> None:
    labels, scores = np.array(labels), np.array(scores)
    found = accuracy(labels, scores, best_threshold(labels, scores))
    for threshold in (*scores, 0.2, 0.5, 0.8):
        said = scores >= threshold
        # Saying no to all is not among the choices: half of the questions are positive.
        if said.any():
            assert found >= (said == (labels == 1)).mean()


def test_sigmoid_does_not_overflow() -> None:
    np.testing.assert_allclose(sigmoid(np.array([-1e4, 0.0, 1e4])), [0.0, 0.5, 1.0])


def test_scores_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(QueryError, match="score 1 is NaN"):
        auc([0, 1], [0.0, np.nan])
    with pytest.raises(QueryError, match="label 2 is neither"):
        auc([0, 2], [0.0, 1.0])
    with pytest.raises(QueryError, match="one label per score"):
        accuracy([0], [0.0, 1.0])
    with pytest.raises(QueryError, match="at least one positive"):
        average_precision([0, 0], [0.0, 1.0])
    with pytest.raises(QueryError, match=r"negatives \[E, n\]"):
        ranks([1.0], [1.0])
    with pytest.raises(QueryError, match="probabilities from 0 to 1"):
        calibration([0, 1], [-3.0, 3.0])
    with pytest.raises(QueryError, match="one time per query"):
        auc_along_time([0, 1], [0.0, 1.0], [1.0])
