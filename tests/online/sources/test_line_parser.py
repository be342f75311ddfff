"""Lines of a stream become batches of events, by the schema of the model."""

import pytest

from tapgnn import Config
from tapgnn.data.schema import Schema
from tapgnn.errors import DataError
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.sources.line_parser import LineParser

CONFIG = Config(origin=0.0, span=1e9)
PLAIN = RowReader(Schema(columns={"f0": "number", "f1": "number"}), CONFIG)
PAYMENTS = Schema(
    "card_id",
    "merchant_id",
    "timestamp",
    "is_fraud",
    "transaction_id",
    {"amount": "number", "channel": "category", "online": "boolean"},
    dropped=("note",),
    bipartite=True,
)
TABLE = RowReader(PAYMENTS, CONFIG)


def test_features_may_stand_in_a_list_or_in_columns():
    listed = LineParser("x", "jsonl", PLAIN).parse([b'{"src":1,"dst":2,"time":3,"features":[0.5,2]}'], 1)
    apart = LineParser("x", "jsonl", PLAIN).parse([b'{"src":1,"dst":2,"time":3,"f0":0.5,"f1":2}'], 1)
    assert listed.payload() == apart.payload()
    assert {name: cells.tolist() for name, cells in listed.columns.items()} == {"f0": [0.5], "f1": [2.0]}


def test_json_and_csv_in_the_words_of_the_table_are_the_same_batch():
    line = (
        b'{"transaction_id":"t1","card_id":7,"merchant_id":7,"amount":9.5,"channel":"ecom","online":true,'
        b'"timestamp":"1970-01-02T00:00:00Z","is_fraud":1,"note":"x"}'
    )
    gaps = b'{"transaction_id":"t2","src":8,"dst":"shop","time":86401}'
    parsed = LineParser("x", "jsonl", TABLE).parse([line, gaps], 1)
    text = LineParser("x", "csv", TABLE)
    text.read_header(b"transaction_id,card_id,merchant_id,amount,channel,online,timestamp,label,note")
    cells = text.parse([b"t1,7,7,9.5,ecom,true,1970-01-02,1,x", b"t2,8,shop,,NA,,86401,,"], 2)
    assert parsed.payload() == cells.payload()
    assert parsed.ids == ["card_id:7", "card_id:8", "merchant_id:7", "merchant_id:shop"]
    assert parsed.time.tolist() == [86400.0, 86401.0]
    assert parsed.columns["channel"].tolist() == ["ecom", None]
    assert parsed.labels.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"card_id":1,"merchant_id":2,"timestamp":3,"amont":4}', "'amont' is unknown; the fields of an event are"),
        (b'{"card_id":1,"timestamp":3}', "'merchant_id' is missing"),
        (b'{"card_id":1,"src":1,"merchant_id":2,"timestamp":3}', "same field"),
        (b'{"card_id":1,"merchant_id":2,"timestamp":3,"amount":"dear"}', "amount 'dear' is not a finite number"),
        (b'{"card_id":1,"merchant_id":2,"timestamp":3,"amount":1e200}', "amount 1e+200 is too large"),
        (b'{"card_id":1,"merchant_id":2,"timestamp":3,"channel":"' + b"x" * 1001 + b'"}', "longer than 1,000"),
    ],
)
def test_a_line_that_is_no_event_is_named_with_its_field_and_may_be_skipped(line, said):
    good = b'{"card_id":1,"merchant_id":2,"timestamp":3}'
    with pytest.raises(DataError) as error:
        LineParser("x", "jsonl", TABLE).parse([good, line, good], 5)
    assert "x line 6" in str(error.value)
    assert said in str(error.value)
    assert len(LineParser("x", "jsonl", TABLE, skip_bad_rows=True).parse([good, line, good], 5)) == 2


def test_a_header_with_an_unknown_or_missing_column_is_refused():
    for header in (b"card_id,merchant_id,timestamp,price", b"card_id,timestamp"):
        with pytest.raises(DataError, match=r"unknown|missing"):
            LineParser("x", "csv", TABLE).read_header(header)
