"""Admission: what keeps a batch out of the journal although it could be applied.

    horizon    an event that is further after the newest one is refused: it would make all that comes later late. By
               default that is a hundred times the length of the training log, and at least a century where times are
               dates, so that only a wrong clock or another unit goes beyond it, and no pause of a log
    max_held   a batch after which more events would wait for later ones is refused until some of these have come

Neither belongs to the policy: a replay of the journal does not ask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tapgnn.data.reading.clock import UNITS, is_date, looks_like
from tapgnn.data.schema import TIME_UNITS, Schema
from tapgnn.errors import EventError, OverloadError
from tapgnn.model import Config
from tapgnn.online.journal.event_batch import EventBatch

MAX_HELD = 100_000
SPANS, CENTURY = 100.0, 36_525 * 86_400.0
RETRY_SECONDS = 5


@dataclass(frozen=True)
class Admission:
    """See the module; `known_until` is when the training log ended, which bounds the first event of all."""

    horizon: float = np.inf
    max_held: int | float = np.inf
    known_until: float = -np.inf
    unit: str = "s"

    @classmethod
    def of(cls, config: Config, schema: Schema, horizon: float | None, max_held: int) -> Admission:
        """For a model; a horizon that is given counts from the newest event, so that the first one has none."""
        if horizon is not None:
            return cls(horizon, max_held, unit=schema.time_unit)
        end = config.origin + config.span
        least = CENTURY / UNITS[schema.time_unit] if is_date(end, schema.time_unit) else 0.0
        return cls(max(SPANS * config.span, least), max_held, end, schema.time_unit)

    def check_time(self, batch: EventBatch, newest: float) -> None:
        """Refuse a batch with an event too far after the newest one."""
        start = max(newest, self.known_until)
        if not np.isfinite(start) or batch.time.max() <= start + self.horizon:
            return
        row = int(np.flatnonzero(batch.time > start + self.horizon)[0])
        after = "the newest event" if start == newest else "the end of the log that the model was trained on"
        raise EventError(
            f"{batch.name(row)} is more than the horizon, {self.horizon}, after {after}, {start}; "
            f"{self.hint(float(batch.time[row]), start)}check the sender's clock, or allow a larger horizon"
        )

    def check_held(self, held: int, lateness: float) -> None:
        """Refuse a batch after which too many events wait."""
        if held > self.max_held:
            after = f"by more than the lateness, {lateness}" if lateness else "than the newest"
            raise OverloadError(
                f"{held:,} events would wait in memory, which may hold {self.max_held:,}; they are absorbed when an "
                f"event comes that is later {after}: send later events first, flush, or allow more with max_held",
                RETRY_SECONDS,
            )

    def hint(self, time: float, expected: float) -> str:
        """That a time may be in another unit, if it then is near what is expected."""
        found = looks_like(time, expected, self.unit)
        return (
            "" if found is None else f"it looks like {TIME_UNITS[found]}, and the log is in {TIME_UNITS[self.unit]}; "
        )
