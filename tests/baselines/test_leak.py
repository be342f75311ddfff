"""Leaks: no score at t depends on what happens at or after t, or on the other queries; for every method, TAP-GNN
included."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tapgnn.baselines import METHODS, Method, replay
from tapgnn.baselines.lag import replay_with_lag, visible
from tapgnn.data.node_table import NodeTable
from tapgnn.data.schema import Schema
from tapgnn.events import Events
from tapgnn.model.backend import PLAIN
from tests.baselines.samples import busy_log, make, parts, queries


def described(log: Events, seed: int = 0) -> Events:
    """The log with an amount and a kind of every event, one amount missing."""
    rng = np.random.default_rng(seed)
    amount, kind = rng.exponential(size=len(log)), rng.choice(np.array(["buy", "sell", "gift"], dtype=object), len(log))
    amount[1] = np.nan
    return replace(log, columns={"amount": amount, "kind": kind})


TRAIN, VALID, STREAM = parts(described(busy_log()))
NODES = len(TRAIN.vocabulary)
SECTORS = NodeTable("src", np.arange(5), {"sector": np.array([*"aabbc"], dtype=object)}, {"sector": "category"})
# TAP-GNN in its presets, and with all that is known of events and nodes; each on plain torch, too.
SETTINGS: dict[str, dict[str, Any]] = {
    "tapgnn": {"schema": Schema()},
    "tapgnn of the paper": {"schema": Schema(), "preset": "paper", "options": None},
    "tapgnn as published": {"schema": Schema(), "preset": "published", "options": None},
    "tapgnn with features": {"schema": Schema(columns={"amount": "number", "kind": "category"}), "nodes": SECTORS},
}
ON_TORCH, IN_FLOAT64 = " on plain torch", " in float64"
EVERY_FORM = (*METHODS, *SETTINGS, *(name + ON_TORCH for name in SETTINGS), "tapgnn with features" + IN_FLOAT64)
every_method = pytest.mark.parametrize("name", EVERY_FORM)
# Scores are sums in float32, whose order may depend on how many rows are computed at once.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@cache
def _fitted(name: str) -> Method:
    method = make(name.split()[0], **SETTINGS.get(name.removesuffix(ON_TORCH).removesuffix(IN_FLOAT64), {}))
    method.fit(TRAIN, VALID)
    if name.endswith(ON_TORCH):
        method.model.backend = PLAIN
    if name.endswith(IN_FLOAT64):
        method.model.double()
        method.forget()
        method.observe(TRAIN)
    method.observe(VALID)
    return method


def fitted(name: str) -> Method:
    """A method that knows training and validation; each test has its own copy, which shares the names of the nodes."""
    names = TRAIN.vocabulary
    return copy.deepcopy(_fitted(name), {id(names): names})


def permuted(stream: Events, future: np.ndarray, seed: int) -> Events:
    """The stream with the ends and columns of its future events handed out anew."""
    order = np.arange(len(stream))
    order[future] = np.random.default_rng(seed).permutation(order[future])
    return replace(stream.take(order), time=stream.time)


def replaced(stream: Events, future: np.ndarray) -> Events:
    """The stream with another pair and another amount, later and in every future event."""
    src, dst = np.where(future, NODES - 1, stream.src), np.where(future, 0, stream.dst)
    columns = {**stream.columns, "amount": np.where(future, 50.0, stream.columns["amount"])}
    return replace(stream, src=src, dst=dst, time=stream.time + 0.5 * future, columns=columns)


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
