"""Negatives: never the truth, from the right pool, uniform, and the same for the same seed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tapgnn.data.negatives import (
    NEGATIVE_TYPES,
    PURPOSES,
    NegativeSampler,
    NegativeType,
    candidates,
    rng_for,
    sample_negatives,
)
from tapgnn.data.splits import Split, split_strict
from tapgnn.data.statistics import is_bipartite
from tapgnn.errors import ConfigError, EventError
from tapgnn.events import Events


def random_rows(size: int, sources: int, first: int, seed: int) -> list[tuple[int, int, int]]:
    """Destinations are numbered from `first`, so that some graphs are bipartite."""
    rng = np.random.default_rng(seed)
    columns = (rng.integers(sources, size=size), first + rng.integers(8, size=size), rng.integers(20, size=size))
    return list(zip(*(column.tolist() for column in columns), strict=True))


rows = st.builds(random_rows, st.integers(3, 120), st.integers(1, 6), st.sampled_from([0, 3, 6]), st.integers(0, 2**32))


def split_of(events: list[tuple[int, int, int]]) -> Split:
    src, dst, time = zip(*events, strict=True)
    log = Events.from_arrays(list(src), list(dst), list(time))
    assume(len(np.unique(log.time)) >= 3)
    split = split_strict(log)
    assume(len(candidates(split.train)) >= 2)
    return split


def pairs(events: Events) -> set[tuple[int, int]]:
    return set(zip(events.src.tolist(), events.dst.tolist(), strict=True))


@given(rows, st.sampled_from(NEGATIVE_TYPES), st.integers(1, 4), st.integers(0, 3))
def test_no_negative_is_the_true_destination_and_the_seed_decides_all(
    events: list[tuple[int, int, int]], kind: NegativeType, count: int, seed: int
) -> None:
    split = split_of(events)
    drawn = sample_negatives(split.test, split.train, kind, count, seed)
    again = sample_negatives(split.test, split.train, kind, count, seed)
    assert drawn.dst.shape == drawn.filled.shape == (len(split.test), count)
    assert (drawn.dst != split.test.dst[:, None]).all()
    np.testing.assert_array_equal(drawn.dst, again.dst)


@given(rows, st.integers(1, 4))
def test_random_negatives_are_training_nodes_or_training_destinations(
    events: list[tuple[int, int, int]], count: int
) -> None:
    split = split_of(events)
    drawn = sample_negatives(split.test, split.train, count=count)
    nodes = set(split.train.dst.tolist())
    if not is_bipartite(split.train):
        nodes |= set(split.train.src.tolist())
    assert set(drawn.dst.ravel().tolist()) <= nodes
    assert not drawn.filled.any()


@given(rows, st.sampled_from(["historical", "inductive"]), st.integers(1, 6))
def test_met_negatives_are_all_that_the_source_has_each_once_then_random(
    events: list[tuple[int, int, int]], kind: NegativeType, count: int
) -> None:
    split = split_of(events)
    evaluation = split.valid.append(split.test)
    drawn = sample_negatives(split.test, split.train, kind, count, seed=1, evaluation=evaluation)
    known = pairs(split.train) if kind == "historical" else pairs(evaluation) - pairs(split.train)
    for event in range(len(split.test)):
        source, now = split.test.src[event], split.test.time == split.test.time[event]
        at_once = {v for u, v in zip(split.test.src[now], split.test.dst[now], strict=True) if u == source}
        allowed = {v for u, v in known if u == source} - at_once
        met = drawn.dst[event][~drawn.filled[event]].tolist()
        assert len(met) == min(count, len(allowed)) == len(set(met))
        assert set(met) <= allowed
        assert set(drawn.dst[event][drawn.filled[event]].tolist()) <= set(candidates(split.train).tolist())


def test_random_and_historical_draws_are_uniform() -> None:
    log = Events.from_arrays([0] * 9, [1, 2, 3, 4, 5, 1, 2, 3, 4], np.arange(9.0))
    train, later = log.slice(0, 5), log.slice(5, 9)
    for kind in ("random", "historical"):
        drawn = np.concatenate([sample_negatives(later, train, kind, 1, seed).dst for seed in range(3_000)], axis=1)
        for event in range(4):
            names, count = np.unique(drawn[event], return_counts=True)
            assert len(names) == 4
            assert later.dst[event] not in names
            # Four equally likely outcomes: 750 each, standard deviation 24.
            assert np.abs(count - 750).max() < 120


@given(st.integers(2, 30), st.integers(1, 5), st.integers(0, 10))
def test_the_sampler_draws_from_the_pool_given_and_never_the_truth(size: int, count: int, seed: int) -> None:
    log = Events.from_arrays(np.zeros(40, dtype=int), np.arange(40), np.arange(40))
    pool = np.random.default_rng(seed).choice(40, size, replace=False)
    drawn = NegativeSampler(log, pool).draw(log.src, log.dst, np.random.default_rng(seed), count)
    assert drawn.shape == (40, count)
    assert set(drawn.ravel().tolist()) <= set(pool.tolist())
    assert (drawn != log.dst[:, None]).all()


def test_destinations_born_after_training_are_fine() -> None:
    log = Events.from_arrays(["a", "b", "a"], ["x", "y", "born later"], [1.0, 2.0, 3.0])
    drawn = sample_negatives(log.slice(2, 3), log.slice(0, 2), count=50).dst
    assert {log.vocabulary.ids[row] for row in drawn.ravel().tolist()} == {"x", "y"}


def test_impossible_wishes_are_refused() -> None:
    log = Events.from_arrays(["a", "a"], ["x", "x"], [1.0, 2.0])
    with pytest.raises(EventError, match="two candidate destinations"):
        sample_negatives(log, log)
    wide = Events.from_arrays(["a", "a"], ["x", "y"], [1.0, 2.0])
    with pytest.raises(ConfigError, match="random, historical, inductive"):
        sample_negatives(wide, wide, "hard")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least one negative"):
        sample_negatives(wide, wide, count=0)


def test_what_a_seed_deals_for_one_purpose_says_nothing_of_the_others() -> None:
    log = Events.from_arrays(np.arange(2_000) % 500, 500 + np.arange(2_000) % 500, np.arange(2_000.0))
    sampler = NegativeSampler(log)
    streams = {f"{purpose} {seed}": rng_for(seed, purpose) for purpose in PURPOSES for seed in (0, 1)}
    streams |= {f"plain {seed}": np.random.default_rng(seed) for seed in (0, 1)}
    dealt = {name: sampler.draw(log.src, log.dst, rng) for name, rng in streams.items()}
    for one, other in itertools.combinations(dealt, 2):
        # Of 2,000 independent draws among 500, about 4 agree.
        assert (dealt[one] == dealt[other]).sum() < 25, (one, other)


@pytest.mark.parametrize("kind", NEGATIVE_TYPES)
def test_no_positives_have_no_negatives(kind: NegativeType) -> None:
    log = Events.from_arrays(["a", "b", "a"], ["b", "c", "c"], [1.0, 2.0, 3.0])
    drawn = sample_negatives(log.slice(0, 0), log, kind, count=3)
    assert drawn.dst.shape == drawn.filled.shape == (0, 3)
