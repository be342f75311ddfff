"""Key history: what the trivial methods share, the number of events and the latest event of each key.

A method says which keys an event has, which key a query has, and what score (count, latest time, time of the query)
gives. Nothing is trained. The keys lie in one sorted array, so that every look-up is a binary search.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from tapgnn.baselines.method import Clock, Method, history_before
from tapgnn.events import Events, Floats, Ints


class KeyHistory(Method):
    """A score from how often, and when last, the key of a query occurred."""

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
        return np.append(self._count, 0)[place], np.append(self._latest, -np.inf)[place]
