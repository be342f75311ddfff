"""Checkpoints of a fold: the rows that changed since the last one, and how far it had come, in one transaction.

A checkpoint is a cache. What is pending is not in it: those are the events of the last records that are younger than
the clock, and they are read from there again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import JournalError
from tapgnn.events import Ints
from tapgnn.online.engine.live_state import Fold
from tapgnn.online.engine.policy import Policy
from tapgnn.online.engine.reorder_buffer import Pending
from tapgnn.online.journal.journal import Journal
from tapgnn.online.journal.record import Node
from tapgnn.online.journal.state_rows import BLOCK, pack_rows, row_layout, row_slices, unpack_rows

# Writing a row costs about as much as replaying two events. Without a wish of the caller, a checkpoint is made when it
# adds little to the work since the last one, or when that would take too long to do again.
FEWEST_RECORDS, EVENTS_PER_ROW, MOST_EVENTS = 100, 8, 2_000_000


class Checkpoints:
    """The checkpoint of a fold in a journal; position and accepted are those of the latest one."""

    def __init__(self, journal: Journal, fold: Fold) -> None:
        self.journal, self.fold = journal, fold
        self.position = self._accepted = 0
        self._stored = np.zeros(0, dtype=bool)

    def due(self, every: int | None) -> bool:
        """Whether it is time for one: every so many records, or, with None, when it is worth its cost."""
        records = self.fold.position - self.position
        if every is not None:
            return records >= every
        if records < FEWEST_RECORDS:
            return False
        events = self.fold.accepted - self._accepted
        return events >= min(MOST_EVENTS, EVENTS_PER_ROW * int(self.fold.changed.sum()))

    def write(self) -> None:
        """Write what changed since the last one."""
        if self.fold.position == self.position:
            return
        facts, rows, gone = self.draft()
        self.journal.save(facts, self.nodes(rows), gone.tolist())
        self.written(rows, gone)

    def draft(self) -> tuple[dict[str, Any], Ints, Ints]:
        """The facts of a checkpoint made now, the rows to write, and the stored rows that hold nobody any more."""
        fold = self.fold
        self._stored = stored = _grown(self._stored, len(fold.changed))
        vacant = np.zeros(len(stored), dtype=bool)
        vacant[np.array(fold.roster.freed, dtype=np.int64) + 1] = True
        write = fold.changed & ~vacant
        facts = {
            "position": fold.position,
            "oldest": int(fold.pending.position.min()) if len(fold.pending) else fold.position + 1,
            "rows": int(((stored | write) & ~vacant).sum()),
            "layout": row_layout(fold.state),
            "size": fold.state.size,
            "clock": fold.clock,
            "events": fold.state.events,
            "newest": fold.newest,
            "late": fold.late,
            "accepted": fold.accepted,
            "policy": fold.policy.to_dict(),
        }
        return facts, np.flatnonzero(write) - 1, np.flatnonzero(stored & vacant) - 1

    def nodes(self, rows: Ints) -> Iterator[Node]:
        """The rows to write, packed block by block.

        Questions look ahead in the rows of pending events; those are packed at once, under the lock. All others are
        still, because only a writer changes them.
        """
        fold = self.fold
        restless = np.intersect1d(rows, fold.pending.nodes())
        with fold.lock:
            packed = pack_rows(fold.state, restless)
        return self._packed(np.setdiff1d(rows, restless), restless, packed)

    def _packed(self, rows: Ints, restless: Ints, packed: NDArray[np.uint8]) -> Iterator[Node]:
        fixed, ids = self.fold.roster.fixed, self.fold.roster.ids
        blocks = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
        for block in (*blocks, restless):
            part = packed if block is restless else pack_rows(self.fold.state, block)
            for row, data in zip(block.tolist(), row_slices(part), strict=True):
                yield Node(row, None if row < fixed else ids[row], data)

    def written(self, rows: Ints, gone: Ints) -> None:
        """Note that these rows are safe."""
        self._stored[rows + 1], self._stored[gone + 1] = True, False
        self.fold.changed[:] = False
        self.position, self._accepted = self.fold.position, self.fold.accepted

    def restore(self) -> None:
        """Bring a fresh fold to where the journal's checkpoint was made, if it has one."""
        facts, fold = self.journal.facts().get("checkpoint"), self.fold
        if facts is None:
            return
        if facts["layout"] != row_layout(fold.state):
            raise JournalError(
                f"{self.journal.name}: its checkpoint was made by another version of tapgnn, whose rows are different; "
                "rebuild it from the records with 'tapgnn migrate' (nothing was changed)"
            )
        count = self._restore_rows(facts["size"])
        if count != facts["rows"]:
            raise JournalError(
                f"{self.journal.name}: its checkpoint should have {facts['rows']} rows and has {count}; restore the "
                "journal from a copy, or rebuild the checkpoint with 'tapgnn migrate' (nothing was changed)"
            )
        fold.state.clock, fold.state.events = facts["clock"], facts["events"]
        fold.policy = Policy.from_dict(facts["policy"])
        fold.newest, fold.late, fold.accepted = facts["newest"], facts["late"], facts["accepted"]
        for record in self.journal.records(facts["oldest"], facts["position"]):
            batch = fold.read(record)
            if batch is not None:
                waiting = Pending.of(record, batch, fold.roster.rows(batch.ids)).take(batch.time > fold.clock)
                fold.pending = fold.pending.joined(waiting)
        fold.position = facts["position"]
        self.position, self._accepted = fold.position, fold.accepted

    def _restore_rows(self, size: int) -> int:
        """Write the stored rows into the state; gives their number."""
        fold, count = self.fold, 0
        for page in self.journal.nodes():
            rows = np.array([node.row for node in page], dtype=np.int64)
            self._admit([node for node in page if node.id is not None], int(rows[-1]) + 1)
            packed = np.frombuffer(b"".join(node.data for node in page), np.uint8)
            unpack_rows(fold.state, rows, packed.reshape(len(page), -1))
            self._stored[rows + 1] = True
            count += len(page)
        self._admit([], size)
        return count

    def _admit(self, nodes: list[Node], size: int) -> None:
        fold = self.fold
        if size > len(fold.roster):
            fold.roster.seat([node.row for node in nodes], [node.id for node in nodes if node.id is not None], size)
        fold.state.admit(fold.roster)
        fold.changed = np.zeros(len(fold.state.statistics), dtype=bool)
        self._stored = _grown(self._stored, len(fold.changed))


def _grown(mask: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    return np.append(mask, np.zeros(size - len(mask), dtype=bool))
