"""The service: ready when it accepts events, and if not, it says why; how it starts and stops."""

import gc
import socket
import threading

import httpx
import pytest

from tapgnn.errors import JournalError
from tapgnn.model import load_model
from tapgnn.online import Engine
from tapgnn.online.client import NOTHING_TAKEN
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.server import serving
from tapgnn.online.server.service import ServerSettings, Service
from tapgnn.online.server.serving import address, listen, make_server
from tapgnn.online.sources.file import FileSource
from tapgnn.online.sources.kafka import KafkaSource
from tests.online.server.running import NDJSON, as_lines, random_log, rows_of, running, send


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


def test_a_stop_does_not_wait_long_for_the_rest_of_a_body_and_takes_nothing_of_it(
    model, rows, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(serving, "GRACE_SECONDS", 0)
    content = as_lines(rows[:5])
    fields = f"Host: localhost\r\nContent-Type: {NDJSON}\r\nContent-Length: {len(content)}"
    head = f"POST /v1/events HTTP/1.1\r\n{fields}\r\n\r\n"
    with running(model, tmp_path / "state.db") as server:
        place = httpx.URL(server.url)
        with socket.create_connection((place.host, place.port)) as connection:
            connection.sendall(head.encode() + content[:-1])
            while not any(each.cycle for each in list(server.connections)):
                pass
            server.stop()
            answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
    assert answer.startswith("HTTP/1.1 503")
    assert "the server is stopping" in answer
    assert NOTHING_TAKEN in answer
    assert not [record for record in caplog.records if record.exc_info]
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.status()["accepted"] == 0


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


def count_batches():
    return sum(type(found) is EventBatch for found in gc.get_objects())


def test_batches_that_nothing_shows_any_more_need_no_collector_of_cycles(model, tmp_path):
    """Between two of its full runs, a process as large as a server takes in gigabytes."""
    rows = rows_of(random_log(20_000, start=1_010_000.0))
    with running(model, tmp_path / "state.db") as server, server.client() as client:
        gc.collect()
        gc.disable()
        # Other tests of this process may still hold some of theirs.
        older = count_batches()
        try:
            for start in range(0, len(rows), 50):
                client.observe(rows[start : start + 50])
            alive = count_batches() - older
        finally:
            gc.enable()
    # Of 400, the page shows the latest 100, and those may be a few more that lately waited for their instant.
    assert alive < 200
