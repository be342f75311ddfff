"""Key table: how often each key occurred, and when last; exact, with one row per key that occurred.

An open-addressing hash table: the row of a key is in the first slot from its hash on, around the end, that holds it. It
is at most half full, so that a read or a write costs O(1), and as large as the distinct keys and one batch of new ones.
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.shared.row_table import grown
from tapgnn.compiled.jit import compile_loop
from tapgnn.events import Floats, Ints


class KeyTable:
    """Count and latest time of integer keys.

    >>> table = KeyTable()
    >>> table.write(np.array([7, 7]), np.array([1.0, 2.0]))
    >>> table.read(np.array([7, 8]))
    (array([2, 0]), array([  2., -inf]))
    """

    def __init__(self) -> None:
        self._size = 0
        self._slots = np.full(8, -1, dtype=np.int64)
        self._keys, self._count, self._latest = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4)

    def read(self, keys: Ints) -> tuple[Ints, Floats]:
        """Count and latest time [Q] of each key, 0 and -inf for one that never occurred."""
        return self.walk(keys[:0], np.empty(0), keys, np.zeros(len(keys)))

    def write(self, keys: Ints, times: Floats) -> None:
        """Count the keys [E] and keep their latest times."""
        self.walk(keys, times, keys[:0], np.empty(0))

    def walk(self, keys: Ints, times: Floats, query: Ints, when: Floats) -> tuple[Ints, Floats]:
        """Write the keys [E], whose times ascend, and read every (query, when) [Q] after what is strictly earlier."""
        self._reserve(len(keys))
        count, latest = np.empty(len(query), dtype=np.int64), np.empty(len(query))
        order = np.argsort(when, kind="stable")
        table = (self._slots, self._keys, self._count, self._latest)
        self._size = _walk(*table, self._size, (keys, times), (query, when, order), (count, latest))
        return count, latest

    def _reserve(self, more: int) -> None:
        """Make room for so many new keys; rows and slots at least double, so that growing costs O(1) per key."""
        wanted = self._size + more
        self._keys, self._count = grown(self._keys, wanted), grown(self._count, wanted)
        self._latest = grown(self._latest, wanted)
        if 2 * wanted > len(self._slots):
            self._slots = np.full(1 << (4 * wanted - 1).bit_length(), -1, dtype=np.int64)
            _place(self._slots, self._keys, self._size)


@compile_loop
def _slot(slots, keys, key):  # type: ignore[no-untyped-def]
    """The slot that holds the key, or the empty one where it belongs."""
    last = len(slots) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64((mixed >> np.uint64(32)) & np.uint64(last))
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & last
    return slot


@compile_loop
def _place(slots, keys, size):  # type: ignore[no-untyped-def]
    """Put every row into the empty slots."""
    for row in range(size):
        slots[_slot(slots, keys, keys[row])] = row


@compile_loop
def _walk(slots, keys, count, latest, size, events, queries, answers):  # type: ignore[no-untyped-def]
    """Fill the answers in order of time; the new number of keys."""
    key, time = events
    query, when, order = queries
    counts, times = answers
    event = 0
    for position in range(len(order) + 1):
        asked = order[position] if position < len(order) else -1
        while event < len(key) and (asked < 0 or time[event] < when[asked]):
            slot = _slot(slots, keys, key[event])
            row = slots[slot]
            if row < 0:
                row, size = size, size + 1
                slots[slot], keys[row], count[row], latest[row] = row, key[event], 0, time[event]
            count[row] += 1
            latest[row] = max(latest[row], time[event])
            event += 1
        if asked >= 0:
            row = slots[_slot(slots, keys, query[asked])]
            counts[asked] = count[row] if row >= 0 else 0
            times[asked] = latest[row] if row >= 0 else -np.inf
    return size
