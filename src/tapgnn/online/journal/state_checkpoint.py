"""Checkpoints of a live state: the rows that changed since the last one, and its position, in one transaction.

A checkpoint is a cache. Pending events are not in it: they are those events of the last records that are newer than the
clock, and they are read from there again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tapgnn.errors import JournalError
from tapgnn.events import Bools, Ints
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.policy import Policy
from tapgnn.online.journal.journal import REBUILD, Journal
from tapgnn.online.journal.record import CheckpointBlock
from tapgnn.online.journal.state_rows import grown, pack_rows, row_layout, row_width, unpack_rows
from tapgnn.online.journal.stored_blocks import StoredBlocks
from tapgnn.vocabulary import Id

# Writing a row costs about as much as replaying two events. Unless the caller says how often, a checkpoint is made when
# it adds little to the work since the last one, or when that work would take too long to repeat, or when it would grow
# so large that the last one, of a server that stops, would take too long to write.
FEWEST_RECORDS, EVENTS_PER_ROW, MOST_EVENTS, MOST_BYTES = 100, 8, 400_000, 128 << 20
# Bytes of rows in a block.
BLOCK = 1 << 20
Save = Callable[[dict[str, Any], Iterable[CheckpointBlock], list[int]], None]


class Checkpoints:
    """The checkpoint of a live state in its journal; `position` is that of the latest one."""

    def __init__(self, journal: Journal, live: LiveState) -> None:
        self.journal, self.live = journal, live
        self.position = self._accepted = 0
        self._metadata: dict[str, Any] | None = None
        self._blocks = StoredBlocks()
        # [rows + 1] rows whose newest entry in a block are numbers.
        self._stored = np.zeros(0, dtype=bool)

    def due(self, every: int | None) -> bool:
        """Whether it is time for one: every so many records, or, with None, when it is worth its cost."""
        records = self.live.position - self.position
        if every is not None:
            return records >= every
        rows = int(np.count_nonzero(self.live.changed))
        if records and rows * row_width(self.live.state) >= MOST_BYTES:
            return True
        events = self.live.accepted - self._accepted
        return records >= FEWEST_RECORDS and events >= min(MOST_EVENTS, EVENTS_PER_ROW * rows)

    def write(self, save: Save | None = None) -> None:
        """Write what changed since the last one, with the journal's own `save` or another."""
        if save is None and self.live.position == self.position:
            return
        free = self._free_rows()
        rows, gone, dropped = self._choose(free)
        blocks = self._divide(rows, gone)
        stored = self._stored & ~free
        stored[rows + 1] = True
        metadata = self._describe(int(stored.sum()), len(self._blocks) + len(blocks) - len(dropped))
        (save or self.journal.save)(metadata, self._packed(blocks), dropped)
        self._blocks.drop(dropped)
        for number, *parts in blocks:
            self._blocks.add(number, np.concatenate(parts))
        self._stored = stored
        self.live.changed[:] = False
        self.position, self._accepted, self._metadata = self.live.position, self.live.accepted, metadata

    def are_latest(self) -> bool:
        """Whether the journal holds what was written or restored here last, of this model."""
        saved = self.journal.metadata()
        return saved["model"] == self.live.start.digest and saved.get("checkpoint") == self._metadata

    def _free_rows(self) -> Bools:
        """[rows + 1] those without a node."""
        self._stored = grown(self._stored, len(self.live.changed))
        self._blocks.grow(len(self.live.changed))
        free = np.zeros(len(self._stored), dtype=bool)
        free[np.array(self.live.vocabulary.free_rows, dtype=np.int64) + 1] = True
        return free

    def _choose(self, free: Bools) -> tuple[Ints, Ints, list[int]]:
        """The rows to write, those to note as gone, and the blocks that are dropped."""
        changed = np.flatnonzero((self.live.changed & ~free) | (self._stored & free)) - 1
        moved, dropped = self._blocks.superseded(changed)
        entries = np.union1d(changed, moved)
        return entries[~free[entries + 1]], entries[free[entries + 1]], dropped

    def _divide(self, rows: Ints, gone: Ints) -> list[tuple[int, Ints, Ints]]:
        """Rows as blocks: number, rows, and rows that are gone; those in which queries look ahead come last."""
        shared = np.isin(rows, self.live.buffer.nodes())
        size = max(1, BLOCK // row_width(self.live.state))
        pieces = [
            part[start : start + size] for part in (rows[~shared], rows[shared]) for start in range(0, len(part), size)
        ] or [rows] * bool(len(gone))
        first = self._blocks.next_number
        return [(first + place, piece, gone if place == 0 else gone[:0]) for place, piece in enumerate(pieces)]

    def _describe(self, rows: int, blocks: int) -> dict[str, Any]:
        """The metadata of a checkpoint made now."""
        live, buffer = self.live, self.live.buffer
        return {
            "position": live.position,
            "oldest": int(buffer.pending["position"].min(initial=live.position + 1)),
            "rows": rows,
            "blocks": blocks,
            "layout": row_layout(live.state),
            "size": live.state.size,
            "clock": live.clock,
            "events": live.state.events,
            "newest": buffer.newest,
            "late": buffer.late,
            "accepted": live.accepted,
            "policy": buffer.policy.to_dict(),
        }

    def _packed(self, blocks: list[tuple[int, Ints, Ints]]) -> Iterator[CheckpointBlock]:
        """Blocks with their numbers.

        Queries look ahead in the rows of pending events; those are packed at once, under the lock. No other row changes
        meanwhile, because only the writer changes them.
        """
        pending = self.live.buffer.nodes()
        with self.live.lock:
            shared = {
                number: pack_rows(self.live.state, rows) for number, rows, _ in blocks if np.isin(rows, pending).any()
            }
        fixed, ids = self.live.vocabulary.fixed, self.live.vocabulary.ids
        for number, rows, gone in blocks:
            names = [None if row < fixed else ids[row] for row in rows.tolist()]
            data = shared[number] if number in shared else pack_rows(self.live.state, rows)
            yield CheckpointBlock(number, rows, gone, names, data)

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
        rows, blocks = self._restore_rows(saved["size"])
        if (rows, blocks) != (saved["rows"], saved.get("blocks", 0)):
            raise self.journal.damage(
                f"its checkpoint should have {saved['rows']} rows in {saved.get('blocks', 0)} blocks and has {rows} in "
                f"{blocks}",
                REBUILD,
            )
        live.state.clock, live.state.events, live.accepted = saved["clock"], saved["events"], saved["accepted"]
        buffer = live.buffer
        buffer.policy = Policy.from_dict(saved["policy"])
        buffer.clock, buffer.newest, buffer.late = saved["clock"], saved["newest"], saved["late"]
        for record in self.journal.records(saved["oldest"], saved["position"]):
            live.restore_pending(record)
        live.position = saved["position"]
        self.position, self._accepted, self._metadata = live.position, live.accepted, saved

    def _restore_rows(self, size: int) -> tuple[int, int]:
        """Write the stored rows into the state; gives their number and that of the blocks."""
        live, fixed = self.live, self.live.vocabulary.fixed
        live.state.reserve(size)
        live.changed = np.zeros(len(live.state.statistics), dtype=bool)
        self._stored = grown(self._stored, len(live.changed))
        self._blocks.grow(len(live.changed))
        names: list[Id | None] = [None] * (size - fixed)
        for block in self.journal.blocks():
            entries = np.concatenate([block.rows, block.gone])
            if len(entries) and not 0 <= entries.min() <= entries.max() < size:
                raise self.journal.damage(f"block {block.number} of its checkpoint has rows beyond the last", REBUILD)
            unpack_rows(live.state, block.rows, block.data)
            self._stored[block.rows + 1], self._stored[block.gone + 1] = True, False
            for row, name in zip(block.rows.tolist(), block.ids, strict=True):
                if row >= fixed:
                    names[row - fixed] = name
            for row in block.gone.tolist():
                names[row - fixed] = None
            if block.number:
                self._blocks.add(block.number, entries)
            else:
                # Of an earlier format: the next checkpoint writes them as blocks.
                live.changed[block.rows + 1] = True
        live.vocabulary.place(names)
        live.state.blank(np.array(live.vocabulary.free_rows, dtype=np.int64) + 1)
        return int(self._stored.sum()), len(self._blocks)
