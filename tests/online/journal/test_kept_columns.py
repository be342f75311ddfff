"""The journal keeps what was sent, whichever way it comes: also the ids of events and the columns that are dropped."""

import json
import logging
from datetime import date

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tapgnn import Events
from tapgnn.online import Engine
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.undo_and_migrate import migrate
from tapgnn.online.server.event_parsing import ARROW, JSON, NDJSON, EventParser
from tapgnn.online.server.http_errors import HTTPProblemError
from tapgnn.online.sources.file import FileSource
from tapgnn.online.sources.line_parser import LineParser

from ...cli.command import tapgnn
from ..payments import (
    READER_OF_PAYMENTS,
    START,
    arrow_bytes,
    as_arrow,
    as_json,
    as_lines,
    noted_payments,
    saved_payments_model,
)
from ..server.running import running
from ..sources.sink import Sink


def kept_of(rows):
    return {name: [row[name] for row in rows] for name in ("note", "transaction_id")}


def as_csv(rows):
    return pl.DataFrame(rows).write_csv().encode()


def parse_lines(format, lines):
    parser = LineParser("log", format, READER_OF_PAYMENTS)
    if parser.needs_header:
        parser.read_header(lines[0])
        lines = lines[1:]
    return parser.parse(lines, 1)


PARSER = EventParser(READER_OF_PAYMENTS, 1000, 1 << 20)
FORMS = {
    "rows": READER_OF_PAYMENTS.read,
    "columns": lambda rows: READER_OF_PAYMENTS.read({name: [row[name] for row in rows] for name in rows[0]}),
    "polars": lambda rows: READER_OF_PAYMENTS.read(pl.DataFrame(rows)),
    "pandas": lambda rows: READER_OF_PAYMENTS.read(pl.DataFrame(rows).to_pandas()),
    "json": lambda rows: PARSER.parse(as_json(rows), JSON),
    "ndjson": lambda rows: PARSER.parse(as_lines(rows), NDJSON),
    "arrow": lambda rows: PARSER.parse(as_arrow(rows), ARROW),
    "jsonl file": lambda rows: parse_lines("jsonl", as_lines(rows).split(b"\n")),
    "csv file": lambda rows: parse_lines("csv", as_csv(rows).splitlines()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_in_keeps_the_id_and_the_dropped_columns(form):
    rows = noted_payments()
    batch = FORMS[form](rows)
    assert batch.kept == kept_of(rows)
    assert batch.booleans == {"online"}
    again = EventBatch.read(batch.payload())
    assert again.kept == batch.kept
    assert (again.booleans, again.payload()) == (batch.booleans, batch.payload())
    part = EventBatch.read(batch.keep(np.arange(len(rows)) % 5 == 0).payload())
    assert part.kept == kept_of(rows[::5])


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_file_that_grows_keeps_them_too(ending, tmp_path):
    rows, path, sink = noted_payments(), tmp_path / f"log.{ending}", Sink(READER_OF_PAYMENTS)
    path.write_bytes(as_csv(rows) if ending == "csv" else as_lines(rows) + b"\n")
    with sink.following(FileSource(path, pause=0.005)):
        sink.wait(len(rows))
    assert {name: cells for batch in sink.batches for name, cells in batch.kept.items()} == kept_of(rows)


def test_a_dropped_cell_keeps_its_type():
    cells = [7, "7", 7.5, True, None, float("nan"), {"a": [1, None]}, [1, "x"], 2**70, "", "half \ud800"]
    rows = [{"card_id": 1, "merchant_id": 2, "timestamp": START + n, "note": cell} for n, cell in enumerate(cells)]
    found = EventBatch.read(READER_OF_PAYMENTS.read(rows).payload()).kept["note"]
    expected = [7, "7", 7.5, True, None, None, {"a": [1, None]}, [1, "x"], 2**70, "", "half \ud800"]
    assert found == expected
    assert [type(cell) for cell in found] == [type(cell) for cell in expected]


def test_a_dropped_column_of_arrow_is_kept_as_json_has_it_but_no_lists():
    table = pa.Table.from_pylist(
        [{key: row[key] for key in ("card_id", "merchant_id", "timestamp")} for row in noted_payments(2)]
    )
    kinds = {
        "numbers": (pa.array([1, None]), [1, None]),
        "booleans": (pa.array([True, False]), [True, False]),
        "dates": (pa.array([date(2026, 3, 1), None]), ["2026-03-01", None]),
        "long texts": (pa.array(["x" * 5_000, "y"]), ["x" * 5_000, "y"]),
        "texts of a dictionary": (pa.array(["gift", None]).dictionary_encode(), ["gift", None]),
    }
    for note, expected in kinds.values():
        body = arrow_bytes(table.append_column("note", note))
        assert PARSER.parse(body, ARROW).kept == {"note": expected}
    for note in (pa.array([[1], [2]]), pa.array([{"a": 1}, None]), pa.array([b"x", b"y"])):
        with pytest.raises(HTTPProblemError, match="note is of type"):
            PARSER.parse(arrow_bytes(table.append_column("note", note)), ARROW)


def test_a_column_that_the_schema_does_not_know_is_still_refused():
    for read in (FORMS["rows"], FORMS["json"], FORMS["arrow"], FORMS["jsonl file"]):
        with pytest.raises(Exception, match="colour"):
            read([{**noted_payments(1)[0], "colour": "red"}])


OTHER_KINDS = {
    "the dropped column as a category": {"note": "category", "channel": "category"},
    "the dropped column as a number": {"note": "number"},
    "the id as a category": {"transaction_id": "category", "amount": "number"},
    "columns of other kinds": {"amount": "category", "channel": "category", "online": "category", "note": "boolean"},
}


def moved(name):
    """The folder of a model of the same table in which columns have other kinds."""
    columns = OTHER_KINDS[name]
    names = ("note", "amount", "channel", "online", "country", "transaction_id")
    own = None if "transaction_id" in columns else "transaction_id"
    dropped = tuple(each for each in names if each not in columns and each != own)
    return saved_payments_model(name.replace(" ", "-"), seed=1, columns=columns, dropped=dropped, id=own)


def as_moved(name, rows):
    """Rows as a sender would send them to that model: what does not fit is missing."""
    rows = [dict(row) for row in rows]
    for row in rows:
        if name == "the dropped column as a number":
            row["note"] = 12.5 if row["note"] == "12.5" else None
        if name == "columns of other kinds":
            row["note"] = True if row["note"] == "yes" else None
    return rows


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_a_journal_moves_to_a_model_that_uses_what_the_first_one_dropped(place, name, tmp_path, caplog):
    rows, other = noted_payments(40), moved(name)
    with Engine.open(saved_payments_model(), place) as engine:
        for start in range(0, 40, 10):
            engine.observe(rows[start : start + 10], "till", start)
        first = engine.state_digest()
    done = migrate(place, other)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert all("note" not in text for text in said if "ignored" in text), "it is known, whether it is used or not"
    with Engine.open(other, place) as engine, Engine.open(other, tmp_path / "fresh.db") as fresh:
        for start in range(0, 40, 10):
            fresh.observe(as_moved(name, rows[start : start + 10]), "till", start)
        assert engine.state_digest() == fresh.state_digest()
        assert engine.state_digest() != first
        assert engine.observe(as_moved(name, rows[30:]), "till", 30).duplicate, "a batch in flight is still known"
    if name == "the dropped column as a number":
        assert done["unfit_cells"] == {"note": sum(row["note"] not in (None, "12.5") for row in rows)}
        assert sum("note: what is no number is missing, such as 'urgent'" in text for text in said) == 1
    migrate(place, saved_payments_model())
    with Engine.open(saved_payments_model(), place, verify=True) as engine:
        assert engine.state_digest() == first
        assert [batch.kept for _, batch in engine.records()] == [kept_of(rows[s : s + 10]) for s in range(0, 40, 10)]


def test_retraction_and_erasure_take_the_kept_cells_along(tmp_path):
    rows = noted_payments(20)
    with Engine.open(saved_payments_model(), tmp_path / "s.db") as engine:
        engine.observe(rows)
        engine.retract(1, 3)
        engine.erase(f"card_id:{rows[0]['card_id']}")
        ((_, batch),) = engine.records()
    left = [row for number, row in enumerate(rows) if number != 3 and row["card_id"] != rows[0]["card_id"]]
    assert batch.kept == kept_of(left)


def test_answers_that_give_events_give_their_ids(table_model, tmp_path):
    rows = noted_payments(6, START + 1e4)
    with running(table_model, tmp_path / "s.db") as server, server.client() as client:
        client.score_then_observe(rows)
        live = client._request("/v1/live", None)
        assert {event["columns"]["transaction_id"] for event in live["newest"]} == {
            row["transaction_id"] for row in rows
        }
        assert all("note" not in event["columns"] for event in live["newest"])
        card = client._request("/v1/node", {"node": rows[0]["card_id"], "role": "src"})
        mine = [row["transaction_id"] for row in rows if row["card_id"] == rows[0]["card_id"]]
        assert [event["columns"]["transaction_id"] for event in card["events"]] == mine
        why = client.explain(rows[0]["card_id"], rows[0]["merchant_id"])
        assert all(cause.columns["transaction_id"].startswith("t") for cause in why.causes)


def test_a_replay_of_a_file_keeps_them_too(tmp_path):
    rows, folder = noted_payments(30), saved_payments_model()
    for number, row in enumerate(rows):
        row["transaction_id"] = number
    (tmp_path / "log.jsonl").write_bytes(as_lines(rows))
    outcome = tapgnn("replay", tmp_path / "log.jsonl", "--model", folder, "--journal", tmp_path / "s.db", "--json")
    assert outcome.code == 0, outcome.err
    with running(folder, tmp_path / "served.db") as server:
        sent = tapgnn("replay", tmp_path / "log.jsonl", "--server", server.url, "--id", "transaction_id", "--json")
        assert sent.code == 0, sent.err
    for journal in ("s.db", "served.db"):
        with Engine.open(folder, tmp_path / journal) as engine:
            found = [batch.kept for _, batch in engine.records() if batch is not None]
        for name, cells in kept_of(rows).items():
            assert [cell for kept in found for cell in kept.get(name, [])] == cells, journal


def test_the_format_before_is_read_and_known_again():
    rows = noted_payments(8)
    batch = READER_OF_PAYMENTS.read(rows)
    old = unkept(batch)
    found = EventBatch.read(old)
    assert (found.kept, found.booleans) == ({}, frozenset())
    assert all(np.array_equal(found.columns[name], batch.columns[name], equal_nan=batch.columns[name].dtype != object)
               for name in batch.columns)  # fmt: skip
    assert batch.is_same(old)
    assert not READER_OF_PAYMENTS.read([{**row, "amount": 1.0} for row in rows]).is_same(old)
    noted_otherwise = READER_OF_PAYMENTS.read([{**row, "note": "other"} for row in rows])
    assert not noted_otherwise.is_same(batch.payload())


def unkept(batch):
    """The bytes of a batch in the format before, which had no kept columns and no booleans."""
    payload = EventBatch(batch.ids, batch.src, batch.dst, batch.time, batch.columns, batch.labels).payload()
    size = int.from_bytes(payload[12:16], "little")
    ids, named, _ = json.loads(payload[20 : 20 + size])
    text = json.dumps([ids, named], separators=(",", ":")).encode()
    return b"tgb2" + payload[4:12] + len(text).to_bytes(4, "little") + payload[16:20] + text + payload[20 + size :]


def test_a_log_in_memory_keeps_the_columns_that_the_schema_drops():
    log = Events.from_arrays(["card_id:1"], ["merchant_id:2"], [START], columns={"note": ["x"], "amount": [3.0]})
    assert READER_OF_PAYMENTS.read(log).kept == {"note": ["x"]}
