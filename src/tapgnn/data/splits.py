"""Splits: a log divided by time into training, validation and test events.

`split_paper` is what was run for the paper: the cuts are at 70 % and 85 % of the *distinct timestamps*, and
validation and test events that touch a node unseen in training are dropped. `split_strict` cuts by events, drops
nothing, and distinguishes events that touch an unseen node (inductive) from the others (transductive).
`split_quantiles` is that of the public boards; `split_hiding_nodes` also hides nodes from training.

Invariant: every part shares the vocabulary object of the log, and no instant is in two parts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import ConfigError, EventError
from tapgnn.events import Bools, Events


@dataclass(frozen=True)
class Split:
    """The three parts of a log, and which later events touch a node unseen in training.

    valid_inductive [E of valid], test_inductive [E of test]; both all False under the paper's protocol. `history` are
    the events before the validation: those of the training, and those that are hidden from it.
    """

    train: Events
    valid: Events
    test: Events
    valid_inductive: Bools
    test_inductive: Bools
    history: Events


def split_paper(events: Events) -> Split:
    """Cut at 70 % and 85 % of the distinct timestamps and drop later events with a node unseen in training.

    >>> log = Events.from_arrays(["a", "b", "a", "a"], ["b", "a", "b", "new"], [1.0, 2.0, 3.0, 4.0])
    >>> split_paper(log)
    Traceback (most recent call last):
    ...
    tapgnn.errors.EventError: no test events are left: all 1 touch a node unseen in training; use split_strict, ...
    """
    borders = _instant_borders(events)
    instants = len(borders) - 1
    if instants < 4:
        raise EventError(
            f"the paper's protocol needs at least 4 distinct times, to cut at 70 % and 85 % of them, but the log has "
            f"{instants}; add events or use split_strict"
        )
    # Whole numbers, because 0.7 * 10 is not always 7 in floating point.
    first, second = borders[instants * 70 // 100], borders[instants * 85 // 100]
    whole = _cut(events, int(first), int(second))
    valid = _kept("validation", whole.valid, whole.valid_inductive)
    test = _kept("test", whole.test, whole.test_inductive)
    no_valid, no_test = (np.zeros(len(part), dtype=bool) for part in (valid, test))
    return Split(whole.train, valid, test, no_valid, no_test, whole.train)


def split_strict(events: Events, fractions: tuple[float, float, float] = (0.7, 0.15, 0.15)) -> Split:
    """Cut by events at the first border between instants at or after each fraction; every event is kept.

    A log of at least three instants always gives three parts: if one instant holds too many events, the borders move.

    >>> log = Events.from_arrays(["a", "b", "a", "a"], ["b", "a", "b", "new"], [1.0, 2.0, 3.0, 4.0])
    >>> parts = split_strict(log, (0.5, 0.25, 0.25))
    >>> len(parts.train), parts.valid_inductive, parts.test_inductive
    (2, array([False]), array([ True]))
    """
    if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1.0) > 1e-9:
        raise ConfigError(f"the fractions must be three positive numbers that sum to 1, not {fractions}")
    borders = _instant_borders(events)
    instants = len(borders) - 1
    if instants < 3:
        raise EventError(f"a split needs at least 3 distinct times, but the log has {instants}; add events")
    wanted = np.ceil(np.cumsum(fractions[:2]) * len(events) - 1e-9)
    first, second = np.searchsorted(borders, wanted, side="left")
    first = min(max(first, 1), instants - 2)
    second = min(max(second, first + 1), instants - 1)
    return _cut(events, int(borders[first]), int(borders[second]))


def split_quantiles(events: Events) -> Split:
    """Cut at the quantiles 0.70 and 0.85 of the times of the events; every event is kept, as on the public boards.

    >>> log = Events.from_arrays(["a"] * 5, ["b"] * 5, [1.0, 2.0, 3.0, 4.0, 9.0])
    >>> parts = split_quantiles(log)
    >>> parts.train.time, parts.valid.time, parts.test.time
    (array([1., 2., 3.]), array([4.]), array([9.]))
    """
    first, second = np.searchsorted(events.time, np.quantile(events.time, [0.70, 0.85]), side="right")
    if not 0 < first < second < len(events):
        raise EventError(
            "a cut at the quantiles 0.70 and 0.85 of the times leaves a part without events; add events, or use the "
            "strict protocol"
        )
    return _cut(events, int(first), int(second))


def split_hiding_nodes(events: Events, share: float = 0.1, seed: int = 2020) -> Split:
    """`split_quantiles`, with nodes of the later events hidden: events that touch one are in no training.

    They are in the `history` that a test sees. As in DyGLib: their number is a share of all nodes of the log, and
    inductive events are those that touch a node absent from what is left of training. The draw is its own, too: nodes
    are numbered from 1, by their ids where all are integers, and `random` samples them in the order in which Python's
    set gives those of the later events.
    """
    split = split_quantiles(events)
    ids = events.vocabulary.ids
    numbers = np.array(ids) if all(isinstance(name, int) for name in ids) else np.arange(len(ids))
    ends = [np.concatenate([getattr(part, end) for part in (split.valid, split.test)]) for end in ("src", "dst")]
    sources, destinations = (set((1 + numbers[end]).tolist()) for end in ends)
    later = tuple(sources.union(destinations))
    nodes = len(np.unique(np.concatenate([events.src, events.dst])))
    drawn = np.array(random.Random(seed).sample(later, min(int(share * nodes), len(later))), dtype=np.int64)
    hidden = np.isin(1 + numbers, drawn)
    hides = hidden[split.train.src] | hidden[split.train.dst]
    train = split.train.take(~hides)
    if not len(train):
        raise EventError("no training events are left: each touches a hidden node; use the strict protocol")
    valid_inductive, test_inductive = touches_unseen(split.valid, train), touches_unseen(split.test, train)
    return Split(train, split.valid, split.test, valid_inductive, test_inductive, split.train)


def touches_unseen(events: Events, train: Events) -> Bools:
    """[E] whether either end of each event never occurs in the training events."""
    seen = np.zeros(len(events.vocabulary), dtype=bool)
    seen[train.src] = True
    seen[train.dst] = True
    return np.asarray(~(seen[events.src] & seen[events.dst]))


def _instant_borders(events: Events) -> NDArray[np.int64]:
    """[I+1] the rows at which the instants start, and the end of the log."""
    return np.flatnonzero(np.diff(events.time, prepend=np.nan, append=np.nan))


def _cut(events: Events, first: int, second: int) -> Split:
    train, valid = events.slice(0, first), events.slice(first, second)
    test = events.slice(second, len(events))
    return Split(train, valid, test, touches_unseen(valid, train), touches_unseen(test, train), train)


def _kept(part: str, events: Events, unseen: Bools) -> Events:
    kept = events.take(~unseen)
    if not len(kept):
        raise EventError(
            f"no {part} events are left: all {len(events):,} touch a node unseen in training; "
            "use split_strict, which keeps such events"
        )
    return kept
