"""Walks: every step is one that the definition allows, with its probability, and only the seed decides."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.static.node2vec import Node2Vec
from tapgnn.baselines.static.walks import StaticGraph, second_order_walks, temporal_walks
from tapgnn.errors import ConfigError
from tapgnn.events import Events


def random_log(size: int, nodes: int, seed: int) -> Events:
    rng = np.random.default_rng(seed)
    ends, time = rng.integers(nodes, size=(2, size)), np.sort(rng.integers(10, size=size)).astype(float)
    return Events(ends[0], ends[1], time)


logs = st.builds(random_log, st.integers(1, 50), st.integers(1, 7), st.integers(0, 2**32))


def meetings(log: Events, node: int) -> set[tuple[int, float]]:
    """Whom the node met, and when."""
    rows = list(zip(log.src.tolist(), log.dst.tolist(), log.time.tolist(), strict=True))
    return {(v, t) for u, v, t in rows if u == node} | {(u, t) for u, v, t in rows if v == node}


def partners(log: Events, node: int) -> set[int]:
    return {other for other, _ in meetings(log, node)}


@given(log=logs, seed=st.integers(0, 99), length=st.integers(1, 8))
def test_temporal_walks_take_events_strictly_later_until_there_are_none(log: Events, seed: int, length: int) -> None:
    starts, times = np.arange(-1, 9), np.linspace(-1, 9, 10)
    walks = temporal_walks(Adjacency(log), starts, times, length, seed)
    for start, time, nodes in zip(starts.tolist(), times.tolist(), walks.tolist(), strict=True):
        # A pair may meet several times: the walk may have taken any of its later events.
        place, possible = start, {time}
        for node in nodes:
            if node < 0:
                assert max((t for _, t in meetings(log, place)), default=-np.inf) <= max(possible)
                break
            possible = {t for other, t in meetings(log, place) if other == node and t > min(possible)}
            assert possible
            place = node


def test_a_temporal_step_takes_every_later_event_equally_often() -> None:
    # Node 0 meets 9 at once, then 1 once and 2 three times.
    log = Events(np.zeros(5, dtype=np.int64), np.array([9, 1, 2, 2, 2]), np.array([0.0, 1.0, 2.0, 3.0, 3.0]))
    walks = temporal_walks(Adjacency(log), np.zeros(8_000, dtype=np.int64), np.zeros(8_000), 1, seed=0)
    assert Counter(walks[:, 0].tolist())[1] == pytest.approx(2_000, abs=150)
    assert set(walks[:, 0].tolist()) == {1, 2}


@given(log=logs)
def test_the_static_graph_is_the_set_of_partners(log: Events) -> None:
    graph = StaticGraph.from_events(log)
    for node in range(len(graph)):
        found = graph.partner[graph.border[node] : graph.border[node + 1]].tolist()
        assert found == sorted(partners(log, node))
    assert graph.nodes().tolist() == [node for node in range(len(graph)) if partners(log, node)]


@given(log=logs, seed=st.integers(0, 99), p=st.sampled_from([0.25, 1, 4]), q=st.sampled_from([0.25, 1, 4]))
def test_static_walks_go_from_neighbour_to_neighbour_to_the_end(log: Events, seed: int, p: float, q: float) -> None:
    graph = StaticGraph.from_events(log)
    starts = np.arange(len(graph))
    for walk in second_order_walks(graph, starts, 6, p, q, seed).tolist():
        if not partners(log, walk[0]):
            assert walk[1:] == [-1] * 5
            continue
        for node, following in pairwise(walk):
            assert following in partners(log, node)


def test_a_second_order_step_has_the_probabilities_of_the_definition() -> None:
    # 0 - 1, then from 1: back to 0, on to 2 (a neighbour of 0), away to 3 or 4.
    edges = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [1, 4]])
    graph = StaticGraph.from_events(Events(edges[:, 0], edges[:, 1], np.arange(5, dtype=float)))
    p, q = 0.5, 4.0
    walks = second_order_walks(graph, np.zeros(40_000, dtype=np.int64), 3, p, q, seed=3)
    third = walks[walks[:, 1] == 1, 2]
    assert len(third) == pytest.approx(20_000, abs=400)
    bias = np.array([1 / p, 0.0, 1.0, 1 / q, 1 / q])
    share = np.bincount(third, minlength=5) / len(third)
    np.testing.assert_allclose(share, bias / bias.sum(), atol=0.012)


def test_the_seed_alone_decides_and_a_walk_does_not_depend_on_the_others() -> None:
    log = random_log(50, 7, 1)
    graph, starts = StaticGraph.from_events(log), np.tile(np.arange(7), 3)
    first, again, other = (second_order_walks(graph, starts, 9, 0.5, 2.0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(second_order_walks(graph, starts[:4], 9, 0.5, 2.0, 1), first[:4])


def test_impossible_walks_are_refused() -> None:
    log = random_log(5, 3, 0)
    graph, nobody = StaticGraph.from_events(log), np.zeros(1, dtype=np.int64)
    with pytest.raises(ConfigError, match="p and q must be positive"):
        second_order_walks(graph, nobody, 3, 0.0, 1.0, 0)
    with pytest.raises(ConfigError, match="length must be at least 1, not 0"):
        Node2Vec(length=0)
