"""Sources of events beside HTTP: a growing file, standard input, or a Kafka topic.

A source delivers batches together with the offsets it has reached. Batch and offsets go into the journal in one
transaction, and the journal tells the source where to start, so that after any crash it resumes exactly where the
journal ends. Offsets are never committed to a broker or kept in a file of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.journal.record import Reached

Deliver = Callable[[EventBatch, Reached], None]
Offsets = Mapping[tuple[str, int], int]


class EventSource(Protocol):
    """Something that delivers events until it ends or is told to stop."""

    name: str
    lag: int | None
    """How much is waiting (bytes, messages), None where it is unknown."""

    def run(self, deliver: Deliver, offsets: Offsets, stop: threading.Event, rows: RowReader) -> None:
        """Deliver what comes after `offsets`, read by `rows`.

        `deliver` returns when a batch is durable, and raises if it is refused.
        """
