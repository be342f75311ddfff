"""Kafka over its real wire protocol: every message once, from the offsets in the journal."""

import threading

import pytest

from tapgnn.errors import ConfigError, DataError
from tapgnn.online.sources.kafka import KafkaSource

from .sink import ROWS, Sink, event, line


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
    assert sink.offsets == {("kafka:payments", 0): 5}
    produce(producer, "payments", range(5, 8))
    source = KafkaSource(servers, "payments")
    with sink.following(source):
        sink.wait(8)
        produce(producer, "payments", range(8, 10))
        sink.wait(10)
    assert sink.rows == [event(number) for number in range(10)]
    assert source.lag == 0
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
    assert sink.offsets == {("kafka:growing", 0): 5, ("kafka:growing", 1): 4}
    assert sorted(sink.rows) == sorted(event(number) for number in [*range(5), *range(10, 14)])


def test_partitions_are_read_side_by_side_each_from_its_own_offset(cluster):
    producer, servers = cluster
    produce(producer, "shards", range(3), partition=0)
    produce(producer, "shards", range(10, 14), partition=2)
    sink = Sink()
    with sink.following(KafkaSource(servers, "shards")):
        sink.wait(7)
    assert sink.offsets == {("kafka:shards", 0): 3, ("kafka:shards", 2): 4}
    assert sorted(sink.rows) == sorted(event(number) for number in (0, 1, 2, 10, 11, 12, 13))


def test_a_message_that_is_no_event_and_an_offset_that_is_gone_stop_the_source(cluster):
    producer, servers = cluster
    producer.produce("spoilt", b"not JSON", partition=0)
    producer.flush(10)
    sink = Sink()
    with sink.following(KafkaSource(servers, "spoilt")) as failure:
        assert "spoilt[0] offset 0" in str(failure.get(timeout=20))
    sink.offsets = {("kafka:spoilt", 0): 1_000}
    with sink.following(KafkaSource(servers, "spoilt")) as failure:
        assert "no longer has offset 1000" in str(failure.get(timeout=20))
    with pytest.raises(ConfigError, match="--kafka-option"):
        KafkaSource(servers, "x", options={"no.such": "setting"}).run(sink.deliver, {}, threading.Event(), ROWS)
    silent = KafkaSource("127.0.0.1:1", "x", options={"log_level": 0}, patience=0.5)
    with pytest.raises(DataError, match="does not answer"):
        silent.run(sink.deliver, {}, threading.Event(), ROWS)
