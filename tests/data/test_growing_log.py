"""GrowingLog: the pieces one after the other, copied a few times each however small they are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.data.growing_log import GrowingLog
from tapgnn.errors import EventError


def numbered(size):
    rows = np.arange(size)
    columns = {"amount": np.where(rows % 3, rows, np.nan), "kind": np.array(["a", None], dtype=object)[rows % 2]}
    return Events.from_arrays(rows % 7, rows % 5, rows, labels=rows % 2, columns=columns)


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=30).filter(any))
def test_the_log_holds_every_piece_in_order_and_no_labels(sizes):
    whole, kept = numbered(sum(sizes)), GrowingLog()
    for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
        kept.append(whole.slice(int(stop) - size, int(stop)))
        assert len(kept) == stop
    found = kept.events()
    assert found.labels is None
    for name in ("src", "dst", "time"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    for name, column in whole.columns.items():
        np.testing.assert_array_equal(found.columns[name], column)


@pytest.mark.parametrize("size", [1, 3, 50])
def test_an_event_is_copied_a_logarithmic_number_of_times(size, monkeypatch):
    whole, kept, copied = numbered(3_000), GrowingLog(), []
    append = Events.append

    def counted(self, later):
        joined = append(self, later)
        copied.append(len(joined))
        return joined

    monkeypatch.setattr(Events, "append", counted)
    for piece in whole.chunks(size):
        kept.append(piece)
    assert len(kept.events()) == 3_000
    assert sum(copied) <= 3_000 * (2 + math.log2(3_000 / size))


def test_one_piece_is_not_copied():
    whole, kept = numbered(10), GrowingLog()
    kept.append(whole)
    assert kept.events().time is whole.time


def test_an_empty_log_says_so():
    with pytest.raises(EventError, match="observe events first"):
        GrowingLog().events()
