"""Sources: where events come from beside HTTP, a file that grows, standard input, or a topic of Kafka.

A source hands over batches with the place that it has reached (`deliver`), and is told by the journal where it stood
when it begins. Batch and place are kept in one transaction, so that after any crash a source goes on exactly where the
journal ends. Places never go to a broker or to a file of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Place = tuple[str, int, int]
Deliver = Callable[[Mapping[str, Any], Place | None], None]
Places = Mapping[tuple[str, int], int]


class Source(Protocol):
    """Something that gives events until it ends or is told to stop."""

    name: str

    def run(self, deliver: Deliver, places: Places, stop: threading.Event) -> None:
        """Deliver what comes after `places`; `deliver` returns when a batch is safe, and raises when it is refused."""

    def lag(self) -> int | None:
        """How much is known to be waiting (bytes, messages), None where nobody knows."""
