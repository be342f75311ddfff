"""A user's own table, from CSV to answers: what was once tried with card payments and failed, line by line.

The table is made up: cards pay merchants they know, and a ring of merchants charges large amounts to cards that never
paid them, mostly online. Rows are in no order, one amount in a hundred is missing, and times are ISO dates.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tapgnn import TAPGNN
from tapgnn.data import frame_events, frame_schema
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.splits import split_strict
from tapgnn.errors import DataError
from tests.cli.command import tapgnn
from tests.data.logs import put
from tests.online.server.running import running

ROWS, SHARE = 15_000, 0.02
COLUMNS = ("transaction_id", "card_id", "merchant_id", "amount", "currency", "channel", "timestamp", "is_fraud")
SMALL = {"width": 16, "epochs": 2}
UNITS = {"dollars": 1.0, "cents": 100.0, "millionths": 1e6}


def made_up(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    card, fraud = rng.integers(600, size=rows), rng.random(rows) < SHARE
    habit = rng.integers(80, size=(600, 4))
    merchant = np.where(fraud, rng.integers(40, 80, size=rows), habit[card, rng.integers(4, size=rows)])
    online = rng.random(rows) < np.where(fraud, 0.8, 0.3)
    amount = np.round(np.exp(rng.normal(3.0 + 1.2 * fraud, 0.8)), 2)
    seconds = np.sort(rng.choice(30 * 86_400, size=rows, replace=False))
    table = pd.DataFrame(
        {
            "transaction_id": [f"t{row:06d}" for row in range(rows)],
            "card_id": [f"c{number}" for number in card],
            "merchant_id": [f"m{number}" for number in merchant],
            "amount": np.where(rng.random(rows) < 0.01, np.nan, amount),
            "currency": rng.choice(["EUR", "USD", "GBP"], size=rows, p=[0.6, 0.3, 0.1]),
            "channel": np.where(online, "ecom", "pos"),
            "timestamp": pd.to_datetime(seconds, unit="s", origin="2026-01-01").strftime("%Y-%m-%dT%H:%M:%SZ"),
            "is_fraud": fraud.astype(int),
        }
    )
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


@pytest.fixture(scope="module")
def table():
    return made_up()


@pytest.fixture(scope="module")
def file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "payments.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "model"
    words = [word for name, value in SMALL.items() for word in (f"--{name}", value)]
    outcome = tapgnn("fit", file, "--classify", "--out", folder, *words)
    assert outcome.code == 0, outcome.err
    assert "numbers amount; categories currency, channel; label is_fraud; id transaction_id" in outcome.err
    return folder


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """Three payments of the next month, the latest first; one without an amount, one of an unknown channel."""
    text = (
        "transaction_id,card_id,merchant_id,amount,currency,channel,timestamp\n"
        "n3,c7,m50,900.00,USD,ecom,2026-03-01T12:00:02Z\n"
        "n1,c7,m3,,EUR,pos,2026-03-01T12:00:00Z\n"
        "n2,c8,new,12.00,EUR,carrier pigeon,2026-03-01T12:00:01Z\n"
    )
    return put(tmp_path_factory.mktemp("own"), "new.csv", text)


def average_precision(table):
    fitted = TAPGNN(**SMALL).fit(table)
    return fitted.fit_classifier(table).test_ap


@pytest.fixture(scope="module")
def precision(table):
    """The average precision of the fraud classifier in dollars."""
    return average_precision(table)


@pytest.mark.parametrize("unit", [name for name in UNITS if name != "dollars"])
def test_fraud_is_found_as_well_in_any_unit_of_the_amount(unit, table, precision):
    scaled = table.assign(amount=table["amount"] * UNITS[unit])
    assert average_precision(scaled) == pytest.approx(precision, abs=0.01)


@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_of_an_amount_changes_no_encoding(unit, table):
    found = []
    for scaled in (table, table.assign(amount=table["amount"] * UNITS[unit])):
        schema, _ = frame_schema(scaled)
        events, _ = frame_events(scaled, schema=schema)
        found.append(FittedSchema.fit(split_strict(events).train, schema).encode(events).features)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)


def test_an_amount_and_a_category_help_and_never_hurt(table, precision):
    bare = average_precision(table.drop(columns=["amount", "currency", "channel"]))
    amount = average_precision(table.drop(columns=["currency", "channel"]))
    assert bare < amount <= precision + 0.01


def test_a_category_is_a_column_like_any_other_and_no_row_is_lost(file):
    found = tapgnn("inspect", file, "--features", "amount,channel", "--json").last
    assert found["events"] == ROWS
    assert found["schema"]["columns"] == {"amount": "number", "channel": "category"}
    assert found["schema"]["id"] == "transaction_id"
    uses = {row["column"]: row["use"] for row in found["columns"]}
    assert uses["currency"] == "not used"
    assert {row["column"]: row["missing"] for row in found["columns"]}["amount"] == pytest.approx(0.01, abs=0.005)


def test_a_missing_amount_stays_in_history_and_is_answered(model, new):
    assert TAPGNN.load(model).state_.events == ROWS
    found = tapgnn("classify", model, new, "--json").last["events"]
    assert len(found) == 3
    assert all(0 <= row["risk"] <= 1 for row in found)


def test_an_answer_can_be_joined_to_the_table(model, new, tmp_path):
    out = tmp_path / "risk.csv"
    assert tapgnn("classify", model, new, "--keep", "amount,channel", "--out", out).code == 0
    asked, found = pl.read_csv(new), pl.read_csv(out)
    assert found["transaction_id"].to_list() == ["n3", "n1", "n2"]
    assert found.drop("risk").equals(asked.select(found.drop("risk").columns))
    assert found["risk"].arg_max() == 0


def test_an_answer_in_another_format_has_the_types_of_the_table(model, table, tmp_path):
    asked = table[:200].assign(transaction_id=np.arange(200) * 7, timestamp="2026-04-01T00:00:00Z")
    asked = asked.assign(note=[f"0{row}" for row in range(200)])
    asked.to_csv(tmp_path / "asked.csv", index=False)
    for name in ("risk.parquet", "risk.arrow", "risk.jsonl", "risk.csv"):
        out = tmp_path / name
        assert tapgnn("classify", model, tmp_path / "asked.csv", "--keep", "amount,note", "--out", out).code == 0
    read = pd.read_csv(tmp_path / "asked.csv", dtype={"note": str})
    for found in (
        pd.read_parquet(tmp_path / "risk.parquet"),
        pd.read_feather(tmp_path / "risk.arrow"),
        pd.read_json(tmp_path / "risk.jsonl", lines=True, precise_float=True, dtype={"note": str}),
        pd.read_csv(tmp_path / "risk.csv", dtype={"note": str}),
    ):
        joined = read.merge(found, on=["transaction_id", "note"], validate="one_to_one")
        assert len(joined) == 200
        np.testing.assert_array_equal(joined["amount_x"], joined["amount_y"])


def test_a_header_of_the_tables_own_names_is_no_pair(model, tmp_path):
    text = "transaction_id,card_id,merchant_id\nq1,c7,m3\nq2,c8,m5\n"
    found = tapgnn("score", model, "--queries", put(tmp_path, "pairs.csv", text), "--json").last["scores"]
    assert [(row["transaction_id"], row["card_id"], row["merchant_id"]) for row in found] == [
        ("q1", "c7", "m3"),
        ("q2", "c8", "m5"),
    ]


def test_a_file_called_parquet_is_parquet(model, new, tmp_path):
    path = tmp_path / "risk.parquet"
    assert tapgnn("classify", model, new, "--out", path).code == 0
    assert path.read_bytes()[:4] == b"PAR1"
    assert len(pl.read_parquet(path)) == 3
    assert "the file name must end in one of" in tapgnn("classify", model, new, "--out", tmp_path / "risk.xlsx").refusal


def test_a_table_of_merchants_reaches_the_model(file, tmp_path):
    rows = [f"m{row},{('food', 'travel', 'games')[row % 3]}" for row in range(81)]
    merchants = put(tmp_path, "merchants.csv", "\n".join(["merchant_id,category", *rows]) + "\n")
    words = ("--width", 8, "--epochs", 1, "--node-table", merchants, "--node-id", "merchant_id")
    outcome = tapgnn("fit", file, "--out", tmp_path / "model", *words)
    assert outcome.code == 0, outcome.err
    assert "81 nodes described by category" in outcome.err
    fitted = TAPGNN.load(tmp_path / "model")
    assert fitted.model_.config.node_features == 5
    # Of two merchants that nobody has paid, one is described and one is not.
    assert not np.allclose(fitted.embed("m80"), fitted.embed("m81"))
    ask = ("embed", tmp_path / "model", "m81", "--json")
    later = put(tmp_path, "later.csv", "merchant_id,category\nm81,games\nm80,food\n")
    told = tapgnn(*ask, "--node-table", later).last["embeddings"]
    np.testing.assert_allclose(told, fitted.embed("m80"), rtol=1e-4, atol=1e-5)
    assert tapgnn(*ask).last["embeddings"] != told
    changed = fitted.embed("m80")
    assert not np.allclose(fitted.describe(later).embed("m80"), changed)
    assert (
        "--node-id names a column of --node-table" in tapgnn("fit", file, "--out", tmp_path / "x", *words[6:]).refusal
    )


def test_a_frame_goes_in_and_comes_out(table, model, new):
    fitted = TAPGNN.load(model)
    later = pd.read_csv(new).set_index("transaction_id", drop=False)
    risk = fitted.classify(later)
    assert list(risk.index) == ["n3", "n1", "n2"]
    assert isinstance(fitted.transform(pl.read_csv(new)), pl.DataFrame)
    assert len(fitted.rank(["c7", "c8"], k=3)) == 2
    small = TAPGNN(width=8, epochs=1).fit(table[:2_000])
    assert small.schema == frame_schema(table[:2_000])[0]


def test_a_table_without_times_is_asked_about_now(model, new):
    fitted = TAPGNN.load(model)
    payments = pd.read_csv(new).drop(columns="timestamp")
    dated = payments.assign(timestamp=fitted.now)
    np.testing.assert_array_equal(fitted.predict_proba(payments), fitted.predict_proba(dated))
    np.testing.assert_array_equal(fitted.transform(payments), fitted.transform(dated))
    with pytest.raises(DataError, match="no column 'timestamp'"):
        fitted.observe(payments)


def test_over_http_a_payment_is_judged_in_the_words_of_the_table(model, tmp_path):
    payment = {"card_id": "c7", "merchant_id": "m50", "amount": 900.0, "currency": "USD", "channel": "ecom"}
    dated = payment | {"timestamp": "2026-03-01T12:00:00Z"}
    with running(model, tmp_path / "state.db") as server, server.http() as http:
        found = http.post("/v1/classify", json={"events": [dated]}).json()
        expected = TAPGNN.load(model).classify([dated])
        np.testing.assert_allclose(found["risks"], expected, rtol=1e-4)
        described = http.get("/v1/model").json()["event"]["properties"]
        assert set(COLUMNS) <= set(described)
        typo = dict(dated, amonut=1.0)
        refused = http.post("/v1/classify", json={"events": [typo]})
        assert refused.status_code == 422
        assert "amonut" in refused.json()["detail"]


def test_users_and_pages_that_are_numbered_alike_are_two_kinds_when_told_so(tmp_path):
    rng = np.random.default_rng(0)
    rows = zip(rng.integers(200, size=3_000), rng.integers(50, size=3_000), range(3_000), strict=True)
    text = "\n".join(["user_id,page_id,timestamp", *(",".join(map(str, row)) for row in rows)])
    log = put(tmp_path, "edits.csv", text + "\n")
    merged, apart = (tapgnn("inspect", log, *words, "--json").last for words in ((), ("--bipartite",)))
    assert (merged["nodes"], apart["nodes"]) == (200, 250)
    assert any("pass --bipartite to tell them apart" in line for line in merged["suggestions"])
