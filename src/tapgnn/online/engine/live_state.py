"""The live state: a journal's records, in order, applied to a state. What is absorbed together depends on the records.

Each record adds its events to the reorder buffer; those whose time has come are absorbed in one `advance` (in pieces of
CHUNK events, where there are more). Replaying the same records therefore calls `advance` with the same events at the
same boundaries and ends in the same bits, whichever checkpoint it started from.

A query must see the pending events too. `present` advances over them and restores the rows: the trace answers for them,
the state stays where it was.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tapgnn.errors import JournalError
from tapgnn.events import Events, Ints
from tapgnn.model import Model, State, Trace
from tapgnn.model.features.node_statistics import LAST, both_roles
from tapgnn.online.engine.batch_features import BatchFeatures
from tapgnn.online.engine.fair_lock import FairLock
from tapgnn.online.engine.policy import Policy
from tapgnn.online.engine.recycling_vocabulary import RecyclingVocabulary
from tapgnn.online.engine.reorder_buffer import PendingColumns, ReorderBuffer, as_events
from tapgnn.online.engine.sent_columns import SentBatches
from tapgnn.online.engine.starting_point import StartingPoint
from tapgnn.online.journal.event_batch import EventBatch, batch_in
from tapgnn.online.journal.record import Kind, Record
from tapgnn.online.journal.state_rows import clear_rows, grown, hash_rows, pack_rows, unpack_rows

CHUNK = 4_096
# A node is forgotten between ttl and (1 + 1 / SWEEPS) ttl after its last event.
SWEEPS = 16


class LiveState:
    """A model, its state and the events that wait, after the records up to `position`.

    accepted   events in these records
    features   what the model makes of the columns of a batch
    sent       the batches of events that wait, as they were sent
    changed    [rows + 1] nodes that changed since they were last stored in a checkpoint
    lock       to be held while state or trace are in use; granted in the order of requests
    """

    def __init__(self, start: StartingPoint, policy: Policy, known: int = 0) -> None:
        """`known`: in the records up to there, events that the starting state already holds are left out."""
        self.start, self.known = start, known
        self.lock = FairLock()
        self.model: Model = copy.copy(start.model)
        self.vocabulary = RecyclingVocabulary(start.model.vocabulary.ids)
        self.model.vocabulary = self.vocabulary
        self.state: State = start.load()
        self.state.admit(self.vocabulary)
        self.buffer = ReorderBuffer.empty(policy, self.state.clock, self.model.config.feature_width)
        self.features, self.sent = BatchFeatures(start.table), SentBatches(start.table.schema.id)
        self.position = self.accepted = 0
        self.changed = np.zeros(len(self.state.statistics), dtype=bool)
        self._trace: Trace | None = None

    @property
    def clock(self) -> float:
        """The time of the newest instant absorbed."""
        return self.state.clock

    @property
    def now(self) -> float:
        """The earliest time that sees every event so far."""
        newest = self.buffer.newest
        return float(np.nextafter(newest, np.inf)) if np.isfinite(newest) else self.model.config.origin

    @property
    def pending(self) -> Events:
        """The events that wait in the reorder buffer."""
        pending = self.buffer.pending
        columns = self.sent.columns_of(pending["position"], pending["index"])
        return replace(as_events(pending, self.vocabulary), columns=columns)

    def apply(self, record: Record) -> None:
        """Apply the next record."""
        for _ in self.steps(record, self.read(record)):
            pass

    def read(self, record: Record) -> EventBatch | None:
        """The events of a record that count; None where it has none."""
        batch = batch_in(record)
        if batch is not None and record.position <= self.known:
            batch = batch.keep(batch.time > self.start.clock)
        return batch

    @torch.no_grad()
    def steps(self, record: Record, batch: EventBatch | None) -> Iterator[tuple[Events, Trace]]:
        """Apply the next record; gives the events of each `advance` and its trace, to be read before the next."""
        if record.position != self.position + 1:
            raise JournalError(f"expected the record at position {self.position + 1}, not {record.position}")
        self._trace = None
        if batch is not None:
            released = self.buffer.add(batch, **self._columns(record, batch, self._admit(batch)))
            self.accepted += len(batch)
            yield from self._absorb(released)
        elif record.kind == Kind.FLUSH:
            yield from self._absorb(self.buffer.flush())
        else:
            self.buffer.policy = Policy.from_dict(json.loads(record.payload))
        self.position = record.position

    def restore_pending(self, record: Record) -> None:
        """Put the events of a record that were not yet absorbed back into the buffer."""
        batch = self.read(record)
        if batch is not None:
            batch = batch.keep(~self.buffer.is_late(batch.time))
            self.buffer.insert(batch, **self._columns(record, batch, self.vocabulary.rows(batch.ids)))

    def _columns(self, record: Record, batch: EventBatch, rows: Ints) -> dict[str, Any]:
        """The columns of a batch in the reorder buffer; `rows` are those of its ids."""
        features = self.features.of(batch)
        if batch.columns or batch.kept:
            self.sent.add(record.position, batch)
        return {
            "src": rows[batch.src],
            "dst": rows[batch.dst],
            "features": 0.0 if features is None else features,
            "producer": self.buffer.number_of(record.producer or ""),
            "sequence": record.sequence or 0,
            "position": record.position,
            "index": batch.sent_index(),
        }

    def _absorb(self, released: PendingColumns) -> Iterator[tuple[Events, Trace]]:
        before = self.clock
        late = self.buffer.policy.late if self.buffer.policy.late == "merge" else "reject"
        for piece in as_events(released, self.vocabulary).chunks(CHUNK):
            rows, released = np.split(released, [len(piece)])
            piece = replace(piece, columns=self.sent.columns_of(rows["position"], rows["index"]))
            if piece.features is not None:
                # Aligned as torch wants it: the same bits then come out of the same numbers.
                piece = replace(piece, features=torch.from_numpy(piece.features).clone().numpy())
            trace, self.state = self.model.advance(piece, self.state, late)
            self.changed[trace.view.nodes + 1] = True
            yield piece, trace
        self.sent.forget_all_but(self.buffer.pending["position"])
        self._forget(before)

    def _admit(self, batch: EventBatch) -> Ints:
        """Rows for the ids of a batch."""
        size = self.state.size
        rows, reused = self.vocabulary.assign(batch.ids)
        self.state.admit(self.vocabulary)
        self.changed = grown(self.changed, len(self.state.statistics))
        self._clear(reused)
        self.changed[size + 1 : self.state.size + 1] = True
        return rows

    def _clear(self, rows: Ints) -> None:
        """Make rows those of nodes without history."""
        if len(rows):
            clear_rows(self.model, self.state, rows, [self.vocabulary.ids[row] for row in rows.tolist()])
            self.changed[rows + 1] = True

    def _forget(self, before: float) -> None:
        """Free the rows of nodes silent for longer than the ttl, when the clock enters a new sixteenth of it."""
        ttl = self.buffer.policy.ttl
        step = ttl / SWEEPS
        if not np.isfinite(step) or self.clock == before or np.floor(self.clock / step) == np.floor(before / step):
            return
        last = both_roles(self.state.statistics[1 : self.state.size + 1], LAST).amax(dim=1).numpy(force=True)
        silent = np.isfinite(last) & (self.clock - last > ttl)
        silent[self.buffer.nodes()] = False
        rows = np.flatnonzero(silent)
        self._clear(rows)
        self.vocabulary.free(rows[rows >= self.vocabulary.fixed].tolist())

    def present(self, time: float = np.inf) -> State | Trace:
        """What answers queries at times after the clock, up to `time`; pending events are seen by what follows them."""
        if not len(self.buffer) or time <= self.buffer.pending["time"][0]:
            return self.state
        if self._trace is None:
            self._trace = self._look_ahead()
        return self._trace

    @torch.no_grad()
    def _look_ahead(self) -> Trace:
        """Advance over what is pending and restore the rows: nodes it touches are answered by the trace."""
        state, rows = self.state, self.buffer.nodes()
        kept = pack_rows(state, rows)
        trace, after = self.model.advance(self.pending, state)
        unpack_rows(after, rows, kept)
        self.state = replace(after, clock=state.clock, events=state.events)
        return trace

    def digest(self) -> str:
        """The sha256 of everything that was applied: ids, rows, clocks, counters, policy, and what is pending."""
        buffer, names = self.buffer, self.vocabulary
        rows = names.occupied_rows()
        plain = [buffer.policy.to_dict(), self.clock, self.state.events, buffer.newest, self.position, buffer.late]
        ids = [names.ids[row] for row in rows.tolist()]
        digest = hashlib.sha256(json.dumps([*plain, self.accepted, names.free_rows, ids]).encode())
        digest.update(hash_rows(self.state, rows))
        for name in ("src", "dst", "time", "features"):
            digest.update(buffer.pending[name].tobytes())
        return digest.hexdigest()
