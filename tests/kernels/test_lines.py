"""What compiled loops use in place of numba's own arrays: they read and write just what they say."""

import numpy as np
import pytest

from tapgnn.kernels.lines import LINE, fast, fill, new_line, row_address, row_at


@fast
def fill_from(row, start, value):
    fill(row, start, value)


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
@pytest.mark.parametrize("start", [0, 3, 24])
def test_fill_writes_one_line_and_nothing_beside_it(kind, start):
    row = np.arange(40, dtype=kind)
    fill_from(row, start, 7.5)
    inside = (np.arange(40) >= start) & (np.arange(40) < start + LINE)
    np.testing.assert_array_equal(row, np.where(inside, kind(7.5), np.arange(40, dtype=kind)))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 16, 100, 1000])
def test_rows_and_lines_of_any_width_hold_their_own_numbers(kind, width):
    table = np.random.default_rng(width).normal(size=(9, width)).astype(kind)
    out = np.zeros((3, width), dtype=kind)
    add_up_rows(table, np.array([8, 0, 8, 3]), out)
    np.testing.assert_allclose(out[1], table[[8, 0, 8, 3]].sum(axis=0) - 1, rtol=1e-5, atol=1e-5)
    assert not out[[0, 2]].any()
