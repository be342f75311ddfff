"""Adjacency: the neighbours of every node before t, in order of time, and samples of them.

    N(v, t) = ((u, t', e) : event e joins v and u at t', t' < t), in order of time, ties in the order of the log

Both ends of an event are in each other's list; a self-loop is in its node's list twice. The lists lie in one arena,
each a run that a binary search cuts at t. A run that is full moves to the end of the arena with twice the capacity, so
that appending costs O(1) an event on average and never a rebuild; a log that comes in one piece is a plain CSR.

Invariant: the result for (v, t) is a function of the events before t and of the seed, whatever was appended later and
whatever other queries are in the call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapgnn.baselines.method import StreamClock
from tapgnn.baselines.shared.counter_rng import combine, random_below, seed_key
from tapgnn.baselines.shared.row_table import grown
from tapgnn.compiled.jit import compile_loop
from tapgnn.events import Events, Floats, Ints


class Arena(NamedTuple):
    """The runs of all nodes: start and length [N] of each, and the entries: node, time and event [A]."""

    start: Ints
    length: Ints
    node: Ints
    time: Floats
    event: Ints


class Neighbours(NamedTuple):
    """[Q, n] entries for Q queries; `event` counts those appended, from 0; padding is -1, the query's time, -1."""

    node: Ints
    time: Floats
    event: Ints

    @property
    def mask(self) -> NDArray[np.bool_]:
        """[Q, n] where there is an entry; padding comes last in a row."""
        return np.asarray(self.node >= 0)


class Adjacency:
    """The neighbours of every node in order of time; rows that never occurred, -1 among them, have none.

    >>> log = Events.from_arrays(["ann", "bob", "ann"], ["bob", "cat", "cat"], [1.0, 2.0, 3.0])
    >>> graph = Adjacency(log)
    >>> graph.latest(np.array([0, 1]), np.array([3.0, 3.0]), 2).node     # ann and bob, before 3
    array([[ 1, -1],
           [ 2,  0]])
    """

    def __init__(self, events: Events | None = None) -> None:
        self.events = 0
        nothing = np.empty(0, dtype=np.int64)
        self.arena = Arena(nothing, nothing, nothing, np.empty(0), nothing)
        self._capacity, self._used, self._clock = nothing, 0, StreamClock()
        if events is not None:
            self.append(events)

    def append(self, events: Events) -> None:
        """Add events that are no older than those already there; they share the vocabulary of rows."""
        if not len(events):
            return
        self._clock.advance(events)
        self._reserve(*np.unique(np.concatenate([events.src, events.dst]), return_counts=True))
        _write(events.src, events.dst, events.time, self.events, self.arena)
        self.events += len(events)

    def latest(self, nodes: Ints, times: Floats, count: int) -> Neighbours:
        """[Q, count] the most recent entries before each time, the last one first; of ties, the later in the log."""
        nodes, times, found = _allocate(nodes, times, count)
        _latest(nodes, times, found, self.arena)
        return found

    def uniform(self, nodes: Ints, times: Floats, count: int, seed: int) -> Neighbours:
        """[Q, count] different entries before each time, or all, each set as likely; by seed, node and time alone."""
        nodes, times, found = _allocate(nodes, times, count)
        # Adding 0 makes -0.0 the 0.0 that it equals.
        words = (times + 0.0).view(np.uint64)
        _uniform(nodes, times, words, seed_key(seed), found, self.arena)
        return found

    def _reserve(self, nodes: Ints, added: Ints) -> None:
        """Make room for `added` more entries in the runs of the nodes, which ascend."""
        start, length, *entries = self.arena
        start, length, self._capacity = (grown(table, int(nodes[-1]) + 1) for table in (start, length, self._capacity))
        needed = length[nodes] + added
        full = needed > self._capacity[nodes]
        movers = nodes[full]
        room = np.maximum(2 * self._capacity[movers], needed[full])
        target = self._used + np.cumsum(room) - room
        self._used += int(room.sum())
        self.arena = Arena(start, length, *(grown(column, self._used) for column in entries))
        _move(movers, target, self.arena)
        self._capacity[movers] = room


def _allocate(nodes: Ints, times: Floats, count: int) -> tuple[Ints, Floats, Neighbours]:
    """The queries as contiguous arrays, and their neighbours, all of them padding."""
    nodes, times = np.ascontiguousarray(nodes, dtype=np.int64), np.ascontiguousarray(times, dtype=np.float64)
    nothing = np.full((len(times), count), -1, dtype=np.int64)
    return nodes, times, Neighbours(nothing, np.repeat(times, count).reshape(nothing.shape), nothing.copy())


@compile_loop
def _move(movers: Any, target: Any, arena: Any) -> None:
    for row in range(len(movers)):
        old, new, size = arena.start[movers[row]], target[row], arena.length[movers[row]]
        arena.node[new : new + size] = arena.node[old : old + size]
        arena.time[new : new + size] = arena.time[old : old + size]
        arena.event[new : new + size] = arena.event[old : old + size]
        arena.start[movers[row]] = new


@compile_loop
def _write(src: Any, dst: Any, time: Any, first: Any, arena: Any) -> None:
    for row in range(len(src)):
        for owner, other in ((src[row], dst[row]), (dst[row], src[row])):
            place = arena.start[owner] + arena.length[owner]
            arena.node[place], arena.time[place], arena.event[place] = other, time[row], first + row
            arena.length[owner] += 1


@compile_loop
def _count_before(node: Any, time: Any, arena: Any) -> Any:
    """How many entries of the node's run are strictly earlier."""
    if node < 0 or node >= len(arena.start):
        return 0
    first = arena.start[node]
    return np.searchsorted(arena.time[first : first + arena.length[node]], time)


@compile_loop
def _copy_entry(arena: Any, place: Any, found: Any, row: Any, slot: Any) -> None:
    found.node[row, slot], found.time[row, slot] = arena.node[place], arena.time[place]
    found.event[row, slot] = arena.event[place]


@compile_loop
def _latest(nodes: Any, times: Any, found: Any, arena: Any) -> None:
    for row in range(len(nodes)):
        past = _count_before(nodes[row], times[row], arena)
        for slot in range(min(past, found.node.shape[1])):
            _copy_entry(arena, arena.start[nodes[row]] + past - 1 - slot, found, row, slot)


@compile_loop
def _uniform(nodes: Any, times: Any, words: Any, key: Any, found: Any, arena: Any) -> None:
    wanted = found.node.shape[1]
    chosen = np.empty(wanted, dtype=np.int64)
    for row in range(len(nodes)):
        past = _count_before(nodes[row], times[row], arena)
        size = min(past, wanted)
        own = combine(combine(key, np.uint64(nodes[row])), words[row])
        for slot in range(size):
            # Floyd's sampling: a draw that is taken already is replaced by the newest possible one.
            pick = random_below(own, slot, past - size + slot + 1)
            for earlier in range(slot):
                if chosen[earlier] == pick:
                    pick = past - size + slot
                    break
            chosen[slot] = pick
            _copy_entry(arena, arena.start[nodes[row]] + pick, found, row, slot)
