"""Method: the one protocol that TAP-GNN and every baseline implement, so that no harness can favour one of them.

    fit(train, valid)        learn; afterwards the method has observed `train` and nothing later (`valid` may only
                             choose between weights or settings)
    score(src, dst, time)    [Q] higher means more likely, from everything observed so far
    observe(events)          the stream moves on; a no-op where `sees_history` is False
    replay(...)              score queries along a stream
    details()                what the fit chose and found on the way; nothing is computed from it
    alternatives()           the same fit with its other scores, where a method has several to report

The law of `replay`: a query at t sees what was observed before the call and the events strictly before t, never those
at t. `replay` in this module is the reference; a method may override its own `replay` with a faster form that gives the
same scores and leaves the same state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import numpy as np

from tapgnn.errors import LateEventError, QueryError
from tapgnn.events import Events, Floats, Ints

Details = dict[str, float | int | str]
Role = Literal["any", "destination"]
ROLES: tuple[Role, ...] = ("any", "destination")


class Method(ABC):
    """What answers 'how likely is it that src meets dst at this time'; src and dst [Q] are rows of the vocabulary."""

    name: str
    sees_history: bool
    # The score from which on the method itself calls an event likely (0 for a logit); None where it does not say.
    threshold: float | None = None

    @abstractmethod
    def fit(self, train: Events, valid: Events) -> None:
        """Learn from scratch; afterwards exactly `train` has been observed."""

    @abstractmethod
    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] higher means more likely; every time must lie after the last observed instant."""

    @abstractmethod
    def observe(self, events: Events) -> None:
        """Absorb events that are younger than all observed ones."""

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the score of each query, in any order of time, seeing the events strictly before it; observes all."""
        return replay(self, events, src, dst, time)

    def details(self) -> Details:
        """What the last fit chose and found on the way; empty where there is nothing to choose."""
        return {}

    def alternatives(self) -> Mapping[str, Method]:
        """By name, methods of the same fit that score otherwise; asking them leaves this one as it is."""
        return {}


def replay(method: Method, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
    """The reference: for each time that is asked, observe all events strictly before it, then score its queries."""
    order = np.argsort(time, kind="stable")
    instants, first = np.unique(time[order], return_index=True)
    borders = np.append(first, len(order))
    seen = 0
    scores = np.empty(len(time))
    for position, until in enumerate(np.searchsorted(events.time, instants, side="left")):
        if until > seen:
            method.observe(events.slice(seen, int(until)))
            seen = int(until)
        asked = order[borders[position] : borders[position + 1]]
        scores[asked] = method.score(src[asked], dst[asked], time[asked])
    if seen < len(events):
        method.observe(events.slice(seen, len(events)))
    return scores


class Clock:
    """The last observed instant, and the two refusals that keep the future out of a score."""

    def __init__(self) -> None:
        self.time = -np.inf

    def advance(self, events: Events) -> None:
        """Move to the end of these events; they must not start before the clock."""
        if not len(events):
            return
        if events.time[0] < self.time:
            raise LateEventError(
                f"an event at {events.time[0]} came after the method had observed {self.time}; observe in order of time"
            )
        self.time = float(events.time[-1])

    def check(self, time: Floats) -> None:
        """Refuse queries that are not later than everything observed."""
        if len(time) and np.min(time) <= self.time:
            raise QueryError(
                f"a query at {np.min(time)} must see only what lies before it, but events up to {self.time} were "
                "observed; ask before observing, or use replay"
            )


def history_before(keys: Ints, times: Floats, asked: Ints, when: Floats) -> tuple[Ints, Floats]:
    """For each (asked, when) [Q]: how many of the `keys` [E] are equal and strictly earlier, and when the latest was.

    `times` [E] ascend; a key that did not occur before counts 0 with time -inf.
    """
    if not len(keys):
        return np.zeros(len(asked), dtype=np.int64), np.full(len(asked), -np.inf)
    distinct, code = np.unique(keys, return_inverse=True)
    place = np.minimum(np.searchsorted(distinct, asked), len(distinct) - 1)
    # (key, row) as one integer: sorted, the occurrences of a key are a run, and within it rows mean time.
    width = len(keys) + 1
    runs = np.sort(code * width + np.arange(len(keys)))
    row = np.searchsorted(times, when, side="left")
    start = np.searchsorted(runs, place * width)
    count = np.searchsorted(runs, place * width + row) - start
    count[distinct[place] != asked] = 0
    latest = runs[np.maximum(start + count - 1, 0)] % width
    return count, np.where(count > 0, times[latest], -np.inf)


def ends(events: Events, role: Role) -> tuple[Ints, Floats]:
    """The nodes that are active in a role, in order of time, and when: both ends of every event, or its destination."""
    if role == "destination":
        return events.dst, events.time
    return np.column_stack([events.src, events.dst]).ravel(), np.repeat(events.time, 2)


def look_up(table: Floats, rows: Ints, absent: float) -> Floats:
    """table[rows], with `absent` for rows that it does not have: -1, and beyond its end."""
    if not len(table):
        return np.full(len(rows), absent)
    known = (rows >= 0) & (rows < len(table))
    return np.where(known, table[np.where(known, rows, 0)], absent)


def grown(table: Floats, size: int, absent: float) -> Floats:
    """The table, made at least `size` long (with room to spare, so that growth stays linear in the stream)."""
    if size <= len(table):
        return table
    longer = np.full(max(size, 2 * len(table)), absent)
    longer[: len(table)] = table
    return longer
