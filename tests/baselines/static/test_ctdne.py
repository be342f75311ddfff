"""CTDNE: the corpus holds walks along time of the right size, and a node that none reached has the vector zero."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.labelled_pairs import PairClassifier
from tapgnn.baselines.static.ctdne import CTDNE
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tests.baselines.samples import busy_log


def can_follow(log: Events, walk: list[int]) -> bool:
    """Whether there are events at strictly rising times along the walk; taking the earliest each time decides it."""
    now = -np.inf
    for here, there in pairwise(walk):
        joins = ((log.src == here) & (log.dst == there)) | ((log.src == there) & (log.dst == here))
        later = log.time[joins & (log.time > now)]
        if not len(later):
            return False
        now = later[0]
    return True


@given(size=st.integers(2, 80), seed=st.integers(0, 99))
def test_every_walk_of_the_corpus_respects_time(size: int, seed: int) -> None:
    log = busy_log(size, seed=seed)
    method = CTDNE(seed=seed, walks=2, length=6, shortest=3, patience=2)
    walks = method._corpus(log, 40)
    assert walks.shape == (40, 6)
    for walk in walks.tolist():
        reached = [node for node in walk if node >= 0]
        assert walk == reached + [-1] * (6 - len(reached))
        assert len(reached) >= 2
        assert can_follow(log, reached)


def test_the_corpus_has_long_walks_alone_where_there_are_enough() -> None:
    chain = Events.from_arrays(np.arange(50), np.arange(1, 51), np.arange(50) * 1.0)
    walks = CTDNE(walks=1, length=8, shortest=5)._corpus(chain, 60)
    assert ((walks >= 0).sum(axis=1) >= 5).all()


def test_where_long_walks_do_not_exist_the_longest_ones_fill_the_corpus() -> None:
    star = Events.from_arrays(np.zeros(30, dtype=int), np.arange(1, 31), np.zeros(30))
    walks = CTDNE(walks=1, length=8, shortest=5, patience=2)._corpus(star, 60)
    assert walks.shape == (60, 8)
    assert ((walks >= 0).sum(axis=1) == 2).all()


def test_it_counts_the_nodes_that_no_walk_reached_and_gives_them_the_vector_zero() -> None:
    """Many events join two nodes and only one each joins two others: few walks find these."""
    often, seldom = np.zeros(400, dtype=int), np.array([2, 4])
    src, dst = np.concatenate([often, seldom]), np.concatenate([often + 1, seldom + 1])
    log = Events.from_arrays(src, dst, np.arange(402) * 1.0)
    method = CTDNE(seed=0, width=8, walks=1, length=4, shortest=2, window=2)
    method.fit(log, log.take(slice(0, 0)))
    reached = np.unique(method._corpus(log, 6))
    unreached = set(range(6)) - set(reached.tolist())
    assert unreached
    assert method.details()["walks"] == 6
    assert method.details()["unreached_nodes"] == len(unreached)
    assert isinstance(method._scorer, PairClassifier)
    assert {row for row in range(6) if not method._scorer.table[row].any()} == unreached
    later = Events.from_arrays([0], [1], [500.0])
    found = method.represent(later, np.array([0, *unreached, 6, -1]), np.full(3 + len(unreached), 500.0))
    assert found[0].any()
    assert not found[1:].any()


def test_walks_of_two_nodes_are_the_events_and_shorter_ones_are_refused() -> None:
    log = busy_log()
    walks = CTDNE(length=2, shortest=2)._corpus(log, 30)
    assert all(can_follow(log, walk) for walk in walks.tolist())
    with pytest.raises(ConfigError, match="shortest"):
        CTDNE(shortest=1)
