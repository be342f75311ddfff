"""History before a query: counts and latest times are those of a plain scan of the events."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.method import history_before


@given(size=st.integers(0, 40), queries=st.integers(0, 20), seed=st.integers(0, 999))
def test_the_history_of_a_key_is_what_a_scan_finds_strictly_before(size: int, queries: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys, times = rng.integers(-1, 5, size), np.sort(rng.integers(8, size=size)).astype(float)
    query, when = rng.integers(-1, 7, queries), rng.integers(10, size=queries).astype(float)
    count, latest = history_before(keys, times, query, when)
    for row in range(queries):
        before = times[(keys == query[row]) & (times < when[row])]
        assert count[row] == len(before)
        assert latest[row] == max(before, default=-np.inf)
