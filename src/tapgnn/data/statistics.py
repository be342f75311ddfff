"""Statistics: the paper's data tables (Table 1 and 'Temporal graph data and statistics') for any log.

    repetition   fraction of events with the same destination as the source's previous event
    density      2E / (N (N - 1))
    degree_max   the largest number of event endpoints at one node (a self-loop counts twice)
    degree_mean  E / N, as the paper prints it; the mean number of endpoints is twice that
    ratio        message_links / events, |E^T| / |E|

Repetition gives the paper's numbers: 20.8 % fb-forum, 0.0 % bitcoinotc, 10.9 % escorts, 0.2 % wiki-elec, 4.2 %
slashdot, 79.1 % Wikipedia. On movielens it is 19.6 %; the printed 19.9 % comes from an unstable sort of equal times.
The paper counts only the larger side of escorts and movielens as nodes, so its densities and mean degrees differ there;
its span of slashdot leaves out the one row at time 0.

A `Summary` is computed piece by piece in O(N) memory plus one piece, so that it can describe a file larger than memory.
`describe` applies it to a log in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapgnn.errors import EventError
from tapgnn.events import Events, Ints
from tapgnn.unfold import unfold

# What every statistic is, in the order of a table for people.
HEADINGS = {
    "events": "events",
    "nodes": "nodes",
    "bipartite": "bipartite (no node is both source and destination)",
    "temporal_nodes": "temporal nodes (a node at an instant in which it is active)",
    "message_links": "message links of the temporal graph (never materialised)",
    "ratio": "message links per event",
    "repetition": "share of events with the same destination as the source's previous event",
    "density": "density, 2E / N(N-1)",
    "degree_max": "events of the busiest node",
    "degree_mean": "events per node",
    "timespan_days": "days from the first to the last event",
    "timespan": "time from the first to the last event, in the unit of the log",
    "start": "time of the first event",
    "end": "time of the last event",
    "instants": "distinct times",
    "ties": "events at the same time as another event",
    "duplicates": "exact duplicates",
    "self_loops": "self-loops",
    "sorted": "the file is sorted by time",
    "feature_width": "columns that describe an event",
    "labels": "events with a label above 0",
}
SECONDS_PER_DAY = 86_400.0
CHUNK = 1 << 18


def describe(events: Events, *, was_sorted: bool | None = None, unit: float = 1.0) -> dict[str, Any]:
    """The statistics of a log as plain numbers.

    was_sorted   `ReadReport.sorted` from the reader, None if unknown
    unit         seconds in a unit of its times

    >>> log = Events.from_arrays(["a", "a", "b"], ["b", "b", "c"], [1.0, 2.0, 2.0])
    >>> table = describe(log)
    >>> table["nodes"], table["temporal_nodes"], table["message_links"], table["ties"]
    (3, 5, 8, 2)
    """
    summary = Summary()
    for piece in events.chunks(CHUNK):
        summary.add(piece)
    return summary.table(was_sorted, unit)


class Summary:
    """The statistics of a log in pieces that share a growing vocabulary and are cut between instants."""

    def __init__(self) -> None:
        self._degree, self._partner = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._acts, self._receives = np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
        self._events = self._temporal_nodes = self._links = self._repeated = 0
        self._instants = self._ties = self._duplicates = self._self_loops = 0
        self._labels: int | None = None
        self._start = self._end = np.nan
        self._features = 0

    def add(self, piece: Events) -> None:
        """Add the events of the next piece."""
        if not len(piece):
            return
        self._grow(len(piece.vocabulary))
        self._start, self._end = float(piece.time[0]) if not self._events else self._start, float(piece.time[-1])
        self._events += len(piece)
        self._unfold(piece)
        self._acts[piece.src], self._receives[piece.dst] = True, True
        self._repeated += _count_repeated(piece, self._partner)
        sizes = np.unique(piece.time, return_counts=True)[1]
        self._instants += len(sizes)
        self._ties += int(sizes[sizes > 1].sum())
        self._duplicates += _duplicates(piece)
        self._self_loops += int((piece.src == piece.dst).sum())
        self._features = piece.feature_width + len(piece.columns)
        if piece.labels is not None:
            self._labels = (self._labels or 0) + int((piece.labels > 0).sum())

    def _grow(self, nodes: int) -> None:
        fresh = nodes - len(self._degree)
        self._degree = np.append(self._degree, np.zeros(fresh, dtype=np.int64))
        self._partner = np.append(self._partner, np.full(fresh, -1))
        self._acts, self._receives = (np.append(seen, np.zeros(fresh, bool)) for seen in (self._acts, self._receives))

    def _unfold(self, piece: Events) -> None:
        view = unfold(piece)
        self._temporal_nodes += view.size
        # A temporal node is reached by every message that its node has received so far.
        self._links += int(view.degree().sum() + (self._degree[view.nodes] * np.diff(view.chain)).sum())
        self._degree[view.nodes] += np.diff(view.inbox[view.chain])

    def table(self, was_sorted: bool | None = None, unit: float = 1.0) -> dict[str, Any]:
        """The statistics of all pieces."""
        count, nodes = self._events, int((self._degree > 0).sum())
        if not count:
            raise EventError("there are no events to describe; at least one event is needed")
        return {
            "nodes": nodes,
            "events": count,
            "bipartite": not bool((self._acts & self._receives).any()),
            "temporal_nodes": self._temporal_nodes,
            "message_links": self._links,
            "ratio": self._links / count,
            "repetition": self._repeated / count,
            "density": 2 * count / (nodes * (nodes - 1)) if nodes > 1 else 0.0,
            "degree_max": int(self._degree.max()),
            "degree_mean": count / nodes,
            "timespan_days": (self._end - self._start) * unit / SECONDS_PER_DAY,
            "timespan": self._end - self._start,
            "start": self._start,
            "end": self._end,
            "instants": self._instants,
            "ties": self._ties,
            "duplicates": self._duplicates,
            "self_loops": self._self_loops,
            "sorted": was_sorted,
            "feature_width": self._features,
            "labels": self._labels,
        }


def is_bipartite(events: Events) -> bool:
    """Whether no node is both a source and a destination.

    >>> is_bipartite(Events.from_arrays(["ann", "bob"], ["shop", "shop"], [1.0, 2.0]))
    True
    """
    return not np.isin(events.dst, events.src).any()


def _count_repeated(events: Events, partner: Ints) -> int:
    """The number of events that repeat the last partner [N] of their source (-1: none yet), which is updated."""
    order = np.argsort(events.src, kind="stable")
    src, dst = events.src[order], events.dst[order]
    change = src[1:] != src[:-1]
    before = np.where(np.append(True, change), partner[src], np.roll(dst, 1))
    last = np.append(change, True)
    partner[src[last]] = dst[last]
    return int((before == dst).sum())


def _duplicates(events: Events) -> int:
    """The number of events that equal an earlier one in every column."""
    order = np.lexsort((events.dst, events.src, events.time))
    same = np.logical_and.reduce([np.diff(column[order]) == 0 for column in (events.src, events.dst, events.time)])
    alike = order[np.append(same, False) | np.append(False, same)]
    events, more = events.take(alike), []
    for column in (events.labels, events.features, *events.columns.values()):
        more += [] if column is None else [column if column.dtype == object else [row.tobytes() for row in column]]
    return len(alike) - len(set(zip(events.src, events.dst, events.time, *more, strict=True)))
