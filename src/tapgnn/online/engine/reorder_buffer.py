"""The reorder buffer: which events are late, which wait and which are absorbed now, decided in one place.

Between the journal and the state, events wait in the order in which they will be absorbed: time, producer, sequence,
position in the journal, index in the batch. Between producers that order does not depend on whose batch arrived first.

`add` is the whole rule of time. The writer runs it on a `forecast` before it journals a batch, and the live state runs
it on the journalled batch. So nothing is journalled that cannot be applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import LateEventError
from tapgnn.events import Bools, Events, Floats, Ints
from tapgnn.online.engine.admission import Admission
from tapgnn.online.engine.policy import Policy
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.vocabulary import Vocabulary

PendingColumns = NDArray[np.void]
ANY = Admission()
_ORDER = ("index", "position", "sequence", "producer", "time")


@dataclass
class ReorderBuffer:
    """Pending events, and the clock that decides when each is absorbed.

    clock     time of the newest instant absorbed, -inf for none
    newest    latest time of any event so far
    late      events absorbed at a later instant than their own
    pending   [E] columns of the events that wait, in order of absorption
    producers the number of each producer in its column
    """

    policy: Policy
    clock: float
    newest: float
    late: int
    pending: PendingColumns
    producers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def empty(cls, policy: Policy, clock: float, features: int) -> ReorderBuffer:
        """A buffer in front of a state with this clock, for events with so many features."""
        whole = [(name, np.int64) for name in ("src", "dst", *_ORDER[:-1])]
        columns = [("time", np.float64), *whole, ("features", np.float32, (features,))]
        return cls(policy, clock, clock, 0, np.empty(0, np.dtype(columns)))

    def forecast(self) -> ReorderBuffer:
        """The same buffer with nothing but times, to find out what will become of batches."""
        times = np.empty(len(self.pending), np.dtype([("time", np.float64)]))
        times["time"] = self.pending["time"]
        return replace(self, pending=times)

    def __len__(self) -> int:
        return len(self.pending)

    def is_late(self, time: Floats) -> Bools:
        """[E] whether events of these times are too old to be absorbed at an instant of their own."""
        return time <= self.clock

    def add(self, batch: EventBatch, admission: Admission = ANY, **columns: Any) -> PendingColumns:
        """Add a batch; gives the events to absorb now, in order. A batch that is refused changes nothing."""
        late = self._check(batch, admission)
        self.insert(batch, **columns)
        self.late += late
        self.newest = float(batch.time.max(initial=self.newest))
        side: Literal["left", "right"] = "left" if self.policy.hold_back else "right"
        due = self.pending["time"].searchsorted(self.newest - self.policy.lateness, side)
        return self._release(max(int(due), late))

    def flush(self) -> PendingColumns:
        """Give everything that waits, in order."""
        return self._release(len(self))

    def insert(self, batch: EventBatch, **columns: Any) -> None:
        """Put events in their place; late ones come at the clock."""
        size = len(self)
        both = np.empty(size + len(batch), self.pending.dtype)
        both[:size] = self.pending
        both["time"][size:] = np.maximum(batch.time, self.clock)
        for name, values in columns.items():
            both[name][size:] = values
        time = both["time"]
        if not (time[1:] > time[:-1]).all():
            names = [name for name in _ORDER if name in (both.dtype.names or ())]
            both = both[np.lexsort([self._by_name(both[name]) if name == "producer" else both[name] for name in names])]
        self.pending = both

    def number_of(self, producer: str) -> int:
        """The number of a producer in the column of producers."""
        return self.producers.setdefault(producer, len(self.producers))

    def _by_name(self, producers: Ints) -> Ints:
        """[E] the rank of each producer's name."""
        found, place = np.unique(producers, return_inverse=True)
        names = list(self.producers)
        return np.argsort(sorted(range(len(found)), key=lambda number: names[found[number]]))[place]

    def nodes(self) -> Ints:
        """The rows that pending events touch."""
        return np.unique(np.concatenate([self.pending["src"], self.pending["dst"]]))

    def _release(self, count: int) -> PendingColumns:
        released, self.pending = self.pending[:count], self.pending[count:]
        if count:
            self.clock = max(self.clock, float(released["time"][-1]))
        return released

    def _check(self, batch: EventBatch, admission: Admission) -> int:
        """Refuse a batch with an event too late or too far ahead, or too many that wait; gives how many are late."""
        late = np.flatnonzero(self.is_late(batch.time))
        if len(late) and self.policy.late != "merge":
            longer = "a longer lateness" if self.policy.late == "buffer" else "the late policy buffer with a lateness"
            raise LateEventError(
                f"{batch.name(int(late[0]))} is not newer than the events already absorbed, up to {self.clock}; "
                f"{admission.hint(float(batch.time[late[0]]), self.clock)}send events in order of time, or choose "
                f"{longer}, or the late policy merge"
            )
        if len(batch):
            admission.check_time(batch, self.newest)
        if len(self) + len(batch) > admission.max_held:
            admission.check_held(self._waiting_after(batch), self.policy.lateness)
        return len(late)

    def _waiting_after(self, batch: EventBatch) -> int:
        """How many events will wait once a batch is added."""
        border = max(self.newest, float(batch.time.max())) - self.policy.lateness
        times = np.concatenate([self.pending["time"], batch.time[~self.is_late(batch.time)]])
        return int(np.count_nonzero(times >= border if self.policy.hold_back else times > border))


def as_events(columns: PendingColumns, vocabulary: Vocabulary) -> Events:
    """Released or pending events as `advance` takes them."""
    src, dst, time = (np.ascontiguousarray(columns[name]) for name in ("src", "dst", "time"))
    features = np.ascontiguousarray(columns["features"]) if columns["features"].shape[1] else None
    return Events(src, dst, time, features, None, vocabulary)
