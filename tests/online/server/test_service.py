"""The service: ready when it accepts events, and if not, it says why; how it starts and stops."""

import threading
from contextlib import nullcontext

import httpx
import pytest

from tapgnn.errors import JournalError, ServerError
from tapgnn.model import load_model
from tapgnn.online import Engine
from tapgnn.online.server.service import ServerSettings, Service
from tapgnn.online.server.serving import address, listen, make_server
from tapgnn.online.sources.file import FileSource
from tapgnn.online.sources.kafka import KafkaSource
from tests.online.server.failing import (
    apply_fails,
    checkpoint_fails,
    commit_outcome_unknown,
    fragile,
    head_file_lost,
    let_the_writer_finish,
)
from tests.online.server.running import NDJSON, as_lines, running, send

# What goes wrong, the reason that is told, and whether the batch on which it went wrong is acknowledged.
FAILURES = {
    "a commit with an unknown outcome": (commit_outcome_unknown, "unknown whether the last commit", False),
    "a commit without its head file": (head_file_lost, "the engine failed", False),
    "a batch that cannot be applied": (apply_fails, "the engine failed", False),
    "a writer that ends": (checkpoint_fails, "the writer ended in an error (MemoryError)", True),
}


def gauge(http):
    (line,) = (line for line in http.get("/metrics").text.splitlines() if line.startswith("tapgnn_ready "))
    return float(line.split()[1])


def check_not_ready(http, reason):
    answer = http.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"]
    assert reason in answer.json()["detail"]
    assert gauge(http) == 0


def check_said_once(caplog, reason):
    said = [record.fields["reason"] for record in caplog.records if record.message == "not ready"]
    assert len(said) == 1
    assert reason in said[0]


@pytest.mark.parametrize("failure", FAILURES)
def test_what_breaks_behind_a_server_is_told_until_it_is_started_again(
    model, rows, tmp_path, monkeypatch, caplog, failure
):
    fail, reason, acknowledged = FAILURES[failure]
    with fragile(model, tmp_path / "state.db", monkeypatch) as server, server.http() as http:
        with server.client(patience=0) as client:
            assert client.observe(rows[:5]).accepted == 5
            assert http.get("/readyz").status_code == 200
            assert gauge(http) == 1
            let_the_writer_finish(server)
            fail(server)
            with nullcontext() if acknowledged else pytest.raises(ServerError, match="/v1/events: 503"):
                client.observe(rows[5:9])
            let_the_writer_finish(server)
            for _ in range(3):
                check_not_ready(http, reason)
            assert http.get("/healthz").status_code == 200
            with pytest.raises(ServerError, match="503") as refused:
                client.observe(rows[9:12])
            assert reason in str(refused.value)
        check_said_once(caplog, reason)
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.status()["accepted"] == 9


def test_a_journal_that_can_no_longer_be_reached_is_told_too(model, rows, fresh_schema, caplog):
    with running(model, fresh_schema) as server, server.http() as http, server.client(patience=0) as client:
        client.observe(rows[:5])
        from psycopg import connect

        with connect(fresh_schema.split("&schema")[0], autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (server.engine._journal.connection.info.backend_pid,))
        with pytest.raises(ServerError, match="connection was lost"):
            client.observe(rows[5:9])
        check_not_ready(http, "the connection was lost")
        # What is known is still told.
        assert len(client.score([rows[0][:2]])) == 1
        check_said_once(caplog, "the connection was lost")
    with Engine.open(model, fresh_schema) as engine:
        assert engine.status()["accepted"] == 5


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
        name, lag = "broken", None

        def run(self, deliver, places, stop, rows):
            raise ZeroDivisionError

    service = Service(lambda: Engine.open(model, tmp_path / "state.db"), ServerSettings(window=100), [Broken()])
    listening = listen("127.0.0.1", 0)
    make_server(service, load_model(model).config).run(sockets=[listening])
    listening.close()
    assert "ZeroDivisionError" in str(service.failure)
