"""Trivial methods: a score from how often, and when last, the key of a query occurred; nothing is trained.

    recency      score(u, v, t) = (time of v's last event before t) - t, -inf where v was never active
    popularity   score(u, v, t) = the number of events before t in which v was the destination
    EdgeBank     score(u, v, t) = 1 if u -> v occurred before t, or within [t - window, t), else 0

A method says which keys an event has, which key a query has, and what score (count, latest time, time of the query)
gives. The keys lie in one sorted array, so that every look-up is a binary search.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, get_args

import numpy as np

from tapgnn.baselines.method import Clock, Method
from tapgnn.baselines.shared.row_table import look_up
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints
from tapgnn.unfold import unfold

Role = Literal["any", "destination"]


class KeyHistory(Method):
    """The number of events and the latest event of each key."""

    sees_history = True

    def __init__(self) -> None:
        self._clock = Clock()
        self._keys, self._count = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._latest = np.empty(0)

    def _event_keys(self, events: Events) -> tuple[Ints, Floats]:
        """The keys of the events and their times, in order of time: by default, those of the same queries."""
        return self._query_keys(events.src, events.dst), events.time

    def _query_keys(self, src: Ints, dst: Ints) -> Ints:
        """[Q] the key of each query: by default, its destination."""
        return dst

    @abstractmethod
    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        """[Q] scores from the history of each key; the latest time is -inf where the count is 0."""

    def fit(self, train: Events, valid: Events) -> None:
        """Forget everything, then observe the training events."""
        KeyHistory.__init__(self)
        self.observe(train)

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] from everything observed."""
        self._clock.check(time)
        return self._rate(*self._known(self._query_keys(src, dst)), time)

    def observe(self, events: Events) -> None:
        """Count the keys of the events and keep their latest times."""
        self._clock.advance(events)
        keys, times = self._event_keys(events)
        self._keys, place = np.unique(np.concatenate([self._keys, keys]), return_inverse=True)
        known, new = place[: len(self._count)], place[len(self._count) :]
        count, latest = np.bincount(new, minlength=len(self._keys)), np.full(len(self._keys), -np.inf)
        count[known] += self._count
        latest[known] = self._latest
        np.maximum.at(latest, new, times)
        self._count, self._latest = count, latest

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, in one pass."""
        self._clock.check(time)
        keys = self._query_keys(src, dst)
        count, latest = self._known(keys)
        later_count, later = history_before(*self._event_keys(events), keys, time)
        self.observe(events)
        return self._rate(count + later_count, np.maximum(latest, later), time)

    def _known(self, keys: Ints) -> tuple[Ints, Floats]:
        """Count and latest time [Q] of each key, 0 and -inf for one that was never observed."""
        place = np.searchsorted(self._keys, keys)
        place[~np.isin(keys, self._keys)] = len(self._keys)
        return look_up(self._count, place, 0), look_up(self._latest, place, -np.inf)


class Recency(KeyHistory):
    """Minus the time since the destination's last event, in any role or as a destination; the source is ignored.

    The score is the age, not the bare time of the last event: both rank the destinations of one query alike (MRR), but
    AUC also compares scores across queries, and the bare time mostly says how late in the test period the query is
    (fb-forum, as destination, mean of five seeds: 0.867 with it, 0.935 with the age). Under the paper's protocol it
    still beats most published numbers: a model that loses to it has learned less than the clock.
    """

    def __init__(self, role: Role = "any") -> None:
        if role not in get_args(Role):
            raise ConfigError(f"the role must be {' or '.join(get_args(Role))}, not {role!r}")
        super().__init__()
        self.role = role
        self.name = "recency" if role == "any" else "recency-destination"

    def _event_keys(self, events: Events) -> tuple[Ints, Floats]:
        if self.role == "destination":
            return super()._event_keys(events)
        return np.column_stack([events.src, events.dst]).ravel(), np.repeat(events.time, 2)

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        return latest - time


class Popularity(KeyHistory):
    """How often the destination was one so far."""

    name = "popularity"

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        return count.astype(np.float64)


class EdgeBank(KeyHistory):
    """Whether the directed pair was seen before, ever or within a time window (Poursafaei et al., "Towards Better
    Evaluation for Dynamic Link Prediction", NeurIPS 2022, section 4).

    The reference suggests the length of the test period as the window. Difference: there the window ends at the batch;
    here it ends at the query itself, and the memory grows event by event, never by batch.
    """

    def __init__(self, window: float | None = None) -> None:
        if window is not None and not window > 0:
            raise ConfigError(f"the window must be a positive length of time, or None for all time, not {window}")
        super().__init__()
        self.window = window
        self.name = "edgebank" if window is None else "edgebank-window"

    def _query_keys(self, src: Ints, dst: Ints) -> Ints:
        # One integer per directed pair; rows stay below 2^31.
        return (src << 32) | dst

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        start = -np.inf if self.window is None else time - self.window
        return ((count > 0) & (latest >= start)).astype(np.float64)


def history_before(keys: Ints, times: Floats, query: Ints, when: Floats) -> tuple[Ints, Floats]:
    """For each (query, when) [Q]: how many of the `keys` [E] are equal and strictly earlier, and when the latest was.

    `times` [E] ascend; a key that did not occur before counts 0 with time -inf.
    """
    # The occurrences of a key are the chain of a node that meets itself, with two messages each time.
    view = unfold(Events(keys, keys, times))
    row = view.before(query, when)
    return look_up(view.degree() // 2, row, 0), look_up(view.time, row, -np.inf)
