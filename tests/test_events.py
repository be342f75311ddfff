"""Events: validated, sorted, never silently shortened."""

from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import TemporalData

from tapgnn import Events, TapgnnError, Vocabulary, vocabulary
from tapgnn.errors import EventError, QueryError
from tapgnn.events import events_fingerprint
from tapgnn.online.engine.recycling_vocabulary import RecyclingVocabulary
from tapgnn.vocabulary import hash_ids

from .streams import cuts, streams


def log(**changes):
    columns = {"src": ["a", "b", "c"], "dst": ["b", "c", "a"], "time": [1.0, 2.0, 3.0]}
    return Events.from_arrays(**{**columns, **changes})


def test_rows_are_sorted_by_time_and_ties_keep_their_order():
    events = Events.from_arrays([10, 20, 30, 40], [1, 2, 3, 4], [2, 1, 2, 1])
    assert events.time.tolist() == [1, 1, 2, 2]
    assert [events.vocabulary.ids[row] for row in events.src] == [20, 40, 10, 30]


def test_rows_are_numbered_by_first_appearance():
    events = Events.from_arrays(["x", "y"], ["z", "x"], [5.0, 1.0])
    assert list(events.vocabulary.ids) == ["y", "x", "z"]


@given(st.data())
def test_a_log_read_in_pieces_numbers_its_ids_like_the_whole(data):
    whole = data.draw(streams())
    names, growing = np.array(whole.vocabulary.ids), Vocabulary()
    for piece in data.draw(cuts(whole)):
        if len(piece):
            Events.from_arrays(names[piece.src], names[piece.dst], piece.time, vocabulary=growing)
    assert growing == whole.vocabulary


@given(st.data(), st.integers(1, 10))
def test_chunks_hold_every_event_once_and_cut_no_instant(data, size):
    events = data.draw(streams())
    pieces = list(events.chunks(size))
    assert np.array_equal(np.concatenate([piece.time for piece in pieces]), events.time)
    assert np.array_equal(np.concatenate([piece.src for piece in pieces]), events.src)
    for before, after in pairwise(pieces):
        assert before.time[-1] < after.time[0]
        assert len(before) >= size


def test_append_is_the_inverse_of_a_cut():
    events = log(features=np.eye(3), labels=[0, 1, 0])
    joined = events.slice(0, 1).append(events.slice(1, 3))
    for name in ("src", "dst", "time", "features", "labels"):
        assert np.array_equal(getattr(joined, name), getattr(events, name))


def test_between_takes_the_start_and_leaves_the_end():
    assert log().between(1.0, 3.0).time.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_of_pandas_and_polars_give_the_same_events(library):
    frame = library.DataFrame({"when": [2, 1], "who": ["a", "b"], "whom": ["b", "c"], "f": [0.5, 1.5], "y": [1, 0]})
    events = Events.from_frame(frame, "who", "whom", "when", features=["f"], label="y")
    assert events.time.tolist() == [1.0, 2.0]
    assert events.features.tolist() == [[1.5], [0.5]]
    assert events.labels.tolist() == [0, 1]
    assert list(events.vocabulary.ids) == ["b", "c", "a"]


def test_temporal_data_of_pytorch_geometric_is_read():
    data = TemporalData(
        src=torch.tensor([3, 4]),
        dst=torch.tensor([5, 3]),
        t=torch.tensor([7, 6]),
        msg=torch.ones(2, 2),
        y=torch.tensor([0, 1]),
    )
    events = Events.from_temporal_data(data)
    assert events.time.tolist() == [6.0, 7.0]
    assert events.feature_width == 2
    assert events.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "time",
    [
        np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
        [datetime(2020, 1, 1), datetime(2020, 1, 2)],
        pd.to_datetime(["2020-01-01", "2020-01-02"]),
        [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)],
        [date(2020, 1, 1), date(2020, 1, 2)],
        *(np.array(["2020-01-01", "2020-01-02"], dtype=f"datetime64[{unit}]") for unit in ("h", "s", "ms", "us", "ns")),
    ],
)
def test_datetimes_become_seconds(time):
    start = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    assert Events.from_arrays([1, 2], [2, 3], time).time.tolist() == [start, start + 86400]


def test_ids_may_be_strings_integers_or_both():
    events = Events.from_arrays(["7", 7], [7, 2**70], [1, 2])
    assert list(events.vocabulary.ids) == ["7", 7, 2**70]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time": [1.0, np.nan, 3.0]}, ["row 1", "nan"]),
        ({"time": [1.0, 2.0, np.inf]}, ["row 2", "inf"]),
        ({"time": ["soon", "later", "now"]}, ["expected numbers or datetimes"]),
        ({"time": [[1.0], [2.0], [3.0]]}, ["shape"]),
        ({"time": np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[s]")}, ["row 1", "missing"]),
        ({"time": [datetime(2020, 1, 1), "x", 3]}, ["neither numbers nor datetimes"]),
        ({"src": ["a", "b"]}, ["src", "equally long"]),
        ({"dst": ["a", None, "b"]}, ["row 1", "None"]),
        ({"dst": [1.5, 2.5, 3.5]}, ["row 0", "1.5"]),
        ({"dst": [True, False, True]}, ["row 0", "True"]),
        ({"features": [[1.0], [2.0]]}, ["shape", "(3, width)"]),
        ({"features": [[1.0], [2.0, 3.0], [4.0]]}, ["one width"]),
        ({"features": [[1.0], [np.nan], [4.0]]}, ["row 1", "feature 0"]),
        ({"labels": [1, 0]}, ["labels", "(3,)"]),
        ({"labels": [0.5, 1, 0]}, ["row 0", "whole number"]),
        ({"labels": ["x", "y", "z"]}, ["encode the classes"]),
        ({"src": [], "dst": [], "time": []}, ["no events"]),
    ],
)
def test_bad_input_is_one_line_that_names_the_place(changes, words):
    with pytest.raises(EventError) as caught:
        log(**changes)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda events: events.slice(1, 2), "cuts the instant"),
        (lambda events: events.slice(0, 9), "outside"),
        (lambda events: next(events.chunks(0)), "at least one event"),
        (lambda events: events.append(log()), "different vocabularies"),
        (lambda events: events.append(events), "before the log ends"),
        (lambda events: Events.from_frame(pl.DataFrame({"src": [1]})), "no column 'dst'"),
    ],
)
def test_misuse_says_what_to_do(act, words):
    events = Events.from_arrays([1, 2, 3], [2, 3, 1], [1, 2, 2])
    with pytest.raises(TapgnnError, match=words):
        act(events)


def test_append_refuses_other_columns():
    events = log(features=np.eye(3))
    plain = Events.from_arrays(["a"], ["b"], [9.0], vocabulary=events.vocabulary)
    with pytest.raises(EventError, match="expected 3 features"):
        events.append(plain)
    labelled = Events.from_arrays(["a"], ["b"], [9.0], np.ones((1, 3)), [1], vocabulary=events.vocabulary)
    with pytest.raises(EventError, match="labels"):
        events.append(labelled)


def test_a_vocabulary_says_which_id_it_does_not_know():
    names = Vocabulary(["a", 7])
    assert names.rows(np.array([7, 8])).tolist() == [1, -1]
    with pytest.raises(QueryError, match="'7'"):
        names.known_rows(["a", "7"])
    with pytest.raises(EventError, match="repeated"):
        Vocabulary(["a", "a"])
    copy = names.copy()
    copy.add(["b"])
    assert len(names) == 2
    assert "b" in copy
    assert "b" not in names


def test_id_hashes_are_the_same_in_every_process():
    assert hash_ids(["ann", 7, "7"]).tolist() == [15908812585774583423, 6190822855650523688, 3576282413116229477]


def test_a_date_beyond_the_reach_of_nanoseconds_is_kept():
    far = np.array(["3000-01-01"], dtype="datetime64[s]")
    assert Events.from_arrays([1], [2], far).time.tolist() == [datetime(3000, 1, 1, tzinfo=UTC).timestamp()]


def test_rows_are_chosen_as_scikit_learn_asks_for_them():
    events = Events.from_arrays([1, 2, 3], [2, 3, 1], [1, 2, 3], labels=[0, 1, 0])
    assert events.shape == (3,)
    for rows in ([0, 2], np.array([0, 2]), np.array([True, False, True]), slice(0, 3, 2), (np.array([0, 2]), ...)):
        assert events[rows].time.tolist() == [1.0, 3.0]
        assert events[rows].labels.tolist() == [0, 0]
    assert [part.time.tolist() for part in events] == [[1.0], [2.0], [3.0]]


def test_one_id_where_several_are_expected_is_not_taken_apart():
    with pytest.raises(EventError, match="'ann' is one id where several are expected"):
        Vocabulary(["a", "n"]).rows("ann")


def test_the_fingerprint_depends_on_every_column_and_on_the_ids():
    def made(ids="abc", times=(1, 2, 3), features=None, labels=None):
        return Events.from_arrays(list(ids), ["x", "y", "z"], times, features, labels)

    logs = [made(), made("abd"), made(times=(1, 2, 4)), made(features=[1, 2, 3]), made(labels=[0, 0, 1])]
    assert len({events_fingerprint(log) for log in logs}) == len(logs)
    assert events_fingerprint(made()) == events_fingerprint(made())


def test_a_vocabulary_hashes_every_id_once_however_it_grows():
    names = Vocabulary(["ann", "bob"])
    assert names.hashes().tolist() == hash_ids(["ann", "bob"]).tolist()
    for size in range(3, 40):
        names.add([size])
        assert names.hashes().tolist() == hash_ids(names.ids).tolist()
        assert names.hashes(size - 1).tolist() == hash_ids([size]).tolist()
    assert len(names.hashes(len(names))) == 0


def test_ids_whose_hashes_nobody_asks_for_are_not_hashed(monkeypatch):
    """A restored state has them in its rows; hashing a million ids would hold up the first new one."""
    names, hashed = RecyclingVocabulary(["ann"]), []
    monkeypatch.setattr(vocabulary, "hash_ids", lambda ids: hashed.extend(ids) or hash_ids(ids))
    names.place(["bob", None, "cat"])
    assert names.assign(["dan", "eve"])[0].tolist() == [2, 4]
    assert names.hashes(4).tolist() == hash_ids(["eve"]).tolist()
    assert hashed == ["eve"]
    assert names.hashes().tolist() == hash_ids(["ann", "bob", "dan", "cat", "eve"]).tolist()
    assert sorted(hashed) == ["ann", "bob", "cat", "dan", "eve"]


def test_a_row_that_is_given_to_another_id_has_its_hash():
    names = RecyclingVocabulary(["ann"])
    names.assign(["bob", "cat"])
    assert names.hashes().tolist() == hash_ids(["ann", "bob", "cat"]).tolist()
    names.free([1])
    names.assign(["dan", "eve"])
    assert names.hashes().tolist() == hash_ids(["ann", "dan", "cat", "eve"]).tolist()


def test_columns_of_a_table_follow_their_events_through_sorting_cuts_and_appending():
    log = Events.from_arrays(
        ["a", "b", "c"], ["b", "c", "a"], [3.0, 1.0, 2.0], columns={"amount": [1, None, 3], "channel": ["x", "y", None]}
    )
    assert log.columns["channel"].tolist() == ["y", None, "x"]
    np.testing.assert_array_equal(log.columns["amount"], [np.nan, 3.0, 1.0])
    halves = log.slice(0, 1).append(log.slice(1, 3))
    assert events_fingerprint(halves) == events_fingerprint(log)
    assert events_fingerprint(replace(log, columns={})) != events_fingerprint(log)
    with pytest.raises(EventError, match="only one of the two logs has a column 'amount'"):
        log.slice(0, 1).append(replace(log.slice(1, 3), columns={"channel": log.columns["channel"][1:]}))


@pytest.mark.parametrize(
    ("cells", "message"),
    [([1.0, np.inf], "row 1: amount is inf"), ([1.0], "has shape"), ([b"x", 1], "neither numbers nor strings")],
)
def test_a_column_that_is_neither_numbers_nor_categories_is_refused(cells, message):
    with pytest.raises(EventError, match=message):
        Events.from_arrays(["a", "b"], ["b", "c"], [1.0, 2.0], columns={"amount": cells})
