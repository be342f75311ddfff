"""Frames: every kind of table in memory gives the same events, one for each row, in an order that can be undone."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import TemporalData

from tapgnn import Vocabulary
from tapgnn.data import Schema, frame_events, frame_schema
from tapgnn.errors import EventError
from tests.data.logs import same, table

SCHEMA = Schema(
    "card",
    "shop",
    "when",
    "fraud",
    "tx",
    {"amount": "number", "channel": "category", "chip": "boolean"},
    ("memo",),
)


@st.composite
def tables(draw):
    size = draw(st.integers(1, 12))
    column = lambda cells: draw(st.lists(cells, min_size=size, max_size=size))  # noqa: E731
    return {
        "tx": [f"t{row}" for row in range(size)],
        "card": column(st.sampled_from(["ann", "7", "bob"])),
        "shop": column(st.sampled_from(["x", "y", "7"])),
        "when": column(
            st.datetimes(datetime(2020, 1, 1), datetime(2024, 1, 1)).map(lambda at: at.replace(microsecond=0))
        ),
        "amount": column(st.none() | st.floats(-1e9, 1e9)),
        "channel": column(st.none() | st.sampled_from(["ecom", "pos"])),
        "chip": column(st.none() | st.booleans()),
        "fraud": column(st.none() | st.integers(0, 1)),
        "memo": column(st.sampled_from(["", "hello"])),
    }


@given(columns=tables(), bipartite=st.booleans())
def test_every_kind_of_table_gives_the_same_events_in_an_order_that_can_be_undone(columns, bipartite):
    schema = Schema.from_dict(SCHEMA.to_dict() | {"bipartite": bipartite})
    frame = pl.DataFrame(
        columns, schema_overrides={"fraud": pl.Int64, "amount": pl.Float64, "chip": pl.Boolean, "channel": pl.String}
    )
    events, order = frame_events(frame, schema=schema)
    assert sorted(order.tolist()) == list(range(len(frame)))
    assert events.time.tolist() == [(columns["when"][row] - datetime(1970, 1, 1)).total_seconds() for row in order]
    names = schema.external([events.vocabulary.ids[row] for row in events.src])
    assert names == [columns["card"][row] for row in order]
    assert events.labels.tolist() == [-1 if columns["fraud"][row] is None else columns["fraud"][row] for row in order]
    records = frame.to_dicts()
    for other in (
        frame.lazy(),
        pd.DataFrame(columns),
        pd.DataFrame(columns).astype(object),
        frame.to_arrow(),
        columns,
        records,
    ):
        again, rows = frame_events(other, schema=schema)
        same(again, events)
        assert rows.tolist() == order.tolist()


@given(columns=tables(), seed=st.integers(0, 99))
def test_the_order_of_the_rows_does_not_change_the_events(columns, seed):
    columns["when"] = sorted(set(columns["when"])) + [datetime(2025, 1, 1 + row) for row in range(len(columns["tx"]))]
    columns["when"] = columns["when"][: len(columns["tx"])]
    shuffled = np.random.default_rng(seed).permutation(len(columns["tx"]))
    mixed = {name: [cells[row] for row in shuffled] for name, cells in columns.items()}
    events, order = frame_events(mixed, schema=SCHEMA)
    same(events, frame_events(columns, schema=SCHEMA)[0])
    assert shuffled[order].tolist() == list(range(len(order)))


def test_temporal_data_has_columns_of_its_messages():
    data = TemporalData(
        torch.tensor([1, 2]), torch.tensor([2, 3]), torch.tensor([5, 4]), torch.ones(2, 3), y=torch.tensor([1, 0])
    )
    events, order = frame_events(data)
    assert list(events.columns) == ["f0", "f1", "f2"]
    assert (events.time.tolist(), events.labels.tolist(), order.tolist()) == ([4.0, 5.0], [0, 1], [1, 0])
    assert frame_schema(data)[0].columns == dict.fromkeys(("f0", "f1", "f2"), "number")


def test_pandas_types_of_every_kind_are_read():
    frame = pd.DataFrame(
        {
            "user_id": pd.array([1, 2, 1], dtype="Int64"),
            "item_id": pd.Categorical(["x", "y", "x"]),
            "time": pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-03"]).tz_localize("Europe/Paris"),
            "amount": pd.array([1.5, None, 2.5], dtype="Float64"),
            "label": pd.array([True, None, False], dtype="boolean"),
        },
        index=[5, 5, 9],
    )
    events, order = frame_events(frame, vocabulary=Vocabulary(["x"]))
    assert order.tolist() == [1, 0, 2]
    assert np.diff(events.time).tolist() == [86_400.0] * 2
    assert [row[:2] + row[3:] for row in table(events)] == [
        (2, "y", -1, (None,)),
        (1, "x", 1, (1.5,)),
        (1, "x", 0, (2.5,)),
    ]


GOOD = {"card": ["a", "b"], "shop": ["x", "y"], "time": [1, 2]}


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        (GOOD | {"time": [1, None]}, {}, "the table row 1: time is empty"),
        (GOOD | {"card": ["a", None]}, {}, "row 1: src is empty"),
        (GOOD | {"card": np.array([1.5, 2.5])}, {}, "'card' has type Float64"),
        (
            GOOD | {"amount": ["1", "much"]},
            {"numeric": ["amount"]},
            r"row 1: amount 'much' .* categorical=\['amount'\] or",
        ),
        (GOOD | {"amount": [1]}, {}, "equally long"),
        ({"a": [1]}, {}, "no column has a usual name for src; its columns are a; choose one with src="),
        ({}, {}, "no column"),
        ([1], {}, "row 0: expected a dict"),
        (7, {}, "expected a pandas or polars frame"),
        ({name: [] for name in GOOD}, {}, "contains no events"),
        (pd.DataFrame([[1, 2, 3, 4]], columns=["src", "dst", "time", "time"]), {}, "2 columns are named 'time'"),
    ],
)
def test_what_cannot_be_read_is_one_line_in_the_words_of_python(given, options, says):
    with pytest.raises(EventError, match=says) as caught:
        frame_events(given, **options)
    assert "--" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_of_files_are_refused():
    with pytest.raises(TypeError, match="header is an option for files"):
        frame_events(GOOD, header=True)


def test_a_pyarrow_table_of_dictionaries_is_read():
    cells = pa.table({"src": pa.array(["a", "b"]).dictionary_encode(), "dst": ["x", "x"], "time": [2, 1]})
    assert table(frame_events(cells)[0]) == [("b", "x", 1.0, None, ()), ("a", "x", 2.0, None, ())]
