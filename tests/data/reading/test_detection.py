"""Detection: the kind of every column, the roles by usual names, and a suggestion wherever a column is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.data import ReadReport, Schema, frame_schema, read_chunks, read_events, read_table
from tapgnn.errors import DataError
from tapgnn.events import UNLABELLED
from tests.data.logs import put, same, table

ROWS = 120


def payments(**columns):
    """A table of payments with some columns more; a function of the row, or a list."""
    base = {
        "card_id": lambda row: f"c{row % 7}",
        "merchant_id": lambda row: f"m{row % 5}",
        "timestamp": lambda row: row,
    }
    made = {}
    for name, cells in (base | columns).items():
        made[name] = [cells(row) for row in range(ROWS)] if callable(cells) else cells
    return made


def text_of(columns):
    rows = zip(*columns.values(), strict=True)
    cells = [["" if cell is None else f'"{cell}"' if "," in str(cell) else str(cell) for cell in row] for row in rows]
    return "\n".join(map(",".join, [list(columns), *cells])) + "\n"


def detected(tmp_path, columns, **options):
    report = ReadReport()
    events = read_events(put(tmp_path, "log.csv", text_of(columns)), report=report, **options)
    assert len(events) == len(columns["card_id"])
    in_memory, _ = frame_schema(columns, **options)
    assert in_memory == report.schema
    return events, report.schema, "\n".join(report.suggestions)


KINDS = {
    "number": lambda row: row * 0.5,
    "number with gaps": lambda row: row if row % 3 else None,
    "category": lambda row: ("pos", "ecom", "atm")[row % 3],
    "category with gaps": lambda row: "x" if row % 2 else None if row % 3 else "y",
    "boolean": lambda row: row % 2 == 0,
    "boolean with gaps": lambda row: row % 2 == 0 if row % 3 else None,
}


@pytest.mark.parametrize("what", KINDS)
def test_every_kind_is_found_and_gaps_stay_gaps(tmp_path, what):
    cells = payments(extra=KINDS[what])
    events, schema, _ = detected(tmp_path, cells)
    assert schema.columns == {"extra": what.split()[0]}
    expected = [None if cell is None else cell for cell in cells["extra"]]
    assert [None if cell != cell else cell for cell in events.columns["extra"].tolist()] == expected


@pytest.mark.parametrize(
    ("name", "cells", "says"),
    [
        ("note", lambda row: f"thanks {row}", "text that hardly repeats"),
        ("device_id", lambda row: 9000 + row, "looks like an id"),
        ("zip", lambda row: 10000 + row, "looks like an id"),
        ("version", lambda row: 3, "in every row"),
        ("currency", lambda row: "EUR", "in every row"),
        ("blank", lambda row: None, "is empty"),
    ],
)
def test_what_is_of_no_use_is_dropped_with_a_suggestion(tmp_path, name, cells, says):
    _, schema, suggestions = detected(tmp_path, payments(**{name: cells}))
    assert (schema.columns, schema.dropped) == ({}, (name,))
    assert says in suggestions
    assert repr(name) in suggestions


def test_an_id_that_repeats_is_a_category_and_an_amount_that_does_not_is_a_number(tmp_path):
    _, schema, suggestions = detected(
        tmp_path, payments(mcc=lambda row: row % 4, bid=lambda row: row, paid=lambda row: row)
    )
    assert schema.columns == {"mcc": "category", "bid": "number", "paid": "number"}
    assert "'mcc' looks like an id" in suggestions


def test_what_is_declared_is_not_questioned(tmp_path):
    cells = payments(
        note=lambda row: f"n{row}", zip=lambda row: 10000 + row, chip=lambda row: "yes", amount=lambda row: row
    )
    declared = {"categorical": ["note", "zip"], "boolean": ["chip"], "drop": ["amount"]}
    events, schema, suggestions = detected(tmp_path, cells, **declared)
    assert schema.columns == {"note": "category", "zip": "category", "chip": "boolean"}
    assert schema.dropped == ("amount",)
    assert not suggestions
    assert events.columns["zip"][0] == "10000"
    _, schema, _ = detected(tmp_path, cells, features=["zip", "amount"])
    assert schema.columns == {"zip": "number", "amount": "number"}


def test_a_column_names_the_event_only_if_its_values_differ(tmp_path):
    assert detected(tmp_path, payments(transaction_id=lambda row: row))[1].id == "transaction_id"
    assert detected(tmp_path, payments(transaction_id=lambda row: row // 2))[1].id is None
    assert detected(tmp_path, payments(uuid=lambda row: f"u{row}"))[1].id == "uuid"
    assert detected(tmp_path, payments(id=lambda row: row), id="")[1].id is None


def test_target_is_a_destination_beside_source_and_a_label_elsewhere(tmp_path):
    assert detected(tmp_path, payments(target=lambda row: row % 2))[1].label == "target"
    path = put(tmp_path, "edges.csv", "source,target,time\na,b,1\n")
    assert table(read_events(path)) == [("a", "b", 1.0, None, ())]


@pytest.mark.parametrize(
    ("words", "marks"),
    [
        (["legit", "fraud", ""], [0, 1, UNLABELLED]),
        (["No", "YES", "no"], [0, 1, 0]),
        (["true", "False", "NA"], [1, 0, UNLABELLED]),
        (["approved", "Fraud", "approved"], [0, 1, 0]),
        (["", "", ""], [UNLABELLED] * 3),
        (["legit", "legit", ""], [0, 0, UNLABELLED]),
    ],
)
def test_two_words_are_a_label_if_one_of_them_says_which_is_rare(tmp_path, words, marks):
    rows = "".join(f"a,b,{row},{word},1\n" for row, word in enumerate(words))
    path, report = put(tmp_path, "log.csv", f"src,dst,time,is_fraud,f0\n{rows}"), ReadReport()
    assert read_events(path, report=report).labels.tolist() == marks
    again = Schema.from_dict(report.schema.to_dict())
    assert read_events(path, schema=again).labels.tolist() == marks


def test_a_later_word_that_is_no_label_is_an_error_with_the_words_expected(tmp_path):
    schema = Schema(label="label", label_values=("legit", "fraud"))
    path = put(tmp_path, "log.csv", "src,dst,time,label\na,b,1,Legit\na,b,2,maybe\n")
    with pytest.raises(DataError, match=r"line 3: label 'maybe' is not 'legit' or 'fraud'; fix the row or pass"):
        read_events(path, schema=schema)


def test_times_in_milliseconds_and_days_as_numbers_are_noticed(tmp_path):
    _, schema, suggestions = detected(tmp_path, payments(timestamp=lambda row: 1_700_000_000_000 + row))
    assert schema.time_unit == "ms"
    assert "milliseconds" in suggestions
    _, schema, suggestions = detected(tmp_path, payments(timestamp=lambda row: 20240101 + row % 28))
    assert schema.time_unit == "s"
    assert "--time-format '%Y%m%d'" in suggestions
    assert not detected(tmp_path, payments())[2]


def test_two_sides_are_proposed_only_for_ids_that_coincide_without_being_the_same(tmp_path):
    rng = np.random.default_rng(0)
    ids = {"card_id": rng.integers(0, 20, ROWS).tolist(), "merchant_id": rng.integers(0, 20, ROWS).tolist()}
    assert "--bipartite" in detected(tmp_path, payments(**ids))[2]
    events, schema, suggestions = detected(tmp_path, payments(**ids), bipartite=True)
    assert (schema.bipartite, suggestions) == (True, "")
    assert not np.isin(events.src, events.dst).any()
    assert all(str(name).startswith(("card_id:", "merchant_id:")) for name in events.vocabulary.ids)
    people = {"from_account": ids["card_id"], "to_account": ids["merchant_id"], "time": list(range(ROWS))}
    assert frame_schema(people)[1] == []


CELLS = st.sampled_from(["", "1", "2.5", "NA", "x", "y", "true", "False", "-", "2024-01-01", "é", "a b", "1e3"])


@given(
    rows=st.lists(st.tuples(*[CELLS] * 4), min_size=1, max_size=30),
    names=st.permutations(["amount", "is_fraud", "note", "class", "id", "features", "zip"]),
)
def test_no_table_loses_a_row(tmp_path_factory, rows, names):
    folder = tmp_path_factory.mktemp("table")
    text = ",".join(["src", "dst", "time", *names[:4]]) + "\n"
    text += "".join(",".join(["a", "b", str(time), *cells]) + "\n" for time, cells in enumerate(rows))
    path, report = put(folder, "log.csv", text), ReadReport()
    try:
        events = read_events(path, report=report)
    except DataError:
        return
    assert len(events) == len(rows)
    used = report.schema
    assert {*used.read_columns, *used.dropped} == {"src", "dst", "time", *names[:4]}
    same(read_events(path, schema=used), events)
    assert [row for piece in read_chunks(path, 4, schema=used) for row in table(piece)] == table(events)


def test_hostile_tables_are_read_or_refused_in_one_line(tmp_path):
    wide = payments(**{f"column {place}": (lambda row, place=place: row * place % 101) for place in range(100)})
    assert len(detected(tmp_path, wide)[1].columns) == 99
    names = {"金額": lambda row: row, "note\u202e": lambda row: ("a", "b")[row % 2], "features": lambda row: row}
    assert list(detected(tmp_path, payments(**names))[1].columns) == list(names)
    one = put(tmp_path, "one.csv", "src,dst,time,amount,memo,label\na,b,1,2,hello,1\n")
    assert table(read_events(one)) == [("a", "b", 1.0, 1, (2.0,))]
    empty = put(tmp_path, "empty.csv", "src,dst,time,amount\na,b,1,\nb,c,2,NaN\n")
    assert table(read_events(empty)) == [("a", "b", 1.0, None, ()), ("b", "c", 2.0, None, ())]


def test_a_stray_word_in_a_number_column_names_the_row_and_the_cures(tmp_path):
    cells = payments(amount=lambda row: "much" if row == 60 else row)
    with pytest.raises(
        DataError, match=r"line 62: amount 'much' is not a finite number; .*--categorical amount or --drop"
    ):
        detected(tmp_path, cells)
    assert len(read_events(tmp_path / "log.csv", skip_bad_rows=True)) == ROWS - 1
    assert len(read_events(tmp_path / "log.csv", drop=["amount"])) == ROWS


def test_a_later_file_is_read_as_the_first_was(tmp_path):
    cells = payments(amount=lambda row: row, channel=lambda row: ("a", "b")[row % 2], is_fraud=lambda row: row % 2)
    schema = detected(tmp_path, cells)[1]
    short = put(tmp_path, "later.csv", "timestamp,channel,card_id,merchant_id,amount\n5,new,c1,m9,\n")
    events = read_events(short, schema=schema)
    assert table(events) == [("c1", "m9", 5.0, None, (None, "new"))]
    lines = put(tmp_path, "later.jsonl", '{"card_id":"c1","merchant_id":"m9","timestamp":5}\n')
    assert table(read_events(lines, schema=schema)) == [("c1", "m9", 5.0, None, (None, None))]
    lacking = put(tmp_path, "lacking.csv", "timestamp,card_id,merchant_id,amount\n5,c1,m9,1\n")
    with pytest.raises(DataError, match="has no column 'channel'"):
        read_events(lacking, schema=schema)
    with pytest.raises(TypeError, match="either a schema or"):
        read_events(short, schema=schema, src="card_id")


def test_the_rows_of_a_file_can_be_kept_beside_its_events(tmp_path):
    text = "id,src,dst,time,memo\n7,a,b,3,x\n8,b,c,soon,y\n5,c\n9,c,d,1,z\n"
    events, order, rows = read_table(put(tmp_path, "log.csv", text), skip_bad_rows=True)
    assert rows["id"].to_list() == ["7", "8", None, "9"]
    assert events.time.tolist() == [1.0, 3.0]
    assert [rows["memo"][row] for row in order.tolist()] == ["z", "x"]


def test_kept_rows_hold_what_the_file_holds(tmp_path):
    lines = ['{"src":7,"dst":"b","time":3}', '{"src":"7","dst":"c","time":2}', "broken", '{"src":8,"dst":"d","time":1}']
    events, order, rows = read_table(put(tmp_path, "log.jsonl", "\n".join(lines) + "\n"), skip_bad_rows=True)
    assert rows["src"].to_list() == [7, "7", None, 8]
    assert order.tolist() == [3, 1, 0]
    assert [events.vocabulary.ids[row] for row in events.src] == [8, "7", 7]


def test_every_column_has_a_preview_of_its_first_rows(tmp_path):
    report = ReadReport()
    read_events(put(tmp_path, "log.csv", "src,dst,time,memo\na,b,1,x\na,c,2,NA\n"), report=report)
    assert report.previews["src"] == (0.0, ("a",))
    assert report.previews["memo"] == (0.5, ("x",))
    assert list(report.previews) == ["src", "dst", "time", "memo"]
