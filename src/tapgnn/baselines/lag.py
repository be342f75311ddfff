"""Lag: how many events the history of a query may be stale.

With a lag L the events come in consecutive batches of L, and a query at t sees the events strictly before the first
instant of its batch: that of the first event at or after t. With a lag of 0 or 1 that is the law of `Method.replay`,
the events strictly before t. Boards mix conventions (EdgeBank is published with batches of 200), and the lag is part
of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tapgnn.baselines.method import Method
from tapgnn.events import Events, Floats, Ints
from tapgnn.model.trace import start_of_batch

# Scores that are held at once.
HELD = 1 << 18


def visible(event_time: Floats, when: Floats, lag: int) -> Ints:
    """[Q] how many of the events, whose times ascend, a query at each time may see.

    >>> visible(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, 9.0]), 2)
    array([0, 2, 4])
    """
    return np.searchsorted(event_time, start_of_batch(event_time, when, lag), side="left")


def replay_with_lag(method: Method, events: Events, src: Ints, dst: Ints, time: Floats, lag: int) -> Floats:
    """[Q] the score of each query, in any order of time, from what it may see; the method then has observed all."""
    if lag < 2:
        return method.replay(events, src, dst, time)
    scores = np.empty(len(time))
    for rows in stale_batches(method.observe, events, time, lag):
        scores[rows] = method.score(src[rows], dst[rows], time[rows])
    return scores


def rank_with_lag(method: Method, events: Events, candidates: Ints, lag: int) -> Iterator[tuple[Ints, Floats]]:
    """Rows [B] of the events, in order, and the scores [B, n] of their sources with their candidates [E, n].

    When all are given, the method has observed all events.
    """
    block = max(1, HELD // max(candidates.shape[1], 1))
    if lag < 2:
        start = 0
        for piece in events.chunks(block):
            rows = np.arange(start, start + len(piece))
            yield rows, method.replay_candidates(piece, piece.src, candidates[rows], piece.time)
            start += len(piece)
        return
    for batch in stale_batches(method.observe, events, events.time, lag):
        for rows in np.array_split(batch, -(-len(batch) // block)):
            yield rows, method.score_candidates(events.src[rows], candidates[rows], events.time[rows])


def stale_batches(observe: Callable[[Events], object], events: Events, time: Floats, lag: int) -> Iterator[Ints]:
    """The queries that see the same events, as soon as these are observed; the other events are observed at the end."""
    seen = visible(events.time, time, lag)
    order = np.argsort(seen, kind="stable")
    done = 0
    for rows in np.split(order, np.flatnonzero(np.diff(seen[order])) + 1):
        if len(rows):
            if seen[rows[0]] > done:
                observe(events.slice(done, int(seen[rows[0]])))
                done = int(seen[rows[0]])
            yield rows
    if len(events) > done:
        observe(events.slice(done, len(events)))
