"""Counter-based random numbers: the published generator, uniform, and different for different keys and counters."""

from __future__ import annotations

import numpy as np
import pytest

from tapgnn.baselines.shared.counter_rng import GAMMA, combine, mix, random_below, seed_key, uniform


def test_the_draws_are_those_of_splitmix64() -> None:
    """The first outputs of the reference implementation for the seed 0."""
    with np.errstate(over="ignore"):
        states = [GAMMA * np.uint64(i) for i in (1, 2, 3)]
    assert [int(mix(state)) for state in states] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_draws_are_uniform_and_depend_on_key_and_counter() -> None:
    key, other = combine(seed_key(1), np.uint64(2)), combine(seed_key(2), np.uint64(1))
    draws = np.array([[uniform(k, counter) for counter in range(4_000)] for k in (key, other)])
    assert ((draws >= 0) & (draws < 1)).all()
    assert draws.mean(axis=1) == pytest.approx([0.5, 0.5], abs=0.02)
    assert len(np.unique(draws)) == draws.size
    assert {random_below(key, counter, 3) for counter in range(50)} == {0, 1, 2}
