"""Batches: every event against negatives that replace both ends, averaged over batches of 200, as in DyGLib.

    transductive   all events of a part          the pairs below are those of the whole log
    inductive      those that touch a node absent from training: a test of its own, with the pairs of these events

    random         the source is kept, the destination drawn from all destinations
    historical     pairs that happened up to the start of the batch, and do not happen within it
    inductive      of these, pairs that happened first after what came before the part

Pairs are drawn without replacement; where they are too few, pairs of any source with any destination fill the batch,
those that happen in it excepted. (In an inductive test historical and inductive negatives are the same.) A metric is
the plain mean over the batches. The negatives are those of the log, not of the seed: every run gets the same.
"""

from __future__ import annotations

import time

import numpy as np

from tapgnn.baselines import Method
from tapgnn.baselines.lag import replay_with_lag
from tapgnn.baselines.trivial import directed_pair
from tapgnn.data.negatives import NegativeType
from tapgnn.evaluation.metrics import auc, average_precision
from tapgnn.evaluation.questions import Assessment, Results, checked
from tapgnn.events import Events, Floats, Ints

SIZE = 200
# The negatives of each test.
TESTS: tuple[tuple[str, NegativeType], ...] = (
    ("transductive", "random"),
    ("transductive", "historical"),
    ("transductive", "inductive"),
    ("inductive", "random"),
    ("inductive", "historical"),
)


class BatchNegatives:
    """Negatives of batches of events among the pairs of a log, whose times ascend."""

    def __init__(self, log: Events, observed: float, seed: int) -> None:
        """`observed` is when the events before the part end."""
        self.log, self.rng = log, np.random.default_rng(seed)
        self.sources, self.destinations = np.unique(log.src), np.unique(log.dst)
        keys, first, which = np.unique(directed_pair(log.src, log.dst), return_index=True, return_inverse=True)
        # Pairs in order of their first event: those that happened up to a time come first.
        order = np.argsort(first, kind="stable")
        self.pairs, self.since = keys[order], log.time[first[order]]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.place = place[which]
        self.old = int(np.searchsorted(self.since, observed, side="right"))

    def draw(self, kind: NegativeType, batch: Events) -> tuple[Ints, Ints]:
        """Sources and destinations [E] of one negative for each event of the batch."""
        if kind == "random":
            return batch.src, self.rng.choice(self.destinations, len(batch))
        start, stop = batch.time[0], batch.time[-1]
        low, high = np.searchsorted(self.log.time, start, "left"), np.searchsorted(self.log.time, stop, "right")
        first = self.old if kind == "inductive" else 0
        last = max(int(np.searchsorted(self.since, start, side="right")), first)
        current = np.unique(self.place[low:high])
        current = current[(current >= first) & (current < last)]
        few = min(len(batch), last - first - len(current))
        drawn = self.pairs[first + _skipping(self.rng, last - first, current - first, few)]
        src, dst = self._any_pairs(batch, len(batch) - few)
        return np.concatenate([src, drawn >> 32]), np.concatenate([dst, drawn & 0xFFFFFFFF])

    def _any_pairs(self, batch: Events, count: int) -> tuple[Ints, Ints]:
        """Sources and destinations of so many pairs that do not happen in the batch."""
        width = len(self.destinations)
        rows, columns = np.searchsorted(self.sources, batch.src), np.searchsorted(self.destinations, batch.dst)
        cells = _skipping(self.rng, len(self.sources) * width, np.unique(rows * width + columns), count)
        return self.sources[cells // width], self.destinations[cells % width]


class Batches(Assessment):
    """The validation and test events against their negatives; without `test`, the validation events alone."""

    def ask(self, method: Method) -> Results:
        """AUC and AP of a method that has observed the training events, by test and part."""
        metrics: dict[str, float] = {}
        # Negatives that replace both ends.
        method.question = "event"
        for part in self.parts:
            events, tests = getattr(self.split, part), self.tests(part)
            rows = np.concatenate([np.arange(len(events)), *(rows for _, rows, _, _ in tests)])
            src = np.concatenate([events.src, *(src for _, _, src, _ in tests)])
            dst = np.concatenate([events.dst, *(dst for _, _, _, dst in tests)])
            start = time.perf_counter()
            scores = checked(method, replay_with_lag(method, events, src, dst, events.time[rows], self.lag))
            cost = {"query_ms": 1e3 * (time.perf_counter() - start) / len(scores)}
            prefix = "" if part == "test" else "valid_"
            positive, ends = scores[: len(events)], np.cumsum([len(events), *(len(rows) for _, rows, _, _ in tests)])
            for (name, rows, _, _), first, last in zip(tests, ends, ends[1:], strict=False):
                areas = areas_by_batch(positive[rows], scores[first:last])
                metrics |= {f"{prefix}{name}_{key}": value for key, value in areas.items()}
        labels = np.repeat([1, 0], len(events))
        return Results(metrics, cost, labels, scores[: 2 * len(events)], np.tile(events.time, 2))

    def tests(self, part: str) -> list[tuple[str, Ints, Ints, Ints]]:
        """The tests of a part: name, rows of its events, and sources and destinations of their negatives."""
        split, later = self.split, part == "test"
        events = getattr(split, part)
        observed = (split.valid if later else split.train).time[-1]
        unseen = split.test_inductive if later else split.valid_inductive
        groups = {"transductive": np.arange(len(events)), "inductive": np.flatnonzero(unseen)}
        found = []
        for group, kind in TESTS:
            rows, inductive = groups[group], group == "inductive"
            if len(rows):
                log = events.take(rows) if inductive else self._whole()
                negatives = BatchNegatives(log, observed, 2 * later + inductive)
                cuts = range(SIZE, len(rows), SIZE)
                drawn = [negatives.draw(kind, events.take(batch)) for batch in np.split(rows, cuts)]
                src, dst = (np.concatenate(ends) for ends in zip(*drawn, strict=True))
                found.append((f"{group}_{kind}", rows, src, dst))
        return found

    def _whole(self) -> Events:
        """The whole log, the events included that are hidden from training."""
        return self.split.history.append(self.split.valid).append(self.split.test)


def areas_by_batch(positive: Floats, negative: Floats) -> dict[str, float]:
    """AP and AUC of events and their negatives [E], as plain means over batches of 200."""
    found: dict[str, list[float]] = {"ap": [], "auc": []}
    for start in range(0, len(positive), SIZE):
        both = [scores[start : start + SIZE] for scores in (positive, negative)]
        labels = np.repeat([1, 0], len(both[0]))
        found["ap"].append(average_precision(labels, np.concatenate(both)))
        found["auc"].append(auc(labels, np.concatenate(both)))
    return {key: float(np.mean(values)) for key, values in found.items()}


def _skipping(rng: np.random.Generator, size: int, skipped: Ints, count: int) -> Ints:
    """`count` of the numbers below `size` that are not skipped (ascending), distinct where there are enough.

    >>> sorted(_skipping(np.random.default_rng(0), 5, np.array([1, 3]), 3).tolist())
    [0, 2, 4]
    """
    free = size - len(skipped)
    chosen = rng.choice(free, count, replace=count > free) if count else np.empty(0, dtype=np.int64)
    return chosen + np.searchsorted(skipped - np.arange(len(skipped)), chosen, side="right")
