"""A Kafka topic, one JSON event a message.

The next offset of each partition is kept in the journal, in the transaction of the events before it, and never in the
broker: nothing is lost and nothing is read twice, whatever crashes. Partitions are read in parallel; where their clocks
differ, the late policy 'buffer' puts the events in order. Partitions that are added to the topic later are read too,
from their beginning.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

from tapgnn.errors import ConfigError, DataError
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.sources import Deliver, Offsets
from tapgnn.online.sources.line_parser import LineParser

MOST_MESSAGES = 1_000


class KafkaSource:
    """All partitions of a topic, from the offsets in the journal; a new topic from its beginning."""

    def __init__(
        self,
        servers: str,
        topic: str,
        skip_bad_rows: bool = False,
        options: dict[str, Any] | None = None,
        patience: float = 30.0,
        refresh: float = 30.0,
    ) -> None:
        """`options` go to librdkafka as they are; a broker that does not answer for `patience` seconds is an error.

        Every `refresh` seconds the broker is asked for new partitions.
        """
        try:
            import confluent_kafka
        except ImportError:
            raise ConfigError(
                "Kafka sources need confluent-kafka; install it with pip install 'tapgnn[kafka]'"
            ) from None
        self._kafka: Any = confluent_kafka
        self.name, self.topic, self.servers = f"kafka:{topic}", topic, servers
        self._skip = skip_bad_rows
        self._options, self._patience, self._refresh = options or {}, patience, refresh
        self.lag: int | None = None

    def run(self, deliver: Deliver, offsets: Offsets, stop: threading.Event, rows: RowReader) -> None:
        """Follow the topic until told to stop."""
        kafka = self._kafka
        settings = {
            "bootstrap.servers": self.servers,
            # The group is never used: partitions are assigned here, and offsets are kept in the journal.
            "group.id": "tapgnn",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            **self._options,
        }
        try:
            consumer = kafka.Consumer(settings)
        except kafka.KafkaException as error:
            raise ConfigError(f"Kafka rejects these settings: {error.args[0].str()}; check --kafka-option") from None
        try:
            self._follow(consumer, rows, deliver, offsets, stop)
        finally:
            consumer.close()

    def _follow(
        self, consumer: Any, rows: RowReader, deliver: Deliver, offsets: Offsets, stop: threading.Event
    ) -> None:
        """Read all partitions, and look for new ones from time to time."""
        next_offset: dict[int, int | None] = {}
        parsers: dict[int, LineParser] = {}
        found, due = self._partitions(consumer, self._patience), monotonic() + self._refresh
        while not stop.is_set():
            if not next_offset.keys() >= set(found):
                next_offset |= {part: offsets.get((self.name, part)) for part in found if part not in next_offset}
                for part in next_offset.keys() - parsers:
                    parsers[part] = LineParser(f"{self.topic}[{part}]", "jsonl", rows, self._skip, "offset")
                # What was prefetched is fetched again.
                consumer.assign([
                    self._kafka.TopicPartition(self.topic, part, self._kafka.OFFSET_BEGINNING if at is None else at)
                    for part, at in next_offset.items()
                ])  # fmt: skip
            self._poll(consumer, parsers, next_offset, deliver)
            if monotonic() >= due:
                found, due = self._partitions_now(consumer, found), monotonic() + self._refresh

    def _partitions_now(self, consumer: Any, known: list[int]) -> list[int]:
        """The partitions of the topic; those known already, where the broker does not answer at the moment."""
        try:
            return self._partitions(consumer, min(self._patience, 2.0))
        except DataError:
            return known

    def _partitions(self, consumer: Any, patience: float) -> list[int]:
        try:
            found = consumer.list_topics(self.topic, timeout=patience).topics[self.topic]
        except self._kafka.KafkaException as error:
            raise DataError(
                f"Kafka at {self.servers} does not answer ({error.args[0].str()}); check the address"
            ) from None
        if found.error is not None or not found.partitions:
            raise DataError(f"Kafka at {self.servers} has no topic {self.topic!r}; create it, or check the name")
        return sorted(found.partitions)

    def _poll(self, consumer: Any, parsers: dict[int, LineParser], at: dict[int, int | None], deliver: Deliver) -> None:
        """Deliver what has arrived, partition by partition."""
        arrived: dict[int, list[Any]] = {}
        for message in consumer.consume(MOST_MESSAGES, timeout=0.2):
            if message.error() is None:
                arrived.setdefault(message.partition(), []).append(message)
            elif message.error().code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                raise DataError(
                    f"Kafka no longer has offset {at[message.partition()]} of {self.topic}[{message.partition()}]: "
                    "events are lost; restore them, or start a new journal"
                )
            elif message.error().fatal():
                raise DataError(f"Kafka: {message.error().str()}; check the broker and restart")
        for part, messages in sorted(arrived.items()):
            values = [message.value() or b"" for message in messages]
            at[part] = messages[-1].offset() + 1
            batch = parsers[part].parse(values, messages[0].offset())
            if batch is not None:
                deliver(batch, ((self.name, part, messages[-1].offset() + 1),))
        self.lag = self._behind(consumer, at)

    def _behind(self, consumer: Any, at: dict[int, int | None]) -> int:
        behind = 0
        for part, offset in at.items():
            _, high = consumer.get_watermark_offsets(self._kafka.TopicPartition(self.topic, part), cached=True)
            if high >= 0:
                behind += max(high - (offset or 0), 0)
        return behind
