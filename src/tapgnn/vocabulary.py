"""The vocabulary: the ids of a log, any strings or integers, and the dense rows that stand for them.

Rows are given in order of first appearance, so that a log read in one piece or in many gives the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tapgnn.errors import EventError, QueryError

Id = str | int
Rows = NDArray[np.int64]


class Vocabulary:
    """The growing map between the user's ids and dense rows.

    >>> names = Vocabulary()
    >>> names.add(["ann", "bob", "ann", 7])
    array([0, 1, 0, 2])
    >>> names.rows(["bob", "eve"])
    array([ 1, -1])
    """

    def __init__(self, ids: Iterable[Id] = ()) -> None:
        self._ids: list[Id] = list(ids)
        self._row: dict[Id, int] = {name: row for row, name in enumerate(self._ids)}
        if len(self._row) != len(self._ids):
            raise EventError("the ids of a vocabulary must differ; remove the repeated ones")
        self._hash = np.empty(0, dtype=np.uint64)
        self._is_hashed = np.zeros(0, dtype=bool)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, name: Id) -> bool:
        return name in self._row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._ids == other._ids

    __hash__ = None  # type: ignore[assignment]

    @property
    def ids(self) -> Sequence[Id]:
        """The ids in row order."""
        return self._ids

    def add(self, ids: ArrayLike | Sequence[Id]) -> Rows:
        """Give the row of each id, with a new row for every id not seen before."""
        distinct, which = _distinct(ids)
        rows = np.empty(len(distinct), dtype=np.int64)
        for position, name in enumerate(distinct):
            row = self._row.setdefault(name, len(self._ids))
            if row == len(self._ids):
                self._ids.append(name)
            rows[position] = row
        return rows[which]

    def rows(self, ids: ArrayLike | Sequence[Id]) -> Rows:
        """Give the row of each id, -1 where the id is not known."""
        distinct, which = _distinct(ids)
        return np.array([self._row.get(name, -1) for name in distinct], dtype=np.int64)[which]

    def known_rows(self, ids: ArrayLike | Sequence[Id]) -> Rows:
        """Give the row of each id; an unknown id is an error that names it."""
        rows = self.rows(ids)
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            name = list(np.asarray(ids, dtype=object).ravel())[missing[0]]
            raise QueryError(f"no node is called {name!r}; ids are matched by value and type (7 is not '7')")
        return rows

    def hashes(self, first: int = 0) -> NDArray[np.uint64]:
        """The hash of each id from row `first` on (`hash_ids`); an id is hashed once, and only when it is asked for."""
        size = len(self._ids)
        if size > len(self._hash):
            more = max(size, 2 * len(self._hash)) - len(self._hash)
            self._hash = np.append(self._hash, np.empty(more, dtype=np.uint64))
            self._is_hashed = np.append(self._is_hashed, np.zeros(more, dtype=bool))
        missing = first + np.flatnonzero(~self._is_hashed[first:size])
        self._hash[missing] = hash_ids([self._ids[row] for row in missing.tolist()])
        self._is_hashed[missing] = True
        return self._hash[first:size]

    def copy(self) -> Vocabulary:
        """An independent copy that can grow on its own."""
        return Vocabulary(self._ids)


def hash_ids(ids: Sequence[Id]) -> NDArray[np.uint64]:
    """A 64-bit hash of each id that is the same on every machine and in every process."""
    texts = (b"i%d" % name if isinstance(name, int) else b"s" + name.encode() for name in ids)
    hashes = [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts]
    return np.array(hashes, dtype=np.uint64)


def _distinct(ids: ArrayLike | Sequence[Id]) -> tuple[list[Id], Rows]:
    """The distinct ids in order of first appearance, and the position of each id among them."""
    array = ids if isinstance(ids, np.ndarray) else None
    if array is not None and array.dtype.kind in "iu" and array.ndim == 1:
        values, first, which = np.unique(array, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        return values[order].tolist(), np.argsort(order)[which]
    if isinstance(ids, str):
        raise EventError(f"{ids!r} is one id where several are expected; pass [{ids!r}]")
    seen: dict[Id, int] = {}
    names = array.tolist() if array is not None else list(ids)  # type: ignore[arg-type]
    which = np.empty(len(names), dtype=np.int64)
    for row, name in enumerate(names):
        which[row] = seen.setdefault(checked_id(name, row), len(seen))
    return list(seen), which


def checked_id(name: object, row: int) -> Id:
    """The id as a plain string or integer; anything else is an error that names the row."""
    if isinstance(name, str):
        return name
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        return int(name)
    raise EventError(f"row {row}: id {name!r} is neither a string nor an integer; convert the column first")
