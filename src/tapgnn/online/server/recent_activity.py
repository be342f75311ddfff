"""Recent activity, in memory of fixed size.

    events      the latest ones, with the score that each had before the model learnt of it, where there was time
    pace        events and slowest batch of each of the last seconds
    latencies   seconds that the latest batches and queries took

Risk is the classifier's probability of the positive label where there is one, else the surprise: 1 - the score of the
link.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from tapgnn.data.reading.cells import plain_value
from tapgnn.errors import QueryError
from tapgnn.events import Floats
from tapgnn.online.engine.ingest import Outcome
from tapgnn.online.explain.moment import Moment
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.vocabulary import Id

EVENTS, SECONDS, SAMPLES = 5_000, 120, 2_000
# Riskiest events that are shown; riskiest events that can be explained, as many again before they are thinned out.
SHOWN, MOMENTS = 20, 400
PERCENTILES = (50, 95, 99)


class RecentBatch(NamedTuple):
    """A batch, its position, its scores [E] and risks [E] where they are known, and the moments of the riskiest."""

    batch: EventBatch
    position: int
    moments: dict[int, Moment]
    size: int
    scores: Floats | None
    risks: Floats | None

    def event(self, row: int, own: Callable[[Sequence[Id]], list[Id]]) -> dict[str, Any]:
        """One event, ready for JSON, with the user's own ids."""
        batch = self.batch
        src, dst = own([batch.ids[batch.src[row]], batch.ids[batch.dst[row]]])
        score, risk = (None if scores is None else float(scores[row]) for scores in (self.scores, self.risks))
        return {
            "src": src,
            "dst": dst,
            "time": float(batch.time[row]),
            "score": score,
            "probability": score,
            "risk": risk,
            "position": self.position,
            "index": row,
            "explained": row in self.moments,
            "columns": self.cells(row),
        }

    def cells(self, row: int) -> dict[str, Any]:
        """The columns of an event, its own id first."""
        found: dict[str, Any] = {**self.batch.kept, **self.batch.columns}
        return {name: plain_value(cells[row]) for name, cells in found.items()}


class RecentActivity:
    """What the page shows of the stream."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self.own_ids: Callable[[Sequence[Id]], list[Id]] = list
        self.id_column: str | None = None
        self._lock = threading.Lock()
        self._batches: deque[RecentBatch] = deque()
        self._kept = 0
        self._pace: deque[list[float]] = deque(maxlen=SECONDS)
        self._latencies = {kind: deque[float](maxlen=SAMPLES) for kind in ("observe", "score")}
        self.total = self.scored = 0

    def add_batch(self, events: EventBatch, arrived: float, outcome: Outcome) -> None:
        """Record a batch that was applied."""
        if outcome.receipt.duplicate:
            return
        scores, size = outcome.scores, len(events)
        risks = outcome.risks if outcome.risks is not None or scores is None else 1.0 - scores
        spent = time.perf_counter() - arrived
        with self._lock:
            kept, position = events.keeping(self.id_column), outcome.receipt.position
            self._batches.append(RecentBatch(kept, position, dict(outcome.moments), size, scores, risks))
            self._kept += size
            while self._kept - self._batches[0].size >= EVENTS:
                self._kept -= self._batches.popleft().size
            self._bound_moments()
            self.total += size
            self.scored += size if scores is not None else 0
            second = float(int(self._now()))
            if not self._pace or self._pace[-1][0] != second:
                self._pace.append([second, 0.0, 0.0])
            bucket = self._pace[-1]
            bucket[1] += size
            bucket[2] = max(bucket[2], spent)
            self._latencies["observe"].append(spent)

    def _bound_moments(self) -> None:
        """Drop the moments of the least risky events where there are too many."""
        if sum(len(batch.moments) for batch in self._batches) <= 2 * MOMENTS:
            return
        scored = ((batch, batch.risks) for batch in self._batches if batch.risks is not None)
        kept = [(float(risks[row]), batch, row) for batch, risks in scored for row in batch.moments]
        for _, batch, row in sorted(kept, key=itemgetter(0))[:-MOMENTS]:
            del batch.moments[row]

    def find(self, position: int, index: int) -> tuple[Moment, dict[str, Any]]:
        """The moment of a recent event, and its columns."""
        with self._lock:
            for batch in self._batches:
                if batch.position == position and index in batch.moments:
                    return batch.moments[index], batch.cells(index)
        raise QueryError(
            f"event {index} of the batch at position {position} is not among the riskiest recent events, which alone "
            "can be explained as they were at their arrival; explain the link, or the event as if it happened next"
        )

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
        return [batch.event(row, self.own_ids) for batch, row in islice(rows, count)]

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
        picked = ((batches[owner[place]], int(place - first[owner[place]])) for place in best)
        return [batch.event(row, self.own_ids) for batch, row in picked]

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
