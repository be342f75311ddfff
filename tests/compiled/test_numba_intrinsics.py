"""What compiled loops use in place of numba's own arrays: they read and write just what they say."""

import numpy as np
import pytest

from tapgnn.compiled.jit import fast
from tapgnn.compiled.numba_intrinsics import LINE, new_line, row_address, row_at, spread


@fast
def add_up_rows(table, places, out):
    width = table.shape[1]
    line = new_line(width, table)
    other = new_line(width, table)
    for j in range(width):
        line[j] = 0
        other[j] = -1
    for place in places:
        row = row_at(row_address(table, place), (width,), table)
        for j in range(width):
            line[j] += row[j]
    target = row_at(row_address(out, 1), (width,), out)
    for j in range(width):
        target[j] = line[j] + other[j]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("borders", [[0, 5, 9], [0, 1, 40, 41], [0, 16, 32], [3, 20, 20, 31]])
def test_every_channel_has_the_value_of_its_group_and_only_the_room_behind_is_written(kind, borders):
    before, end = -np.arange(1, 80, dtype=kind), borders[-1]
    values, row = np.arange(1, len(borders), dtype=kind) / 4, before.copy()
    spread(np.array(borders), values, row)
    np.testing.assert_array_equal(row[borders[0] : end], np.repeat(values, np.diff(borders)))
    np.testing.assert_array_equal(row[: borders[0]], before[: borders[0]])
    np.testing.assert_array_equal(row[end + LINE :], before[end + LINE :])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 16, 100, 1000])
def test_rows_and_lines_of_any_width_hold_their_own_numbers(kind, width):
    table = np.random.default_rng(width).normal(size=(9, width)).astype(kind)
    out = np.zeros((3, width), dtype=kind)
    add_up_rows(table, np.array([8, 0, 8, 3]), out)
    np.testing.assert_allclose(out[1], table[[8, 0, 8, 3]].sum(axis=0) - 1, rtol=1e-5, atol=1e-5)
    assert not out[[0, 2]].any()
