"""Sources: every line once and in order, whatever the file goes through; Kafka over its real wire protocol."""

import io
import json
import logging
import os
import queue
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn.errors import ConfigError, DataError
from tapgnn.online.sources.file import FileSource, StreamSource
from tapgnn.online.sources.kafka import KafkaSource
from tapgnn.online.sources.line_parser import LineParser

PAUSE = 0.005


class Sink:
    """Keeps what is delivered, and where the source stood, as a journal would."""

    def __init__(self):
        self.rows, self.places = [], {}
        self._change = threading.Condition()

    def deliver(self, columns, place):
        ids = [np.asarray(columns[name], dtype=object).tolist() for name in ("src", "dst")]
        with self._change:
            self.rows += zip(*ids, np.asarray(columns["time"]).tolist(), strict=True)
            if place is not None:
                self.places[place[:2]] = place[2]
            self._change.notify_all()

    def wait(self, count):
        with self._change:
            assert self._change.wait_for(lambda: len(self.rows) >= count, 20), self.rows

    @contextmanager
    def following(self, source):
        """Run a source in a thread until the block ends."""
        stop, failure = threading.Event(), queue.Queue()

        def run():
            try:
                source.run(self.deliver, dict(self.places), stop)
            except DataError as error:
                failure.put(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield failure
        finally:
            stop.set()
            thread.join()


def line(number):
    return json.dumps({"src": f"n{number}", "dst": "m", "time": float(number)}) + "\n"


def event(number):
    return (f"n{number}", "m", float(number))


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 400), max_size=5), stops=st.sets(st.integers(0, 4)))
def test_a_file_that_grows_is_read_once_wherever_writing_and_reading_are_cut(cuts, stops, tmp_path_factory):
    path = tmp_path_factory.mktemp("tail") / "events.jsonl"
    text = "".join(line(number) for number in range(8)).encode()
    borders = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    sink, written = Sink(), 0
    for place, border in enumerate(borders):
        with open(path, "ab") as stream:
            stream.write(text[written:border])
        written = border
        if place in stops:
            with sink.following(FileSource(path, pause=PAUSE)):
                sink.wait(text[:written].count(b"\n"))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(8)
    assert sink.rows == [event(number) for number in range(8)]


def test_a_table_has_its_header_once_and_usual_names(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("user,item,timestamp,f0\nann,7,2020-01-01,0.5\n")
    sink = Sink()
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(1)
        with open(path, "a") as stream:
            stream.write('"bob, jr",8,1577836801,1\n')
        sink.wait(2)
    assert sink.rows == [("ann", 7, 1577836800.0), ("bob, jr", 8, 1577836801.0)]
    with sink.following(FileSource(path, pause=PAUSE)):
        with open(path, "a") as stream:
            stream.write("cat,9,1577836802,2\n")
        sink.wait(3)
    assert sink.rows[2:] == [("cat", 9, 1577836802.0)]


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path):
    path, sink = tmp_path / "events.jsonl", Sink()
    with sink.following(FileSource(path, pause=PAUSE)):
        path.write_text(line(0))
        sink.wait(1)


@pytest.mark.parametrize("watched", [True, False])
def test_a_rotated_file_is_read_from_its_start_and_said_so(tmp_path, caplog, watched):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + line(1))
    caplog.set_level(logging.WARNING)

    def rotate():
        os.rename(path, tmp_path / "events.1")
        path.write_text(line(2) + line(3))

    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(2)
        if watched:
            rotate()
            sink.wait(4)
    if not watched:
        rotate()
        with sink.following(FileSource(path, pause=PAUSE)):
            sink.wait(4)
    assert sink.rows == [event(number) for number in range(4)]
    assert any("from its start" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("watched", [True, False])
def test_a_file_that_was_cut_is_read_anew(tmp_path, watched):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + line(1) + line(2))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(3)
        if watched:
            path.write_text(line(5))
            sink.wait(4)
    if not watched:
        path.write_text(line(5))
        with sink.following(FileSource(path, pause=PAUSE)):
            sink.wait(4)
    assert sink.rows == [event(number) for number in (0, 1, 2, 5)]


def test_a_file_that_begins_with_the_same_event_but_is_shorter_was_cut(tmp_path, caplog):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + line(1) + line(2))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(3)
    path.write_text(line(0))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(4)
    assert sink.rows[3:] == [event(0)]
    assert any("was truncated" in record.getMessage() for record in caplog.records)


def test_a_bad_row_stops_a_source_and_names_it_unless_rows_may_be_skipped(tmp_path):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + '{"src": "a", "dst": "b", "time": "soon"}\n' + line(1))
    with sink.following(FileSource(path, pause=PAUSE)) as failure:
        said = str(failure.get(timeout=20))
    assert "events.jsonl line 2" in said
    assert "--skip-bad-rows" in said
    assert sink.rows == []
    with sink.following(FileSource(path, skip_bad_rows=True, pause=PAUSE)):
        sink.wait(2)
    assert sink.rows == [event(0), event(1)]


def test_standard_input_is_read_to_its_end_with_or_without_a_last_line_end():
    sink = Sink()
    StreamSource(io.BytesIO((line(0) + line(1)).encode().rstrip())).run(sink.deliver, {}, threading.Event())
    table = io.BytesIO(b"src,dst,time\nn2,m,2\n\nn3,m,3")
    StreamSource(table, "csv").run(sink.deliver, {}, threading.Event())
    assert sink.rows == [event(number) for number in range(4)]
    assert sink.places == {}


def test_a_pipe_that_stays_open_is_read_as_it_fills_and_left_when_told():
    reading, writing = os.pipe()
    sink = Sink()
    with (
        open(reading, "rb") as stream,
        open(writing, "wb", buffering=0) as pipe,
        sink.following(StreamSource(stream)),
    ):
        for number in range(3):
            pipe.write(line(number).encode())
            sink.wait(number + 1)
    assert sink.rows == [event(number) for number in range(3)]


def test_features_may_stand_in_a_list_or_in_columns():
    listed = LineParser("x", "jsonl").parse([b'{"src":1,"dst":2,"time":3,"features":[0.5,2]}'], 1)
    apart = LineParser("x", "jsonl").parse([b'{"src":1,"dst":2,"time":3,"f0":0.5,"f1":2}'], 1)
    assert listed["features"].tolist() == apart["features"].tolist() == [[0.5, 2.0]]


@pytest.fixture(scope="module")
def cluster():
    """A Kafka cluster: librdkafka's own, which speaks the real protocol on a socket of this machine."""
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    producer = kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    yield producer, f"{broker.host}:{broker.port}"
    producer.flush(5)


def produce(producer, topic, numbers, partition=0):
    for number in numbers:
        producer.produce(topic, line(number).encode(), partition=partition)
    assert producer.flush(10) == 0


def test_a_topic_is_read_once_across_restarts_and_the_broker_keeps_no_offset(cluster):
    import confluent_kafka

    producer, servers = cluster
    produce(producer, "payments", range(5))
    sink = Sink()
    with sink.following(KafkaSource(servers, "payments")):
        sink.wait(5)
    assert sink.places == {("kafka:payments", 0): 5}
    produce(producer, "payments", range(5, 8))
    source = KafkaSource(servers, "payments")
    with sink.following(source):
        sink.wait(8)
        produce(producer, "payments", range(8, 10))
        sink.wait(10)
    assert sink.rows == [event(number) for number in range(10)]
    assert source.lag() == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "tapgnn"})
    kept = consumer.committed([confluent_kafka.TopicPartition("payments", 0)], timeout=10)
    consumer.close()
    assert [part.offset for part in kept] == [confluent_kafka.OFFSET_INVALID]


class YoungTopic(KafkaSource):
    """A topic that has only its first partition when it is first looked at."""

    looks = 0

    def _partitions(self, consumer, patience):
        self.looks += 1
        return super()._partitions(consumer, patience)[: 1 if self.looks == 1 else None]


def test_partitions_that_are_added_later_are_read_from_their_beginning(cluster):
    producer, servers = cluster
    produce(producer, "growing", range(3), partition=0)
    produce(producer, "growing", range(10, 14), partition=1)
    sink = Sink()
    with sink.following(YoungTopic(servers, "growing", refresh=0.0)):
        sink.wait(7)
        produce(producer, "growing", range(3, 5), partition=0)
        sink.wait(9)
    assert sink.places == {("kafka:growing", 0): 5, ("kafka:growing", 1): 4}
    assert sorted(sink.rows) == sorted(event(number) for number in [*range(5), *range(10, 14)])


def test_partitions_are_read_side_by_side_each_from_its_own_offset(cluster):
    producer, servers = cluster
    produce(producer, "shards", range(3), partition=0)
    produce(producer, "shards", range(10, 14), partition=2)
    sink = Sink()
    with sink.following(KafkaSource(servers, "shards")):
        sink.wait(7)
    assert sink.places == {("kafka:shards", 0): 3, ("kafka:shards", 2): 4}
    assert sorted(sink.rows) == sorted(event(number) for number in (0, 1, 2, 10, 11, 12, 13))


def test_a_message_that_is_no_event_and_an_offset_that_is_gone_stop_the_source(cluster):
    producer, servers = cluster
    producer.produce("spoilt", b"not JSON", partition=0)
    producer.flush(10)
    sink = Sink()
    with sink.following(KafkaSource(servers, "spoilt")) as failure:
        assert "spoilt[0] offset 0" in str(failure.get(timeout=20))
    sink.places = {("kafka:spoilt", 0): 1_000}
    with sink.following(KafkaSource(servers, "spoilt")) as failure:
        assert "no longer has offset 1000" in str(failure.get(timeout=20))
    with pytest.raises(ConfigError, match="--kafka-option"):
        KafkaSource(servers, "x", options={"no.such": "setting"}).run(sink.deliver, {}, threading.Event())
    silent = KafkaSource("127.0.0.1:1", "x", options={"log_level": 0}, patience=0.5)
    with pytest.raises(DataError, match="does not answer"):
        silent.run(sink.deliver, {}, threading.Event())
