"""Splits: no instant in two parts, nothing lost in the strict one, no unseen node in the paper's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.data.splits import split_paper, split_strict, take, touches_unseen
from tapgnn.errors import ConfigError, EventError
from tapgnn.events import Events

rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 12)), min_size=1, max_size=40)
shares = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))


def log_of(events: list[tuple[int, int, int]]) -> Events:
    src, dst, time = zip(*events, strict=True)
    return Events.from_arrays(list(src), list(dst), list(time), features=np.array(time, dtype=float), labels=list(src))


@given(rows, shares)
def test_the_strict_parts_joined_are_the_log_and_share_no_instant(
    events: list[tuple[int, int, int]], weights: tuple[int, int, int]
) -> None:
    log = log_of(events)
    fractions = tuple(weight / sum(weights) for weight in weights)
    if len(np.unique(log.time)) < 3:
        with pytest.raises(EventError, match="3 distinct times"):
            split_strict(log, fractions)
        return
    split = split_strict(log, fractions)
    whole = split.train.append(split.valid).append(split.test)
    for name in ("src", "dst", "time", "features", "labels"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(log, name))
    assert split.train.time[-1] < split.valid.time[0]
    assert split.valid.time[-1] < split.test.time[0]
    assert split.train.vocabulary is split.valid.vocabulary is split.test.vocabulary is log.vocabulary


@given(rows)
def test_the_inductive_marks_are_the_events_with_a_node_that_training_never_saw(
    events: list[tuple[int, int, int]],
) -> None:
    log = log_of(events)
    if len(np.unique(log.time)) < 3:
        return
    split = split_strict(log)
    seen = set(split.train.src.tolist()) | set(split.train.dst.tolist())
    for part, marks in ((split.valid, split.valid_inductive), (split.test, split.test_inductive)):
        expected = [not {u, v} <= seen for u, v in zip(part.src.tolist(), part.dst.tolist(), strict=True)]
        assert marks.tolist() == expected


@given(st.integers(3, 400))
def test_without_ties_the_strict_parts_have_the_wanted_sizes(size: int) -> None:
    log = Events.from_arrays(np.arange(size), np.arange(size) + 1, np.arange(size))
    split = split_strict(log)
    assert abs(len(split.train) - 0.7 * size) < 2
    assert abs(len(split.train) + len(split.valid) - 0.85 * size) < 2


@given(rows)
def test_the_paper_cuts_distinct_times_and_drops_unseen_nodes(events: list[tuple[int, int, int]]) -> None:
    log = log_of(events)
    times = np.unique(log.time)
    try:
        split = split_paper(log)
    except EventError as error:
        assert len(times) < 4 or "unseen in training" in str(error)
        return
    first, second = times[len(times) * 70 // 100], times[len(times) * 85 // 100]
    train = log.between(-np.inf, first)
    np.testing.assert_array_equal(split.train.time, train.time)
    for part, later in ((split.valid, log.between(first, second)), (split.test, log.between(second, np.inf))):
        kept = take(later, ~touches_unseen(later, train))
        for name in ("src", "dst", "time", "features", "labels"):
            np.testing.assert_array_equal(getattr(part, name), getattr(kept, name))
        assert not touches_unseen(part, train).any()
    assert not split.valid_inductive.any()
    assert len(split.test_inductive) == len(split.test)


def test_ten_times_are_cut_at_seven_and_eight() -> None:
    log = Events.from_arrays([0] * 10, [1] * 10, np.arange(10))
    split = split_paper(log)
    assert (len(split.train), len(split.valid), len(split.test)) == (7, 1, 2)


def test_logs_too_short_and_wrong_fractions_are_refused() -> None:
    one = Events.from_arrays(["a"] * 5, ["b"] * 5, [1.0] * 5)
    with pytest.raises(EventError, match="needs 4 of them, the log has 1"):
        split_paper(one)
    with pytest.raises(EventError, match="3 distinct times"):
        split_strict(one)
    with pytest.raises(ConfigError, match="sum to 1"):
        split_strict(one, (0.5, 0.5, 0.5))
    strangers = Events.from_arrays(np.arange(10), np.arange(10) + 50, np.arange(10))
    with pytest.raises(EventError, match="no validation event is left"):
        split_paper(strangers)
