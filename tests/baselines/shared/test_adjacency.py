"""Adjacency: every answer is that of a plain list of the events, however the log was cut into appended pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.adjacency import Adjacency, Neighbours
from tapgnn.errors import LateEventError
from tapgnn.events import Events, Floats, Ints

Entry = tuple[int, float, int]
NODES, LAST = 7, 12


def random_log(size: int, nodes: int, seed: int) -> Events:
    """Events with ties, repeats and self-loops; row v is node v, and the highest rows may not occur."""
    rng = np.random.default_rng(seed)
    ends, time = rng.integers(nodes, size=(2, size)), np.sort(rng.integers(LAST, size=size)).astype(float)
    return Events(ends[0], ends[1], time)


logs = st.builds(random_log, st.integers(0, 60), st.integers(1, NODES), st.integers(0, 2**32))
cuts = st.integers(1, 30)


def everything() -> tuple[Ints, Floats]:
    """Every node, an unknown one (-1) and one beyond the last, at every time, between times, and after the end."""
    nodes, times = np.meshgrid(np.arange(-1, NODES + 1), np.arange(0, LAST + 1, 0.5), indexing="ij")
    return nodes.ravel(), times.ravel()


def history(log: Events, node: int, time: float) -> list[Entry]:
    """The definition: walk over the log and note every meeting before the time."""
    met: list[Entry] = []
    for event, (u, v, t) in enumerate(zip(log.src.tolist(), log.dst.tolist(), log.time.tolist(), strict=True)):
        if t < time:
            met += [(v, t, event)] * (u == node) + [(u, t, event)] * (v == node)
    return met


def grown(log: Events, size: int) -> Adjacency:
    graph = Adjacency()
    for start in range(0, len(log), size):
        graph.append(log.take(slice(start, start + size)))
    return graph


def entries(found: Neighbours, row: int) -> list[Entry]:
    size = int(found.mask[row].sum())
    assert found.mask[row, :size].all()
    columns = (column[row, :size].tolist() for column in (found.node, found.time, found.event))
    return list(zip(*columns, strict=True))


@given(log=logs, size=cuts, count=st.integers(1, 8))
def test_the_latest_neighbours_are_the_end_of_the_list_strictly_before_t(log: Events, size: int, count: int) -> None:
    nodes, times = everything()
    graph = grown(log, size)
    found = graph.latest(nodes, times, count)
    for row, (node, time) in enumerate(zip(nodes.tolist(), times.tolist(), strict=True)):
        past = history(log, node, time)
        assert entries(found, row) == past[::-1][:count]
        assert (found.time[row, ~found.mask[row]] == time).all()
        assert (found.event[row, ~found.mask[row]] == -1).all()


@given(log=logs, size=cuts, count=st.integers(1, 8), seed=st.integers(-5, 2**64))
def test_uniform_neighbours_are_different_entries_of_the_list_and_all_of_a_short_one(
    log: Events, size: int, count: int, seed: int
) -> None:
    nodes, times = everything()
    found = grown(log, size).uniform(nodes, times, count, seed)
    for row, (node, time) in enumerate(zip(nodes.tolist(), times.tolist(), strict=True)):
        past, drawn = history(log, node, time), entries(found, row)
        assert len(drawn) == min(count, len(past))
        for entry in set(drawn):
            # A self-loop is in the list twice, and may be drawn twice.
            assert drawn.count(entry) <= past.count(entry)


@given(log=logs, size=cuts, seed=st.integers(0, 9), cut=st.floats(0, LAST))
def test_what_comes_later_and_what_else_is_asked_changes_no_sample(
    log: Events, size: int, seed: int, cut: float
) -> None:
    nodes, times = everything()
    asked = np.flatnonzero(times <= cut)
    whole, part = grown(log, size), Adjacency(log.take(log.time < cut))
    for column in ("node", "time", "event"):
        every = getattr(whole.uniform(nodes, times, 3, seed), column)
        np.testing.assert_array_equal(every[asked], getattr(part.uniform(nodes[asked], times[asked], 3, seed), column))
        every = getattr(whole.latest(nodes, times, 3), column)
        np.testing.assert_array_equal(every[asked], getattr(part.latest(nodes[asked], times[asked], 3), column))


def test_every_set_of_neighbours_is_drawn_equally_often() -> None:
    size, count, draws = 6, 3, 20_000
    log = Events(np.zeros(size, dtype=np.int64), np.arange(1, size + 1), np.arange(size, dtype=float))
    # Times after the end see the same list, and each has its own draw.
    found = Adjacency(log).uniform(np.zeros(draws, dtype=np.int64), size + np.arange(draws) / 7, count, seed=1)
    _, times = np.unique(np.sort(found.node, axis=1), axis=0, return_counts=True)
    assert len(times) == 20
    expected = draws / 20
    assert ((times - expected) ** 2 / expected).sum() < 43.8  # 0.999 quantile of chi squared, 19 degrees of freedom


def test_another_seed_gives_another_sample_and_the_same_seed_the_same() -> None:
    log = random_log(60, 2, 0)
    asked = (np.zeros(50, dtype=np.int64), np.linspace(8, 12, 50))
    graph = Adjacency(log)
    first, again, other = (graph.uniform(*asked, 4, seed).event for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_new_node_in_the_middle_of_the_stream_has_a_list_from_then_on() -> None:
    graph = Adjacency(random_log(5, 2, 0))
    graph.append(Events(np.array([500]), np.array([0]), np.array([50.0])))
    assert graph.latest(np.array([500, 500]), np.array([50.0, 51.0]), 1).node.tolist() == [[-1], [0]]
    graph.append(random_log(0, 1, 0))
    assert graph.events == 6


def test_late_events_are_refused_and_an_empty_sample_is_empty() -> None:
    graph = Adjacency(Events(np.array([0]), np.array([1]), np.array([5.0])))
    with pytest.raises(LateEventError, match=r"at 4\.0 came after one at 5\.0"):
        graph.append(Events(np.array([0]), np.array([1]), np.array([4.0])))
    assert graph.latest(np.array([0]), np.array([6.0]), 0).node.shape == (1, 0)
