"""Splits: no instant in two parts, nothing lost in the strict one, no unseen node in the paper's."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.data import load_dataset
from tapgnn.data.splits import split_hiding_nodes, split_paper, split_quantiles, split_strict, touches_unseen
from tapgnn.errors import ConfigError, EventError
from tapgnn.events import Events


def random_rows(size: int, nodes: int, instants: int, seed: int) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    columns = (rng.integers(nodes, size=size), rng.integers(nodes, size=size), rng.integers(instants, size=size))
    return list(zip(*(column.tolist() for column in columns), strict=True))


rows = st.builds(random_rows, st.integers(1, 80), st.integers(1, 12), st.integers(1, 60), st.integers(0, 2**32))
shares = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))


def log_of(events: list[tuple[int, int, int]]) -> Events:
    src, dst, time = zip(*events, strict=True)
    return Events.from_arrays(list(src), list(dst), list(time), features=np.array(time, dtype=float), labels=list(src))


@given(rows, shares)
def test_the_strict_parts_joined_are_the_log_and_share_no_instant(
    events: list[tuple[int, int, int]], weights: tuple[int, int, int]
) -> None:
    log = log_of(events)
    first, second, third = (weight / sum(weights) for weight in weights)
    fractions = (first, second, third)
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
    for part, inductive in ((split.valid, split.valid_inductive), (split.test, split.test_inductive)):
        expected = [not {u, v} <= seen for u, v in zip(part.src.tolist(), part.dst.tolist(), strict=True)]
        assert inductive.tolist() == expected


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
    first, second = times[len(times) * 70 // 100], times[len(times) * 85 // 100]
    train = log.between(-np.inf, first)
    later = [log.between(first, second), log.between(second, np.inf)]
    known = [part.take(~touches_unseen(part, train)) for part in later]
    if len(times) < 4 or not all(map(len, known)):
        with pytest.raises(
            EventError, match="needs at least 4 distinct times" if len(times) < 4 else "unseen in training"
        ):
            split_paper(log)
        return
    split = split_paper(log)
    np.testing.assert_array_equal(split.train.time, train.time)
    for part, kept in zip((split.valid, split.test), known, strict=True):
        for name in ("src", "dst", "time", "features", "labels"):
            np.testing.assert_array_equal(getattr(part, name), getattr(kept, name))
        assert not touches_unseen(part, train).any()
    assert not split.valid_inductive.any()
    assert len(split.test_inductive) == len(split.test)


@pytest.mark.parametrize(("times", "sizes"), [(10, (7, 1, 2)), (100, (70, 15, 15)), (4, (2, 1, 1))])
def test_the_paper_cuts_at_whole_numbers_of_times(times: int, sizes: tuple[int, int, int]) -> None:
    split = split_paper(Events.from_arrays([0] * times, [1] * times, np.arange(times)))
    assert (len(split.train), len(split.valid), len(split.test)) == sizes


def test_logs_too_short_and_wrong_fractions_are_refused() -> None:
    one = Events.from_arrays(["a"] * 5, ["b"] * 5, [1.0] * 5)
    with pytest.raises(EventError, match=r"needs at least 4 distinct times, .* the log has 1"):
        split_paper(one)
    with pytest.raises(EventError, match="3 distinct times"):
        split_strict(one)
    with pytest.raises(ConfigError, match="sum to 1"):
        split_strict(one, (0.5, 0.5, 0.5))
    all_unseen = Events.from_arrays(np.arange(10), np.arange(10) + 50, np.arange(10))
    with pytest.raises(EventError, match="no validation events are left"):
        split_paper(all_unseen)


@given(rows)
def test_the_boards_cut_at_quantiles_and_keep_every_event(events: list[tuple[int, int, int]]) -> None:
    log = log_of(events)
    first, second = np.quantile(log.time, [0.70, 0.85])
    parts = [log.time <= first, (log.time > first) & (log.time <= second), log.time > second]
    if not all(part.any() for part in parts):
        with pytest.raises(EventError, match="leaves a part without events"):
            split_quantiles(log)
        return
    split = split_quantiles(log)
    for part, mask in zip((split.train, split.valid, split.test), parts, strict=True):
        np.testing.assert_array_equal(part.time, log.time[mask])
        np.testing.assert_array_equal(part.src, log.src[mask])
    assert split.history is split.train


@given(rows, st.floats(0.05, 0.9))
def test_hidden_nodes_are_absent_from_training_and_nothing_else_is(
    events: list[tuple[int, int, int]], share: float
) -> None:
    log = log_of(events)
    try:
        whole, split = split_quantiles(log), split_hiding_nodes(log, share)
    except EventError:
        return
    ids = np.array(log.vocabulary.ids)
    sources, destinations = (
        {int(ids[row]) + 1 for part in (whole.valid, whole.test) for row in getattr(part, end)}
        for end in ("src", "dst")
    )
    later = tuple(sources.union(destinations))
    drawn = random.Random(2020).sample(later, min(int(share * len(log.vocabulary)), len(later)))
    hidden = {number - 1 for number in drawn}
    touches = [bool({int(ids[u]), int(ids[v])} & hidden) for u, v in zip(whole.train.src, whole.train.dst, strict=True)]
    np.testing.assert_array_equal(split.train.src, whole.train.src[~np.array(touches)])
    np.testing.assert_array_equal(split.history.dst, whole.train.dst)
    known = {*split.train.src.tolist(), *split.train.dst.tolist()}
    for part, same, marks in (
        (split.valid, whole.valid, split.valid_inductive),
        (split.test, whole.test, split.test_inductive),
    ):
        np.testing.assert_array_equal(part.dst, same.dst)
        ends = zip(part.src.tolist(), part.dst.tolist(), strict=True)
        assert marks.tolist() == [not {u, v} <= known for u, v in ends]


@pytest.mark.usefixtures("data_folder")
def test_on_real_data_the_hidden_nodes_are_those_of_the_library() -> None:
    """DyGLib prints the size of its parts; another draw would leave another number of training events."""
    split = split_hiding_nodes(load_dataset("wikipedia"))
    assert (len(split.train), len(split.valid), len(split.test)) == (81_029, 23_621, 23_621)
