"""Rows in the words of the table: what was sent is what the journal gives back, in every form, gaps included."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn import Config
from tapgnn.data.schema import Schema
from tapgnn.errors import EventError
from tapgnn.online import Engine, migrate
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.event_rows import RowReader
from tests.online.live import quick_folder
from tests.online.payments import SCHEMA_OF_PAYMENTS, START, as_events, payments, saved_payments_model

CONFIG = Config(origin=START, span=1e6)
READER = RowReader(SCHEMA_OF_PAYMENTS, CONFIG)
NUMBERS = st.one_of(st.none(), st.floats(-1e99, 1e99), st.integers(-(2**80), 2**80))
TEXTS = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6))
ROWS = st.lists(
    st.fixed_dictionaries(
        {"card_id": st.one_of(st.integers(-3, 3), TEXTS.filter(bool)), "merchant_id": st.integers(-3, 3),
         "timestamp": st.floats(START, START + 1e5)},
        optional={"amount": NUMBERS, "channel": TEXTS, "country": TEXTS, "online": st.sampled_from([True, False, None]),
                  "is_fraud": st.sampled_from([0, 1, True, None])},
    ),
    min_size=1,
    max_size=40,
)  # fmt: skip


def cells(rows, name):
    return [row.get(name) for row in rows]


@given(rows=ROWS)
def test_what_was_sent_comes_back_bit_for_bit(rows):
    batch = READER.read(rows)
    again = EventBatch.read(batch.payload())
    assert again.payload() == batch.payload()
    for name in ("channel", "country"):
        found = again.columns[name].tolist() if name in again.columns else [None] * len(rows)
        assert found == cells(rows, name)
    for name in ("amount", "online"):
        sent = np.array([np.nan if value is None else float(value) for value in cells(rows, name)])
        found = again.columns.get(name, np.full(len(rows), np.nan))
        assert found.tobytes() == sent.tobytes()
    own = SCHEMA_OF_PAYMENTS.external(again.ids)
    assert [own[row] for row in again.src] == cells(rows, "card_id")
    assert [own[row] for row in again.dst] == cells(rows, "merchant_id")
    labels = [-1] * len(rows) if again.labels is None else again.labels.tolist()
    assert labels == [-1 if value is None else int(value) for value in cells(rows, "is_fraud")]
    keep = np.arange(len(rows)) % 2 == 0
    part = EventBatch.read(batch.keep(keep).payload())
    assert all(
        part.columns[name].tobytes() == column[keep].tobytes() if column.dtype != object
        else part.columns[name].tolist() == column[keep].tolist()
        for name, column in batch.columns.items()
    )  # fmt: skip


def test_every_form_of_a_table_is_the_same_batch():
    rows = payments(30)
    names = list(rows[0])
    by_column = {name: [row[name] for row in rows] for name in names}
    alias = {"card_id": "src", "merchant_id": "dst", "timestamp": "time", "is_fraud": "label"}
    frame = pl.DataFrame(rows)
    forms = {
        "dicts": rows,
        "columns": by_column,
        "aliases": [{alias.get(name, name): value for name, value in row.items()} for row in rows],
        "gaps left out": [{name: value for name, value in row.items() if value is not None} for row in rows],
        "polars": frame,
        "pandas": frame.to_pandas(),
        "arrow": pa.Table.from_pylist(rows),
        "events": as_events(rows),
    }
    payloads = {name: READER.read(form).keeping(None).payload() for name, form in forms.items()}
    assert {name for name, payload in payloads.items() if payload != payloads["dicts"]} == set()


def test_times_are_read_by_the_clock_of_the_schema():
    paris = RowReader(Schema(time_unit="ms", time_zone="Europe/Paris"), Config(origin=0.0, span=1e12))
    texts = ["2026-03-01T12:00:00Z", "2026-03-01 13:00", "2026-03-01T13:00:00.000"]
    noon = 1_772_366_400_000.0
    for when in (texts, [noon] * 3, np.array(["2026-03-01T13:00"] * 3, "datetime64[s]"), [*texts[:2], noon]):
        assert paris.read({"src": [1, 2, 3], "dst": [4, 5, 6], "time": when}).time.tolist() == [noon] * 3
    days = RowReader(Schema(time_format="%Y%m%d"), Config(origin=0.0, span=1e12))
    for when in ([20240229, 20240301], ["20240229", "2024-03-01"]):
        assert np.diff(days.read({"src": [1, 2], "dst": [3, 4], "time": when}).time).tolist() == [86_400.0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"amount": "9.5"}, "row 1: amount '9.5' is not a number"),
        ({"amount": True}, "row 1: amount True is not a number"),
        ({"amount": [1]}, "row 1: amount .* is not a number"),
        ({"amount": float("inf")}, "row 1: amount inf is too large"),
        ({"amount": 10**400}, "row 1: amount is too large"),
        ({"channel": "x" * 1001}, "row 1: channel .* longer than 1,000"),
        ({"channel": "\ud800"}, "row 1: channel .* not valid Unicode"),
        ({"channel": {}}, "row 1: channel .* is not a string"),
        ({"online": "yes"}, "row 1: online 'yes' is not true or false"),
        ({"online": 2}, "row 1: online 2 is not true or false"),
        ({"is_fraud": "maybe"}, "row 1: is_fraud 'maybe'"),
        ({"is_fraud": 0.5}, "row 1: is_fraud 0.5"),
        ({"card_id": None}, "row 1: 'card_id' is missing"),
        ({"card_id": 1.5}, "row 1: card_id 1.5 is neither"),
        ({"timestamp": "soon"}, "row 1: timestamp 'soon' is not"),
        ({"timestamp": None}, "row 1: 'timestamp' is missing"),
        ({"price": 1}, "row 1: 'price' is unknown; the fields of an event are card_id, merchant_id, timestamp"),
        ({"src": 1}, "'src' and 'card_id' are the same field|'card_id' and 'src' are the same field"),
        ({"features": [1.0]}, "'features' is unknown"),
    ],
)
def test_what_does_not_fit_is_named_with_its_row_and_field(row, said):
    good = {"card_id": 1, "merchant_id": 2, "timestamp": START}
    with pytest.raises(EventError, match=said):
        READER.read([good, {**good, **row}])


@settings(max_examples=8, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["float32", "float64"]))
def test_any_cut_replay_and_recovery_with_gaps_gives_the_same_bits(data, dtype):
    folder, rows = saved_payments_model(dtype=dtype), payments(30, seed=data.draw(st.integers(0, 99)))
    found = []
    for restart in (False, True):
        borders = sorted(data.draw(st.sets(st.integers(1, 29), max_size=5)))
        with quick_folder() as place:
            engine = Engine.open(folder, f"{place}/s.db", checkpoint_every=2)
            for start, stop in zip([0, *borders], [*borders, 30], strict=True):
                engine.observe(rows[start:stop], "till", start)
                if restart:
                    engine.close()
                    engine = Engine.open(folder, f"{place}/s.db", checkpoint_every=1)
            engine.flush()
            found.append(engine.embed([f"card_id:{number}" for number in range(8)]))
            digest = engine.state_digest()
            engine.close()
            with Engine.open(folder, f"{place}/s.db", verify=True) as again:
                assert again.state_digest() == digest
            migrate(f"{place}/s.db", folder)
            with Engine.open(folder, f"{place}/s.db") as again:
                assert again.state_digest() == digest
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(found[0], found[1], rtol=tolerance, atol=tolerance)


def test_a_journal_moves_to_a_model_with_other_columns(tmp_path, caplog):
    rows = payments(40)
    kept = {"country": "category", "channel": "category"}
    other = saved_payments_model("other", seed=1, columns=kept, dropped=("note", "amount", "online"))
    with Engine.open(saved_payments_model(), tmp_path / "s.db") as engine:
        for start in range(0, 40, 10):
            engine.observe(rows[start : start + 10], "till", start)
        first = engine.state_digest()
    done = migrate(tmp_path / "s.db", other)
    assert done["ignored_columns"] == ["amount", "online"]
    assert sum("does not know are ignored: amount" in record.getMessage() for record in caplog.records) == 1
    with Engine.open(other, tmp_path / "s.db") as engine, Engine.open(other, tmp_path / "new.db") as fresh:
        for start in range(0, 40, 10):
            fresh.observe(rows[start : start + 10], "till", start)
        assert engine.state_digest() == fresh.state_digest()
        assert engine.observe(rows[30:], "till", 30).duplicate, "a batch in flight is still known"
    migrate(tmp_path / "s.db", saved_payments_model())
    with Engine.open(saved_payments_model(), tmp_path / "s.db") as engine:
        assert engine.state_digest() == first, "nothing was lost on the way"


def test_a_batch_that_is_sent_again_in_another_form_is_the_same_batch(tmp_path):
    rows = payments(10)
    with Engine.open(saved_payments_model(), tmp_path / "s.db") as engine:
        assert engine.observe(rows, "till", 1).accepted == 10
        assert engine.observe(as_events(rows), "till", 1).duplicate
        assert engine.observe(pl.DataFrame(rows), "till", 1).duplicate
        with pytest.raises(EventError, match="other events"):
            engine.observe([{**row, "amount": 1.0} for row in rows], "till", 1)
