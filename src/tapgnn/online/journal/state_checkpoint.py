"""Checkpoints of a live state: the rows that changed since the last one, and its position, in one transaction.

A checkpoint is a cache. Pending events are not in it: they are those events of the last records that are newer than the
clock, and they are read from there again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import JournalError
from tapgnn.events import Ints
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.policy import Policy
from tapgnn.online.journal.journal import REBUILD, Journal
from tapgnn.online.journal.record import Node
from tapgnn.online.journal.state_rows import BLOCK, grown, pack_rows, row_layout, row_slices, unpack_rows
from tapgnn.vocabulary import Id

# Writing a row costs about as much as replaying two events. Unless the caller says how often, a checkpoint is made when
# it adds little to the work since the last one, or when that work would take too long to repeat.
FEWEST_RECORDS, EVENTS_PER_ROW, MOST_EVENTS = 100, 8, 2_000_000
Save = Callable[[dict[str, Any], Iterable[Node], Iterable[int]], None]


class Checkpoints:
    """The checkpoint of a live state in its journal; `position` is that of the latest one."""

    def __init__(self, journal: Journal, live: LiveState) -> None:
        self.journal, self.live = journal, live
        self.position = self._accepted = 0
        self._stored = np.zeros(0, dtype=bool)

    def due(self, every: int | None) -> bool:
        """Whether it is time for one: every so many records, or, with None, when it is worth its cost."""
        records = self.live.position - self.position
        if every is not None:
            return records >= every
        if records < FEWEST_RECORDS:
            return False
        events = self.live.accepted - self._accepted
        return events >= min(MOST_EVENTS, EVENTS_PER_ROW * int(self.live.changed.sum()))

    def write(self, save: Save | None = None) -> None:
        """Write what changed since the last one, with the journal's own `save` or another."""
        if save is None and self.live.position == self.position:
            return
        metadata, rows, gone = self._draft()
        (save or self.journal.save)(metadata, self._nodes(rows), gone.tolist())
        self._stored[rows + 1], self._stored[gone + 1] = True, False
        self.live.changed[:] = False
        self.position, self._accepted = self.live.position, self.live.accepted

    def _draft(self) -> tuple[dict[str, Any], Ints, Ints]:
        """The metadata of a checkpoint made now, the rows to write, and the stored rows that are free by now."""
        live, buffer = self.live, self.live.buffer
        self._stored = stored = grown(self._stored, len(live.changed))
        free = np.zeros(len(stored), dtype=bool)
        free[np.array(live.vocabulary.free_rows, dtype=np.int64) + 1] = True
        write = live.changed & ~free
        metadata = {
            "position": live.position,
            "oldest": int(buffer.pending["position"].min(initial=live.position + 1)),
            "rows": int(((stored | write) & ~free).sum()),
            "layout": row_layout(live.state),
            "size": live.state.size,
            "clock": live.clock,
            "events": live.state.events,
            "newest": buffer.newest,
            "late": buffer.late,
            "accepted": live.accepted,
            "policy": buffer.policy.to_dict(),
        }
        return metadata, np.flatnonzero(write) - 1, np.flatnonzero(stored & free) - 1

    def _nodes(self, rows: Ints) -> Iterator[Node]:
        """The rows to write, packed block by block.

        Queries look ahead in the rows of pending events; those are packed at once, under the lock. No other row changes
        meanwhile, because only the writer changes them.
        """
        shared = np.intersect1d(rows, self.live.buffer.nodes())
        with self.live.lock:
            packed = pack_rows(self.live.state, shared)
        return self._packed(np.setdiff1d(rows, shared), shared, packed)

    def _packed(self, rows: Ints, shared: Ints, packed: NDArray[np.uint8]) -> Iterator[Node]:
        fixed, ids = self.live.vocabulary.fixed, self.live.vocabulary.ids
        blocks = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
        for block in (*blocks, shared):
            part = packed if block is shared else pack_rows(self.live.state, block)
            for row, data in zip(block.tolist(), row_slices(part), strict=True):
                yield Node(row, None if row < fixed else ids[row], data)

    def restore(self) -> None:
        """Bring a fresh live state to where the journal's checkpoint was made, if it has one."""
        saved, live = self.journal.metadata().get("checkpoint"), self.live
        if saved is None:
            return
        if saved["layout"] != row_layout(live.state):
            raise JournalError(
                f"{self.journal.name}: its checkpoint was made by another version of tapgnn, whose rows are different; "
                "rebuild it from the records with 'tapgnn migrate' (nothing was changed)"
            )
        count = self._restore_rows(saved["size"])
        if count != saved["rows"]:
            raise self.journal.damage(f"its checkpoint should have {saved['rows']} rows and has {count}", REBUILD)
        live.state.clock, live.state.events, live.accepted = saved["clock"], saved["events"], saved["accepted"]
        buffer = live.buffer
        buffer.policy = Policy.from_dict(saved["policy"])
        buffer.clock, buffer.newest, buffer.late = saved["clock"], saved["newest"], saved["late"]
        for record in self.journal.records(saved["oldest"], saved["position"]):
            live.restore_pending(record)
        live.position = saved["position"]
        self.position, self._accepted = live.position, live.accepted

    def _restore_rows(self, size: int) -> int:
        """Write the stored rows into the state; gives their number."""
        count = 0
        for page in self.journal.nodes():
            rows = np.array([node.row for node in page], dtype=np.int64)
            self._admit({node.row: node.id for node in page if node.id is not None}, int(rows[-1]) + 1)
            packed = np.frombuffer(b"".join(node.data for node in page), np.uint8)
            unpack_rows(self.live.state, rows, packed.reshape(len(page), -1))
            self._stored[rows + 1] = True
            count += len(page)
        self._admit({}, size)
        return count

    def _admit(self, names: dict[int, Id], size: int) -> None:
        live = self.live
        live.vocabulary.place(names, size)
        live.state.admit(live.vocabulary)
        live.changed = np.zeros(len(live.state.statistics), dtype=bool)
        self._stored = grown(self._stored, len(live.changed))
