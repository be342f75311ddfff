"""Chunks of a stream of blocks are those that `Events.chunks` cuts from the whole log."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.data.chunking import cut_between_instants, take_rows


class Rows(NamedTuple):
    """A column, one that there is not, and the time."""

    src: np.ndarray
    features: None
    time: np.ndarray


@given(st.lists(st.integers(0, 1), max_size=80), st.lists(st.integers(0, 80), max_size=8), st.integers(1, 20))
def test_chunks_end_between_instants_wherever_the_blocks_end(steps, borders, size):
    time = np.cumsum(np.array(steps, dtype=float))
    log = Events(np.arange(len(time)), np.arange(len(time)), time)
    rows = np.split(np.arange(len(time)), sorted(min(border, len(time)) for border in borders))
    whole = Rows(log.src, None, log.time)
    chunks = cut_between_instants((take_rows(whole, block) for block in rows), size)
    assert [chunk.src.tolist() for chunk in chunks] == [chunk.src.tolist() for chunk in log.chunks(size)]
