"""The roster: a vocabulary that can forget. Rows of nodes long silent are given to others, so it stays bounded.

The ids that the model was saved with keep their rows for good, because its learned vectors are theirs. A freed row is
given out again lowest first, so that the rows are a function of who came and went in which order, and of nothing else.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from tapgnn.events import Ints
from tapgnn.vocabulary import Id, Vocabulary, hash_ids

NOBODY = ""


class Roster(Vocabulary):
    """A vocabulary whose rows beyond the first ones can be freed.

    >>> names = Roster(["ann"])
    >>> names.enrol(["bob", "cat"])
    (array([1, 2]), array([], dtype=int64))
    >>> names.free([1])
    >>> names.enrol(["dan", "cat"])
    (array([1, 2]), array([1]))
    """

    def __init__(self, ids: Iterable[Id]) -> None:
        """`ids` keep their rows for good."""
        super().__init__(ids)
        self.fixed = len(self._ids)
        self._freed: list[int] = []

    @property
    def population(self) -> int:
        """The number of nodes that have a row."""
        return len(self._row)

    @property
    def freed(self) -> list[int]:
        """The rows that hold nobody, ascending."""
        return sorted(self._freed)

    def living(self) -> Ints:
        """The rows that belong to a node."""
        held = np.ones(len(self._ids), dtype=bool)
        held[self._freed] = False
        return np.flatnonzero(held)

    def enrol(self, ids: Sequence[Id]) -> tuple[Ints, Ints]:
        """The row of each of these distinct ids, new ones included; and the rows that were another's before."""
        known = self._row
        reused: list[int] = []
        # Most batches bring nobody new: one look at each id, and a second one only where it was not found.
        rows = list(map(known.get, ids))
        if None in rows:
            for name in ids:
                if name not in known:
                    known[name] = self._seat_for(name, reused)
            rows = list(map(known.get, ids))
        return np.array(rows, dtype=np.int64), np.array(reused, dtype=np.int64)

    def _seat_for(self, name: Id, reused: list[int]) -> int:
        if not self._freed:
            self._ids.append(name)
            return len(self._ids) - 1
        row = heapq.heappop(self._freed)
        self._ids[row] = name
        if row < self._hashed:
            self._hash[row : row + 1] = hash_ids([name])
        reused.append(row)
        return row

    def free(self, rows: Iterable[int]) -> None:
        """Take rows from their nodes; they must not be among the first ones."""
        for row in rows:
            del self._row[self._ids[row]]
            self._ids[row] = NOBODY
            heapq.heappush(self._freed, row)

    def seat(self, rows: Iterable[int], ids: Iterable[Id], size: int) -> None:
        """Put ids at new rows; rows in between, up to `size`, hold nobody."""
        start = len(self._ids)
        self._ids.extend([NOBODY] * (size - start))
        taken = set()
        for row, name in zip(rows, ids, strict=True):
            self._ids[row], self._row[name] = name, row
            taken.add(row)
        for row in range(start, size):
            if row not in taken:
                heapq.heappush(self._freed, row)
