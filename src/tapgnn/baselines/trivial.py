"""Trivial methods: a score from how often, and when last, the key of a query occurred; nothing is trained.

    recency        score(u, v, t) = (time of v's last event before t) - t, -inf where v was never active
    popularity     score(u, v, t) = the number of events before t in which v was the destination
    EdgeBank       score(u, v, t) = 1 if u -> v occurred before t, or within [t - window, t), else 0
    pair recency   score(u, v, t) = (time of the last u -> v, or of u and v in either direction, before t) - t
    pair count     score(u, v, t) = the number of events u -> v before t
    pair, then node    pairs that met, in either direction, by how recently; below them the others by recency

A method says which keys an event has, which key a query has, and what score (count, latest time, time of the query)
gives. The counts and times of the keys are exact, and take memory for every key that occurred.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, get_args

import numpy as np

from tapgnn.baselines.method import Clock, Method
from tapgnn.baselines.shared.key_table import KeyTable
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints

Role = Literal["any", "destination"]


class KeyHistory(Method):
    """The number of events and the latest event of each key."""

    sees_history = True

    def __init__(self) -> None:
        self._clock = Clock()
        self._table = KeyTable()

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
        return self._rate(*self._table.read(self._query_keys(src, dst)), time)

    def observe(self, events: Events) -> None:
        """Count the keys of the events and keep their latest times."""
        self._clock.advance(events)
        self._table.write(*self._event_keys(events))

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, in one pass."""
        self._clock.check(time)
        self._clock.advance(events)
        return self._rate(*self._table.walk(*self._event_keys(events), self._query_keys(src, dst), time), time)


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
        return pair_keys(src, dst)

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        start = -np.inf if self.window is None else time - self.window
        return ((count > 0) & (latest >= start)).astype(np.float64)


class PairRecency(KeyHistory):
    """Minus the time since the pair last met: as u -> v, or in either direction."""

    def __init__(self, both_ways: bool = False) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.name = "pair-recency-both" if both_ways else "pair-recency"

    def _query_keys(self, src: Ints, dst: Ints) -> Ints:
        return pair_keys(np.minimum(src, dst), np.maximum(src, dst)) if self.both_ways else pair_keys(src, dst)

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        return latest - time


class PairCount(KeyHistory):
    """How often the source had an event with the destination so far."""

    name = "pair-count"

    def _query_keys(self, src: Ints, dst: Ints) -> Ints:
        return pair_keys(src, dst)

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        return count.astype(np.float64)


class PairThenNode(Method):
    """How recently the pair met, in either direction; below all that met, how recently the destination was active.

        score(u, v, t) = 1 / (time since u and v met), else minus the time since v's last event, else -inf

    Both parts grow as the time since falls, and only pairs that met are positive.
    """

    name = "pair-then-node"
    sees_history = True

    def __init__(self) -> None:
        self.pairs, self.nodes = PairRecency(both_ways=True), Recency()

    def fit(self, train: Events, valid: Events) -> None:
        """Forget everything, then observe the training events."""
        self.pairs.fit(train, valid)
        self.nodes.fit(train, valid)

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] from everything observed."""
        return self._join(self.pairs.score(src, dst, time), self.nodes.score(src, dst, time))

    def observe(self, events: Events) -> None:
        """Let both parts observe the events."""
        self.pairs.observe(events)
        self.nodes.observe(events)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, in one pass."""
        return self._join(self.pairs.replay(events, src, dst, time), self.nodes.replay(events, src, dst, time))

    def _join(self, pair: Floats, node: Floats) -> Floats:
        """[Q] from both ages, with a minus sign; that of a pair is negative, or -inf where it never met."""
        return np.where(np.isfinite(pair), -1.0 / pair, node)


def pair_keys(src: Ints, dst: Ints) -> Ints:
    """[Q] one integer per directed pair; rows stay below 2^31."""
    return (src << 32) | dst
