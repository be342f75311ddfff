"""What the blocks of a checkpoint hold: which one has the newest copy of a row, and how much of each is superseded.

A checkpoint writes the rows that changed into new blocks, and leaves the old copies where they are. A block of which
nothing is the newest any more is dropped. Where superseded rows are more than GARBAGE of the newest ones, the blocks
that hold the most of them are emptied: their other rows are written once more, at most as many as have changed. So
both the size of a checkpoint and the work for it are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapgnn.events import Ints

GARBAGE = 0.5


class StoredBlocks:
    """The blocks of a journal's checkpoint.

    number   [rows + 1] of the block with the newest entry of each row: its numbers, or that it is gone; 0 for none
    """

    def __init__(self) -> None:
        self.number = np.zeros(0, dtype=np.int64)
        self._entries: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def next_number(self) -> int:
        """The number of the next block."""
        return max(self._entries, default=0) + 1

    def grow(self, size: int) -> None:
        """Make room for so many rows, the unknown one included."""
        self.number = np.append(self.number, np.zeros(max(0, size - len(self.number)), dtype=np.int64))

    def add(self, number: int, rows: Ints) -> None:
        """Note a block with entries of these rows, the newest ones."""
        self.number[rows + 1] = number
        self._entries[number] = len(rows)

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget blocks that are no longer there."""
        for number in numbers:
            del self._entries[number]

    def superseded(self, rows: Ints) -> tuple[Ints, list[int]]:
        """What to do when entries of these rows are written anew: other rows to write, too, and blocks to drop."""
        after = self.number.copy()
        after[rows + 1] = 0
        numbers = np.array(sorted(self._entries), dtype=np.int64)
        total = np.array([self._entries[number] for number in numbers.tolist()], dtype=np.int64)
        newest = np.bincount(np.searchsorted(numbers, after[after > 0]), minlength=len(numbers))
        order = np.argsort(newest / total, kind="stable")
        order = order[newest[order] > 0]
        garbage = np.append(0, np.cumsum((total - newest)[order]))
        excess = garbage[-1] - GARBAGE * (newest.sum() + len(rows))
        wanted = int(np.searchsorted(garbage, excess))
        allowed = int(np.searchsorted(np.cumsum(newest[order]), len(rows), side="right"))
        emptied = numbers[order[: min(wanted, allowed)]]
        return np.flatnonzero(np.isin(after, emptied)) - 1, [*numbers[newest == 0].tolist(), *emptied.tolist()]
