"""Row tables: arrays with one row per node or event, that grow with the stream and are read at any row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.events import Ints


def look_up(table: NDArray[Any], rows: Ints, absent: float) -> NDArray[Any]:
    """table[rows], with `absent` for rows that the table does not have: -1, and beyond its end.

    >>> look_up(np.array([5, 6]), np.array([1, -1, 2]), 0)
    array([6, 0, 0])
    """
    known = (rows >= 0) & (rows < len(table))
    found = np.full((len(rows), *table.shape[1:]), absent, dtype=table.dtype)
    found[known] = table[rows[known]]
    return found


def grown(table: NDArray[Any], size: int, fill: float = 0.0) -> NDArray[Any]:
    """The table with at least `size` rows; capacity doubles, so that growing costs O(1) per row on average."""
    if size <= len(table):
        return table
    larger = np.full((max(size, 2 * len(table)), *table.shape[1:]), fill, dtype=table.dtype)
    larger[: len(table)] = table
    return larger
