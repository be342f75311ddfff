"""Trivial methods: a score from how often, and when last, the key of a query occurred; nothing is trained.

    recency        score(u, v, t) = (time of v's last event before t) - t, -inf where v was never active
    popularity     score(u, v, t) = the number of events before t in which v was the destination
    EdgeBank       score(u, v, t) = 1 if u -> v occurred before t, or within [t - window, t), else 0
    pair recency   score(u, v, t) = (time of the last u -> v, or of u and v in either direction, before t) - t
    pair count     score(u, v, t) = the number of events u -> v before t
    pair, then node    pairs that met, in either direction, by how recently; below them the others by recency

A method says which kinds of keys events have, and what score the histories (count, latest time) of those of a query
give. The counts and times of the keys are exact, and take memory for every key that occurred.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np

from tapgnn.baselines.method import Method, StreamClock
from tapgnn.baselines.shared.key_table import KeyTable
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints

Role = Literal["any", "destination"]
# The count [Q] and the latest time [Q] of some keys; the time is -inf where the count is 0.
Occurrences = tuple[Ints, Floats]


class Keys(NamedTuple):
    """A kind of key: of (src, dst) for events and queries; `both`: an event also has that of (dst, src)."""

    of: Callable[[Ints, Ints], Ints]
    both: bool = False

    def of_events(self, events: Events) -> tuple[Ints, Floats]:
        """The keys of the events and their times, in order of time."""
        keys = self.of(events.src, events.dst)
        if not self.both:
            return keys, events.time
        return np.column_stack([keys, self.of(events.dst, events.src)]).ravel(), np.repeat(events.time, 2)


def destination(src: Ints, dst: Ints) -> Ints:
    """[Q] the destination."""
    return dst


def directed_pair(src: Ints, dst: Ints) -> Ints:
    """[Q] one integer per directed pair; rows stay below 2^31."""
    return (src << 32) | dst


def pair(src: Ints, dst: Ints) -> Ints:
    """[Q] one integer per pair, whichever its direction."""
    return directed_pair(np.minimum(src, dst), np.maximum(src, dst))


class KeyHistory(Method):
    """The number of events and the latest event of each key, of one kind or several."""

    sees_history = True

    def __init__(self, *kinds: Keys) -> None:
        self._kinds = kinds
        KeyHistory.forget(self)

    @abstractmethod
    def _rate(self, time: Floats, *history: Occurrences) -> Floats:
        """[Q] scores from the history of each key, by kind."""

    def fit(self, train: Events, valid: Events) -> None:
        """Forget everything, then observe the training events."""
        self.forget()
        self.observe(train)

    def forget(self) -> None:
        """Start from empty tables."""
        self._clock, self._tables = StreamClock(), [KeyTable() for _ in self._kinds]

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] from everything observed."""
        self._clock.check(time)
        kinds = zip(self._kinds, self._tables, strict=True)
        return self._rate(time, *(table.read(kind.of(src, dst)) for kind, table in kinds))

    def observe(self, events: Events) -> None:
        """Count the keys of the events and keep their latest times."""
        self._clock.advance(events)
        for kind, table in zip(self._kinds, self._tables, strict=True):
            table.write(*kind.of_events(events))

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, in one pass."""
        self._clock.check(time)
        self._clock.advance(events)
        kinds = zip(self._kinds, self._tables, strict=True)
        return self._rate(
            time, *(table.walk(*kind.of_events(events), kind.of(src, dst), time) for kind, table in kinds)
        )


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
        super().__init__(Keys(destination, both=role == "any"))
        self.role = role
        self.name = "recency" if role == "any" else "recency-destination"

    def _rate(self, time: Floats, *history: Occurrences) -> Floats:
        return history[0][1] - time


class Popularity(KeyHistory):
    """How often the destination was one so far."""

    name = "popularity"
    of: Callable[[Ints, Ints], Ints] = staticmethod(destination)

    def __init__(self) -> None:
        super().__init__(Keys(self.of))

    def _rate(self, time: Floats, *history: Occurrences) -> Floats:
        return history[0][0].astype(np.float64)


class EdgeBank(KeyHistory):
    """Whether the directed pair was seen before, ever or within a time window (Poursafaei et al., "Towards Better
    Evaluation for Dynamic Link Prediction", NeurIPS 2022, section 4).

    The reference suggests the length of the test period as the window. Difference: there the window ends at the batch;
    here it ends at the query itself, and the memory grows event by event, never by batch.
    """

    def __init__(self, window: float | None = None) -> None:
        if window is not None and not window > 0:
            raise ConfigError(f"the window must be a positive length of time, or None for all time, not {window}")
        super().__init__(Keys(directed_pair))
        self.window = window
        self.name = "edgebank" if window is None else "edgebank-window"

    def _rate(self, time: Floats, *history: Occurrences) -> Floats:
        count, latest = history[0]
        start = -np.inf if self.window is None else time - self.window
        return ((count > 0) & (latest >= start)).astype(np.float64)


class PairRecency(KeyHistory):
    """Minus the time since the pair last met: as u -> v, or in either direction."""

    def __init__(self, both_ways: bool = False) -> None:
        super().__init__(Keys(pair if both_ways else directed_pair))
        self.both_ways = both_ways
        self.name = "pair-recency-both" if both_ways else "pair-recency"

    def _rate(self, time: Floats, *history: Occurrences) -> Floats:
        return history[0][1] - time


class PairCount(Popularity):
    """How often the source had an event with the destination so far."""

    name = "pair-count"
    of = staticmethod(directed_pair)


class PairThenNode(KeyHistory):
    """How recently the pair met, in either direction; below all that met, how recently the destination was active.

        score(u, v, t) = 1 / (time since u and v met), else minus the time since v's last event, else -inf

    Both parts grow as the time since falls, and only pairs that met are positive.
    """

    name = "pair-then-node"

    def __init__(self) -> None:
        super().__init__(Keys(pair), Keys(destination, both=True))

    def _rate(self, time: Floats, *history: Occurrences) -> Floats:
        (met, when), (_, active) = history
        since = np.where(met > 0, time - when, 1.0)
        return np.where(met > 0, 1.0 / since, active - time)
