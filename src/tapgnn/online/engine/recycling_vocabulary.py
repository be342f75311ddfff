"""A vocabulary whose rows can be recycled: those of nodes long silent go to other nodes, so it stays bounded.

The ids that the model was saved with keep their rows for good, because its learned vectors belong to them. Free rows
are assigned lowest first, so that the rows depend only on the order in which nodes came and went.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from tapgnn.events import Ints
from tapgnn.vocabulary import Id, Vocabulary

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
        self._is_hashed[row : row + 1] = False
        reused.append(row)
        return row

    def free(self, rows: Iterable[int]) -> None:
        """Take rows from their nodes; they must not be among the fixed ones."""
        for row in rows:
            del self._row[self._ids[row]]
            self._ids[row] = UNUSED
            heapq.heappush(self._free, row)

    def place(self, names: Sequence[Id | None]) -> None:
        """Put ids at the rows after the fixed ones; where there is none, the row is free."""
        first = len(self._ids)
        self._ids.extend(UNUSED if name is None else name for name in names)
        self._row.update((name, row) for row, name in enumerate(names, first) if name is not None)
        # Ascending, so that it is a heap already.
        self._free.extend(row for row, name in enumerate(names, first) if name is None)
