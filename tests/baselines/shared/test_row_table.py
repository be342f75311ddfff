"""Row tables: any row can be read, and growing keeps what is there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.baselines.shared.row_table import grown, look_up


@given(size=st.integers(0, 6), width=st.sampled_from([(), (2,)]), seed=st.integers(0, 99))
def test_a_row_that_the_table_does_not_have_is_absent(size: int, width: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, rows = rng.normal(size=(size, *width)), rng.integers(-1, 9, size=12)
    for row, found in zip(rows.tolist(), look_up(table, rows, -7.0), strict=True):
        np.testing.assert_array_equal(found, table[row] if 0 <= row < size else np.full(width, -7.0))


def test_a_table_grows_by_doubling_and_is_filled() -> None:
    table = np.arange(6.0).reshape(3, 2)
    assert grown(table, 3) is table
    larger = grown(table, 4, -np.inf)
    assert larger.shape == (6, 2)
    np.testing.assert_array_equal(larger[:3], table)
    assert (larger[3:] == -np.inf).all()
