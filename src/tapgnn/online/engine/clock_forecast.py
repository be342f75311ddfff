"""The outlook: what time it will be once batches are folded in, known without folding them.

The clock depends on times alone. So several batches can be checked one after the other, and then committed together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tapgnn.errors import EventError, LateEventError
from tapgnn.events import Floats
from tapgnn.online.engine.policy import Policy
from tapgnn.online.journal.event_batch import Batch


@dataclass
class Outlook:
    """The clock of a state, the newest time, and the times that are pending, in order."""

    policy: Policy
    clock: float
    newest: float
    times: Floats

    def check(self, batch: Batch, horizon: float = np.inf) -> None:
        """Refuse a batch with an event that could not be absorbed any more, or one beyond the horizon."""
        if len(batch) == 0:
            return
        if self.policy.late != "merge" and batch.time.min() <= self.clock:
            row = int(np.flatnonzero(batch.time <= self.clock)[0])
            waiting = self.policy.late == "buffer"
            cure = "with a greater lateness" if waiting else "with late='buffer' and a lateness"
            raise LateEventError(
                f"{batch.name(row)} is not younger than what was absorbed, up to {self.clock}; send events in order of "
                f"time, or open the engine {cure}, or with late='merge'"
            )
        if np.isfinite(self.newest) and batch.time.max() > self.newest + horizon:
            row = int(np.flatnonzero(batch.time > self.newest + horizon)[0])
            raise EventError(
                f"{batch.name(row)} lies more than the horizon, {horizon}, after the newest event, {self.newest}; "
                "check the clock of its sender, or open the engine with a greater horizon"
            )

    def late(self, batch: Batch) -> int:
        """How many events of a batch will be merged into a later instant than theirs."""
        return int((batch.time <= self.clock).sum())

    def due(self) -> float:
        """Events with a time below this are absorbed (at it too, without hold_back)."""
        return self.newest - self.policy.lateness

    def take(self, batch: Batch) -> None:
        """Move on as the fold will."""
        if len(batch) == 0:
            return
        self.newest = max(self.newest, float(batch.time.max()))
        times = np.sort(np.concatenate([self.times, np.maximum(batch.time, self.clock)]))
        ready = max(ready_events(times, self), self.late(batch))
        if ready:
            self.clock = max(self.clock, float(times[ready - 1]))
        self.times = times[ready:]


def ready_events(times: Floats, outlook: Outlook) -> int:
    """How many of the times, in order, have come."""
    return int(np.searchsorted(times, outlook.due(), side="left" if outlook.policy.hold_back else "right"))
