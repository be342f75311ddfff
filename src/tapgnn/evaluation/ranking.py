"""Ranking: every event among all possible destinations, as in the Temporal Graph Benchmark.

    candidates   all nodes from the least to the greatest destination of the log, by id; where ids are not all integers,
                 the destinations themselves
    negatives    the candidates but the destinations of the same source and time in the same part; or those that are
                 given for each event, such as the samples that `py-tgb` has of its larger data sets
    MRR          mean over the events of 1 / rank, the rank as in `metrics`

Validation events are ranked before the test events, and no number is drawn but those of the curves of a report. Memory
does not grow with events times candidates: scores come in blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from tapgnn.baselines import Method
from tapgnn.baselines.lag import rank_with_lag
from tapgnn.data.negatives import rng_for
from tapgnn.data.splits import Split
from tapgnn.errors import EventError
from tapgnn.evaluation.metrics import hits, mrr, ranks
from tapgnn.evaluation.protocols import Protocol
from tapgnn.evaluation.questions import Assessment, Results, checked
from tapgnn.events import Bools, Events, Floats, Ints


class Ranking(Assessment):
    """The validation and test events among their candidates; without `test`, the validation events alone."""

    def __init__(
        self,
        split: Split,
        protocol: Protocol,
        seed: int,
        lag: int = 0,
        test: bool = True,
        given: Mapping[str, Ints] | None = None,
    ) -> None:
        """`given` [E, n] are the negatives of each part, -1 where an event has fewer."""
        super().__init__(split, protocol, seed, lag, test)
        self.given = given
        self.pool: Ints = np.empty(0, dtype=np.int64) if given is not None else destination_range(split)

    def ask(self, method: Method) -> Results:
        """MRR and hits@10 of a method that has observed the training events, by part."""
        metrics: dict[str, float] = {}
        for part in self.parts:
            events, start = getattr(self.split, part), time.perf_counter()
            candidates = self._candidates(part)
            places, own, other = self._rank(method, events, *candidates)
            cost = {"query_ms": 1e3 * (time.perf_counter() - start) / candidates[0].size}
            prefix = "" if part == "test" else "valid_"
            metrics |= {f"{prefix}mrr": mrr(places), f"{prefix}hits10": hits(places)}
        labels, scores = np.repeat([1, 0], len(events)), np.concatenate([own, other])
        return Results(metrics, cost, labels, scores, np.tile(events.time, 2))

    def _candidates(self, part: str) -> tuple[Ints, Ints, Callable[[Ints], Bools]]:
        """Candidates [E, C] of a part, the place [E] of each event among its own, and which [B, C] are negatives."""
        events: Events = getattr(self.split, part)
        if self.given is None:
            place, excluded = np.searchsorted(self.pool, events.dst), same_source_and_time(events)
            shared = np.broadcast_to(self.pool, (len(events), len(self.pool)))
            return shared, place, lambda rows: self._negatives(rows, place, excluded)
        own, given = events.dst[:, None], self.given[part]
        negative = np.column_stack([np.zeros(len(own), dtype=bool), given >= 0])
        candidates = np.column_stack([own, np.where(given >= 0, given, own)])
        return candidates, np.zeros(len(own), dtype=np.int64), lambda rows: negative[rows]

    def _rank(
        self, method: Method, events: Events, candidates: Ints, place: Ints, negatives: Callable[[Ints], Bools]
    ) -> tuple[Floats, Floats, Floats]:
        """[E] the ranks of the events, their scores, and those of one random negative of each."""
        uniform = rng_for(self.seed, "test").random(len(events))
        found = np.empty((3, len(events)))
        for rows, scores in rank_with_lag(method, events, candidates, self.lag):
            own = checked(method, scores)[np.arange(len(rows)), place[rows]]
            negative = negatives(rows)
            # The row of an event without negatives gives its own score.
            nth = (uniform[rows] * negative.sum(axis=1)).astype(np.int64)
            other = scores[np.arange(len(rows)), (negative.cumsum(axis=1) > nth[:, None]).argmax(axis=1)]
            found[:, rows] = ranks(own, scores, negative), own, np.where(negative.any(axis=1), other, own)
        return found[0], found[1], found[2]

    def _negatives(self, rows: Ints, place: Ints, excluded: tuple[Ints, Ints]) -> Bools:
        """[B, C] which candidates are negatives of these events, whose rows ascend."""
        event, other = excluded
        negative = np.ones((len(rows), len(self.pool)), dtype=bool)
        which = np.searchsorted(rows, event)
        mine = (which < len(rows)) & (rows[np.minimum(which, len(rows) - 1)] == event)
        negative[which[mine], place[other[mine]]] = False
        return negative


def destination_range(split: Split) -> Ints:
    """[C] the rows that may be the destination of an event, ascending; see the module."""
    met = np.unique(np.concatenate([part.dst for part in (split.history, split.valid, split.test)]))
    names = list(split.train.vocabulary.ids)
    if not all(isinstance(name, int) for name in names):
        return met
    ids = np.array(names, dtype=np.int64)
    found = np.flatnonzero((ids >= ids[met].min()) & (ids <= ids[met].max()))
    if len(found) < 2:
        raise EventError("there is one possible destination only; ranking needs at least two")
    return found


def same_source_and_time(events: Events) -> tuple[Ints, Ints]:
    """Pairs [P] of an event and another (or itself) of the same source and time, by the first.

    >>> log = Events.from_arrays(["a", "a", "b"], ["x", "y", "x"], [1.0, 1.0, 1.0])
    >>> same_source_and_time(log)
    (array([0, 0, 1, 1, 2]), array([0, 1, 0, 1, 2]))
    """
    order = np.lexsort((np.arange(len(events)), events.src, events.time))
    changes = (np.diff(events.src[order]) != 0) | (np.diff(events.time[order]) != 0)
    start = np.concatenate([[0], np.flatnonzero(changes) + 1])
    size = np.diff(np.append(start, len(order)))
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.repeat(np.arange(len(start)), size)
    count = size[group]
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(np.arange(len(order)), count), order[np.repeat(start[group], count) + step]
