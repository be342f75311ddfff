"""A batch and its bytes: what was sent is what is read, in the order and with the types in which it was sent."""

import datetime as dt
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Config, Events
from tapgnn.data.schema import Schema
from tapgnn.errors import EventError, JournalError
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.event_rows import RowReader

IDS = st.one_of(
    st.integers(-(2**70), 2**70), st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(0, 5)
)
ROWS = st.lists(st.tuples(IDS, IDS, st.one_of(st.integers(-100, 100), st.floats(-1e6, 1e6))), min_size=1, max_size=300)


def reader(features=0):
    """Reads rows of a log with so many plain features."""
    return RowReader(Schema(columns={f"f{place}": "number" for place in range(features)}), Config(span=1e6))


def as_rows(batch):
    ids = batch.ids
    return [(ids[s], ids[d], t) for s, d, t in zip(batch.src, batch.dst, batch.time.tolist(), strict=True)]


def same(first, second):
    return all(
        (a is None and b is None) or (type(a) is list and list(a) == list(b)) or np.array_equal(a, b)
        for a, b in zip(vars(first).values(), vars(second).values(), strict=True)
    )


@given(rows=ROWS, features=st.integers(0, 3), labelled=st.booleans(), seed=st.integers(0, 99))
def test_what_is_read_is_what_was_sent(rows, features, labelled, seed):
    rng = np.random.default_rng(seed)
    table = {name: list(column) for name, column in zip(("src", "dst", "time"), zip(*rows, strict=True), strict=True)}
    vectors, labels = rng.normal(size=(len(rows), features)).astype(np.float32), rng.integers(0, 3, len(rows))
    table |= {"features": vectors} if features else {}
    table |= {"label": labels} if labelled else {}
    batch = reader(features).read(table)
    assert as_rows(batch) == rows
    assert [type(name) for name, _, _ in as_rows(batch)] == [type(name) for name, _, _ in rows]
    again = EventBatch.read(batch.payload())
    assert as_rows(again) == rows
    assert again.payload() == batch.payload()
    assert list(again.columns) == [f"f{place}" for place in range(features)]
    assert all(np.array_equal(again.columns[f"f{place}"], vectors[:, place]) for place in range(features))
    assert np.array_equal(again.labels, labels) if labelled else again.labels is None
    keep = rng.random(len(rows)) < 0.5
    part = EventBatch.read(batch.keep(keep).payload())
    assert as_rows(part) == [row for row, kept in zip(rows, keep, strict=True) if kept]
    assert part.sent_index().tolist() == np.flatnonzero(keep).tolist()
    assert set(part.ids) == {name for row in as_rows(part) for name in row[:2]}
    twice = part.keep(np.arange(len(part)) > 0)
    assert twice.sent_index().tolist() == np.flatnonzero(keep)[1:].tolist()


@given(rows=ROWS, form=st.sampled_from(["columns", "arrays", "rows", "mappings"]))
def test_every_form_is_the_same_batch(rows, form):
    src, dst, time = (list(column) for column in zip(*rows, strict=True))
    forms = {
        "columns": {"src": tuple(src), "dst": tuple(dst), "time": tuple(time)},
        "arrays": {
            "src": np.array(src, dtype=object),
            "dst": np.array(dst, dtype=object),
            "time": np.array(time, float),
        },
        "rows": rows,
        "mappings": [{"src": s, "dst": d, "time": t, "label": None} for s, d, t in rows],
    }
    assert as_rows(reader().read(forms[form])) == rows


def test_datetimes_keep_the_order_in_which_they_were_sent():
    noon = dt.datetime(2024, 5, 1, 12)
    when = [noon + dt.timedelta(seconds=s) for s in (3, 1, 1, 2)]
    batch = reader().read({"src": ["a", "b", "c", "d"], "dst": ["x"] * 4, "time": when})
    assert [name for name, _, _ in as_rows(batch)] == ["a", "b", "c", "d"]
    assert np.diff(batch.time).tolist() == [-2.0, 0.0, 1.0]
    stamps = np.array(when, dtype="datetime64[us]")
    assert same(batch, reader().read({"src": ["a", "b", "c", "d"], "dst": ["x"] * 4, "time": stamps}))


def test_events_of_a_large_vocabulary_bring_only_their_own_ids():
    log = Events.from_arrays(range(1000), range(1000, 2000), np.arange(1000.0))
    batch = reader().read(log.take(slice(5, 7)))
    assert sorted(batch.ids) == [5, 6, 1005, 1006]


@given(place=st.integers(0, 10_000), size=st.integers(0, 10_000))
def test_bytes_that_are_no_batch_are_an_error_of_the_journal(place, size):
    payload = reader().read([("a", "b", 1.0), ("c", "a", 2.0)]).payload()
    with pytest.raises(JournalError):
        EventBatch.read(payload[: size % len(payload)])
    with pytest.raises(JournalError):
        EventBatch.read(payload + b"\0")
    header = place % 16
    broken = payload[:header] + bytes([payload[header] ^ 0x55]) + payload[header + 1 :]
    with pytest.raises(JournalError):
        EventBatch.read(broken)


@pytest.mark.parametrize("time", [[1.0, [2.0]], [None, 1.0], [True, False], "now", {"a": 1}, [b"x"], [10**400]])
def test_times_that_are_none_are_refused(time):
    with pytest.raises(EventError):
        reader().read({"src": [1, 2], "dst": [3, 4], "time": time})


def before(batch, vectors):
    """The bytes of a batch in the format before, with features in float32."""
    ids = json.dumps(list(batch.ids), separators=(",", ":")).encode()
    header = struct.pack("<4sIIIHBB", b"tgb1", len(batch), len(batch.ids), len(ids), vectors.shape[1], 1, 0)
    parts = (batch.time.astype("<f8"), batch.src.astype("<u1"), batch.dst.astype("<u1"), vectors.astype("<f4"))
    return b"".join([header, ids, *(part.tobytes() for part in parts)])


def test_the_format_before_is_read_and_known_again_when_it_is_sent_again():
    vectors = np.array([[0.1, 2.0], [-3.5, 1e9]])
    sent = {"src": ["a", "b"], "dst": ["b", "c"], "time": [1.0, 2.0]}
    batch = reader(2).read({**sent, "features": vectors})
    old = before(batch, vectors)
    found = EventBatch.read(old)
    assert as_rows(found) == as_rows(batch)
    assert all(np.array_equal(found.columns[f"f{place}"], vectors.astype("f4")[:, place]) for place in range(2))
    assert batch.is_same(old)
    assert not reader(2).read({**sent, "features": vectors + 1}).is_same(old)
    with pytest.raises(JournalError):
        EventBatch.read(old[:-1])


def test_a_log_and_its_rows_number_ids_alike():
    log = Events.from_arrays(["x", "a", "b"], ["a", "b", "x"], [1.0, 2.0, 3.0])
    rows = [("x", "a", 1.0), ("a", "b", 2.0), ("b", "x", 3.0)]
    other = Events.from_arrays(["b", *"xab"], ["q", *"abx"], [0.0, 1.0, 2.0, 3.0]).take(slice(1, None))
    assert reader().read(log).payload() == reader().read(rows).payload() == reader().read(other).payload()
