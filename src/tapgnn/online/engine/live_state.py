"""The fold: a journal's records, in order, into a state. What is absorbed together is a function of the records alone.

Each record adds its events to those pending; the ones whose time has come (`policy`) are absorbed in one `advance`
(in pieces of CHUNK events, where they are more). Replaying the same records therefore calls `advance` with the same
events at the same borders, and ends in the same bits, wherever a checkpoint let it begin.

A question must see the pending events too. `present` advances over them and puts the rows back: the trace answers for
them, the state stays where it was.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from tapgnn.errors import EventError, JournalError
from tapgnn.events import Events, Ints
from tapgnn.model import Model, State, Trace
from tapgnn.model.features.node_statistics import LAST, both_roles
from tapgnn.online.engine.clock_forecast import Outlook, ready_events
from tapgnn.online.engine.fair_lock import Turnstile
from tapgnn.online.engine.policy import Policy
from tapgnn.online.engine.recycling_vocabulary import Roster
from tapgnn.online.engine.reorder_buffer import Pending
from tapgnn.online.engine.starting_point import Origin
from tapgnn.online.journal.event_batch import Batch
from tapgnn.online.journal.record import Kind, Record
from tapgnn.online.journal.state_rows import clear_rows, hash_rows, pack_rows, unpack_rows

CHUNK = 4_096
# A node is forgotten between ttl and (1 + 1 / SWEEPS) ttl after its last event.
SWEEPS = 16


class Fold:
    """A model, its live state and what is pending, after the records up to `position`.

    newest     the latest time of any event so far
    accepted   events in these records; late, those of them that were merged into a later instant than theirs
    changed    [rows + 1] nodes that changed since they were last stored in a checkpoint
    lock       to be held while state or trace are in use; had in the order in which it was asked for
    """

    def __init__(self, origin: Origin, policy: Policy, known: int = 0) -> None:
        """`known`: in the records up to there, events that the origin's state already holds are left out."""
        self.origin, self.policy, self.known = origin, policy, known
        self.lock = Turnstile()
        self.model: Model = copy.copy(origin.model)
        self.roster = Roster(origin.model.vocabulary.ids)
        self.model.vocabulary = self.roster
        self.state: State = origin.begin()
        self.state.admit(self.roster)
        self.pending = Pending.none(origin.model.config.edge_features)
        self.newest = self.state.clock
        self.position = self.late = self.accepted = 0
        self.changed = np.zeros(len(self.state.statistics), dtype=bool)
        self._trace: Trace | None = None

    @property
    def clock(self) -> float:
        """The time of the newest instant absorbed."""
        return self.state.clock

    @property
    def now(self) -> float:
        """The earliest time that sees every event so far."""
        return float(np.nextafter(self.newest, np.inf)) if np.isfinite(self.newest) else self.model.config.origin

    def outlook(self) -> Outlook:
        """What time it is, to look ahead from."""
        return Outlook(self.policy, self.clock, self.newest, self.pending.time)

    def apply(self, record: Record) -> None:
        """Fold the next record in."""
        for _ in self.steps(record, self.read(record)):
            pass

    def read(self, record: Record) -> Batch | None:
        """The events of a record that count; None where it has none."""
        if record.kind != Kind.EVENTS:
            return None
        batch = Batch.read(record.payload)
        if record.position <= self.known:
            batch = batch.keep(batch.time > self.origin.clock)
        width = 0 if batch.features is None else batch.features.shape[1]
        if len(batch) and width != self.model.config.edge_features:
            raise EventError(
                f"the batch at position {record.position} has {width} features per event, the model expects "
                f"{self.model.config.edge_features}; it was trained on other features than this journal holds"
            )
        return batch

    @torch.no_grad()
    def steps(self, record: Record, batch: Batch | None) -> Iterator[tuple[Events, Trace]]:
        """Fold the next record in; gives the events of each `advance` and its trace, to be asked before the next."""
        if record.position != self.position + 1:
            raise JournalError(f"expected the record at position {self.position + 1}, not {record.position}")
        self._trace = None
        if batch is not None:
            self.outlook().check(batch)
            yield from self._absorb(self._release(record, batch))
        elif record.kind == Kind.FLUSH:
            ready, self.pending = self.pending, self.pending.take(slice(0, 0))
            yield from self._absorb(ready)
        else:
            self.policy = Policy.from_dict(json.loads(record.payload))
        self.position = record.position

    def _release(self, record: Record, batch: Batch) -> Pending:
        """Add a batch to what is pending, and give what is to be absorbed now."""
        arriving = Pending.of(record, batch, self._enrol(batch))
        late = self.outlook().late(batch)
        if late:
            arriving = replace(arriving, time=np.maximum(arriving.time, self.clock))
        self.accepted += len(batch)
        self.late += late
        self.newest = float(np.max(batch.time, initial=self.newest))
        both = self.pending.joined(arriving)
        ready = max(ready_events(both.time, self.outlook()), late)
        self.pending = both.take(slice(ready, None))
        return both.take(slice(0, ready))

    def _absorb(self, events: Pending) -> Iterator[tuple[Events, Trace]]:
        before = self.clock
        late = self.policy.late if self.policy.late == "merge" else "reject"
        for piece in events.events(self.roster).chunks(CHUNK):
            if piece.features is not None:
                # Aligned as torch wants it: the same bits then come out of the same numbers.
                piece = replace(piece, features=torch.from_numpy(piece.features).clone().numpy())
            trace, self.state = self.model.advance(piece, self.state, late)
            self.changed[trace.view.nodes + 1] = True
            yield piece, trace
        self._forget(before)

    def _enrol(self, batch: Batch) -> Ints:
        """Rows for the ids of a batch."""
        size = self.state.size
        rows, reused = self.roster.enrol(batch.ids)
        self.state.admit(self.roster)
        if len(self.changed) < len(self.state.statistics):
            self.changed = np.append(self.changed, np.zeros(len(self.state.statistics) - len(self.changed), dtype=bool))
        if len(reused):
            clear_rows(self.model, self.state, reused, [self.roster.ids[row] for row in reused.tolist()])
            self.changed[reused + 1] = True
        self.changed[size + 1 : self.state.size + 1] = True
        return rows

    def _forget(self, before: float) -> None:
        """Free the rows of nodes silent for longer than the ttl, when the clock enters a new sixteenth of it."""
        step = self.policy.ttl / SWEEPS
        if not np.isfinite(step) or self.clock == before or np.floor(self.clock / step) == np.floor(before / step):
            return
        last = both_roles(self.state.statistics[1 : self.state.size + 1], LAST).amax(dim=1).numpy(force=True)
        silent = np.isfinite(last) & (self.clock - last > self.policy.ttl)
        silent[self.pending.nodes()] = False
        rows = np.flatnonzero(silent)
        if len(rows):
            clear_rows(self.model, self.state, rows, [self.roster.ids[row] for row in rows.tolist()])
            self.changed[rows + 1] = True
            self.roster.free(rows[rows >= self.roster.fixed].tolist())

    def present(self, time: float = np.inf) -> State | Trace:
        """What to ask about times after the clock, up to `time`; pending events are seen by what lies after them."""
        if not len(self.pending) or time <= self.pending.time[0]:
            return self.state
        if self._trace is None:
            self._trace = self._look_ahead()
        return self._trace

    @torch.no_grad()
    def _look_ahead(self) -> Trace:
        """Advance over what is pending and put the rows back: nodes it touches are answered by the trace."""
        state, rows = self.state, self.pending.nodes()
        kept = pack_rows(state, rows)
        trace, after = self.model.advance(self.pending.events(self.roster), state)
        unpack_rows(after, rows, kept)
        self.state = replace(after, clock=state.clock, events=state.events)
        return trace

    def digest(self) -> str:
        """The sha256 of everything that was folded: ids, rows, clocks, counters, policy, and what is pending."""
        names = [self.roster.ids[row] for row in self.roster.living().tolist()]
        plain = [self.policy.to_dict(), self.clock, self.state.events, self.newest, self.position, self.late]
        digest = hashlib.sha256(json.dumps([*plain, self.accepted, self.roster.freed, names]).encode())
        digest.update(hash_rows(self.state, self.roster.living()))
        for column in (self.pending.src, self.pending.dst, self.pending.time, self.pending.features):
            digest.update(b"" if column is None else column.tobytes())
        return digest.hexdigest()
