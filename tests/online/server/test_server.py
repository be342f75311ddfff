"""The server over a real socket: what it takes, what it answers, what it refuses, and how it ends."""

import io
import json
import socket
import threading
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pytest

from tapgnn.errors import ConfigError, JournalError
from tapgnn.model import load_model
from tapgnn.online import Engine
from tapgnn.online.server.middleware import Limits
from tapgnn.online.server.service import ServerSettings, Service
from tapgnn.online.server.serving import address, check_address, listen, make_server
from tapgnn.online.server.tokens import Tokens
from tapgnn.online.sources.file import FileSource
from tapgnn.online.sources.kafka import KafkaSource
from tests.online.server.running import running

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


def body_of(rows):
    return {"events": [dict(zip(("src", "dst", "time", "features"), row, strict=True)) for row in rows]}


def as_lines(rows):
    return "\n".join(json.dumps(event) for event in body_of(rows)["events"]).encode()


def as_arrow(rows, **changes):
    src, dst, time, features = zip(*rows, strict=True)
    columns = {"src": src, "dst": dst, "time": pa.array(time), "features": pa.array(features, pa.list_(pa.float32()))}
    table = pa.table(columns | changes)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def send(http, content, kind, **query):
    return http.post("/v1/events", content=content, headers={"Content-Type": kind}, params=query)


def test_three_forms_of_one_stream_end_in_the_same_state(model, rows, tmp_path):
    digests = []
    forms = [(JSON, lambda part: json.dumps(body_of(part)).encode()), (NDJSON, as_lines), (ARROW, as_arrow)]
    for kind, form in forms:
        with running(model, tmp_path / f"{len(digests)}.db") as server, server.http() as http:
            for start in range(0, 60, 20):
                answer = send(http, form(rows[start : start + 20]), kind)
                assert answer.status_code == 200, answer.text
                assert answer.json()["accepted"] == 20
            digests.append(server.engine.state_digest())
    assert digests[0] == digests[1] == digests[2]


def test_what_is_asked_over_http_is_what_the_engine_says(server, rows):
    engine = server.engine
    with server.client(producer="p") as client, server.http() as http:
        client.observe(rows[:50])
        pairs = [(row[0], row[1]) for row in rows[50:60]]
        src, dst = zip(*pairs, strict=True)
        assert client.score(pairs) == engine.score(list(src), list(dst)).tolist()
        later = rows[49][2] + 100
        assert client.score(pairs, later) == engine.score(list(src), list(dst), later).tolist()
        assert client.embed(src, later) == engine.embed(list(src), later).tolist()
        assert client.rank(src[0], 5) == engine.rank(src[0], None, 5)
        assert client.rank(src[0], 2, candidates=["m1", "m2"]) == engine.rank(src[0], None, 2, ["m1", "m2"])
        answer = http.post("/v1/embed", json={"nodes": [src[0], "nobody"]}).json()
        assert answer["known"] == [True, False]
        about = client.model()
        assert about["features"] == 2
        assert about["classifier"]
        assert about["status"]["accepted"] == 50


def test_events_are_scored_from_before_they_are_known(model, rows, server, tmp_path):
    with Engine.open(model, tmp_path / "other.db") as engine:
        src, dst, time, features = zip(*rows[:30], strict=True)
        columns = {"src": list(src), "dst": list(dst), "time": np.array(time), "features": np.array(features)}
        expected, _ = engine.score_then_observe(columns)
    with Engine.open(model, tmp_path / "third.db") as engine:
        risks, _ = engine.classify_then_observe(columns)
    with server.client(producer="p") as client:
        found = client.score_then_observe(rows[:30])
        assert found.probabilities == expected.tolist()
        assert found.risks == risks.tolist()
        again = client.score_then_observe(rows[:30], sequence=0)
        assert again.receipt.duplicate
        assert again.probabilities == []


def test_a_batch_that_is_sent_again_is_taken_once(server, rows):
    with server.http() as http:
        query = {"producer": "till", "sequence": 7}
        first = send(http, as_lines(rows[:5]), NDJSON, **query).json()
        again = send(http, as_lines(rows[:5]), NDJSON, **query).json()
        assert (first["accepted"], first["duplicate"]) == (5, False)
        assert (again["accepted"], again["duplicate"], again["position"]) == (0, True, first["position"])
        assert send(http, as_lines(rows[5:9]), NDJSON, **query).status_code == 422
        assert http.get("/v1/model").json()["status"]["accepted"] == 5


def test_concurrent_senders_lose_nothing_and_each_batch_has_its_own_record(model, rows, tmp_path):
    with running(model, tmp_path / "state.db", late="merge") as server:
        parts = [rows[start : start + 5] for start in range(0, 100, 5)]
        answers = []

        def work(mine):
            with server.client() as client:
                answers.extend(client.observe(part) for part in mine)

        threads = [threading.Thread(target=work, args=(parts[place::4],)) for place in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answer.position for answer in answers) == list(range(1, 21))
        assert server.engine.status()["accepted"] == 100


BAD = {
    "not JSON": (JSON, b"{", 400),
    "not UTF-8": (JSON, b'{"events": [{"src": "\xff", "dst": "b", "time": 1}]}', 400),
    "deep": (JSON, b"[" * 100_000, 400),
    "deep object": (JSON, b'{"events":' * 5_000, 400),
    "no events": (JSON, b'{"events": []}', 422),
    "nothing": (JSON, b"", 400),
    "NaN": (JSON, b'{"events":[{"src":"a","dst":"b","time":NaN,"features":[0,0]}]}', 422),
    "infinity": (JSON, b'{"events":[{"src":"a","dst":"b","time":1e999,"features":[0,0]}]}', 422),
    "huge time": (JSON, b'{"events":[{"src":"a","dst":"b","time":1e300,"features":[0,0]}]}', 422),
    "far time": (JSON, b'{"events":[{"src":"a","dst":"b","time":-9e15,"features":[0,0]}]}', 422),
    "huge id": (JSON, b'{"events":[{"src":1' + b"0" * 400 + b',"dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "huge feature": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[1e300,0]}]}', 422),
    "truth value": (JSON, b'{"events":[{"src":true,"dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "number as text": (JSON, b'{"events":[{"src":"a","dst":"b","time":"2","features":[0,0]}]}', 422),
    "empty id": (JSON, b'{"events":[{"src":"","dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "half a surrogate": (JSON, b'{"events":[{"src":"\\ud800","dst":"b","time":2e6,"features":[0,0]}]}', 400),
    "unknown field": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[0,0],"amount":3}]}', 422),
    "unknown envelope": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[0,0]}],"x":1}', 422),
    "missing field": (JSON, b'{"events":[{"src":"a","time":2e6,"features":[0,0]}]}', 422),
    "no features": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6}]}', 422),
    "wrong width": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[0,0,0]}]}', 422),
    "10 MB id": (JSON, b'{"events":[{"src":"' + b"x" * 10_000_000 + b'","dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "mixed labels": (NDJSON, b'{"src":1,"dst":2,"time":2e6,"features":[0,0],"label":1}\n'
                             b'{"src":1,"dst":2,"time":2e6,"features":[0,0]}', 422),
    "two on a line": (NDJSON, b'{"src":1,"dst":2,"time":2e6,"features":[0,0]},{"src":1,"dst":2,"time":2e6,'
                              b'"features":[0,0]}', 422),
    "line breaks out": (NDJSON, b'{"src":1,"dst":2,"time":2e6,"features":[0,0]}]}', 400),
    "late": (JSON, b'{"events":[{"src":"a","dst":"b","time":5,"features":[0,0]}]}', 409),
    "no Arrow": (ARROW, b"ARROW1" + b"\0" * 50, 400),
    "form": ("application/x-www-form-urlencoded", b"src=a", 415),
    "no type": ("", b"{}", 415),
}  # fmt: skip


def test_bad_input_is_refused_with_a_reason_and_changes_nothing(server, rows):
    arrow = {
        "null": as_arrow(rows[:2], src=["a", None]),
        "empty id": as_arrow(rows[:2], src=["a", ""]),
        "ids of floats": as_arrow(rows[:2], src=pa.array([1.5, 2.5])),
        "text time": as_arrow(rows[:2], time=["1", "2"]),
        "NaN time": as_arrow(rows[:2], time=pa.array([np.nan, 1.0])),
        "ragged": as_arrow(rows[:2], features=pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32()))),
        "unknown": as_arrow(rows[:2], amount=[1, 2]),
        "cut": as_arrow(rows[:2])[:-60],
    }
    cases = {**BAD, **{f"Arrow, {name}": (ARROW, content, None) for name, content in arrow.items()}}
    before = server.engine.state_digest()
    with server.http() as http:
        for name, (kind, content, expected) in cases.items():
            for path in ("/v1/events", "/v1/score-then-observe"):
                answer = http.post(path, content=content, headers={"Content-Type": kind})
                assert answer.status_code in ((400, 422) if expected is None else (expected,)), (name, answer.text)
                assert answer.headers["content-type"] == "application/problem+json"
                assert 10 < len(answer.json()["detail"]) < 400, name
    assert server.engine.state_digest() == before


@pytest.mark.parametrize("path", ["/v1/score", "/v1/embed", "/v1/rank", "/v1/explain", "/v1/node"])
def test_questions_that_make_no_sense_are_refused(server, path):
    bodies = [b"", b"{}", b"[]", b"null", b"[" * 100_000, b'{"src": {}, "dst": 1}', b'{"nodes": []}', b'{"node": ""}']
    bodies += [
        b'{"pairs": [{"src": 1, "dst": 2, "time": NaN}]}',
        b'{"src": 1, "k": 0}',
        b'{"nodes":[1], "time": 1e300}',
    ]
    with server.http() as http:
        for body in bodies:
            answer = http.post(path, content=body, headers={"Content-Type": JSON})
            assert answer.status_code in (400, 422), (body[:40], answer.text)
            assert answer.json()["detail"]
        assert http.post(path, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
        assert http.post(path, json={}, params={"x": 1}).status_code == 422
        assert http.get(path).status_code == 405


def test_a_moment_that_has_passed_is_not_asked_about(server, rows):
    with server.http() as http:
        send(http, as_lines(rows[:20]), NDJSON)
        answer = http.post("/v1/score", json={"pairs": [{"src": "a1", "dst": "m1", "time": rows[0][2]}]})
        assert answer.status_code == 422
        assert "already absorbed" in answer.json()["detail"]


def test_bodies_and_batches_have_a_limit(model, rows, tmp_path):
    settings = ServerSettings(window=100, events=10, limits=Limits(body=2_000))
    with running(model, tmp_path / "state.db", settings) as server, server.http() as http:
        assert send(http, as_lines(rows[:10]), NDJSON).status_code == 200
        long = b" " * 3_000
        for content in (long, iter([long[:1_500], long[1_500:]])):
            answer = http.post("/v1/events", content=content, headers={"Content-Type": JSON})
            assert answer.status_code == 413
            assert "2,000 bytes" in answer.json()["detail"]
        short = [("a", "b", row[2], [0.0, 0.0]) for row in rows[10:21]]
        for content, kind in ((as_lines(short), NDJSON), (as_arrow(short), ARROW)):
            answer = send(http, content, kind)
            assert answer.status_code == 413
            assert "10 events" in answer.json()["detail"]


def test_a_small_body_that_unpacks_to_a_large_one_is_refused(model, rows, tmp_path):
    ids = np.zeros(50_000, dtype=np.int64)
    table = pa.table({"src": ids, "dst": ids, "time": np.full(50_000, rows[0][2])})
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    settings = ServerSettings(window=100, events=100_000, limits=Limits(body=100_000))
    assert len(sink.getvalue()) < 100_000
    with running(model, tmp_path / "state.db", settings) as server, server.http() as http:
        answer = send(http, sink.getvalue(), ARROW)
        assert answer.status_code == 413
        assert "decompresses" in answer.json()["detail"]


def test_half_a_request_leaves_the_server_as_it_was(model, rows, tmp_path):
    settings = ServerSettings(window=100, limits=Limits(seconds=0.3))
    with running(model, tmp_path / "state.db", settings) as server:
        place = urlsplit(server.url)
        before = server.engine.state_digest()
        head = (
            f"POST /v1/events HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: {JSON}\r\nContent-Length: 500\r\n\r\n"
        )
        with socket.create_connection((place.hostname, place.port)) as half:
            half.sendall(head.encode() + b'{"events": [')
        with socket.create_connection((place.hostname, place.port)) as slow:
            slow.sendall(head.encode() + b'{"events": [')
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        with socket.create_connection((place.hostname, place.port)) as noise:
            noise.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
            assert noise.recv(100).startswith(b"HTTP/1.1 400")
        with server.http() as http:
            assert http.get("/readyz").status_code == 200
        assert server.engine.state_digest() == before


def test_a_full_queue_says_when_to_come_back_and_nothing_acknowledged_is_lost(model, rows, tmp_path):
    with running(model, tmp_path / "state.db", ServerSettings(window=100, queue=2), late="merge") as server:
        answers = []

        def work(row):
            with server.http() as http:
                answers.append(send(http, as_lines([row]), NDJSON))

        threads = []
        with server.engine._writing:
            while not answers:
                threads.append(threading.Thread(target=work, args=(rows[len(threads)],)))
                threads[-1].start()
                threads[-1].join(0.2)
        for thread in threads:
            thread.join()
        refused = [answer for answer in answers if answer.status_code == 429]
        taken = [answer for answer in answers if answer.status_code == 200]
        assert len(taken) == len(threads) - len(refused) >= 2
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert server.engine.status()["accepted"] == len(taken)


def test_tokens_open_what_their_scope_says(model, rows, tmp_path):
    tokens = Tokens()
    reading, writing = tokens.add("read"), tokens.add("write")
    tokens.save(tmp_path / "tokens.json")
    text = (tmp_path / "tokens.json").read_text()
    assert reading not in text
    assert writing not in text
    assert (tmp_path / "tokens.json").stat().st_mode & 0o077 == 0
    settings = ServerSettings(tokens=Tokens.load(tmp_path / "tokens.json"), window=100)
    with running(model, tmp_path / "state.db", settings) as server, server.http() as http:
        ask = {"pairs": [{"src": "a1", "dst": "m1"}]}

        def status(path, token, **options):
            headers = {"Content-Type": NDJSON} if "content" in options else {}
            headers |= {} if token is None else {"Authorization": token}
            return http.post(path, headers=headers, **options).status_code

        wrong = (
            None,
            "Bearer",
            "Bearer x",
            f"Basic {writing}",
            writing,
            f"Bearer {writing[:-1]}",
            f"Bearer {writing}x",
        )
        for token in wrong:
            assert status("/v1/score", token, json=ask) == 401
            assert status("/v1/events", token, content=as_lines(rows[:2])) == 401
        assert status("/v1/score", f"Bearer {reading}", json=ask) == 200
        assert status("/v1/score", f"bearer {writing}", json=ask) == 200
        assert status("/v1/events", f"Bearer {reading}", content=as_lines(rows[:2])) == 403
        assert status("/v1/events", f"Bearer {writing}", content=as_lines(rows[:2])) == 200
        assert http.get("/metrics").status_code == 401
        assert http.get("/metrics", headers={"Authorization": f"Bearer {reading}"}).status_code == 200
        for path in ("/", "/healthz", "/readyz", "/openapi.json"):
            assert http.get(path).status_code == 200


def test_without_tokens_only_this_machine_is_served(server):
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org", ""):
        with pytest.raises(ConfigError, match="tapgnn token new"):
            check_address(host, secured=False)
        check_address(host, secured=True)
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        check_address(host, secured=False)
    with server.http() as http:
        # A page of another site that has its name point here.
        assert http.get("/v1/model", headers={"Host": "evil.example:8000"}).status_code == 421
        answer = http.post("/v1/events", content=b"{}", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415


def test_metrics_count_what_happened(server, rows):
    with server.client(producer="p") as client, server.http() as http:
        client.observe(rows[:30])
        client.observe(rows[:30], sequence=0)
        http.post("/v1/events", content=b"{", headers={"Content-Type": JSON})
        client.score([("a1", "m1")])
        found = {}
        for line in http.get("/metrics").text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
    assert found["tapgnn_events_total"] == 30
    assert found["tapgnn_duplicates_total"] == 1
    assert found["tapgnn_batches_total"] == 1
    assert found["tapgnn_ready"] == 1
    assert found["tapgnn_journal_position"] == 1
    assert found["tapgnn_checkpoint_age_records"] == 1
    assert found["tapgnn_queue_batches"] == found["tapgnn_lag_seconds"] == found["tapgnn_late_events_total"] == 0
    assert found['tapgnn_refused_requests_total{status="400"}'] == 1
    assert found['tapgnn_request_seconds_count{path="/v1/score"}'] == 1
    assert found["tapgnn_apply_seconds_count"] == 2


def test_a_server_is_ready_only_when_its_journal_is_replayed(model, tmp_path):
    seen = []

    def look(url):
        with httpx.Client(base_url=url) as http:
            seen.append([http.get(path).status_code for path in ("/healthz", "/readyz", "/v1/model", "/v1/live")])
            event = b'{"src":1,"dst":2,"time":3e6,"features":[0,0]}'
            refused = send(http, event, NDJSON)
            seen.append((refused.status_code, refused.headers["retry-after"]))

    with running(model, tmp_path / "state.db", opening=look) as server, server.http() as http:
        assert http.get("/readyz").status_code == 200
        assert server.engine.status()["accepted"] == 0
    assert seen == [[200, 503, 503, 503], (503, "2")]


def test_stopping_answers_what_was_taken_and_leaves_a_checkpoint(model, rows, tmp_path):
    with running(model, tmp_path / "state.db") as server:
        with server.client() as client:
            for start in range(0, 60, 10):
                client.observe(rows[start : start + 10])
        digest = server.engine.state_digest()
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.state_digest() == digest
        assert engine.status()["checkpoint_age"] == 0


def test_an_engine_that_cannot_be_opened_stops_the_server(model, tmp_path):
    with Engine.open(model, tmp_path / "state.db"):
        service = Service(lambda: Engine.open(model, tmp_path / "state.db"), ServerSettings())
        listening = listen("127.0.0.1", 0)
        assert address(listening).startswith("http://127.0.0.1:")
        make_server(service, load_model(model).config).run(sockets=[listening])
        listening.close()
    assert isinstance(service.failure, JournalError)


def test_a_topic_of_kafka_reaches_the_journal_with_its_offset_and_goes_on_there(model, rows, tmp_path):
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    producer = kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    for start, stop in ((0, 20), (20, 50)):
        for line in as_lines(rows[start:stop]).split(b"\n"):
            producer.produce("payments", line, partition=0)
        assert producer.flush(10) == 0
        source = KafkaSource(f"{broker.host}:{broker.port}", "payments")
        with running(model, tmp_path / "state.db", sources=[source]) as server:
            while server.engine.status()["accepted"] < stop:
                threading.Event().wait(0.02)
            assert server.engine.offsets() == {("kafka:payments", 0): stop}
            with server.http() as http:
                assert "tapgnn_source_lag" in http.get("/metrics").text
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.status()["accepted"] == 50


def test_a_source_that_fails_stops_the_server_and_says_why(model, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"src": "a", "dst": "b", "time": "soon"}\n')
    service = Service(lambda: Engine.open(model, tmp_path / "state.db"), ServerSettings(window=100), [FileSource(path)])
    listening = listen("127.0.0.1", 0)
    make_server(service, load_model(model).config).run(sockets=[listening])
    listening.close()
    assert "events.jsonl line 1" in str(service.failure)


def test_whatever_breaks_behind_the_server_stops_it(model, tmp_path):
    class Broken:
        name = "broken"

        def run(self, deliver, places, stop):
            raise ZeroDivisionError

        def lag(self):
            return None

    service = Service(lambda: Engine.open(model, tmp_path / "state.db"), ServerSettings(window=100), [Broken()])
    listening = listen("127.0.0.1", 0)
    make_server(service, load_model(model).config).run(sockets=[listening])
    listening.close()
    assert "ZeroDivisionError" in str(service.failure)


def test_answers_carry_the_headers_of_safety_and_logs_nothing_of_the_content(model, rows, tmp_path, caplog):
    caplog.set_level("INFO", logger="tapgnn.online.server")
    with running(model, tmp_path / "state.db") as server, server.http() as http:
        answer = http.get("/")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers
        secret = {"producer": "secret-name", "sequence": 1}
        send(http, as_lines([("secret-node", "m1", rows[0][2], [0.0, 0.0])]), NDJSON, **secret)
        http.get("/v1/secret-path")
    # The server has stopped when it has logged all that it answered.
    lines = [record.fields for record in caplog.records if record.message == "request"]
    assert {"/", "/v1/events", "(unknown)"} <= {line["path"] for line in lines}
    assert "secret" not in str([vars(record) for record in caplog.records])
