"""A vocabulary whose rows can be recycled: those of nodes long silent go to other nodes, so it stays bounded.

The ids that the model was saved with keep their rows for good, because its learned vectors belong to them. Free rows
are assigned lowest first, so that the rows depend only on the order in which nodes came and went.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tapgnn.events import Ints
from tapgnn.vocabulary import Id, Vocabulary, hash_ids

UNUSED = ""


class RecyclingVocabulary(Vocabulary):
    """A vocabulary whose rows beyond the fixed ones can be freed.

    >>> names = RecyclingVocabulary(["ann"])
    >>> names.assign(["bob", "cat"])
    (array([1, 2]), array([], dtype=int64))
    >>> names.free([1])
    >>> names.assign(["dan", "cat"])
    (array([1, 2]), array([1]))
    """

    def __init__(self, ids: Iterable[Id]) -> None:
        """`ids` keep their rows for good."""
        super().__init__(ids)
        self.fixed = len(self._ids)
        self._free: list[int] = []

    @property
    def node_count(self) -> int:
        """The number of nodes that have a row."""
        return len(self._row)

    @property
    def free_rows(self) -> list[int]:
        """The rows without a node, ascending."""
        return sorted(self._free)

    def occupied_rows(self) -> Ints:
        """The rows with a node, ascending."""
        occupied = np.ones(len(self._ids), dtype=bool)
        occupied[self._free] = False
        return np.flatnonzero(occupied)

    def assign(self, ids: Sequence[Id]) -> tuple[Ints, Ints]:
        """The row of each of these distinct ids, new ones included, and the rows that another node had before."""
        known = self._row
        reused: list[int] = []
        # Most batches bring no new node: one lookup of each id, and a second one only where one was not found.
        rows = list(map(known.get, ids))
        if None in rows:
            for name in ids:
                if name not in known:
                    known[name] = self._new_row(name, reused)
            rows = list(map(known.get, ids))
        return np.array(rows, dtype=np.int64), np.array(reused, dtype=np.int64)

    def _new_row(self, name: Id, reused: list[int]) -> int:
        if not self._free:
            self._ids.append(name)
            return len(self._ids) - 1
        row = heapq.heappop(self._free)
        self._ids[row] = name
        if row < self._hashed:
            self._hash[row : row + 1] = hash_ids([name])
        reused.append(row)
        return row

    def free(self, rows: Iterable[int]) -> None:
        """Take rows from their nodes; they must not be among the fixed ones."""
        for row in rows:
            del self._row[self._ids[row]]
            self._ids[row] = UNUSED
            heapq.heappush(self._free, row)

    def place(self, names: Mapping[int, Id], size: int) -> None:
        """Put ids at new rows; rows in between, up to `size`, are free."""
        for row in range(len(self._ids), size):
            self._ids.append(names.get(row, UNUSED))
            if row in names:
                self._row[names[row]] = row
            else:
                heapq.heappush(self._free, row)
