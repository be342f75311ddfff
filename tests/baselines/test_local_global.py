"""LocalGlobal: the four heuristics decide in their order, by the definition; the one-pass replay is the reference."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines import LocalGlobal, replay
from tapgnn.events import Events, Ints

Rank = tuple[bool, float, int]


def random_log(size: int, nodes: int, seed: int) -> Events:
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(12, size=size)).astype(float)
    return Events.from_arrays(rng.integers(nodes, size=size), rng.integers(nodes, size=size), time)


logs = st.builds(random_log, st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**32))


def rank(log: Events, src: int, dst: int, time: float) -> Rank:
    """What decides, in this order: whether they met, then recency and count of the pair, or else of the destination."""
    past = log.time < time
    anyone = past & (log.dst == dst)
    own = anyone & (log.src == src)
    met = bool(own.any())
    seen = own if met else anyone
    return met, log.time[seen].max(initial=-np.inf), int(seen.sum())


def all_pairs(log: Events) -> tuple[Ints, Ints]:
    nodes = np.arange(-1, len(log.vocabulary) + 2)
    src, dst = (grid.ravel() for grid in np.meshgrid(nodes, nodes))
    return src, dst


@given(log=logs, time=st.integers(0, 14))
def test_pairs_are_ranked_by_local_recency_then_global_recency_and_popularity_decides_ties(
    log: Events, time: int
) -> None:
    src, dst = all_pairs(log)
    method = LocalGlobal()
    method.fit(log.take(slice(0, 0)), log)
    asked = np.full(len(src), float(time))
    scores = method.replay(log, src, dst, asked)
    ranks = [rank(log, u, v, float(time)) for u, v in zip(src.tolist(), dst.tolist(), strict=True)]
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    for lower, higher in pairwise(order):
        if ranks[lower] == ranks[higher]:
            assert scores[lower] == scores[higher]
        else:
            assert scores[lower] < scores[higher]


@given(log=logs)
def test_the_batched_replay_gives_the_scores_and_the_state_of_the_reference(log: Events) -> None:
    train, stream = log.between(-np.inf, 5.0), log.between(5.0, np.inf)
    src, dst = all_pairs(log)
    asked = src, dst, np.random.default_rng(0).integers(5, 15, len(src)).astype(float)
    slow, fast = LocalGlobal(), LocalGlobal()
    for method in (slow, fast):
        method.fit(train, stream)
    np.testing.assert_array_equal(replay(slow, stream, *asked), fast.replay(stream, *asked))
    later = src, dst, np.full(len(src), 20.0)
    np.testing.assert_array_equal(slow.score(*later), fast.score(*later))
