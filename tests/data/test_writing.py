"""Writers: what is written comes back exactly, and what a format cannot hold is refused."""

import json
import string

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.data import Schema, read_events, write_events, write_table
from tapgnn.data.simulation.payment_stream import simulate, simulate_stream
from tapgnn.data.writing import write_stream
from tapgnn.errors import DataError
from tests.data.logs import same

SIZE = {"events": 2_000, "accounts": 200, "merchants": 30, "days": 9.0}


@st.composite
def logs(draw):
    """Events with ids of every kind, ties, labels and features."""
    size = draw(st.integers(1, 30))
    safe = st.text(string.printable.replace("\r", "").replace("\n", ""), min_size=1, max_size=5).filter(
        lambda name: name == name.strip(" \t") and not name.lstrip("-").isdecimal()
    )
    pool = draw(st.lists(st.one_of(safe, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6, unique=True))
    pick = st.lists(st.sampled_from(pool), min_size=size, max_size=size)
    times = st.floats(-(2.0**52), 2.0**52, allow_nan=False)
    width = draw(st.integers(0, 2))
    vector = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=width, max_size=width)
    return Events.from_arrays(
        draw(pick),
        draw(pick),
        draw(st.lists(times, min_size=size, max_size=size)),
        draw(st.lists(vector, min_size=size, max_size=size)) if width else None,
        draw(st.none() | st.lists(st.integers(-5, 5), min_size=size, max_size=size)),
    )


@given(events=logs(), ending=st.sampled_from([".csv", ".tsv", ".jsonl", ".csv.gz", ".jsonl.gz", ".parquet", ".arrow"]))
def test_what_is_written_comes_back_exactly(tmp_path_factory, events, ending):
    path = tmp_path_factory.mktemp("round") / f"log{ending}"
    if ending in (".parquet", ".arrow") and len({type(name) for name in events.vocabulary.ids}) > 1:
        with pytest.raises(DataError, match="column has one type"):
            write_events(events, path)
    else:
        write_events(events, path)
        same(read_events(path), events)
    assert not [left for left in path.parent.iterdir() if left != path]


@pytest.mark.parametrize("name", ["7", "-12", " ann", "bob\t", "two\nlines", "a\rb", "nul\0", "", "\ud800"])
def test_an_id_that_text_cannot_hold_is_refused_not_changed(tmp_path, name):
    events = Events.from_arrays([name], ["other"], [1.0])
    with pytest.raises(DataError, match="cannot store the id"):
        write_events(events, tmp_path / "log.csv")
    assert list(tmp_path.iterdir()) == []
    if name not in ("", "\ud800"):
        write_events(events, tmp_path / "log.parquet")
        same(read_events(tmp_path / "log.parquet"), events)


def test_a_name_of_no_writable_format_is_refused(tmp_path):
    events = Events.from_arrays([1], [2], [3.0])
    for name in ("log.xlsx", "log", "log.parquet.gz"):
        with pytest.raises(DataError, match="the file name must end in"):
            write_events(events, tmp_path / name)
    with pytest.raises(DataError, match="cannot be written"):
        write_events(events, tmp_path / "missing" / "log.csv")


@pytest.mark.parametrize("ending", ["csv", "jsonl.gz", "parquet"])
def test_a_stream_is_written_piece_by_piece(ending, tmp_path):
    path = tmp_path / f"log.{ending}"
    pieces = write_stream(simulate_stream(**SIZE, chunk=300), path)
    next(pieces)
    assert not path.exists()
    assert len(list(pieces)) == 6
    same(read_events(path), simulate(**SIZE))


def test_a_stream_that_breaks_leaves_nothing(tmp_path):
    def broken():
        yield from simulate_stream(**SIZE, chunk=300)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(write_stream(broken(), tmp_path / "log.csv"))
    assert not list(tmp_path.iterdir())


def test_pieces_that_come_with_ids_of_another_kind_are_refused_where_the_format_holds_one(tmp_path):
    first = Events.from_arrays([1], [2], [1.0])
    second = Events.from_arrays([1], ["ann"], [2.0], vocabulary=first.vocabulary)
    list(write_stream([first, second], tmp_path / "log.jsonl"))
    same(read_events(tmp_path / "log.jsonl"), first.append(second))
    with pytest.raises(DataError, match="a Parquet column has one type"):
        list(write_stream([first, second], tmp_path / "log.parquet"))
    third = Events.from_arrays(["bob"], ["ann"], [2.0], vocabulary=first.vocabulary)
    with pytest.raises(DataError, match="id types"):
        list(write_stream([first, third], tmp_path / "log.parquet"))
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


ENDINGS = [".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".parquet", ".arrow", ".feather"]


@st.composite
def payments(draw):
    """Events of a table with gaps, and its schema."""
    size = draw(st.integers(1, 25))
    rows = lambda cells: draw(st.lists(cells, min_size=size, max_size=size))  # noqa: E731
    texts = st.text(string.ascii_letters + "éß,;\"'=-@ \n\t|#", min_size=1, max_size=6).filter(
        lambda text: text == text.strip(" \t") and text.lower() not in ("na", "nan", "null", "none")
    )
    schema = Schema(
        "card_id",
        "merchant_id",
        "when",
        "is_fraud",
        columns={"amount": "number", "channel": "category", "chip": "boolean", "10%": "number"},
        bipartite=draw(st.booleans()),
        label_values=draw(st.none() | st.just(("legit", "fraud"))),
    )
    floats = st.just(np.nan) | st.floats(allow_nan=False, allow_infinity=False)
    events = Events.from_arrays(
        schema.internal_src(np.array(rows(st.integers(0, 5)))),
        schema.internal_dst(np.array(rows(st.integers(0, 5)))),
        rows(st.floats(-(2.0**52), 2.0**52, allow_nan=False)),
        labels=rows(st.integers(-1, 1)),
        columns={
            "amount": np.array(rows(floats)),
            "channel": np.array([*rows(st.none() | texts), None], dtype=object)[:-1],
            "chip": np.array(rows(st.sampled_from([0.0, 1.0, np.nan]))),
            "10%": np.array(rows(floats)),
        },
    )
    return events, schema


@given(table=payments(), ending=st.sampled_from(ENDINGS))
def test_a_table_comes_back_by_its_schema_from_every_format(tmp_path_factory, table, ending):
    events, schema = table
    path = tmp_path_factory.mktemp("table") / f"log{ending}"
    write_events(events, path, schema)
    found = read_events(path, schema=schema)
    same(found, events)
    assert list(found.columns) == list(events.columns)
    for name, column in events.columns.items():
        assert found.columns[name].dtype == column.dtype


@pytest.mark.parametrize("text", ["NA", "null", " x", "a\rb", "\ud800", ""])
def test_a_category_that_text_cannot_hold_is_refused_not_changed(tmp_path, text):
    cells = np.array([text, None], dtype=object)
    events = Events.from_arrays([1, 2], [2, 3], [1.0, 2.0], columns={"kind": cells})
    with pytest.raises(DataError, match="of column 'kind' exactly"):
        write_events(events, tmp_path / "log.csv")
    if text not in ("", "\ud800"):
        write_events(events, tmp_path / "log.parquet")
        same(read_events(tmp_path / "log.parquet", categorical=["kind"]), events)


def test_two_columns_of_one_name_are_refused(tmp_path):
    events = Events.from_arrays([1], [2], [1.0], columns={"time": [3.0]})
    with pytest.raises(DataError, match="two columns would be named 'time'"):
        write_events(events, tmp_path / "log.csv")
    write_events(events, tmp_path / "log.csv", Schema("a", "b", "when", columns={"time": "number"}))
    assert (tmp_path / "log.csv").read_text().splitlines()[0] == "a,b,when,time"


ANSWERS = {"id": [7, "ann", "=1+1"], "score": np.array([0.5, np.nan, 1.0]), "note": ["-x", None, 'é,"q"']}


def test_answers_are_written_in_the_format_of_the_name(tmp_path, capsys):
    write_table(ANSWERS, tmp_path / "a.csv")
    plain = (tmp_path / "a.csv").read_text()
    assert plain.splitlines()[1:3] == ["7,0.5,-x", "ann,NaN,"]
    write_table(ANSWERS, "-")
    assert capsys.readouterr().out == plain
    write_table(ANSWERS, tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ANSWERS["id"]
    assert [row["note"] for row in rows] == ANSWERS["note"]
    typed = {"score": ANSWERS["score"], "note": ANSWERS["note"]}
    write_table(typed, tmp_path / "a.parquet")
    write_table(typed, tmp_path / "a.feather")
    assert pl.read_parquet(tmp_path / "a.parquet").equals(pl.read_ipc(tmp_path / "a.feather"))
    with pytest.raises(DataError, match=r"must end in one of .csv, .tsv, .jsonl"):
        write_table(typed, tmp_path / "a.xlsx")


def test_formulas_are_escaped_only_where_a_spreadsheet_is_asked_for(tmp_path):
    cells = {"id": ["=1+1", "@x", "plain"], "score": [-1.0, 2.0, 3.0]}
    write_table(cells, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[1:] == ["=1+1,-1.0", "@x,2.0", "plain,3.0"]
    write_table(cells, tmp_path / "b.csv", formulas="escape")
    assert (tmp_path / "b.csv").read_text().splitlines()[1:] == ["'=1+1,-1.0", "'@x,2.0", "plain,3.0"]
    signs = {"id": ["-5", "+49151", "-", "-5-3", "+x", "-1.5", "\tx", "a=b", ""]}
    write_table(signs, tmp_path / "d.tsv", formulas="escape")
    escaped = ["-5", "+49151", "'-", "'-5-3", "'+x", "-1.5", '"\'\tx"', "a=b", '""']
    assert (tmp_path / "d.tsv").read_text().splitlines()[1:] == escaped
    write_table(cells, tmp_path / "c.jsonl", formulas="escape")
    assert "'" not in (tmp_path / "c.jsonl").read_text()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_column_of_integers_and_strings_is_refused_where_a_column_has_one_type(ending, tmp_path):
    with pytest.raises(DataError, match="column 'node' holds values of several types"):
        write_table({"node": [7, "seven"]}, tmp_path / f"nodes.{ending}")
    assert not list(tmp_path.iterdir())
