"""Key history: what the trivial methods share, the number of events and the latest event of each key.

A method says which keys an event has, which key a query has, and what score (count, latest time, time of the query)
gives. Nothing is trained: the state is the keys in order of time, and one sort of them answers all queries of a call.
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
        self._keys, self._times = np.empty(0, dtype=np.int64), np.empty(0)

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
        return self._rate(*history_before(self._keys, self._times, self._query_keys(src, dst), time), time)

    def observe(self, events: Events) -> None:
        """Keep the keys of the events and their times."""
        self._clock.advance(events)
        keys, times = self._event_keys(events)
        self._keys, self._times = np.concatenate([self._keys, keys]), np.concatenate([self._times, times])

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, in one pass: only keys strictly before a query count."""
        self._clock.check(time)
        self.observe(events)
        return self._rate(*history_before(self._keys, self._times, self._query_keys(src, dst), time), time)
