"""Adjacency: who met whom before t, for every node in order of time, and samples of it.

    N(v, t) = ((u, t', e) : event e joins v and u at t', t' < t), in order of time, ties in the order of the log

Both ends of an event are in each other's list; a self-loop is in its node's list twice. The lists lie in one arena,
each a run that a binary search cuts at t. A run that is full moves to the end of the arena with twice the room, so that
appending costs O(1) an event on average and never a rebuild; a log that comes in one piece is a plain CSR.

    latest(v, t, n)     the n last of N(v, t), the last one first
    uniform(v, t, n)    n different entries of N(v, t), each set of n equally likely; all, where there are fewer

Invariant: an answer about (v, t) is a function of the events before t and of the seed, whatever was appended later and
whatever else is asked in the same call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.baselines.shared.counter_rng import below, compiled, joined, seed_key
from tapgnn.errors import ConfigError, LateEventError
from tapgnn.events import Events, Floats, Ints


@dataclass(frozen=True)
class Neighbours:
    """Entries found for Q questions, [Q, n] each: node and event are -1, and time is the asked one, where none is left.

    `event` counts the events in the order in which they were appended, from 0.
    """

    node: Ints
    time: Floats
    event: Ints

    @property
    def mask(self) -> NDArray[np.bool_]:
        """[Q, n] where an entry was found; in a row these come first."""
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
        self.clock = -np.inf
        self._used = 0
        self._start, self._length, self._capacity = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self._node, self._event = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._time = np.empty(0)
        if events is not None:
            self.append(events)

    @property
    def runs(self) -> tuple[Ints, Ints, Ints, Floats, Ints]:
        """start and length [N] of every node's run, and the arena: node, time and event [A]; to be read, not kept."""
        return self._start, self._length, self._node, self._time, self._event

    def append(self, events: Events) -> None:
        """Add events that are no older than those already there; they share the vocabulary of rows."""
        if not len(events):
            return
        if events.time[0] < self.clock:
            raise LateEventError(
                f"an event at {events.time[0]} came after one at {self.clock}; append events in order of time"
            )
        touched, added = np.unique(np.concatenate([events.src, events.dst]), return_counts=True)
        self._enlarge(int(touched[-1]) + 1)
        self._make_room(touched, self._length[touched] + added)
        _write(events.src, events.dst, events.time, self.events, *self.runs)
        self.events += len(events)
        self.clock = float(events.time[-1])

    def degree(self, nodes: Ints, times: Floats) -> Ints:
        """[Q] the size of N(v, t) for each question."""
        nodes, times = _checked(nodes, times)
        count = np.empty(len(nodes), dtype=np.int64)
        _count(nodes, times, count, *self.runs)
        return count

    def latest(self, nodes: Ints, times: Floats, count: int) -> Neighbours:
        """[Q, count] the most recent entries before each time, the last one first; of ties, the later in the log."""
        nodes, times = _checked(nodes, times)
        found = _nothing(times, count)
        _latest(nodes, times, found.node, found.time, found.event, *self.runs)
        return found

    def uniform(self, nodes: Ints, times: Floats, count: int, seed: int) -> Neighbours:
        """[Q, count] different entries before each time, every choice of them equally likely.

        What is drawn depends on the seed, the node and the time alone: pass another seed for another sample.
        """
        nodes, times = _checked(nodes, times)
        found = _nothing(times, count)
        # Adding 0 makes -0.0 the 0.0 that it equals.
        words = (times + 0.0).view(np.uint64)
        _uniform(nodes, times, words, seed_key(seed), found.node, found.time, found.event, *self.runs)
        return found

    def _enlarge(self, nodes: int) -> None:
        """Tables for at least this many nodes."""
        if nodes > len(self._start):
            wider = max(nodes, 2 * len(self._start))
            self._start, self._length, self._capacity = (
                _longer(table, wider) for table in (self._start, self._length, self._capacity)
            )

    def _make_room(self, nodes: Ints, wanted: Ints) -> None:
        """Give each of the nodes a run that holds `wanted` entries."""
        full = wanted > self._capacity[nodes]
        movers = nodes[full]
        room = np.maximum(2 * self._capacity[movers], wanted[full])
        target = self._used + np.cumsum(room) - room
        self._used += int(room.sum())
        if self._used > len(self._node):
            size = max(self._used, 2 * len(self._node))
            self._node, self._event = _longer(self._node, size), _longer(self._event, size)
            self._time = _longer(self._time, size)
        _move(movers, target, *self.runs)
        self._start[movers] = target
        self._capacity[movers] = room


def _checked(nodes: Ints, times: Floats) -> tuple[Ints, Floats]:
    return np.ascontiguousarray(nodes, dtype=np.int64), np.ascontiguousarray(times, dtype=np.float64)


def _nothing(times: Floats, count: int) -> Neighbours:
    if count < 1:
        raise ConfigError(f"at least one neighbour must be asked for, not {count}")
    shape = (len(times), count)
    time = np.repeat(times, count).reshape(shape)
    return Neighbours(np.full(shape, -1, dtype=np.int64), time, np.full(shape, -1, dtype=np.int64))


def _longer(table: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros(size, dtype=table.dtype)
    longer[: len(table)] = table
    return longer


@compiled
def _move(movers: Any, target: Any, start: Any, length: Any, node: Any, time: Any, event: Any) -> None:
    for row in range(len(movers)):
        old, new = start[movers[row]], target[row]
        for place in range(length[movers[row]]):
            node[new + place] = node[old + place]
            time[new + place] = time[old + place]
            event[new + place] = event[old + place]


@compiled
def _write(
    src: Any, dst: Any, when: Any, first: Any, start: Any, length: Any, node: Any, time: Any, event: Any
) -> None:
    for row in range(len(src)):
        for owner, other in ((src[row], dst[row]), (dst[row], src[row])):
            place = start[owner] + length[owner]
            node[place], time[place], event[place] = other, when[row], first + row
            length[owner] += 1


@compiled
def before(owner: Any, until: Any, start: Any, length: Any, time: Any) -> Any:
    """How many entries of the owner's run are strictly earlier."""
    if owner < 0 or owner >= len(start):
        return 0
    first = start[owner]
    return np.searchsorted(time[first : first + length[owner]], until)


@compiled
def _count(nodes: Any, times: Any, count: Any, start: Any, length: Any, node: Any, time: Any, event: Any) -> None:
    for row in range(len(nodes)):
        count[row] = before(nodes[row], times[row], start, length, time)


@compiled
def _latest(
    nodes: Any,
    times: Any,
    found_node: Any,
    found_time: Any,
    found_event: Any,
    start: Any,
    length: Any,
    node: Any,
    time: Any,
    event: Any,
) -> None:
    for row in range(len(nodes)):
        past = before(nodes[row], times[row], start, length, time)
        for slot in range(min(past, found_node.shape[1])):
            place = start[nodes[row]] + past - 1 - slot
            found_node[row, slot], found_time[row, slot] = node[place], time[place]
            found_event[row, slot] = event[place]


@compiled
def _uniform(
    nodes: Any,
    times: Any,
    words: Any,
    key: Any,
    found_node: Any,
    found_time: Any,
    found_event: Any,
    start: Any,
    length: Any,
    node: Any,
    time: Any,
    event: Any,
) -> None:
    wanted = found_node.shape[1]
    chosen = np.empty(wanted, dtype=np.int64)
    for row in range(len(nodes)):
        past = before(nodes[row], times[row], start, length, time)
        size = min(past, wanted)
        own = joined(joined(key, np.uint64(nodes[row])), words[row])
        for slot in range(size):
            # Floyd's sampling: a draw that is taken already gives way to the newest possible one.
            pick = below(own, slot, past - size + slot + 1)
            for earlier in range(slot):
                if chosen[earlier] == pick:
                    pick = past - size + slot
                    break
            chosen[slot] = pick
            place = start[nodes[row]] + pick
            found_node[row, slot], found_time[row, slot] = node[place], time[place]
            found_event[row, slot] = event[place]
