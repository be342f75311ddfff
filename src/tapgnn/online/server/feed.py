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
from collections.abc import Callable
from typing import Any

import numpy as np

from tapgnn.online.server.intake import Job, Taken

EVENTS, SECONDS, SAMPLES = 5_000, 120, 2_000


class Feed:
    """What the page shows of the stream; told of it by the intake and of questions by the routes."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._events: deque[tuple[Any, Any, float, float | None, float | None]] = deque(maxlen=EVENTS)
        self._pace: deque[list[float]] = deque(maxlen=SECONDS)
        self._latencies = {kind: deque[float](maxlen=SAMPLES) for kind in ("observe", "score")}
        self.total = self.scored = 0

    def observed(self, job: Job, taken: Taken) -> None:
        """Take note of a batch."""
        if taken.receipt.duplicate:
            return
        columns, chances, risks = job.columns, taken.chances, taken.risks
        spent = time.perf_counter() - job.arrived
        first = max(job.size - EVENTS, 0)
        with self._lock:
            for row in range(first, job.size):
                chance = None if chances is None else float(chances[row])
                risk = (
                    1.0 - chance
                    if risks is None and chance is not None
                    else None
                    if risks is None
                    else float(risks[row])
                )
                self._events.append(
                    (columns["src"][row], columns["dst"][row], float(columns["time"][row]), chance, risk)
                )
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
            self._events.clear()

    def newest(self, count: int) -> list[dict[str, Any]]:
        """The latest arrivals, newest first."""
        with self._lock:
            return [_event(row) for row, _ in zip(reversed(self._events), range(count), strict=False)]

    def riskiest(self, count: int) -> list[dict[str, Any]]:
        """Those of the latest arrivals that carry most risk."""
        with self._lock:
            scored = [row for row in self._events if row[4] is not None]
        return [_event(row) for row in sorted(scored, key=lambda row: -(row[4] or 0.0))[:count]]

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


def _event(row: tuple[Any, Any, float, float | None, float | None]) -> dict[str, Any]:
    src, dst, moment, chance, risk = row
    return {"src": _plain(src), "dst": _plain(dst), "time": moment, "probability": chance, "risk": risk}


def _plain(name: Any) -> str | int:
    return name if isinstance(name, str) else int(name)
