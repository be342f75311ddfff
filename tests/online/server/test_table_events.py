"""HTTP in the words of the table: three forms that mean the same, risks, errors that name the field, nothing lost."""

import json
import threading
from itertools import product

import numpy as np
import polars as pl
import pytest

from tapgnn.data.frames import frame_events
from tapgnn.errors import ServerError
from tapgnn.online import Engine
from tapgnn.online.replay import EngineTarget, ServerTarget, Tally, replay
from tapgnn.online.sources.file import FileSource
from tests.online.payments import SCHEMA_OF_PAYMENTS, arrow_bytes, as_arrow, as_json, as_lines, payments
from tests.online.server.running import ARROW, JSON, NDJSON, running, send

FORMS = {JSON: as_json, NDJSON: as_lines, ARROW: as_arrow}
AFTER = 1_000_002_000.0


@pytest.fixture
def server(table_model, tmp_path):
    with running(table_model, tmp_path / "state.db") as found:
        yield found


def test_json_ndjson_arrow_and_python_end_in_the_same_state(table_model, tmp_path):
    rows = payments(60, seed=4, start=AFTER)
    with Engine.open(table_model, tmp_path / "python.db") as engine:
        for start in range(0, 60, 20):
            engine.observe(rows[start : start + 20], "till", start)
        digest = engine.state_digest()
        payloads = [record.payload for record, _ in engine.records()]
    for number, (kind, form) in enumerate(FORMS.items()):
        with running(table_model, tmp_path / f"{number}.db") as server, server.http() as http:
            for start in range(0, 60, 20):
                part = rows[start : start + 20]
                answer = send(http, form(part), kind, producer="till", sequence=start)
                assert answer.status_code == 200, answer.text
                again = send(http, FORMS[JSON](part), JSON, producer="till", sequence=start)
                assert again.json()["duplicate"]
            assert server.engine.state_digest() == digest
            assert [record.payload for record, _ in server.engine.records()] == payloads


def test_iso_times_and_gaps_are_understood_in_every_form(server):
    row = {"card_id": 1, "merchant_id": 1, "timestamp": "2026-03-01T12:00:00Z"}
    for number, (kind, form) in enumerate(FORMS.items()):
        answer = http_post(server, form([{**row, "timestamp": f"2026-03-01T12:00:0{number}Z"}]), kind)
        assert answer.status_code == 200, answer.text
    assert server.engine.status()["newest"] == 1_772_366_402.0


def test_an_instant_of_arrow_is_the_same_in_every_unit_and_time_zone(server):
    import pyarrow as pa

    moment = pa.array([1_772_366_402]).cast(pa.timestamp("s"))
    for unit, zone in product(("s", "ms", "us", "ns"), (None, "UTC", "Europe/Berlin", "+02:00", "Mars/Base")):
        times = moment.cast(pa.timestamp(unit)).view(pa.timestamp(unit, zone))
        for column in (times, times.dictionary_encode()):
            table = pa.table({"card_id": [1], "merchant_id": [1], "timestamp": column})
            answer = http_post(server, arrow_bytes(table), ARROW)
            assert answer.status_code == 200, answer.text
            assert server.engine.status()["newest"] == 1_772_366_402.0


def http_post(server, content, kind, path="/v1/events"):
    with server.http() as http:
        return http.post(path, content=content, headers={"Content-Type": kind})


def test_what_if_is_answered_without_absorbing_and_equals_the_risk_at_arrival(server):
    rows = payments(20, seed=5, start=AFTER)
    rows = [{**row, "timestamp": AFTER + 5} for row in rows]
    before = server.engine.state_digest()
    with server.client() as client:
        risks = client.classify(rows)
        frame = client.classify(pl.DataFrame(rows))
        assert server.engine.state_digest() == before
        scored = client.score_then_observe(rows)
    assert risks == frame
    np.testing.assert_allclose(scored.risks, risks, rtol=1e-4, atol=1e-6)
    assert scored.scores == scored.probabilities
    assert np.ptp(risks) > 0


def test_the_model_tells_its_schema_and_a_node_its_columns_under_the_users_own_ids(server):
    rows = payments(30, seed=6, start=AFTER)
    with server.client() as client, server.http() as http:
        client.observe(rows)
        about = client.model()
        assert about["event"] == json.loads(json.dumps(SCHEMA_OF_PAYMENTS.json_schema()))
        assert about["roles"] == {
            "src": "card_id",
            "dst": "merchant_id",
            "time": "timestamp",
            "label": "is_fraud",
            "id": "transaction_id",
        }
        assert about["columns"] == dict(SCHEMA_OF_PAYMENTS.columns)
        card = rows[-1]["card_id"]
        found = http.post("/v1/node", json={"node": f"card_id:{card}"}).json()
        mine = [row for row in rows if row["card_id"] == card]
        shown = [(event["src"], event["dst"], event["time"]) for event in found["events"]]
        assert shown == [(row["card_id"], row["merchant_id"], row["timestamp"]) for row in mine]
        for event, row in zip(found["events"], mine, strict=True):
            online = None if row["online"] is None else float(row["online"])
            named = ("transaction_id", *SCHEMA_OF_PAYMENTS.columns)
            columns = {name: row[name] for name in named} | {"online": online}
            assert event["columns"] == columns
        assert all(isinstance(entry["dst"], int) for entry in found["suggested"])
        assert (found["node"], found["role"]) == (card, "src")
        shop = http.post("/v1/node", json={"node": 1, "role": "dst"}).json()
        assert (shop["node"], shop["role"]) == (1, "dst")
        assert {event["dst"] for event in shop["events"]} == {1}
        both = http.post("/v1/node", json={"node": 1})
        assert both.status_code == 422
        assert "'card_id:1' or 'merchant_id:1'" in both.json()["detail"]
        ranked = client.rank(card, k=3)
        assert all(isinstance(name, int) for name, _ in ranked)
        assert client.score([(card, name) for name, _ in ranked]) == pytest.approx([value for _, value in ranked])
        explained = client.explain(card, rows[-1]["merchant_id"])
        assert {(cause.src, cause.dst) for cause in explained.causes} <= {
            (row["card_id"], row["merchant_id"]) for row in rows
        }
        newest = http.get("/v1/live").json()["newest"][0]
        assert (newest["src"], newest["dst"]) == (rows[-1]["card_id"], rows[-1]["merchant_id"])
        client.observe([{"card_id": "new", "merchant_id": 1, "timestamp": AFTER + 1e4, "amount": 7.0}])
        assert client.erase("new") == 1
        with pytest.raises(ServerError, match="two nodes"):
            client.erase(1)


HOSTILE = {
    "NaN": ('"amount":NaN', "amount"),
    "infinity": ('"amount":Infinity', "amount"),
    "1e400": ('"amount":1e400', "amount"),
    "1e200": ('"amount":1e200', "amount"),
    "many digits": ('"amount":1' + "0" * 400, "amount"),
    "number as text": ('"amount":"1"', "amount"),
    "truth value": ('"amount":true', "amount"),
    "list": ('"amount":[1]', "amount"),
    "object": ('"channel":{}', "channel"),
    "half as category": ('"channel":1.5', "channel"),
    "huge text": ('"channel":"' + "x" * 1001 + '"', "channel"),
    "megabytes": ('"channel":"' + "x" * 3_000_000 + '"', "channel"),
    "half a surrogate": ('"channel":"\\ud800"', "channel"),
    "half a surrogate, low": ('"channel":"a\\udc00b"', "channel"),
    "yes": ('"online":"yes"', "online"),
    "one": ('"online":1', "online"),
    "word as label": ('"is_fraud":"fraud"', "is_fraud"),
    "half as label": ('"is_fraud":0.5', "is_fraud"),
    "unknown": ('"price":1', "'price' is unknown; the fields of an event are card_id"),
    "10,000 unknown": (",".join(f'"u{number}":1' for number in range(10_000)), "is unknown"),
    "features": ('"features":[1,2]', "'features' is unknown"),
    "twice": ('"src":1', "src"),
    "soon": ('"timestamp":"soon"', "timestamp"),
}


def test_hostile_values_are_refused_with_the_name_of_the_field_and_nothing_is_lost(server):
    good = {"card_id": 1, "merchant_id": 2, "amount": 3.5, "channel": "ecom", "timestamp": AFTER}
    with server.http() as http:
        assert send(http, as_json([good]), JSON).status_code == 200
        before = server.engine.state_digest()
        head = '{"card_id":1,"merchant_id":2,'
        for name, (text, said) in HOSTILE.items():
            time = "" if "timestamp" in text else f'"timestamp":{AFTER + 1},'
            line = f"{head}{time}{text}}}"
            for kind, content in ((JSON, f'{{"events":[{line}]}}'), (NDJSON, line)):
                for path in ("/v1/events", "/v1/classify"):
                    answer = http.post(path, content=content.encode(), headers={"Content-Type": kind})
                    assert answer.status_code == 422, (name, answer.text)
                    assert said in answer.json()["detail"], (name, answer.text)
                    assert len(answer.json()["detail"]) < 1_500
        assert server.engine.state_digest() == before
        assert server.engine.status()["accepted"] == 1
        assert send(http, as_json([{**good, "timestamp": AFTER + 1}]), JSON).status_code == 200


def test_hostile_columns_of_arrow_are_refused_with_the_name_of_the_column(server):
    import pyarrow as pa

    good = {"card_id": [1, 2], "merchant_id": [2, 3], "timestamp": [AFTER, AFTER + 1]}
    cases = {
        "amount": [
            pa.array(["1", "2"]),
            pa.array([1.0, float("inf")]),
            pa.array([[1.0], [2.0]]),
            pa.array([b"1", b"2"]),
        ],
        "channel": [pa.array(["x" * 1001, "y"]), pa.array([[1], [2]])],
        "online": [pa.array([0, 2]), pa.array(["true", "false"])],
        "card_id": [pa.array([1.5, 2.5]), pa.array([1, None]), pa.array(["", "a"])],
        "timestamp": [
            pa.array(["soon", "later"]),
            pa.array([1.0, None]),
            pa.array([True, False]),
            pa.array([0, 2**62]).cast(pa.timestamp("s")),
            pa.array([0, -(2**62)]).cast(pa.timestamp("ms", "Europe/Berlin")),
            pa.array([0, 86_400_000 * 2**36]).view(pa.date64()),
            pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()),
            pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([2**62]).cast(pa.timestamp("s"))),
        ],
        "price": [pa.array([1, 2])],
    }
    before = server.engine.state_digest()
    for name, columns in cases.items():
        for column in columns:
            answer = http_post(server, arrow_bytes(pa.table({**good, name: column})), ARROW)
            assert answer.status_code == 422, (name, column, answer.text)
            assert name in answer.json()["detail"], answer.text
    number = pa.Array.from_buffers(pa.decimal128(5, 2**31 - 1), 2, [None, pa.py_buffer(bytes(32))])
    assert http_post(server, arrow_bytes(pa.table({**good, "amount": number})), ARROW).status_code == 400
    assert server.engine.state_digest() == before


def test_a_log_with_columns_is_replayed_through_a_server_as_through_an_engine(table_model, tmp_path):
    rows = payments(60, seed=7, start=AFTER)
    log = frame_events(rows, schema=SCHEMA_OF_PAYMENTS)[0]
    with Engine.open(table_model, tmp_path / "engine.db") as engine:
        tally = Tally()
        list(replay(log, EngineTarget(engine), tally, size=20))
        assert len(tally.positive) == 60
        payloads = [record.payload for record, batch in engine.records() if batch is not None]
    with running(table_model, tmp_path / "server.db") as server, server.client() as client:
        tally = Tally()
        list(replay(log, ServerTarget(client), tally, size=20))
        assert len(tally.positive) == 60
        assert [record.payload for record, _ in server.engine.records()] == payloads


def test_frames_and_lines_of_a_file_reach_the_journal_as_rows_do(table_model, tmp_path):
    rows = payments(30, seed=8, start=AFTER)
    frame = pl.DataFrame(rows).with_columns(pl.from_epoch((pl.col("timestamp") * 1e6).cast(pl.Int64), "us"))
    path = tmp_path / "growing.jsonl"
    path.write_bytes(as_lines(rows) + b"\n")
    found = []
    for number, sent in enumerate((rows, frame, frame.to_pandas(), frame.to_arrow(), path)):
        sources = [FileSource(path)] if sent is path else []
        with running(table_model, tmp_path / f"{number}.db", sources=sources) as server, server.client() as client:
            if sent is path:
                while server.engine.status()["accepted"] < 30:
                    threading.Event().wait(0.02)
            else:
                client.observe(sent)
            found += [record.payload for record, _ in server.engine.records()]
    assert len(found) == 5
    assert len(set(found)) == 1


def test_the_document_describes_one_event_of_this_model(server):
    with server.http() as http:
        document = http.get("/openapi.json").json()
    event = document["components"]["schemas"]["Event"]
    assert set(event["properties"]) >= {"card_id", "merchant_id", "timestamp", "amount", "channel", "is_fraud"}
    assert "`src` stands for `card_id`" in event["description"]
    content = document["paths"]["/v1/events"]["post"]["requestBody"]["content"]["application/json"]
    assert set(content["example"]["events"][0]) <= set(event["properties"])
