"""Recent activity, in memory of fixed size.

    events      the latest ones, with the score that each had before the model learnt of it, where there was time
    pace        events and slowest batch of each of the last seconds
    latencies   seconds that the latest batches and queries took

Risk is the classifier's probability of the rare label where there is one, else the surprise: 1 - the probability.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from tapgnn.events import Floats
from tapgnn.online.engine.ingest import Outcome, Request
from tapgnn.online.server.ingest_queue import event_count

EVENTS, SECONDS, SAMPLES = 5_000, 120, 2_000
PERCENTILES = (50, 95, 99)
ENDS = ("src", "dst")


class RecentBatch(NamedTuple):
    """The columns of a batch, and its probabilities [E] and risks [E] where they are known."""

    columns: Mapping[str, Any]
    size: int
    probabilities: Floats | None
    risks: Floats | None

    def event(self, row: int) -> dict[str, Any]:
        """One event, ready for JSON."""
        src, dst = (name if isinstance(name, str) else int(name) for name in (self.columns[e][row] for e in ENDS))
        probability, risk = (None if scores is None else float(scores[row]) for scores in self[2:])
        return {
            "src": src,
            "dst": dst,
            "time": float(self.columns["time"][row]),
            "probability": probability,
            "risk": risk,
        }


class RecentActivity:
    """What the page shows of the stream."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._batches: deque[RecentBatch] = deque()
        self._kept = 0
        self._pace: deque[list[float]] = deque(maxlen=SECONDS)
        self._latencies = {kind: deque[float](maxlen=SAMPLES) for kind in ("observe", "score")}
        self.total = self.scored = 0

    def add_batch(self, request: Request, outcome: Outcome) -> None:
        """Record a batch that was applied."""
        if outcome.receipt.duplicate:
            return
        probabilities, size = outcome.probabilities, event_count(request)
        risks = outcome.risks if outcome.risks is not None or probabilities is None else 1.0 - probabilities
        spent = time.perf_counter() - request.arrived
        with self._lock:
            self._batches.append(RecentBatch(cast(Mapping[str, Any], request.events), size, probabilities, risks))
            self._kept += size
            while self._kept - self._batches[0].size >= EVENTS:
                self._kept -= self._batches.popleft().size
            self.total += size
            self.scored += size if probabilities is not None else 0
            bucket = self._bucket()
            bucket[1] += size
            bucket[2] = max(bucket[2], spent)
            self._latencies["observe"].append(spent)

    def add_query(self, seconds: float) -> None:
        """Record the latency of a query."""
        with self._lock:
            self._latencies["score"].append(seconds)

    def clear(self) -> None:
        """Drop the events, because some of them were undone."""
        with self._lock:
            self._batches.clear()
            self._kept = 0

    def newest(self, count: int) -> list[dict[str, Any]]:
        """The latest events, newest first."""
        with self._lock:
            batches = list(self._batches)
        rows = ((batch, row) for batch in reversed(batches) for row in reversed(range(batch.size)))
        return [batch.event(row) for batch, row in islice(rows, count)]

    def riskiest(self, count: int) -> list[dict[str, Any]]:
        """The latest events with the highest risk."""
        with self._lock:
            batches = [batch for batch in self._batches if batch.risks is not None]
        if not batches:
            return []
        risks = np.concatenate([batch.risks for batch in batches if batch.risks is not None])
        owner = np.repeat(np.arange(len(batches)), [batch.size for batch in batches])
        first = np.concatenate([[0], np.cumsum([batch.size for batch in batches])])
        best = np.argsort(-risks, kind="stable")[:count]
        return [batches[owner[place]].event(int(place - first[owner[place]])) for place in best]

    def pace(self) -> list[dict[str, float]]:
        """Events of each of the last seconds, oldest first; the present second is left out."""
        with self._lock:
            present = int(self._now())
            by_second = {int(second): (second, events, slowest) for second, events, slowest in self._pace}
        seconds = (by_second.get(second, (second, 0.0, 0.0)) for second in range(present - SECONDS, present))
        return [dict(zip(("second", "events", "slowest"), second, strict=True)) for second in seconds]

    def latency(self, kind: str) -> dict[str, float | None]:
        """Percentiles of the latest samples, in milliseconds."""
        with self._lock:
            sample = np.array(self._latencies[kind])
        values = (np.percentile(sample, PERCENTILES) * 1e3).tolist() if len(sample) else [None] * len(PERCENTILES)
        return {f"p{percent}": value for percent, value in zip(PERCENTILES, values, strict=True)}

    def _bucket(self) -> list[float]:
        second = float(int(self._now()))
        if not self._pace or self._pace[-1][0] != second:
            self._pace.append([second, 0.0, 0.0])
        return self._pace[-1]
