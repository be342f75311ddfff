"""CTDNE: the corpus holds walks along time of the right size, and a node that none reached has the vector zero."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.ctdne import CTDNE
from tapgnn.errors import ConfigError
from tapgnn.events import Events
from tests.baselines.samples import busy_log, make, parts


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


def test_where_long_walks_do_not_exist_the_longest_ones_stand_in() -> None:
    star = Events.from_arrays(np.zeros(30, dtype=int), np.arange(1, 31), np.zeros(30))
    walks = CTDNE(walks=1, length=8, shortest=5, patience=2)._corpus(star, 60)
    assert walks.shape == (60, 8)
    assert ((walks >= 0).sum(axis=1) == 2).all()


def test_it_counts_the_nodes_that_no_walk_reached() -> None:
    train, valid, _ = parts(busy_log())
    method = make("ctdne")
    method.fit(train, valid)
    assert isinstance(method, CTDNE)
    assert method.details()["walks"] == 2 * len(np.unique(np.concatenate([train.src, train.dst])))
    assert method.details()["unreached_nodes"] in range(10)


def test_walks_of_two_nodes_are_the_events_and_shorter_ones_are_refused() -> None:
    log = busy_log()
    walks = CTDNE(length=2, shortest=2)._corpus(log, 30)
    assert all(can_follow(log, walk) for walk in walks.tolist())
    with pytest.raises(ConfigError, match="shortest"):
        CTDNE(shortest=1)
