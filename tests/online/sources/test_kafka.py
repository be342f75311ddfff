"""Kafka over its real wire protocol: every message once, from the offsets in the journal."""

import threading
from itertools import chain

import pytest

from tapgnn.errors import ConfigError, DataError
from tapgnn.online.sources.kafka import KafkaSource

from ..payments import READER_OF_PAYMENTS, as_lines, noted_payments
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


class Group:
    """Consumers of the group that the source names, which shares the partitions out among its members."""

    def __init__(self, servers, topic):
        self.settings = {"bootstrap.servers": servers, "group.id": "tapgnn", "auto.offset.reset": "earliest"}
        self.settings |= {"log_level": 0, "heartbeat.interval.ms": 200, "session.timeout.ms": 5_000}
        self.topic, self.members = topic, []

    def join(self):
        import confluent_kafka

        self.members.append(confluent_kafka.Consumer(self.settings))
        self.members[-1].subscribe([self.topic])
        self._rebalance()

    def _rebalance(self):
        """Let the members read until each has its share."""
        shares = []
        for _ in range(1_000):
            for member in self.members:
                member.poll(0.02)
            shares = [[part.partition for part in member.assignment()] for member in self.members]
            if all(shares) and sorted(chain(*shares)) == [0, 1, 2, 3]:
                return
        raise AssertionError(f"the group has not shared the partitions out: {shares}")

    def close(self):
        for member in self.members:
            member.close()


def test_rebalances_of_its_group_take_no_partition_away_and_repeat_no_message(cluster):
    producer, servers = cluster
    for part in range(4):
        produce(producer, "shared", [10 * part], partition=part)
    sink, group = Sink(), Group(servers, "shared")
    with sink.following(KafkaSource(servers, "shared")):
        for number in (1, 2):
            group.join()
            for part in range(4):
                produce(producer, "shared", [10 * part + number], partition=part)
            sink.wait(4 * (number + 1))
    # The offsets that members commit mean nothing to a source that starts again.
    group.close()
    with sink.following(KafkaSource(servers, "shared")):
        produce(producer, "shared", [3], partition=0)
        sink.wait(13)
    sent = [10 * part + number for part in range(4) for number in range(3)]
    assert sorted(sink.rows) == sorted(map(event, [*sent, 3]))
    assert sink.offsets == {("kafka:shared", part): 4 if part == 0 else 3 for part in range(4)}


def test_the_id_and_the_dropped_columns_of_a_message_are_kept(cluster):
    producer, servers = cluster
    rows, sink = noted_payments(), Sink(READER_OF_PAYMENTS)
    for text in as_lines(rows).split(b"\n"):
        producer.produce("noted", text, partition=0)
    assert producer.flush(10) == 0
    with sink.following(KafkaSource(servers, "noted")):
        sink.wait(len(rows))
    for name in ("note", "transaction_id"):
        cells = [cell for batch in sink.batches for cell in batch.kept.get(name, [None] * len(batch.time))]
        assert cells == [row[name] for row in rows]


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
