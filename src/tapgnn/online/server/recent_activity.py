"""The feed: what has just happened, in memory that does not grow.

    events      the latest arrivals, with the score that each had before the model learnt of it, where there was time
    pace        events and slowest answer of each of the last seconds
    latencies   seconds that the latest batches and questions took

Risk is the classifier's probability of the rare label where there is one, else how surprising the event was: 1 - its
probability.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tapgnn.events import Floats
from tapgnn.online.server.ingest_queue import Job, Taken

EVENTS, SECONDS, SAMPLES = 5_000, 120, 2_000


@dataclass(frozen=True)
class Arrivals:
    """A batch that arrived: its columns, chances [E] and risks [E] where they are known."""

    columns: Mapping[str, Any]
    size: int
    chances: Floats | None
    risks: Floats | None

    def event(self, row: int) -> dict[str, Any]:
        """One event, ready for JSON."""
        src, dst, moment = (self.columns[name][row] for name in ("src", "dst", "time"))
        chance = None if self.chances is None else float(self.chances[row])
        risk = None if self.risks is None else float(self.risks[row])
        return {"src": _plain(src), "dst": _plain(dst), "time": float(moment), "probability": chance, "risk": risk}


class Feed:
    """What the page shows of the stream; told of it by the intake and of questions by the routes."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._batches: deque[Arrivals] = deque()
        self._held = 0
        self._pace: deque[list[float]] = deque(maxlen=SECONDS)
        self._latencies = {kind: deque[float](maxlen=SAMPLES) for kind in ("observe", "score")}
        self.total = self.scored = 0

    def observed(self, job: Job, taken: Taken) -> None:
        """Take note of a batch."""
        if taken.receipt.duplicate:
            return
        chances = taken.chances
        risks = taken.risks if taken.risks is not None or chances is None else 1.0 - chances
        spent = time.perf_counter() - job.arrived
        with self._lock:
            self._batches.append(Arrivals(job.columns, job.size, chances, risks))
            self._held += job.size
            while self._held - self._batches[0].size >= EVENTS:
                self._held -= self._batches.popleft().size
            self.total += job.size
            self.scored += job.size if chances is not None else 0
            bucket = self._bucket()
            bucket[1] += job.size
            bucket[2] = max(bucket[2], spent)
            self._latencies["observe"].append(spent)

    def answered(self, seconds: float) -> None:
        """Take note of a question."""
        with self._lock:
            self._latencies["score"].append(seconds)

    def clear(self) -> None:
        """Forget the events, as a node's erasure asks for."""
        with self._lock:
            self._batches.clear()
            self._held = 0

    def newest(self, count: int) -> list[dict[str, Any]]:
        """The latest arrivals, newest first."""
        with self._lock:
            batches = list(self._batches)
        rows = ((batch, row) for batch in reversed(batches) for row in reversed(range(batch.size)))
        return [batch.event(row) for batch, row in islice(rows, count)]

    def riskiest(self, count: int) -> list[dict[str, Any]]:
        """Those of the latest arrivals that carry most risk."""
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
        """Events of each of the last seconds, oldest first; the present one is not over and left out."""
        with self._lock:
            present = int(self._now())
            by_second = {int(second): (events, slowest) for second, events, slowest in self._pace}
        return [
            {
                "second": second,
                "events": by_second.get(second, (0.0, 0.0))[0],
                "slowest": by_second.get(second, (0.0, 0.0))[1],
            }
            for second in range(present - SECONDS, present)
        ]

    def latency(self, kind: str) -> dict[str, float | None]:
        """Percentiles of the latest samples, in milliseconds."""
        with self._lock:
            sample = np.array(self._latencies[kind])
        marks = (50, 95, 99)
        values = np.percentile(sample, marks) * 1e3 if len(sample) else [None] * len(marks)
        return {f"p{mark}": None if value is None else float(value) for mark, value in zip(marks, values, strict=True)}

    def _bucket(self) -> list[float]:
        second = float(int(self._now()))
        if not self._pace or self._pace[-1][0] != second:
            self._pace.append([second, 0.0, 0.0])
        return self._pace[-1]


def _plain(name: Any) -> str | int:
    return name if isinstance(name, str) else int(name)
