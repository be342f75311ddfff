"""Metrics for Prometheus: throughput, latency, lag, late events and duplicates, the queue, the age of the checkpoint.

Every server has its own registry. The status of the engine is read when the metrics are scraped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tapgnn.errors import TapgnnError
from tapgnn.online.engine.ingest import Outcome
from tapgnn.online.server.ingest_queue import IngestQueue
from tapgnn.online.sources import EventSource

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# The refusals that there are alerts for.
ALERTED = ("401", "429", "500", "503")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServerMetrics(Collector):
    """The metrics of one server."""

    def __init__(self, queue: IngestQueue, sources: Sequence[EventSource], is_ready: Callable[[], bool]) -> None:
        self.registry = CollectorRegistry()
        make: dict[str, Any] = {"registry": self.registry}
        self.events = Counter("tapgnn_events", "Events that are durable and applied.", **make)
        self.batches = Counter("tapgnn_batches", "Batches that are durable and applied.", **make)
        self.duplicates = Counter("tapgnn_duplicates", "Batches that were in the journal already.", **make)
        self.late = Counter("tapgnn_late_events", "Events merged into a later instant than theirs.", **make)
        self.watched = Counter("tapgnn_watched_events", "Events scored for the page before they were applied.", **make)
        self.refused = Counter("tapgnn_refused_requests", "Refused requests and connections.", ["status"], **make)
        # From the start at 0: the first one would be no increase.
        for status in ALERTED:
            self.refused.labels(status)
        about = "Seconds from a batch's arrival until it is durable and applied."
        self.applied = Histogram("tapgnn_apply_seconds", about, buckets=BUCKETS, **make)
        about = "Seconds in which a batch became durable, together with others."
        self.committed = Histogram("tapgnn_commit_seconds", about, buckets=BUCKETS, **make)
        about = "Seconds from a request's first byte to the response."
        self.requests = Histogram("tapgnn_request_seconds", about, ["path"], buckets=BUCKETS, **make)
        self._queue, self._sources, self._is_ready = queue, sources, is_ready
        self.registry.register(self)
        # Memory, open files, CPU seconds and the start of the process, where the system tells them.
        ProcessCollector(registry=self.registry)

    def add_batch(self, arrived: float, outcome: Outcome) -> None:
        """Count a batch."""
        receipt = outcome.receipt
        self.applied.observe(time.perf_counter() - arrived)
        if receipt.duplicate:
            self.duplicates.inc()
            return
        self.batches.inc()
        self.events.inc(receipt.accepted)
        if outcome.stages is not None:
            self.committed.observe(outcome.stages.committed - outcome.stages.checked)
        self.late.inc(receipt.late)
        if outcome.scores is not None:
            self.watched.inc(receipt.accepted)

    def add_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(path).observe(seconds)
        if status >= 400:
            self.add_refusal(status)

    def add_refusal(self, status: int) -> None:
        """Count a request, or a connection, that was refused."""
        self.refused.labels(str(status)).inc()

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The present values."""
        queue = self._queue
        yield GaugeMetricFamily(
            "tapgnn_ready", "1 while events are accepted, as /readyz says.", float(self._is_ready())
        )
        yield GaugeMetricFamily("tapgnn_queue_batches", "Batches in the queue.", queue.queued_batches)
        yield GaugeMetricFamily("tapgnn_queue_events", "Events in the queue.", queue.queued_events)
        yield GaugeMetricFamily("tapgnn_lag_seconds", "How long the oldest batch has waited.", queue.lag())
        behind = GaugeMetricFamily(
            "tapgnn_source_lag", "What a source has not yet delivered, in bytes or messages.", labels=["source"]
        )
        for source in self._sources:
            if source.lag is not None:
                behind.add_metric([source.name], source.lag)
        yield behind
        yield from self._engine()

    def _engine(self) -> Iterator[GaugeMetricFamily]:
        try:
            status = self._queue.engine.status()
        except TapgnnError:
            return
        failing = float(status["checkpoint_error"] is not None)
        yield GaugeMetricFamily("tapgnn_checkpoint_failing", "1 while the latest checkpoint failed.", failing)
        for key, name, about in _STATUS:
            value = _number(status.get(key))
            if value is not None:
                yield GaugeMetricFamily(f"tapgnn_{name}", about, value)


_STATUS: tuple[tuple[str, str, str], ...] = (
    ("nodes", "nodes", "Nodes that have a row in the state."),
    ("held", "held_events", "Events that wait for their instant to close."),
    ("position", "journal_position", "The newest record of the journal."),
    ("checkpoint_age", "checkpoint_age_records", "Records of the journal since the last checkpoint."),
    ("clock", "clock", "The time of the newest instant absorbed, in the unit of the log."),
)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
