"""Key table: what a scan finds, at any cut of the stream, and no larger than its keys."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.key_table import KeyTable


@given(size=st.integers(0, 60), queries=st.integers(0, 20), cut=st.integers(0, 60), seed=st.integers(0, 999))
def test_a_key_is_answered_as_by_a_scan_of_what_is_strictly_earlier(
    size: int, queries: int, cut: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # Keys far apart, negative ones among them, and some that meet in one slot.
    names = rng.choice(np.array([-1, 0, 8, 16, 1 << 32, (1 << 32) | 8, 1 << 62]), size=size)
    times = np.sort(rng.integers(8, size=size)).astype(float)
    query = rng.choice(np.array([-2, -1, 0, 8, 1 << 32, 1 << 62]), size=queries)
    border = float(times[min(cut, size - 1)]) if size else 0.0
    first = times < border
    when = rng.integers(int(border), 10, size=queries).astype(float)
    table = KeyTable()
    table.write(names[first], times[first])
    count, latest = table.walk(names[~first], times[~first], query, when)
    for row in range(queries):
        before = times[(names == query[row]) & ((times < when[row]) | first)]
        assert count[row] == len(before)
        assert latest[row] == max(before, default=-np.inf)
    count, latest = table.read(query)
    for row in range(queries):
        assert count[row] == (names == query[row]).sum()


def test_many_events_of_few_keys_take_the_room_of_the_keys() -> None:
    table, keys = KeyTable(), np.arange(50)
    for step in range(200):
        table.write(keys, np.full(50, float(step)))
    assert len(table._keys) <= 200
    assert len(table._slots) <= 512
    assert table.read(np.array([49]))[0] == [200]
