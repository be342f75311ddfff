"""Lag: a query sees the events strictly before the first instant of its batch, for every method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines import PairThenNode, Recency, replay
from tapgnn.baselines import lag as module
from tapgnn.baselines.lag import rank_with_lag, replay_with_lag, visible
from tapgnn.data.splits import split_strict
from tests.baselines.samples import busy_log, parts, queries

streams = st.integers(1, 60).flatmap(
    lambda size: st.lists(st.integers(0, 20), min_size=size, max_size=size).map(lambda times: np.sort(times) * 1.0)
)


@given(streams, st.lists(st.integers(-1, 22), max_size=20), st.integers(0, 70))
def test_a_query_sees_what_is_strictly_before_the_first_instant_of_its_batch(times, when, lag) -> None:
    asked = np.array(when, dtype=np.float64)
    for t, found in zip(asked, visible(times, asked, lag), strict=True):
        later = [e for e in range(len(times)) if times[e] >= t]
        start = (later[0] if later else len(times)) // max(lag, 1) * max(lag, 1)
        expected = len(times) if start == len(times) else sum(time < times[start] for time in times)
        assert found == expected
        assert all(time < t for time in times[:found])


@given(streams, st.integers(2, 70))
def test_the_history_is_stale_by_fewer_events_than_the_lag_and_those_of_one_instant(times, lag) -> None:
    seen = visible(times, times, lag)
    before = np.searchsorted(times, times, side="left")
    longest = np.unique(times, return_counts=True)[1].max()
    assert (before - seen < lag + longest).all()
    assert np.array_equal(visible(times, times, 0), before)
    assert np.array_equal(visible(times, times, 1), before)


@pytest.mark.parametrize("lag", [2, 7, 1000])
def test_the_scores_are_those_of_a_method_that_observed_the_visible_events_alone(lag) -> None:
    train, valid, stream = parts(busy_log(200))
    src, dst, time = queries(stream, 9)
    method = PairThenNode()
    method.fit(train, valid)
    method.observe(valid)
    found = replay_with_lag(method, stream, src, dst, time, lag)
    for q, count in enumerate(visible(stream.time, time, lag)):
        alone = PairThenNode()
        alone.fit(train, valid)
        alone.observe(valid)
        alone.observe(stream.slice(0, int(count)))
        assert alone.score(src[[q]], dst[[q]], time[[q]])[0] == found[q]
    later = np.full(len(time), 1e6)
    whole = PairThenNode()
    whole.fit(train.append(valid).append(stream), stream)
    np.testing.assert_array_equal(method.score(src, dst, later), whole.score(src, dst, later))


@pytest.mark.parametrize("lag", [0, 2, 7])
def test_candidates_get_the_scores_of_single_queries_whatever_the_block(lag, monkeypatch) -> None:
    split = split_strict(busy_log(200))
    events = split.test
    candidates = np.broadcast_to(np.arange(9), (len(events), 9))
    single, found = Recency(), np.empty(candidates.shape)
    single.fit(split.train, split.valid)
    src, dst, time = np.repeat(events.src, 9), candidates.ravel(), np.repeat(events.time, 9)
    expected = replay_with_lag(single, events, src, dst, time, lag).reshape(-1, 9)
    for held in (1, 30, 10**6):
        monkeypatch.setattr(module, "HELD", held)
        method = Recency()
        method.fit(split.train, split.valid)
        for rows, scores in rank_with_lag(method, events, candidates, lag):
            found[rows] = scores
        np.testing.assert_array_equal(found, expected)


def test_without_a_lag_it_is_the_reference() -> None:
    train, valid, stream = parts(busy_log(200))
    found = []
    for ask in (replay, lambda *given: replay_with_lag(*given, 0), lambda *given: replay_with_lag(*given, 1)):
        method = PairThenNode()
        method.fit(train, valid)
        method.observe(valid)
        found.append(ask(method, stream, *queries(stream, 9)))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
