"""Leaks: no score at t depends on what happens at or after t, or on the other queries; for every method, TAP-GNN
included."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest

from tapgnn.baselines import Method, replay
from tapgnn.baselines.lag import replay_with_lag, visible
from tapgnn.events import Events
from tapgnn.model.backend import PLAIN
from tests.baselines.samples import EVERY, busy_log, make, parts, queries

# TAP-GNN on plain torch, too, and in its other presets.
PRESETS = {"tapgnn of the paper": "paper", "tapgnn as published": "published"}
EVERY_FORM = (*EVERY, "tapgnn on plain torch", *PRESETS)
every_method = pytest.mark.parametrize("name", EVERY_FORM)
TRAIN, VALID, STREAM = parts(busy_log())
NODES = len(TRAIN.vocabulary)
# Scores are sums in float32, whose order may depend on how many rows are computed at once.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@cache
def _fitted(name: str) -> Method:
    method = make(name.split()[0], **({"preset": PRESETS[name], "options": None} if name in PRESETS else {}))
    method.fit(TRAIN, VALID)
    if name.endswith("plain torch"):
        method.estimator.model_.backend = PLAIN
    method.observe(VALID)
    return method


def fitted(name: str) -> Method:
    """A method that knows training and validation; each test has its own copy, which shares the names of the nodes."""
    names = TRAIN.vocabulary
    return copy.deepcopy(_fitted(name), {id(names): names})


def permuted(stream: Events, future: np.ndarray, seed: int) -> Events:
    """The stream with the ends of its future events handed out anew."""
    order = np.arange(len(stream))
    order[future] = np.random.default_rng(seed).permutation(order[future])
    return Events(stream.src[order], stream.dst[order], stream.time, vocabulary=stream.vocabulary)


def replaced(stream: Events, future: np.ndarray) -> Events:
    """The stream with another pair, later and in every future event."""
    src, dst = np.where(future, NODES - 1, stream.src), np.where(future, 0, stream.dst)
    return Events(src, dst, stream.time + 0.5 * future, vocabulary=stream.vocabulary)


@every_method
def test_what_was_observed_before_forgetting_changes_no_score(name: str) -> None:
    asked = queries(STREAM, NODES)
    scores = []
    for more in (STREAM.slice(0, 0), STREAM):
        method = fitted(name)
        method.observe(more)
        method.forget()
        method.observe(TRAIN.append(VALID))
        scores.append(method.replay(STREAM, *asked))
    np.testing.assert_array_equal(*scores)


@every_method
def test_nothing_at_or_after_the_query_changes_its_score(name: str) -> None:
    src, dst, time = queries(STREAM, NODES)
    truth = fitted(name).replay(STREAM, src, dst, time)
    assert not np.isnan(truth).any()
    for t in np.unique(STREAM.time)[[0, 3, -2]]:
        future, asked = STREAM.time >= t, time <= t
        for changed in (STREAM.take(~future), permuted(STREAM, future, 1), replaced(STREAM, future)):
            found = fitted(name).replay(changed, src[asked], dst[asked], time[asked])
            np.testing.assert_allclose(found, truth[asked], **CLOSE)


@every_method
@pytest.mark.parametrize("lag", [2, 9])
def test_with_a_lag_nothing_from_the_batch_of_the_query_on_changes_its_score(name: str, lag: int) -> None:
    src, dst, time = queries(STREAM, NODES)
    truth = replay_with_lag(fitted(name), STREAM, src, dst, time, lag)
    seen = visible(STREAM.time, time, lag)
    assert not np.isnan(truth).any()
    for border in np.unique(seen)[[0, -1]]:
        asked = seen == border
        first = STREAM.time[min(border // lag * lag, len(STREAM) - 1)]
        future = (np.arange(len(STREAM)) >= border) & (STREAM.time >= first)
        found = replay_with_lag(fitted(name), permuted(STREAM, future, 1), src[asked], dst[asked], time[asked], lag)
        np.testing.assert_allclose(found, truth[asked], **CLOSE)


@every_method
def test_candidates_get_the_scores_of_single_queries(name: str) -> None:
    candidates = np.random.default_rng(0).integers(-1, NODES + 3, size=(len(STREAM), 5))
    single = np.repeat(STREAM.src, 5), candidates.ravel(), np.repeat(STREAM.time, 5)
    expected = fitted(name).replay(STREAM, *single).reshape(-1, 5)
    found = fitted(name).replay_candidates(STREAM, STREAM.src, candidates, STREAM.time)
    np.testing.assert_allclose(found, expected, **CLOSE)
    later = np.full(len(STREAM), 1e3)
    expected = fitted(name).score(*single[:2], np.repeat(later, 5)).reshape(-1, 5)
    np.testing.assert_allclose(fitted(name).score_candidates(STREAM.src, candidates, later), expected, **CLOSE)


@every_method
def test_what_happens_before_the_query_matters_to_those_that_see_history_alone(name: str) -> None:
    src, dst, time = queries(STREAM, NODES)
    past = STREAM.time < STREAM.time[-1]
    truth = replay(fitted(name), STREAM, src, dst, time)
    changed = replay(fitted(name), STREAM.take(~past), src, dst, time)
    assert np.allclose(changed, truth, **CLOSE) != fitted(name).sees_history


@every_method
def test_the_methods_own_replay_gives_the_scores_of_the_reference(name: str) -> None:
    asked = queries(STREAM, NODES)
    slow, fast = fitted(name), fitted(name)
    np.testing.assert_allclose(fast.replay(STREAM, *asked), replay(slow, STREAM, *asked), **CLOSE)
    later = (*asked[:2], asked[2] * 0 + 1e3)
    np.testing.assert_allclose(fast.score(*later), slow.score(*later), **CLOSE)


@every_method
def test_a_score_does_not_depend_on_the_other_queries(name: str) -> None:
    src, dst, time = queries(STREAM, NODES)
    method = fitted(name)
    later = np.full(len(time), 1e3)
    together = method.score(src, dst, later)
    for query in range(0, len(time), 7):
        alone = method.score(src[[query]], dst[[query]], later[[query]])
        np.testing.assert_allclose(alone, together[[query]], **CLOSE)
