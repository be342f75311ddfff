"""Unfolding: events -> temporal nodes V^T, same-instant messages O^T, chains L^T (Section 3.3 and Algorithm 1).

A temporal node is (v, instant) for each instant in which v is active, so events of one time merge. Temporal nodes are
ordered by node, then time: a node's *chain* is one contiguous run of rows. Messages go both ways along an event;
those that reach one temporal node are one contiguous run too, in the order of the events.

Everything costs O(E log E) and no array is larger than 2E; G_MP, with its sum of squared degrees, is never built.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapgnn.compiled.jit import compiled, whole
from tapgnn.events import Events, Floats, Ints

SOURCE, DESTINATION = 0, 1


class Unfolding(NamedTuple):
    """The temporal nodes of some events and what links them.

    nodes [C]      the distinct nodes, ascending; node c owns chain c
    chain [C+1]    rows chain[c] to chain[c+1] of V^T are the chain of nodes[c]
    time [T]       when each temporal node happens
    instant [T]    which of the instants that is
    instants [I]   the distinct times, ascending
    seen [T]       how many of these events there were up to and including the instant
    inbox [T+1]    messages inbox[i] to inbox[i+1] reach temporal node i
    sender [2E]    the temporal node at the other end of each message
    role [2E]      SOURCE where the receiver is the source of the event, DESTINATION where it is the destination
    event [2E]     which event each message travels along
    """

    nodes: Ints
    chain: Ints
    time: Floats
    instant: Ints
    instants: Floats
    seen: Floats
    inbox: Ints
    sender: Ints
    role: Ints
    event: Ints

    @property
    def size(self) -> int:
        """T, the number of temporal nodes."""
        return len(self.time)

    def owner(self) -> Ints:
        """[T] the chain that each temporal node belongs to."""
        return np.asarray(chain_owners(self.chain))

    def degree(self) -> Ints:
        """[T] messages received within these events up to and including the instant, with multiplicity.

        A self-loop is two messages, as in a degree sum.
        """
        received = self.inbox[1:]
        before = self.inbox[self.chain[:-1]]
        return received - np.repeat(before, np.diff(self.chain))

    def before(self, nodes: Ints, times: Floats) -> Ints:
        """The row of each (node, time) strictly before the time.

        That is its latest temporal node before it, T + c where chain c starts only later, -1 where there is no chain.
        """
        return np.asarray(_before(self.nodes, self.chain, self.time, nodes, times))


def unfold(events: Events) -> Unfolding:
    """Unfold time-sorted events.

    >>> log = Events.from_arrays(["a", "a"], ["b", "c"], [1.0, 2.0])
    >>> view = unfold(log)
    >>> view.chain, view.time, view.sender
    (array([0, 2, 3, 4]), array([1., 2., 1., 2.]), array([2, 3, 0, 1]))
    """
    return Unfolding(*_unfold(events.src, events.dst, events.time))


def message_links(events: Events) -> int:
    """|E^T|, the number of links of the message-passing graph G_MP, without building it (Table 1)."""
    return int(unfold(events).degree().sum())


@whole
def _unfold(src: Ints, dst: Ints, time: Floats) -> tuple[Any, ...]:
    events = len(src)
    ends = np.empty(2 * events, dtype=np.int64)
    instant_of = np.empty(events, dtype=np.int64)
    last = -1
    for e in range(events):
        ends[2 * e], ends[2 * e + 1] = src[e], dst[e]
        if e == 0 or time[e] != time[e - 1]:
            last += 1
        instant_of[e] = last
    instants, ended = np.empty(last + 1), np.empty(last + 1)
    for e in range(events):
        instants[instant_of[e]], ended[instant_of[e]] = time[e], e + 1

    # Ends come in time order, so a stable sort by node alone orders them by (node, time, event).
    order = np.argsort(ends, kind="mergesort")
    row_of = np.empty(2 * events, dtype=np.int64)
    nodes = np.empty(2 * events, dtype=np.int64)
    chain = np.empty(2 * events + 1, dtype=np.int64)
    inbox = np.empty(2 * events + 1, dtype=np.int64)
    instant = np.empty(2 * events, dtype=np.int64)
    chains, rows = 0, 0
    for position in range(2 * events):
        end = order[position]
        node, when = ends[end], instant_of[end // 2]
        opens_chain = position == 0 or node != nodes[chains - 1]
        if opens_chain:
            nodes[chains], chain[chains] = node, rows
            chains += 1
        if opens_chain or when != instant[rows - 1]:
            instant[rows], inbox[rows] = when, position
            rows += 1
        row_of[end] = rows - 1
    chain[chains], inbox[rows] = rows, 2 * events

    sender = np.empty(2 * events, dtype=np.int64)
    role = np.empty(2 * events, dtype=np.int64)
    event = np.empty(2 * events, dtype=np.int64)
    for position in range(2 * events):
        end = order[position]
        sender[position] = row_of[end ^ 1]
        role[position] = end & 1
        event[position] = end // 2
    instant = instant[:rows].copy()
    return (
        nodes[:chains].copy(),
        chain[: chains + 1].copy(),
        instants[instant],
        instant,
        instants,
        ended[instant],
        inbox[: rows + 1].copy(),
        sender,
        role,
        event,
    )


@whole
def chain_owners(chain: Ints) -> NDArray[np.int64]:
    """[T] the chain that each temporal node belongs to."""
    owner = np.empty(chain[-1], dtype=np.int64)
    for c in range(len(chain) - 1):
        owner[chain[c] : chain[c + 1]] = c
    return owner


@whole
def _slots(nodes: Ints) -> NDArray[np.int64]:
    """A hash table: the chain of a node is in the first slot from `_slot_of` on, around the end, that holds it."""
    size = 2
    while size < 4 * len(nodes):
        size *= 2
    slots = np.full(size, -1, dtype=np.int64)
    for c in range(len(nodes)):
        slot = _slot_of(nodes[c], size)
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = c
    return slots


@compiled
def _slot_of(node: Any, size: Any) -> Any:
    """Newcomers have rows side by side: mixed first, they do not fill one long run of slots."""
    mixed = np.uint64(node) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))


@whole
def _before(nodes: Ints, chain: Ints, time: Floats, asked: Ints, when: Floats) -> NDArray[np.int64]:
    answer = np.empty(len(asked), dtype=np.int64)
    slots = _slots(nodes)
    last = len(slots) - 1
    for q in range(len(asked)):
        slot = _slot_of(asked[q], len(slots))
        while slots[slot] >= 0 and nodes[slots[slot]] != asked[q]:
            slot = (slot + 1) & last
        c = slots[slot]
        if c < 0:
            answer[q] = -1
            continue
        start = chain[c]
        row = start + np.searchsorted(time[start : chain[c + 1]], when[q]) - 1
        answer[q] = row if row >= start else len(time) + c
    return answer
